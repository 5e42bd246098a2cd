/**
 * Hashes passwords with scrypt (RFC 7914). The hash contains its parameters, so they can change.
 * Callers take a turn first (hash-turns.ts).
 *
 * scrypt blocks the isolate's only thread. Its parameter p repeats the work within one call, so
 * here p is 1 and the hash has several rounds instead: the result of a round is the password of the
 * next one. The work and the memory are the same, and between two rounds other requests run.
 */
import { randomBytes, scrypt, type ScryptOptions, timingSafeEqual } from "node:crypto";
import { pauseHash } from "./hash-turns.ts";

type Parameters = { readonly logN: number; readonly r: number; readonly rounds: number };
/** N=2^13, r=8, p=10 of the OWASP password storage cheat sheet. A round: about 10 ms and 8 MiB. */
const SERVICE: Parameters = { logN: 13, r: 8, rounds: 10 };
let current = SERVICE;
const HASH_BYTES = 32;
export const MAX_PASSWORD_BYTES = 1_024;

/** For tests, which hash often. Without parameters, those of the service. */
export function setHashParameters(parameters: Parameters = SERVICE): void {
  current = parameters;
}

export async function hashPassword(
  password: string,
  parameters: Parameters = current,
): Promise<string> {
  const salt = randomBytes(16);
  const hash = await derive(password, salt, parameters);
  const { logN, r, rounds } = parameters;
  const [saltText, hashText] = [salt.toString("base64url"), hash.toString("base64url")];
  return ["scrypt", logN, r, rounds, saltText, hashText].join("$");
}

/** If `stored` is undefined (no such user), never matches, but takes the same time. */
export async function verifyPassword(
  password: string,
  stored: string | undefined,
): Promise<boolean> {
  const record = stored === undefined ? undefined : parse(stored);
  const { parameters, salt, hash } = record ?? {
    parameters: current,
    salt: Buffer.alloc(16),
    hash: Buffer.alloc(HASH_BYTES),
  };
  const derived = await derive(password, salt, parameters);
  return timingSafeEqual(derived, hash) && record !== undefined;
}

function parse(stored: string): { parameters: Parameters; salt: Buffer; hash: Buffer } | undefined {
  const [kind, logN, r, rounds, salt, hash] = stored.split("$");
  if (kind !== "scrypt" || salt === undefined || hash === undefined) return undefined;
  const bytes = Buffer.from(hash, "base64url");
  if (bytes.byteLength !== HASH_BYTES) return undefined;
  return {
    parameters: { logN: Number(logN), r: Number(r), rounds: Number(rounds) },
    salt: Buffer.from(salt, "base64url"),
    hash: bytes,
  };
}

async function derive(
  password: string,
  salt: Buffer,
  { logN, r, rounds }: Parameters,
): Promise<Buffer> {
  let key: Buffer = Buffer.from(password);
  if (key.byteLength > MAX_PASSWORD_BYTES) throw new RangeError("the password is too long");
  const options = { N: 2 ** logN, r, p: 1, maxmem: 256 * 2 ** logN * r };
  for (let round = 0; round < rounds; round++) {
    if (round > 0) await pauseHash();
    key = await scryptOf(key, salt, options);
  }
  return key;
}

function scryptOf(password: Buffer, salt: Buffer, options: ScryptOptions): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(password, salt, HASH_BYTES, options, (error, key) =>
      error === null ? resolve(key) : reject(error),
    );
  });
}
