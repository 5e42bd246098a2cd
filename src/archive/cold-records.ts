/**
 * A user's own requests, quotes and matches that are in the archive only. Each read asks the user's
 * history, and is 503 if that cannot be reached.
 */
import { historyIsCut } from "../ledger/released.ts";
import { expr, type Expr, first, literal, type Sql, sql, uuid } from "../platform/sql.ts";
import { ID_LAG_MS, ID_LEAD_MS } from "../platform/time.ts";
import type { FindRequest, Found, RecordsPage, RecordsRequest } from "./block-index.ts";
import { histories, historyName, orUnavailable } from "./ask-history.ts";
import type { SealId } from "./footer.ts";
import {
  isOlder,
  positionOf,
  type RecordFilter,
  type RecordKey,
  type RecordKind,
  type RecordPosition,
  type SealedRecord,
} from "./record-page.ts";

type HistoryStub = {
  readonly records: (owner: string, request: RecordsRequest) => Promise<RecordsPage>;
  readonly find: (owner: string, request: FindRequest) => Promise<Found>;
};

export type RecordArchive = {
  readonly db: D1Database;
  readonly history: { readonly getByName: (name: string) => HistoryStub };
};

export function recordArchive(env: Env): RecordArchive {
  return { db: env.DB, history: histories(env) };
}

/**
 * The newest record of each kind that may have left the database: when it was opened or made. Null
 * if none has left.
 */
export type Left = SealId & { readonly [Kind in RecordKind]: number | null };

const RELEASED: Expr = expr`(SELECT number FROM journal_seals INDEXED BY journal_seals_released
  WHERE released_at IS NOT NULL ORDER BY number DESC LIMIT 1)`;

/** Of a history that is cut: everything may have left, and no seal of that number exists. */
const ALWAYS = literal(Number.MAX_SAFE_INTEGER);

/** Selects at most one row, `Left`. For the batch that reads the user's records. */
export function leftOf(userId: string): Sql {
  return sql`SELECT s.epoch, s.number,
      iif(o.first_seal <= ${RELEASED}, o.last_request_at, NULL) AS requests,
      iif(o.first_seal <= ${RELEASED}, o.last_quote_at, NULL) AS quotes,
      (SELECT iif(o.first_seal <= m.number, min(o.last_match_at, m.last_at), NULL)
        FROM journal_seals m INDEXED BY journal_seals_matches_released
        WHERE m.matches_released_at IS NOT NULL ORDER BY m.number DESC LIMIT 1) AS matches
    FROM sealed_owners o CROSS JOIN journal_seals s ON s.number = o.last_seal
    WHERE o.owner = ${uuid(userId)}
    UNION ALL SELECT 0, 0, ${ALWAYS}, ${ALWAYS}, ${ALWAYS} WHERE ${historyIsCut(userId)}`;
}

/** Calls that complete a page. Each has read up to 50 blocks. */
const MAX_CALLS = 20;
/** Calls after which a page with filters may end early. */
const FILTERED_CALLS = 4;

export type ColdPageRequest = {
  readonly newest: SealId;
  readonly filter: RecordFilter;
  readonly after: RecordPosition | null;
  readonly limit: number;
};

export type ColdRecordPage = {
  readonly records: readonly SealedRecord[];
  /** All records that fit are listed down to here. Null: to the oldest one. */
  readonly completeTo: RecordPosition | null;
};

/** Records after a position, newest first. */
export function coldPage(
  { history }: RecordArchive,
  userId: string,
  { newest, filter, after, limit }: ColdPageRequest,
): Promise<ColdRecordPage> {
  const owner = ownerOf(userId);
  const stub = history.getByName(historyName(owner));
  const mayEndEarly = Object.values(filter).filter((value) => value !== undefined).length > 1;
  return orUnavailable(async () => {
    let records: SealedRecord[] = [];
    let from: RecordsRequest["from"] = null;
    for (let calls = 1; ; calls++) {
      const page: RecordsPage = await stub.records(owner, { newest, filter, after, limit, from });
      records = records
        .concat(page.records)
        .toSorted((a, b) => (isOlder(positionOf(a), positionOf(b)) ? 1 : -1))
        .slice(0, limit);
      const last = records[limit - 1];
      if (page.next === null)
        return { records, completeTo: last === undefined ? null : positionOf(last) };
      if (last !== undefined && positionOf(last).at > page.next.at)
        return { records, completeTo: positionOf(last) };
      // Everything later than the next block's newest record has been read.
      const read = { at: page.next.at, id: LAST_ID };
      const advanced = after === null || isOlder(read, after);
      if (mayEndEarly && calls >= FILTERED_CALLS && advanced) return { records, completeTo: read };
      if (calls === MAX_CALLS) throw new Error("the page needs too many blocks");
      from = page.next;
    }
  });
}

const LAST_ID = "f".repeat(32);

/** A match is made at most so long after the record that names it was opened. */
const LIFE_MS = { request_id: 86_400_000, quote_id: 300_000, match_id: 0 } as const;
const OWN_ID = { requests: "request_id", quotes: "quote_id", matches: "match_id" } as const;

/** One record of the user by its id, or a match by that of its quote or request. */
export function findCold(
  archive: RecordArchive,
  userId: string,
  { kind, by, id }: RecordKey,
): Promise<SealedRecord | undefined> {
  const owner = ownerOf(userId);
  // Ids are UUID v7: their first six bytes are milliseconds.
  const named = Number.parseInt(ownerOf(id).slice(0, 12), 16);
  const earliest = named - ID_LEAD_MS;
  const latest = named + ID_LAG_MS + (by === OWN_ID[kind] ? 0 : LIFE_MS[by]);
  return orUnavailable(async () => {
    const left = await first<Left>(archive.db, leftOf(userId));
    if (left === undefined || (left[kind] ?? 0) < earliest) return undefined;
    const { epoch, number } = left;
    const stub = archive.history.getByName(historyName(owner));
    const key = { kind, by, id: ownerOf(id) };
    const request = { newest: { epoch, number }, key, between: [earliest, latest] as const };
    let above: number | null = 0;
    for (let calls = 0; above !== null; calls++) {
      if (calls === MAX_CALLS) throw new Error("the record needs too many blocks");
      const found: Found = await stub.find(owner, { ...request, above });
      if (found.record !== null) return found.record;
      ({ above } = found);
    }
    return undefined;
  });
}

/** The archive has ids without dashes. */
function ownerOf(id: string): string {
  return id.replaceAll("-", "").toLowerCase();
}
