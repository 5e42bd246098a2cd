/** Ids of API keys: UUIDs (version 4) whose last 48 bits are a mark of the others (mark.ts). */
import { isMark, markOf, type Secret } from "./mark.ts";

const MARK_BYTES = 6;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

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
