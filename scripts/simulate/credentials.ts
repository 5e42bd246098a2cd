/**
 * Sessions and API keys of the users. A client whose credential is refused logs in again, or takes
 * a new key, as real ones do.
 */
import type { Actor } from "../../src/platform/actor.ts";
import { Problem } from "../../src/platform/problem.ts";
import { all } from "../../src/platform/sql.ts";
import { Dice } from "../actors/dice.ts";
import { codeOf } from "./calls.ts";
import { type Credential, insertKey, keyOf, type Person } from "./people.ts";
import type { Scene } from "./scene.ts";

const SESSION_MS = 1_800_000;
/** Until a client whose request for a key was lost makes another one. */
const KEY_RETRY_MS = 5_000;
const SESSION_ENDED: ReadonlySet<string> = new Set(["session_invalid", "session_expired"]);
const KEY_ENDED: ReadonlySet<string> = new Set(["api_key_revoked", "api_key_unknown"]);

export class Credentials {
  readonly #scene: Omit<Scene, "credentials">;
  #keys = 0;

  constructor(scene: Omit<Scene, "credentials">) {
    this.#scene = scene;
  }

  /**
   * One call of a user. It is counted, and a refused credential is replaced for the next one. Other
   * problems are thrown.
   */
  async call<T>(verb: string, actor: Actor, work: () => Promise<T>): Promise<T> {
    try {
      return await this.#scene.calls.count(verb, work);
    } catch (error) {
      this.replace(actor, codeOf(error));
      throw error;
    }
  }

  /** The same for a call whose problems its sender expects. */
  async tryCall(verb: string, actor: Actor, work: () => Promise<void>): Promise<void> {
    try {
      await this.call(verb, actor, work);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
    }
  }

  /** The answer of a call that returns its problem: its code, or undefined for success. */
  answered(verb: string, actor: Actor, code: string | undefined): void {
    if (code === undefined) return this.#scene.calls.ok(verb);
    this.#scene.calls.refused(verb, code);
    this.replace(actor, code);
  }

  /** The service answered a call of the actor with this code. */
  replace(actor: Actor, code: string): void {
    if (!SESSION_ENDED.has(code) && !KEY_ENDED.has(code)) return;
    const person = this.#scene.people.all.find(({ userId }) => userId === actor.userId);
    const ended = person?.credentials.find((known) => known.actor === actor);
    if (person === undefined || ended === undefined) return;
    if (SESSION_ENDED.has(code)) return this.login(person);
    this.drop(person, ended);
    const dice = new Dice(`${this.#scene.seed}/new-key/${++this.#keys}`);
    this.#scene.start(`new_key@${this.#keys}`, dice, () => this.newKey(person));
  }

  drop(person: Person, ended: Credential): void {
    person.credentials = person.credentials.filter((known) => known !== ended);
  }

  /** Replaces the session. Passwords are not simulated, so the database says what a login would. */
  login(person: Person): void {
    const [user] = this.#scene.database.rows(
      "SELECT session_epoch AS epoch, frozen_at FROM users WHERE user_id = unhex(?)",
      person.userId.replaceAll("-", ""),
    );
    // A frozen user cannot log in, and keeps the old session until the next refusal.
    if (user === undefined || (user["frozen_at"] !== null && person.credentials.length > 0)) return;
    person.credentials = person.credentials.filter(({ actor }) => !isSession(actor));
    person.credentials.push({
      actor: {
        userId: person.userId,
        scopes: ["read", "trade"],
        credential: {
          kind: "session",
          epoch: Number(user["epoch"]),
          issuedAtMs: this.#scene.time.now,
          expiresAtMs: this.#scene.time.now + SESSION_MS,
        },
      },
      ending: false,
    });
  }

  /** A valid session and a valid key, for who is not frozen. In a calm. */
  async refresh(person: Person): Promise<void> {
    this.login(person);
    for (const known of person.credentials) {
      const { credential } = known.actor;
      if (credential.kind === "api_key" && !this.#isLive(credential.apiKeyId))
        this.drop(person, known);
    }
    if (person.credentials.every(({ actor }) => isSession(actor))) await this.newKey(person);
  }

  #isLive(apiKeyId: string): boolean {
    const live = "SELECT count(*) FROM api_keys WHERE api_key_id = unhex(?) AND revoked_at IS NULL";
    return this.#scene.database.count(live, apiKeyId.replaceAll("-", "")) > 0;
  }

  /** Adds a key. Repeated until the database confirms it. */
  async newKey(person: Person): Promise<void> {
    const { env, time } = this.#scene;
    const { userId } = person;
    const key = keyOf(person);
    try {
      await all(env.DB, insertKey({ userId, apiKeyId: key.apiKeyId, now: time.now }));
    } catch {
      await time.sleep(KEY_RETRY_MS);
      return this.newKey(person);
    }
    person.credentials.push(key);
  }
}

function isSession({ credential }: Actor): boolean {
  return credential.kind === "session";
}
