/**
 * The MAC of an audit event whose `details` state what it changed. Who can write SQL can insert an
 * event, and the chain seals it like any other. They cannot make its MAC, which takes a key of
 * AUDIT_KEYS. The database sets the number and time of an event, so the MAC covers neither.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { Config } from "../platform/config.ts";

export type MacKeys = Pick<Config, "AUDIT_KEYS" | "DEPLOYMENT">;

/** What the Worker knows of an event before its batch. Ids are text in lower case. */
export type EventContent = Readonly<
  Record<"id" | "kind" | "actor", string> &
    Record<"userId" | "apiKeyId" | "ip" | "subjectId" | "details", string | null>
>;

/** What a MAC is for. A MAC of one purpose is not valid for another. */
type Purpose =
  | "audit event v1"
  | "withdrawal v1"
  | "cancel token v1"
  | "standing accept v1"
  | "liabilities v1";
type Values = readonly (string | null)[];

/** By purpose and seed. They differ from the Ed25519 keys of the same seeds, which sign heads. */
const derived = new Map<string, Buffer>();

export function eventMac(keys: MacKeys, event: EventContent): string {
  return macOf(keys, "audit event v1", valuesOf(event));
}

/** False also if the key is not in the ring. */
export function isGenuine(
  keys: MacKeys,
  event: EventContent & { readonly mac: string | null },
): boolean {
  return isMacOf(keys, "audit event v1", { values: valuesOf(event), mac: event.mac });
}

/** Also hashed into every stored link (seal.ts). Never change it, but add another list. */
export function valuesOf(event: EventContent): Values {
  const { id, kind, actor, userId, apiKeyId, ip, subjectId, details } = event;
  return [id, kind, actor, userId, apiKeyId, ip, subjectId, details];
}

/** The MAC by the first key of the ring, with the id of the key. */
export function macOf(keys: MacKeys, purpose: Purpose, values: Values): string {
  const [keyId, seed] = Object.entries(keys.AUDIT_KEYS)[0] ?? [];
  if (keyId === undefined || seed === undefined) throw new Error("AUDIT_KEYS is empty");
  return `${keyId}.${macBy(seed, keys, purpose, values).toString("base64url")}`;
}

/** False also if the key is not in the ring. */
export function isMacOf(
  keys: MacKeys,
  purpose: Purpose,
  { values, mac }: { readonly values: Values; readonly mac: string | null },
): boolean {
  const [keyId = "", text = ""] = mac?.split(".") ?? [];
  const seed = Object.hasOwn(keys.AUDIT_KEYS, keyId) ? keys.AUDIT_KEYS[keyId] : undefined;
  if (seed === undefined) return false;
  const [given, expected] = [Buffer.from(text, "base64url"), macBy(seed, keys, purpose, values)];
  return given.length === expected.length && timingSafeEqual(given, expected);
}

/** A secret that the named key gives for these values. Throws if the key is not in the ring. */
export function secretOf(keys: MacKeys, keyId: string, purpose: Purpose, values: Values): Buffer {
  const seed = Object.hasOwn(keys.AUDIT_KEYS, keyId) ? keys.AUDIT_KEYS[keyId] : undefined;
  if (seed === undefined) throw new Error(`AUDIT_KEYS has no key ${keyId}`);
  return macBy(seed, keys, purpose, values);
}

/** Hashes a JSON array, because its encoding is unambiguous for any text. */
function macBy(seed: string, { DEPLOYMENT }: MacKeys, purpose: Purpose, values: Values): Buffer {
  const text = JSON.stringify([DEPLOYMENT, ...values]);
  return createHmac("sha256", keyOf(seed, purpose)).update(text).digest();
}

function keyOf(seed: string, purpose: Purpose): Buffer {
  const name = `${purpose}:${seed}`;
  let key = derived.get(name);
  if (key === undefined) {
    key = createHmac("sha256", seed).update(`rfq-custody ${purpose}`).digest();
    derived.set(name, key);
  }
  return key;
}
