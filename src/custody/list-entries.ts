/** The entries of GET /custody/get-ledger: a page of them, or all as a statement. */
import type * as z from "zod";
import { readAssetKey } from "../assets/asset.ts";
import type { LedgerFilter } from "../ledger/filter.ts";
import { type EntryRow, NEWEST, readEntries } from "../ledger/history.ts";
import type { OldRows } from "../ledger/old-rows.ts";
import { type Page, DEFAULT_PAGE, examining } from "../http/cursor.ts";
import { NANOS_PER_MS } from "../http/fields.ts";
import { readUuid } from "../platform/sql.ts";
import type { Venue } from "../platform/venues.ts";
import { toWireTime } from "../platform/time.ts";
import { LedgerEntry, type LedgerQuery } from "./schemas.ts";
import { actorRejection } from "../auth/may-write.ts";
import { readStatement } from "../ledger/statement.ts";
import type { Actor } from "../platform/actor.ts";
import { invalidRequest } from "../platform/problem.ts";

export type LedgerRequest = z.output<typeof LedgerQuery>;
export type EntryWire = z.input<typeof LedgerEntry>;

/** The journal has whole milliseconds, so `from` is rounded up and `to` down. */
export function filterOf(query: LedgerRequest, venues: readonly Venue[]): LedgerFilter {
  const { from, to } = query;
  return {
    account: query.account,
    direction: query.direction,
    reasons: query.reasons,
    usdc: query.usdc,
    venue: query.venue,
    assetId: query.asset_id,
    venues,
    refId: query.ref_id,
    from: from === undefined ? undefined : Number((from + NANOS_PER_MS - 1n) / NANOS_PER_MS),
    to: to === undefined ? undefined : Number(to / NANOS_PER_MS),
    minAmount: query.min_amount,
    maxAmount: query.max_amount,
  };
}

/** The cursor is the last entry_id, or a position that a short page has reached (section 4). */
export async function listEntries(
  db: D1Database,
  userId: string,
  query: LedgerRequest,
  venues: readonly Venue[],
  old: OldRows,
): Promise<Page<EntryWire>> {
  const limit = query.limit ?? DEFAULT_PAGE;
  if (limit === 0) return { items: [], next_cursor: query.last_cursor?.text ?? null };
  const page = { before: query.last_cursor?.before ?? NEWEST, limit };
  const filter = filterOf(query, venues);
  const { rows, next, examined } = await readEntries(db, userId, filter, page, old);
  const shown = { items: rows.map(entryView), next_cursor: next === null ? null : String(next) };
  return examining(shown, examined);
}

function entryView(row: EntryRow): EntryWire {
  const token = readAssetKey(row.asset);
  return {
    entry_id: row.entry_id,
    account: row.account,
    asset_id: token?.assetId ?? null,
    venue: token?.venue ?? null,
    delta: row.delta,
    balance_after: row.balance_after,
    reason: row.reason,
    ref_id: row.ref.startsWith("0x") ? row.ref : readUuid(row.ref),
    created_at: toWireTime(row.at),
  };
}

const COLUMNS = LedgerEntry.keyof().options;

/** get-ledger as CSV (RFC 4180): all matching entries up to the newest. No value needs quotes. */
export async function csvResponse(
  db: D1Database,
  actor: Actor,
  query: LedgerRequest,
  venues: readonly Venue[],
  old: OldRows,
): Promise<Response> {
  const given = (["limit", "last_cursor"] as const).filter((name) => query[name] !== undefined);
  const message = "not allowed with a statement, which has no pages";
  if (given.length > 0)
    throw invalidRequest(given.map((name) => ({ path: `query.${name}`, message })));
  const mayContinue = async () => (await actorRejection(db, actor)) === undefined;
  const reader = { userId: actor.userId, old, mayContinue };
  const statement = await readStatement(db, reader, filterOf(query, venues), {
    header: `${COLUMNS.join(",")}\r\n`,
    line: (row) => {
      const entry = entryView(row);
      return `${COLUMNS.map((column) => entry[column] ?? "").join(",")}\r\n`;
    },
    end: (rows) => `# end,${rows}\r\n`,
  });
  return new Response(statement, {
    headers: {
      "content-type": "text/csv; charset=utf-8; header=present",
      "content-disposition": 'attachment; filename="ledger.csv"',
    },
  });
}
