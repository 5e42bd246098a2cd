/** What operators do to the simulated deployment, and users to their credentials. */
import { endSessions } from "../../src/auth/end-sessions.ts";
import type { OperatorContext } from "../../src/operator/context.ts";
import { freeze, revokeKey, unfreeze } from "../../src/operator/users.ts";
import { pause, resume } from "../../src/operator/venues.ts";
import type { SessionActor } from "../../src/platform/actor.ts";
import { config } from "../../src/platform/config.ts";
import { prepare } from "../../src/platform/sql.ts";
import type { Dice } from "../soak/dice.ts";
import type { Custody } from "./custody.ts";
import { BOOKS, insertKey, keyOf, type People, type Person, sessionOf } from "./people.ts";
import type { Step } from "./plan.ts";
import type { Scene } from "./scene.ts";

export class Operating {
  readonly #scene: Scene;
  readonly #people: People;
  readonly #custody: Custody;

  constructor(scene: Scene, people: People, custody: Custody) {
    this.#scene = scene;
    this.#people = people;
    this.#custody = custody;
  }

  act(kind: Step["kind"], step: Step, dice: Dice): void {
    const frozen = this.#people.all.filter((one) => one.frozen);
    const person = dice.pick(kind === "unfreeze" && frozen.length > 0 ? frozen : this.#people.all);
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
            await (kind === "freeze" ? freeze : unfreeze)(
              context([], { "user-id": person.userId }),
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
          return void (await this.#custody.operate(kind, (options) => context([], options), dice));
        case "pause_venue":
          return void (await pause(context([venue], {})));
        default:
          for (const book of BOOKS) await resume(context([book.venue], {}));
      }
    });
  }

  context(words: string[], options: Record<string, string>): OperatorContext {
    const env = this.#scene.env;
    return { env, settings: config(env), operator: "ann", words, options };
  }

  async #revokeKey(person: Person, revoke: (id: string) => Promise<unknown>): Promise<void> {
    const key = person.credentials.find(({ actor }) => actor.credential.kind === "api_key");
    if (key === undefined || key.actor.credential.kind !== "api_key") return;
    key.ending = true;
    await revoke(key.actor.credential.apiKeyId);
    person.credentials = person.credentials.filter((known) => known !== key);
    await this.newKey(person);
  }

  async #endSessions(person: Person): Promise<void> {
    const session = person.credentials.find(({ actor }) => actor.credential.kind === "session");
    if (session === undefined) return;
    session.ending = true;
    await endSessions(this.#scene.env.DB, config(this.#scene.env), {
      actor: session.actor as SessionActor,
      revokeKeys: false,
      ip: undefined,
    });
    person.epoch++;
    person.credentials = person.credentials.filter((known) => known !== session);
    person.credentials.push(sessionOf(person, this.#scene.time.now));
  }

  async newKey(person: Person): Promise<void> {
    const key = keyOf(person);
    const { env, time } = this.#scene;
    const { userId } = person;
    const statements = insertKey(config(env), { userId, apiKeyId: key.apiKeyId, now: time.now });
    // Together, because the reconciliation compares the key with its audit event.
    await env.DB.batch(statements.map((statement) => prepare(env.DB, statement)));
    person.credentials.push(key);
  }
}
