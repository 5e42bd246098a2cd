/**
 * The keys that sign heads of the audit log and receipts: Ed25519 seeds by id in AUDIT_KEYS, newest
 * first. All public keys are served, so that anyone can verify what they were given.
 */
import type { Config } from "../platform/config.ts";

export type SignedHead = {
  readonly seq: number;
  readonly hash: string;
  readonly keyId: string;
  /** base64url */
  readonly signature: string;
};

type Keys = { readonly sign: CryptoKey; readonly verify: CryptoKey; readonly x: string };

const ED25519 = { name: "Ed25519" };
/** What stands before the seed of an Ed25519 key in PKCS #8 (RFC 8410). */
const PKCS8_PREFIX = "302e020100300506032b657004220420";
const utf8 = new TextEncoder();

/** Imported keys by seed. */
const imported = new Map<string, Promise<Keys>>();

export async function signHead(
  settings: Config,
  head: { seq: number; hash: string },
): Promise<SignedHead> {
  return { ...head, ...(await signText(settings, textOf(settings, head))) };
}

function newestKey({ AUDIT_KEYS }: Config): [id: string, seed: string] {
  const [newest] = Object.entries(AUDIT_KEYS);
  if (newest === undefined) throw new Error("AUDIT_KEYS is empty");
  return newest;
}

/** The key with which `signText` signs. */
export function signingKeyId(settings: Config): string {
  return newestKey(settings)[0];
}

/** Signs a text with the first key of the ring. */
export async function signText(
  settings: Config,
  text: string,
): Promise<{ keyId: string; signature: string }> {
  const [keyId, seed] = newestKey(settings);
  const { sign } = await keysOf(seed);
  const signature = await crypto.subtle.sign(ED25519, sign, utf8.encode(text));
  return { keyId, signature: Buffer.from(signature).toString("base64url") };
}

export function headVerifies(settings: Config, head: SignedHead): Promise<boolean> {
  return textVerifies(settings, head, textOf(settings, head));
}

/** False also if the key is not in the ring. */
export async function textVerifies(
  settings: Config,
  signed: Pick<SignedHead, "keyId" | "signature">,
  text: string,
): Promise<boolean> {
  const seed = Object.hasOwn(settings.AUDIT_KEYS, signed.keyId)
    ? settings.AUDIT_KEYS[signed.keyId]
    : undefined;
  if (seed === undefined) return false;
  const { verify } = await keysOf(seed);
  const signature = Buffer.from(signed.signature, "base64url");
  // The runtime throws at another length.
  if (signature.length !== 64) return false;
  return crypto.subtle.verify(ED25519, verify, signature, utf8.encode(text));
}

/** The public keys as a JWK set (RFC 7517, RFC 8037). */
export async function publicKeys(settings: Config) {
  const keys = await Promise.all(
    Object.entries(settings.AUDIT_KEYS).map(async ([kid, seed]) => {
      const { x } = await keysOf(seed);
      return { kty: "OKP", crv: "Ed25519", x, kid, use: "sig", alg: "EdDSA" } as const;
    }),
  );
  return { keys };
}

function textOf({ DEPLOYMENT }: Config, { seq, hash }: { seq: number; hash: string }) {
  return ["rfq-custody-audit-v1", DEPLOYMENT, seq, hash].join("\n");
}

function keysOf(seed: string): Promise<Keys> {
  let keys = imported.get(seed);
  if (keys === undefined) imported.set(seed, (keys = importSeed(seed)));
  return keys;
}

async function importSeed(seed: string): Promise<Keys> {
  const bytes = Buffer.concat([Buffer.from(PKCS8_PREFIX, "hex"), Buffer.from(seed, "base64url")]);
  const sign = await crypto.subtle.importKey("pkcs8", bytes, ED25519, true, ["sign"]);
  const { x = "" } = (await crypto.subtle.exportKey("jwk", sign)) as JsonWebKey;
  const jwk = { kty: "OKP", crv: "Ed25519", x };
  const verify = await crypto.subtle.importKey("jwk", jwk, ED25519, false, ["verify"]);
  return { sign, verify, x };
}
