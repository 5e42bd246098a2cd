/**
 * Marks of the ids and tickets that the service makes, so that made-up ones are rejected without a
 * read of D1. A mark protects D1, not the account. What it marks must still be verified.
 *
 * The key derives from ADDRESS_KEY, because that secret never changes and key ids are permanent.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { Config } from "../platform/config.ts";

export type Secret = Pick<Config, "ADDRESS_KEY">;

/** What is marked. A mark of one kind is not valid for another. */
type Kind = "api key ids v1" | "websocket tickets v1" | "payment ids v2" | "recovery codes v2";

/** The first bytes of a MAC of `marked`, at most 32. */
export function markOf(
  { ADDRESS_KEY }: Secret,
  kind: Kind,
  marked: string | Uint8Array,
  bytes: number,
): Buffer {
  const key = createHmac("sha256", ADDRESS_KEY).update(`rfq-custody ${kind}`).digest();
  return createHmac("sha256", key).update(marked).digest().subarray(0, bytes);
}

export function isMark(given: Buffer, expected: Buffer): boolean {
  return given.byteLength === expected.byteLength && timingSafeEqual(given, expected);
}

const MARK_BYTES = 6;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Ids of API keys: UUIDs (version 4) whose last 48 bits are a mark of the others. */
export function newKeyId(secret: Secret): string {
  const id = crypto.randomUUID();
  return id.slice(0, -2 * MARK_BYTES) + markOfId(secret, id).toString("hex");
}

/** Whether `newKeyId` made the id, which must be in lower case. */
export function isOwnKeyId(secret: Secret, id: string): boolean {
  if (!UUID.test(id)) return false;
  return isMark(Buffer.from(id.slice(-2 * MARK_BYTES), "hex"), markOfId(secret, id));
}

function markOfId(secret: Secret, id: string): Buffer {
  return markOf(secret, "api key ids v1", id.slice(0, -2 * MARK_BYTES), MARK_BYTES);
}
