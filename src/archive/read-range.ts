/** Reads the transfers and records of a range from the database. The only statements that do. */
import { reasonCode } from "../ledger/codes.ts";
import type { AccountKind } from "../ledger/tables.ts";
import { all, join, raw, type Sql, sql } from "../platform/sql.ts";
import type { Range } from "./choose-range.ts";
import { AMOUNT_COLUMNS, type Columns, ID_COLUMNS, type RowOf } from "./columns.ts";
import { MATCHES, QUOTES, type Records, REQUESTS, type SealedTransfer } from "./records.ts";

/** One page of transfers takes D1 some 20 ms. */
const TRANSFERS_PER_PAGE = 2_000;

type Content = Records & { readonly transfers: readonly SealedTransfer[] };

export async function readRange(db: D1Database, range: Range): Promise<Content> {
  const transfers: SealedTransfer[] = [];
  const matches: Record<string, unknown>[] = [];
  for (let after = range.after; after < range.upTo;) {
    const rows = await all<TransferRow>(db, transfersOf({ after, upTo: range.upTo }));
    const last = rows.at(-1)?.transfer_id ?? range.upTo;
    transfers.push(...rows.map(transferOf));
    matches.push(
      ...(await all<Record<string, unknown>>(db, settledMatches({ after, upTo: last }))),
    );
    after = last;
  }
  const requests = await all<Record<string, unknown>>(db, ended(range, "requests"));
  const quotes = await all<Record<string, unknown>>(db, ended(range, "quotes"));
  return {
    transfers,
    requests: rowsOf(REQUESTS.columns, requests, (row) => row.request_id),
    quotes: rowsOf(QUOTES.columns, quotes, (row) => row.quote_id),
    matches: rowsOf(MATCHES.columns, matches, (row) => row.match_id),
  };
}

type Transfers = Pick<Range, "after" | "upTo">;

const ofTransfers = ({ after, upTo }: Transfers): Sql =>
  sql`t.transfer_id > ${after} AND t.transfer_id <= ${upTo}`;

type TransferRow = {
  readonly transfer_id: number;
  readonly from_owner: string;
  readonly from_kind: AccountKind;
  readonly to_owner: string;
  readonly to_kind: AccountKind;
  readonly asset: string;
  readonly amount: string;
  readonly reason: number;
  readonly step: number;
  readonly line: number;
  readonly ref: string;
  readonly at: number;
  readonly from_balance: string;
  readonly to_balance: string;
};

function transfersOf(range: Transfers): Sql {
  return sql`SELECT t.transfer_id, lower(hex(f.owner)) AS from_owner, f.kind AS from_kind,
      lower(hex(g.owner)) AS to_owner, g.kind AS to_kind, f.asset, CAST(t.amount AS TEXT) AS amount,
      t.reason, t.step, t.line, lower(hex(t.ref)) AS ref, t.at,
      CAST(t.from_balance AS TEXT) AS from_balance, CAST(t.to_balance AS TEXT) AS to_balance
    FROM transfers t CROSS JOIN accounts f ON f.account_id = t.from_account
      CROSS JOIN accounts g ON g.account_id = t.to_account
    WHERE ${ofTransfers(range)} ORDER BY t.transfer_id LIMIT ${TRANSFERS_PER_PAGE}`;
}

function transferOf(row: TransferRow): SealedTransfer {
  return {
    transferId: row.transfer_id,
    from: { owner: row.from_owner, kind: row.from_kind },
    to: { owner: row.to_owner, kind: row.to_kind },
    asset: row.asset,
    amount: BigInt(row.amount),
    reason: row.reason,
    step: row.step,
    line: row.line,
    ref: row.ref,
    at: row.at,
    fromBalance: BigInt(row.from_balance),
    toBalance: BigInt(row.to_balance),
  };
}

/** A match reserves the requester's side in its own commit. */
function settledMatches(range: Transfers): Sql {
  return sql`SELECT ${selected(MATCHES.columns)}
    FROM transfers t CROSS JOIN matches r ON r.match_id = t.ref
    WHERE ${ofTransfers(range)} AND t.reason = ${reasonCode("reserve_trade")}`;
}

function ended({ afterGroup, upToGroup }: Range, table: "requests" | "quotes"): Sql {
  const { columns } = { requests: REQUESTS, quotes: QUOTES }[table];
  return sql`SELECT ${selected(columns)} FROM ${raw(table)} r
    WHERE r.ended_group > ${afterGroup} AND r.ended_group <= ${upToGroup}`;
}

/** Columns of `r`. */
function selected(columns: Columns): Sql {
  const parts = Object.entries(columns).map(([column, type]) => {
    if (ID_COLUMNS.includes(type))
      return raw(`iif(r.${column} IS NULL, NULL, lower(hex(r.${column}))) AS ${column}`);
    const isAmount = AMOUNT_COLUMNS.includes(type);
    return raw(isAmount ? `CAST(r.${column} AS TEXT) AS ${column}` : `r.${column}`);
  });
  return join(parts, ", ");
}

function rowsOf<Table extends Columns>(
  columns: Table,
  rows: readonly Readonly<Record<string, unknown>>[],
  idOf: (row: RowOf<Table>) => string,
): RowOf<Table>[] {
  const converted = rows.map((row) =>
    Object.fromEntries(
      Object.entries(row).map(([column, value]) => [
        column,
        typeof value === "string" && AMOUNT_COLUMNS.includes(columns[column])
          ? BigInt(value)
          : value,
      ]),
    ),
  );
  // Safe cast: `selected` returns the columns of the table, each in the form of its type.
  const typed = converted as RowOf<Table>[];
  return typed.toSorted((a, b) => (idOf(a) < idOf(b) ? -1 : 1));
}
