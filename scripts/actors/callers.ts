/** The users of `npm run soak -- verbs`, and the ids that responses have shown to them. */
import { Secret, TOTP } from "otpauth";
import type { Dice } from "./dice.ts";

type Key = { readonly apiKeyId: string; readonly secret: string };

/** What one-time codes are made of. */
export type CodeSource = {
  /** In base32, once TOTP is on. */
  totpSecret: string | undefined;
  /** Shown by POST /auth/totp and not yet confirmed. */
  newTotpSecret: string | undefined;
  recoveryCodes: string[];
  /** The last step of which a code was made, because each counts once. */
  totpStep: number;
};

export type Caller = CodeSource & {
  readonly email: string;
  /** Each has a network of their own, because wrong codes are counted by network. */
  readonly ip: string;
  password: string;
  token: string;
  keys: Key[];
};

const STEP_MS = 30_000;

/**
 * A code that was not used before, of a step that the service accepts. Undefined if there is none
 * yet, and without TOTP. `confirms`: of the new secret.
 */
export function nextCode(caller: CodeSource, { confirms = false } = {}): string | undefined {
  const now = Date.now();
  const secret = confirms ? caller.newTotpSecret : caller.totpSecret;
  const present = Math.floor(now / STEP_MS);
  const step = Math.max(caller.totpStep + 1, present - 1);
  if (secret === undefined || step > present + 1) return undefined;
  caller.totpStep = step;
  const totp = new TOTP({ secret: Secret.fromBase32(secret), algorithm: "SHA1", digits: 6 });
  return totp.generate({ timestamp: step * STEP_MS });
}

type Seen = { readonly id: string; readonly by: Caller };

/** Ids of each field are kept up to this number. The latest are most often still open. */
const KEPT = 60;
const LATEST = 12;

/** Ids by the name of their field, with the caller who saw them. */
export class Ids {
  readonly #seen = new Map<string, Seen[]>();

  /** Mostly one of the latest that this caller has seen, or that anyone has seen. */
  pick(dice: Dice, name: string, caller: Caller | undefined): string | undefined {
    const all = this.#seen.get(name) ?? [];
    const own = caller === undefined ? [] : all.filter(({ by }) => by === caller);
    const from = own.length > 0 && dice.chance(0.75) ? own : all;
    const latest = dice.chance(0.8) ? from.slice(-LATEST) : from;
    return latest.length === 0 ? undefined : dice.pick(latest).id;
  }

  /** Remembers every id in a response, at any depth. */
  learn(caller: Caller, value: unknown, name = ""): void {
    if (typeof value === "string") this.#add(caller, name, value);
    else if (Array.isArray(value)) for (const each of value) this.learn(caller, each, name);
    else if (typeof value === "object" && value !== null)
      for (const [key, each] of Object.entries(value)) this.learn(caller, each, key);
  }

  #add(by: Caller, name: string, id: string): void {
    if (name !== "next_cursor" && name !== "ticket" && !name.endsWith("_id")) return;
    const known = this.#seen.get(name) ?? [];
    this.#seen.set(
      name,
      [...known.filter((seen) => seen.id !== id || seen.by !== by), { id, by }].slice(-KEPT),
    );
  }
}
