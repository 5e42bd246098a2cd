/** A model of get-ledger after docs/contract.md: all entries in memory, filtered one by one. */
import { expect } from "vitest";
import { readAssetKey } from "../../src/assets/asset.ts";
import { hasAmounts, type LedgerFilter } from "../../src/ledger/filter.ts";
import { type EntryRow, NEWEST, readEntries } from "../../src/ledger/history.ts";
import { readReason } from "../../src/ledger/codes.ts";
import { all, readUuid, sql, uuid } from "../../src/platform/sql.ts";

export type ModelEntry = EntryRow;

/** All entries of a user, newest first, from one plain query. */
export async function modelEntries(db: D1Database, userId: string): Promise<ModelEntry[]> {
  const rows = await all<{
    id: number;
    from_owner: string;
    to_owner: string;
    from_kind: string;
    to_kind: string;
    asset: string;
    amount: string;
    reason: number;
    ref: string;
    at: number;
    from_balance: string;
    to_balance: string;
    hash: string | null;
    match_id: string | null;
  }>(
    db,
    sql`SELECT t.transfer_id AS id, hex(f.owner) AS from_owner, hex(g.owner) AS to_owner,
        f.kind AS from_kind, g.kind AS to_kind, f.asset, CAST(t.amount AS TEXT) AS amount,
        t.reason, hex(t.ref) AS ref, t.at, CAST(t.from_balance AS TEXT) AS from_balance,
        CAST(t.to_balance AS TEXT) AS to_balance,
        (SELECT lower(hex(transaction_hash)) FROM deposits WHERE deposit_id = t.ref) AS hash,
        (SELECT hex(match_id) FROM matches WHERE quote_id = t.ref) AS match_id
      FROM transfers t JOIN accounts f ON f.account_id = t.from_account
        JOIN accounts g ON g.account_id = t.to_account
      WHERE f.owner = ${uuid(userId)} OR g.owner = ${uuid(userId)}`,
  );
  const owner = userId.replaceAll("-", "").toUpperCase();
  const entries: ModelEntry[] = [];
  for (const row of rows) {
    const reason = readReason(row.reason);
    const ref =
      reason === "deposit"
        ? `0x${row.hash}`
        : reason === "trade"
          ? (row.match_id ?? row.ref)
          : row.ref;
    const shared = { asset: row.asset, reason, ref, at: row.at };
    if (row.from_owner === owner)
      entries.push({
        ...shared,
        entry_id: row.id * 2,
        account: kind(row.from_kind),
        delta: `-${row.amount}`,
        balance_after: row.from_balance,
      });
    if (row.to_owner === owner)
      entries.push({
        ...shared,
        entry_id: row.id * 2 + 1,
        account: kind(row.to_kind),
        delta: row.amount,
        balance_after: row.to_balance,
      });
  }
  return entries.toSorted((a, b) => b.entry_id - a.entry_id);
}

function modelFits(entry: ModelEntry, filter: LedgerFilter): boolean {
  const token = readAssetKey(entry.asset);
  const size = BigInt(entry.delta.replace("-", ""));
  return (
    (filter.account ?? entry.account) === entry.account &&
    (filter.direction ?? sign(entry)) === sign(entry) &&
    (filter.reasons === undefined || filter.reasons.includes(entry.reason)) &&
    (filter.usdc === undefined || filter.usdc === (token === null)) &&
    (filter.venue === undefined || filter.venue === token?.venue) &&
    (filter.assetId === undefined || filter.assetId === token?.assetId) &&
    (filter.refId === undefined ||
      filter.refId === (entry.ref.startsWith("0x") ? entry.ref : readUuid(entry.ref))) &&
    (filter.from === undefined || entry.at >= filter.from) &&
    (filter.to === undefined || entry.at <= filter.to) &&
    (filter.minAmount === undefined || size >= filter.minAmount) &&
    (filter.maxAmount === undefined || size <= filter.maxAmount)
  );
}

function sign(entry: ModelEntry): "credit" | "debit" {
  return entry.delta.startsWith("-") ? "debit" : "credit";
}

function kind(text: string): "available" | "pending" {
  if (text !== "available" && text !== "pending") throw new Error(`a user owns no ${text} account`);
  return text;
}

/** Reads a ledger to its end in pages of `limit` entries. Those of an amount may be short. */
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
    if (page.next === null) return rows;
    if (!hasAmounts(filter)) expect(page.rows).toHaveLength(limit);
    before = page.next;
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
