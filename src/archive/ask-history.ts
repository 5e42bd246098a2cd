/** Asks a user's history for old rows, and says 503 if it cannot. */
import { type OldRows, unreachable } from "../ledger/old-rows.ts";
import { errorFields, log } from "../platform/log.ts";
import { near } from "../platform/near.ts";
import type { OwnHistory } from "./own-history.ts";

/** Opens the history of a name. */
export type Histories = (name: string) => Pick<OwnHistory, "query">;

/** What a user's own lists read: the database, and what has left it. */
export type OwnRecords = { readonly db: D1Database; readonly old: OldRows };

export function ownRecords(env: Env, userId: string): OwnRecords {
  return { db: env.DB, old: oldRows((name) => near(env, env.HISTORY, name), userId) };
}

/** The name of an owner's history. Users and house accounts have hexadecimal names. */
export function historyName(owner: string): string {
  return `history:${owner}`;
}

export function oldRows(histories: Histories, userId: string): OldRows {
  const owner = userId.replaceAll("-", "").toLowerCase();
  return async ({ epoch, number }, statements) => {
    try {
      const stub = histories(historyName(owner));
      return await stub.query(owner, { epoch, number }, statements);
    } catch (error) {
      log("error", "history.unreachable", errorFields(error));
      throw unreachable();
    }
  };
}
