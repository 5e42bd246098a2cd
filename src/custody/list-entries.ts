import type * as z from "zod";
import { readAssetKey } from "../assets/asset.ts";
import type { ColdEntries } from "../ledger/cold-entries.ts";
import type { LedgerFilter } from "../ledger/filter.ts";
import { type EntryRow, NEWEST, readEntries } from "../ledger/history.ts";
import type { Page } from "../http/cursor.ts";
import { DEFAULT_PAGE } from "../http/cursor.ts";
import { NANOS_PER_MS } from "../http/fields.ts";
import { readUuid } from "../platform/sql.ts";
import type { Venue } from "../platform/venues.ts";
import { toWireTime } from "../platform/time.ts";
import type { LedgerEntry, LedgerQuery } from "./schemas.ts";

export type LedgerRequest = z.output<typeof LedgerQuery>;
export type EntryWire = z.input<typeof LedgerEntry>;

/** The journal has whole milliseconds, so `from` is rounded up and `to` down. */
export function filterOf(query: LedgerRequest, venues: readonly Venue[]): LedgerFilter {
  return {
    account: query.account,
    direction: query.direction,
    reasons: query.reasons,
    usdc: query.usdc,
    venue: query.venue,
    assetId: query.asset_id,
    venues,
    refId: query.ref_id,
    from:
      query.from === undefined
        ? undefined
        : Number((query.from + NANOS_PER_MS - 1n) / NANOS_PER_MS),
    to: query.to === undefined ? undefined : Number(query.to / NANOS_PER_MS),
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
  cold?: ColdEntries,
): Promise<Page<EntryWire>> {
  const limit = query.limit ?? DEFAULT_PAGE;
  if (limit === 0) return { items: [], next_cursor: query.last_cursor?.text ?? null };
  const { rows, next } = await readEntries(
    db,
    userId,
    filterOf(query, venues),
    {
      before: query.last_cursor?.before ?? NEWEST,
      limit,
    },
    cold,
  );
  return { items: rows.map(entryView), next_cursor: next === null ? null : String(next) };
}

export function entryView(row: EntryRow): EntryWire {
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
