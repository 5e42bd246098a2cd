/** What operators do to the simulated deployment, and users to their credentials. */
import { endSessions } from "../../src/auth/end-sessions.ts";
import type { OperatorContext } from "../../src/operator/context.ts";
import { freeze, revokeKey, unfreeze } from "../../src/operator/users.ts";
import { pause, resume } from "../../src/operator/trading.ts";
import { config } from "../../src/platform/config.ts";
import type { Dice } from "../actors/dice.ts";
import type { Custody } from "./custody.ts";
import { BOOKS, type Person, sessionOf } from "./people.ts";
import type { Step } from "./plan.ts";
import type { Scene } from "./scene.ts";

export class Operating {
  readonly #scene: Scene;
  readonly #custody: Custody;

  constructor(scene: Scene, custody: Custody) {
    this.#scene = scene;
    this.#custody = custody;
  }

  act(kind: Step["kind"], step: Step, dice: Dice): void {
    const frozen = this.#scene.people.all.filter((one) => one.frozen);
    const person = dice.pick(
      kind === "unfreeze" && frozen.length > 0 ? frozen : this.#scene.people.all,
    );
    const { venue } = dice.pick(BOOKS);
    const context = (words: string[], options: Record<string, string>) =>
      this.context(words, options);
    this.#scene.start(`${kind}@${step.index}`, dice, async () => {
      switch (kind) {
        case "freeze":
        case "unfreeze": {
          person.freezesInFlight++;
          person.frozenChangedAt = undefined;
          person.frozen = kind === "freeze";
          try {
            const change = kind === "freeze" ? freeze : unfreeze;
            await this.#scene.calls.count(kind, () =>
              change(context([], { "user-id": person.userId })),
            );
          } finally {
            person.freezesInFlight--;
            if (person.freezesInFlight === 0) person.frozenChangedAt = this.#scene.time.now;
          }
          return;
        }
        case "revoke_key":
          return this.#revokeKey(person, (apiKeyId) => revokeKey(context([], { id: apiKeyId })));
        case "end_sessions":
          return this.#endSessions(person);
        case "fail":
        case "retry":
        case "pause_withdrawals":
        case "resume_withdrawals":
          return this.#custody.operate(kind, (options) => context([], options), dice);
        case "pause_venue":
          return void (await this.#scene.calls.count(kind, () => pause(context([venue], {}))));
        default:
          for (const book of BOOKS)
            await this.#scene.calls.count("resume_venue", () => resume(context([book.venue], {})));
      }
    });
  }

  /** Each change and its end. In a calm all of them succeed. */
  async round(person: Person): Promise<void> {
    const user = () => this.context([], { "user-id": person.userId });
    for (const { venue } of BOOKS) {
      await pause(this.context([venue], {}));
      await resume(this.context([venue], {}));
    }
    await this.#endSessions(person);
    await this.#revokeKey(person, (id) => revokeKey(this.context([], { id })));
    await freeze(user());
    await unfreeze(user());
    this.#scene.credentials.login(person);
  }

  context(words: string[], options: Record<string, string>): OperatorContext {
    const env = this.#scene.env;
    return { env, settings: config(env), operator: "ann", words, options };
  }

  async #revokeKey(person: Person, revoke: (id: string) => Promise<unknown>): Promise<void> {
    const key = person.credentials.find(({ actor }) => actor.credential.kind === "api_key");
    if (key === undefined || key.actor.credential.kind !== "api_key") return;
    key.ending = true;
    const { apiKeyId } = key.actor.credential;
    await this.#scene.calls.count("revoke_key", () => revoke(apiKeyId));
    this.#scene.credentials.drop(person, key);
    await this.#scene.credentials.newKey(person);
  }

  async #endSessions(person: Person): Promise<void> {
    const session = sessionOf(person);
    if (session === undefined) return;
    session.ending = true;
    const { env } = this.#scene;
    const { actor } = session;
    await this.#scene.credentials.call("end_sessions", actor, () =>
      endSessions(env.DB, { actor, revokeKeys: false, ip: undefined }),
    );
    this.#scene.credentials.login(person);
  }
}
