/**
 * Ids of API keys: UUIDs (version 4) whose last 48 bits are a MAC of the others, so that made-up
 * ids are rejected without a read of D1. The MAC protects D1, not the account. A request still needs
 * a valid signature.
 *
 * The MAC's key derives from ADDRESS_KEY, because that secret never changes and ids are permanent.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { Config } from "../platform/config.ts";

type Secret = Pick<Config, "ADDRESS_KEY">;

const MAC_BYTES = 6;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export function newKeyId(secret: Secret): string {
  const id = crypto.randomUUID();
  return id.slice(0, -2 * MAC_BYTES) + macOf(secret, id).toString("hex");
}

/** Whether `newKeyId` made the id, which must be in lower case. */
export function isOwnKeyId(secret: Secret, id: string): boolean {
  if (!UUID.test(id)) return false;
  return timingSafeEqual(Buffer.from(id.slice(-2 * MAC_BYTES), "hex"), macOf(secret, id));
}

function macOf({ ADDRESS_KEY }: Secret, id: string): Buffer {
  const key = createHmac("sha256", ADDRESS_KEY).update("rfq-custody api key ids v1").digest();
  const covered = id.slice(0, -2 * MAC_BYTES);
  return createHmac("sha256", key).update(covered).digest().subarray(0, MAC_BYTES);
}
