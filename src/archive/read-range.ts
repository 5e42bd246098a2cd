/** Reads the transfers and records of a range from the database. The only statements that do. */
import { reasonCode, reasonNumber } from "../ledger/codes.ts";
import { all, join, raw, type Sql, sql } from "../platform/sql.ts";
import type { GroupRange } from "./choose-range.ts";
import type { TextColumns, TextRowOf } from "./column-text.ts";
import {
  type Content,
  MATCHES,
  QUOTES,
  REQUESTS,
  type SealedTransfer,
  TABLES,
  TRANSFERS,
} from "./sealed-columns.ts";

/** One page of transfers takes D1 some 20 ms. */
const TRANSFERS_PER_PAGE = 2_000;

export async function readRange(db: D1Database, range: GroupRange): Promise<Content> {
  const transfers: SealedTransfer[] = [];
  const matches: Content["matches"][number][] = [];
  for (let after = range.after; after < range.upTo;) {
    const page = await rowsOf(db, TRANSFERS.columns, transfersOf({ after, upTo: range.upTo }));
    const last = page.at(-1)?.transfer_id ?? range.upTo;
    transfers.push(...page);
    matches.push(...(await rowsOf(db, MATCHES.columns, settledMatches({ after, upTo: last }))));
    after = last;
  }
  const matchOf = new Map(matches.map((row) => [row.quote_id, row.match_id]));
  const isTrade = ({ reason }: SealedTransfer) => reason === reasonNumber("trade");
  const requests = await rowsOf(db, REQUESTS.columns, ended(range, "requests"));
  const quotes = await rowsOf(db, QUOTES.columns, ended(range, "quotes"));
  return {
    transfers: transfers.map((row) =>
      isTrade(row) ? { ...row, match_id: matchOf.get(row.ref) ?? null } : row,
    ),
    requests: requests.toSorted((a, b) => (a.request_id < b.request_id ? -1 : 1)),
    quotes: quotes.toSorted((a, b) => (a.quote_id < b.quote_id ? -1 : 1)),
    matches: matches.toSorted((a, b) => (a.match_id < b.match_id ? -1 : 1)),
  };
}

type Transfers = Pick<GroupRange, "after" | "upTo">;

const ofTransfers = ({ after, upTo }: Transfers): Sql =>
  sql`t.transfer_id > ${after} AND t.transfer_id <= ${upTo}`;

function transfersOf(range: Transfers): Sql {
  return sql`SELECT ${selected(TRANSFERS.columns)} FROM (
      SELECT t.*, f.owner AS from_owner, f.kind AS from_kind, g.owner AS to_owner,
        g.kind AS to_kind, f.asset, NULL AS match_id
      FROM transfers t CROSS JOIN accounts f ON f.account_id = t.from_account
        CROSS JOIN accounts g ON g.account_id = t.to_account
      WHERE ${ofTransfers(range)} ORDER BY t.transfer_id LIMIT ${TRANSFERS_PER_PAGE}) r
    ORDER BY r.transfer_id`;
}

/** A match reserves the requester's side in its own commit. */
function settledMatches(range: Transfers): Sql {
  return sql`SELECT ${selected(MATCHES.columns)}
    FROM transfers t CROSS JOIN matches r ON r.match_id = t.ref
    WHERE ${ofTransfers(range)} AND t.reason = ${reasonCode("reserve_trade")}`;
}

function ended({ afterGroup, upToGroup }: GroupRange, table: "requests" | "quotes"): Sql {
  return sql`SELECT ${selected(TABLES[table].columns)} FROM ${raw(table)} r
    WHERE r.ended_group > ${afterGroup} AND r.ended_group <= ${upToGroup}`;
}

/** Columns of `r`. */
function selected(columns: TextColumns): Sql {
  const parts = Object.entries(columns).map(([column, { readAs }]) => {
    if (readAs === "hex")
      return raw(`iif(r.${column} IS NULL, NULL, lower(hex(r.${column}))) AS ${column}`);
    return raw(readAs === "text" ? `CAST(r.${column} AS TEXT) AS ${column}` : `r.${column}`);
  });
  return join(parts, ", ");
}

async function rowsOf<Table extends TextColumns>(
  db: D1Database,
  columns: Table,
  statement: Sql,
): Promise<TextRowOf<Table>[]> {
  const rows = await all<Record<string, unknown>>(db, statement);
  for (const row of rows)
    for (const [column, { readAs }] of Object.entries(columns))
      if (readAs === "text" && typeof row[column] === "string") row[column] = BigInt(row[column]);
  // Safe cast: `selected` returns the columns of the table, each in the form of its type.
  return rows as TextRowOf<Table>[];
}
