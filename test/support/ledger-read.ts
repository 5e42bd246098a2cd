/** Reads a ledger page by page to its end, in a form that compares with the model. */
import { expect } from "vitest";
import type { LedgerFilter } from "../../src/ledger/filter.ts";
import { type EntryRow, NEWEST, readEntries } from "../../src/ledger/history.ts";
import { type ModelEntry, modelFits } from "./ledger-model.ts";

export async function readAll(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  limit: number,
): Promise<EntryRow[]> {
  const rows: EntryRow[] = [];
  let before = NEWEST;
  for (;;) {
    const page = await readEntries(db, userId, filter, { before, limit });
    rows.push(...page.rows);
    if (!page.more) return rows;
    expect(page.rows).toHaveLength(limit);
    before = BigInt(page.rows.at(-1)?.entry_id ?? 0);
  }
}

export const plain = (rows: readonly EntryRow[]) =>
  rows.map(({ entry_id, account, asset, delta, reason, ref, balance_after, at }) => ({
    entry_id,
    account,
    asset,
    delta,
    reason,
    ref,
    balance_after,
    at,
  }));
export const plainModel = (rows: readonly ModelEntry[], filter: LedgerFilter) =>
  plain(rows.filter((row) => modelFits(row, filter)));
