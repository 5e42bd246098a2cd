/** Passwords: scrypt (RFC 7914) at OWASP's parameters, stored with the hash so that they can be raised later. */
import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";
import { Problem } from "../platform/problem.ts";

type Parameters = { readonly logN: number; readonly r: number; readonly p: number };
/** OWASP password storage cheat sheet: N=2^15, r=8, p=3. About 0.2 s and 32 MiB. */
const CURRENT: Parameters = { logN: 15, r: 8, p: 3 };
const HASH_BYTES = 32;
const MAX_PASSWORD_BYTES = 1_024;

export async function hashPassword(
  password: string,
  parameters: Parameters = CURRENT,
): Promise<string> {
  const salt = randomBytes(16);
  const hash = await derive(password, salt, parameters);
  return [
    "scrypt",
    parameters.logN,
    parameters.r,
    parameters.p,
    salt.toString("base64url"),
    hash.toString("base64url"),
  ].join("$");
}

export type Verdict = { readonly matches: boolean; readonly outdated: boolean };

/** `stored` undefined (no such user) costs the same time as a wrong password, and never matches. */
export async function verifyPassword(
  password: string,
  stored: string | undefined,
): Promise<Verdict> {
  const record = stored === undefined ? undefined : parse(stored);
  const { parameters, salt, hash } = record ?? {
    parameters: CURRENT,
    salt: Buffer.alloc(16),
    hash: Buffer.alloc(HASH_BYTES),
  };
  const derived = await derive(password, salt, parameters);
  const equal = timingSafeEqual(derived, hash);
  const outdated =
    parameters.logN !== CURRENT.logN || parameters.r !== CURRENT.r || parameters.p !== CURRENT.p;
  return { matches: equal && record !== undefined, outdated };
}

function parse(stored: string): { parameters: Parameters; salt: Buffer; hash: Buffer } | undefined {
  const [kind, logN, r, p, salt, hash] = stored.split("$");
  if (kind !== "scrypt" || salt === undefined || hash === undefined) return undefined;
  const bytes = Buffer.from(hash, "base64url");
  if (bytes.byteLength !== HASH_BYTES) return undefined;
  return {
    parameters: { logN: Number(logN), r: Number(r), p: Number(p) },
    salt: Buffer.from(salt, "base64url"),
    hash: bytes,
  };
}

async function derive(password: string, salt: Buffer, { logN, r, p }: Parameters): Promise<Buffer> {
  if (Buffer.byteLength(password) > MAX_PASSWORD_BYTES) throw new RangeError("password too long");
  await takeTurn();
  try {
    return await new Promise<Buffer>((resolve, reject) => {
      const options = { N: 2 ** logN, r, p, maxmem: 256 * 2 ** logN * r };
      scrypt(password, salt, HASH_BYTES, options, (error, key) =>
        error === null ? resolve(key) : reject(error),
      );
    });
  } finally {
    endTurn();
  }
}

/**
 * scrypt stops the isolate's only thread while it runs. So one runs at a time, with a pause after each in which other
 * routes get the thread, and whoever would wait too long is told to come back. Waiters poll their own timers: a
 * promise of another request could die with that request, and a turn that is never given back lapses.
 */
const TURN_MS = 2_000;
const PAUSE_MS = 50;
const POLL_MS = 20;
const MAX_WAITING = 8;
let waiting = 0;
let busyUntil = 0;

async function takeTurn(): Promise<void> {
  if (waiting >= MAX_WAITING) throw tooBusy();
  waiting++;
  try {
    while (Date.now() < busyUntil) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    busyUntil = Date.now() + TURN_MS;
  } finally {
    waiting--;
  }
}

function endTurn(): void {
  busyUntil = Date.now() + PAUSE_MS;
}

function tooBusy(): Problem {
  return new Problem({
    code: "login_throttled",
    detail: "Too many passwords are being checked at once. Try again shortly.",
    retryAfterSecs: 5,
  });
}
