/** Compares who may act for a chunk of users with their signed audit events. */
import { forgedEvents, readRights } from "../auth/compare-rights.ts";
import type { MacKeys } from "../audit/event-mac.ts";
import { type WrongRight, wrongRights } from "../auth/rights.ts";
import { commandText, type Deployed } from "../platform/command-text.ts";
import { type Chunk, mapAlone } from "./check-alone.ts";
import type { Difference } from "./difference.ts";

export async function checkRights(
  db: D1Database,
  keys: MacKeys & Deployed,
  chunk: Chunk,
): Promise<Difference[]> {
  const { accounts, history, forged } = await readRights(db, keys, chunk);
  // Details of a forged event may be anything. The event itself is named in any case.
  const inserted = accounts.flatMap((account) =>
    forgedEvents(account, forged).map((wrong) => difference(keys, account.userId, wrong)),
  );
  const { results, failed } = mapAlone("rights", accounts, {
    of: (account) =>
      wrongRights(account, history).map((wrong) => difference(keys, account.userId, wrong)),
    nameOf: ({ userId }) => `user ${userId}`,
  });
  return [...results.flat(), ...inserted, ...failed];
}

function difference(settings: Deployed, userId: string, { what, detail }: WrongRight): Difference {
  const next = commandText(settings, "operator", ...nextCommand(userId, what));
  return {
    check: "rights_mismatch",
    account: `${userId}/${what}`,
    amount: "0",
    detail: `${detail}. Next: ${next}`,
  };
}

/** What stops the harm first. A freeze stops keys too, but a single key need not stop its owner. */
function nextCommand(userId: string, what: string): string[] {
  const [kind, id] = what.split("/");
  return kind === "key" && id !== undefined
    ? ["api-key", "revoke", "--id", id]
    : ["user", "freeze", "--user-id", userId];
}
