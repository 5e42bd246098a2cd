/** Compares who may act for a chunk of users with their signed audit events. */
import { compareRights } from "../auth/compare-rights.ts";
import type { MacKeys } from "../auth/event-mac.ts";
import type { Difference } from "./difference.ts";
import type { Chunk } from "./reconcile-journal.ts";

export async function checkRights(
  db: D1Database,
  keys: MacKeys,
  users: Chunk,
): Promise<Difference[]> {
  const wrong = await compareRights(db, keys, users);
  return wrong.map(({ userId, what, detail }) => ({
    check: "rights_mismatch",
    account: `${userId}/${what}`,
    amount: "0",
    detail: `${detail}. Next: npm run operator -- ${nextCommand(userId, what)}`,
  }));
}

/** What stops the harm first. A freeze stops keys too, but a single key need not stop its owner. */
function nextCommand(userId: string, what: string): string {
  const [kind, id] = what.split("/");
  return kind === "key" && id !== undefined
    ? `api-key revoke --id ${id}`
    : `user freeze --user-id ${userId}`;
}
