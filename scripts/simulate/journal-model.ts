/**
 * The journal as it was posted, wherever it is now. The database notes each row that is deleted, so
 * the model needs no archive. Nothing here is shared with the code that it checks.
 */
import type { SealedTransfer } from "../../src/archive/sealed-columns.ts";
import type { EntryRow } from "../../src/ledger/history.ts";
import type { LedgerFilter } from "../../src/ledger/filter.ts";
import { REASONS } from "../../src/ledger/codes.ts";
import type { Database } from "./database.ts";

/** A transfer with its accounts named. Ids and owners are lower-case hexadecimal. */
export type Posted = Omit<SealedTransfer, "match_id">;

const POSTED = `SELECT t.transfer_id, lower(hex(f.owner)) AS from_owner, f.kind AS from_kind,
    lower(hex(g.owner)) AS to_owner, g.kind AS to_kind, f.asset, CAST(t.amount AS TEXT) AS amount,
    t.reason, t.step, t.line, lower(hex(t.ref)) AS ref, t.at,
    CAST(t.from_balance AS TEXT) AS from_balance, CAST(t.to_balance AS TEXT) AS to_balance
  FROM every_transfers t
    JOIN accounts f ON f.account_id = t.from_account JOIN accounts g ON g.account_id = t.to_account
  WHERE t.transfer_id > ? ORDER BY t.transfer_id`;

export class JournalModel {
  readonly #database: Database;
  #transfers: Posted[] = [];
  readonly #matchOf = new Map<string, string>();
  readonly #hashOf = new Map<string, string>();

  constructor(database: Database) {
    this.#database = database;
  }

  /** All transfers, the oldest first. */
  transfers(): readonly Posted[] {
    const last = this.#transfers.at(-1)?.transfer_id ?? 0;
    for (const row of this.#database.rows(POSTED, last)) this.#transfers.push(postedOf(row));
    return this.#transfers;
  }

  /** The database was replaced by an older one. */
  forget(): void {
    this.#transfers = [];
    this.#matchOf.clear();
  }

  /** The user's entries below `before` that fit, newest first. */
  entries(userId: string, filter: LedgerFilter, before: bigint): EntryRow[] {
    const owner = userId.replaceAll("-", "").toLowerCase();
    this.#learnNames();
    const rows: EntryRow[] = [];
    for (const transfer of this.transfers())
      for (const credit of [0, 1] as const) {
        const side = credit === 1 ? "to" : "from";
        const account = transfer[`${side}_kind`];
        if (transfer[`${side}_owner`] !== owner) continue;
        if (account !== "available" && account !== "pending") continue;
        const row: EntryRow = {
          entry_id: 2 * transfer.transfer_id + credit,
          account,
          // Safe cast: the journal contains keys of assets only.
          asset: transfer.asset as EntryRow["asset"],
          delta: String(credit === 1 ? transfer.amount : -transfer.amount),
          reason: REASONS[transfer.reason - 1] ?? "deposit",
          ref: this.#shownRef(transfer),
          balance_after: String(transfer[`${side}_balance`]),
          at: transfer.at,
        };
        if (BigInt(row.entry_id) < before && fits(row, transfer, filter)) rows.push(row);
      }
    return rows.toReversed();
  }

  #shownRef({ reason, ref }: Posted): string {
    if (REASONS[reason - 1] === "deposit") return this.#hashOf.get(ref) ?? "";
    const shown = REASONS[reason - 1] === "trade" ? this.#matchOf.get(ref) : undefined;
    return (shown ?? ref).toUpperCase();
  }

  #learnNames(): void {
    const database = this.#database;
    const matches = `SELECT lower(hex(quote_id)) AS quote, lower(hex(match_id)) AS id
      FROM every_matches`;
    for (const { quote, id } of database.rows(matches))
      this.#matchOf.set(String(quote), String(id));
    const deposits = `SELECT lower(hex(deposit_id)) AS id, lower(hex(transaction_hash)) AS hash
      FROM deposits`;
    for (const { id, hash } of database.rows(deposits))
      this.#hashOf.set(String(id), `0x${String(hash)}`);
  }
}

function postedOf(row: Readonly<Record<string, unknown>>): Posted {
  const units = (column: string) => BigInt(String(row[column]));
  return {
    // Safe cast: these are the columns of the statement above, of which amounts are text.
    ...(row as Posted),
    amount: units("amount"),
    from_balance: units("from_balance"),
    to_balance: units("to_balance"),
  };
}

/** The filters that readers of the simulator use. */
function fits(row: EntryRow, { amount, at, asset }: Posted, filter: LedgerFilter): boolean {
  const { account, direction, reasons, usdc, venue, from, to, minAmount, maxAmount } = filter;
  return (
    (account === undefined || account === row.account) &&
    (direction === undefined || (direction === "debit") === row.delta.startsWith("-")) &&
    (reasons === undefined || reasons.includes(row.reason)) &&
    (usdc === undefined || usdc === (asset === "usdc")) &&
    (venue === undefined || asset.startsWith(`${venue}:`)) &&
    (filter.refId === undefined || row.ref === filter.refId.replaceAll("-", "").toUpperCase()) &&
    (from === undefined || at >= from) &&
    (to === undefined || at <= to) &&
    (minAmount === undefined || amount >= minAmount) &&
    (maxAmount === undefined || amount <= maxAmount)
  );
}
