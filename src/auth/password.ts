/**
 * Hashes passwords with scrypt (RFC 7914). The hash contains its parameters, so they can change.
 * Callers take a turn first (hash-turns.ts).
 */
import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";

type Parameters = { readonly logN: number; readonly r: number; readonly p: number };
/** From the OWASP password storage cheat sheet: N=2^15, r=8, p=3. About 0.2 s and 32 MiB. */
const CURRENT: Parameters = { logN: 15, r: 8, p: 3 };
const HASH_BYTES = 32;
export const MAX_PASSWORD_BYTES = 1_024;

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

export type PasswordCheck = { readonly matches: boolean; readonly outdated: boolean };

/** If `stored` is undefined (no such user), never matches, but takes the same time. */
export async function verifyPassword(
  password: string,
  stored: string | undefined,
): Promise<PasswordCheck> {
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
  if (Buffer.byteLength(password) > MAX_PASSWORD_BYTES)
    throw new RangeError("the password is too long");
  return new Promise<Buffer>((resolve, reject) => {
    const options = { N: 2 ** logN, r, p, maxmem: 256 * 2 ** logN * r };
    scrypt(password, salt, HASH_BYTES, options, (error, key) =>
      error === null ? resolve(key) : reject(error),
    );
  });
}
