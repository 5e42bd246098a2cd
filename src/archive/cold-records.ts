/** A user's own records that only the archive has. A read is 503 if the history is unreachable. */
import { historyIsCut } from "../ledger/released.ts";
import { near } from "../platform/near.ts";
import { expr, type Expr, first, literal, type Sql, sql, uuid } from "../platform/sql.ts";
import { ID_LAG_MS, ID_LEAD_MS } from "../platform/time.ts";
import type { BlockIndex, RecordsPage, RecordsRequest } from "./block-index.ts";
import { type Archive, bareId, historyName, orUnavailable } from "./ask-history.ts";
import { timeOf } from "./cold-page.ts";
import type { SealId } from "./footer.ts";
import {
  newestFirst,
  isOlder,
  positionOf,
  type RecordKey,
  type RecordKind,
  type RecordPosition,
  type SealedRecord,
} from "./record-page.ts";

export type RecordArchive = {
  readonly db: D1Database;
  readonly history: { readonly getByName: (name: string) => Pick<BlockIndex, "records"> };
};

export function recordArchive(env: Env): RecordArchive & Archive {
  return { db: env.DB, history: { getByName: (name) => near(env, env.HISTORY, name) } };
}

/** When the newest record of each kind that may have left was opened or made. Null: none has. */
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

export type ColdRecordPage = {
  readonly records: readonly SealedRecord[];
  /** All records that fit are listed down to here. Null: to the oldest one. */
  readonly completeTo: RecordPosition | null;
};

/** Records after a position, newest first. The page may end early, but never where it began. */
export function coldPage(
  archive: RecordArchive,
  userId: string,
  request: Omit<RecordsRequest, "from">,
): Promise<ColdRecordPage> {
  const { after } = request;
  return orUnavailable(() =>
    readPage(archive, userId, request, (read) => after === null || isOlder(read, after)),
  );
}

/** Calls of a page. Each reads hundreds of blocks, so only many that overlap need several. */
const MAX_CALLS = 20;
/** Sorts after all ids of an instant. */
const LAST_ID = "f".repeat(32);

/** `mayEnd` says whether the page may end although it is complete only down to a position. */
async function readPage(
  { history }: RecordArchive,
  userId: string,
  request: Omit<RecordsRequest, "from">,
  mayEnd: (completeTo: RecordPosition) => boolean,
): Promise<ColdRecordPage> {
  const owner = bareId(userId);
  const stub = history.getByName(historyName(owner));
  const { limit } = request;
  let records: readonly SealedRecord[] = [];
  let from: RecordsRequest["from"] = null;
  for (let calls = 0; calls < MAX_CALLS; calls++) {
    const page: RecordsPage = await stub.records(owner, { ...request, from });
    records = newestFirst([...records, ...page.records]).slice(0, limit);
    const last = records[limit - 1];
    const end = last === undefined ? null : positionOf(last);
    from = page.next;
    // What was read is complete above the newest record of the next block.
    if (from === null || (end !== null && end.at > from.at)) return { records, completeTo: end };
    const completeTo = { at: from.at, id: LAST_ID };
    if (mayEnd(completeTo)) return { records, completeTo };
  }
  throw new Error("the page needs too many blocks");
}

/** A match is made at most so long after the record that names it was opened. */
const LIFE_MS = { request_id: 86_400_000, quote_id: 300_000, match_id: 0 } as const;
const OWN_ID = { requests: "request_id", quotes: "quote_id", matches: "match_id" } as const;

/** One record of the user by its id, or a match by that of its quote or request. */
export function findCold(
  archive: RecordArchive,
  userId: string,
  { kind, by, id }: RecordKey & { readonly kind: RecordKind },
): Promise<SealedRecord | undefined> {
  const key = { by, id: bareId(id) };
  const named = timeOf(key.id);
  const from = named - ID_LEAD_MS;
  const to = named + ID_LAG_MS + (by === OWN_ID[kind] ? 0 : LIFE_MS[by]);
  return orUnavailable(async () => {
    const left = await first<Left>(archive.db, leftOf(userId));
    if (left === undefined || (left[kind] ?? 0) < from) return undefined;
    const { epoch, number } = left;
    const filter = { kind, key, from, to };
    const request = { newest: { epoch, number }, filter, after: null, limit: 1 };
    const { records } = await readPage(archive, userId, request, () => false);
    return records[0];
  });
}
