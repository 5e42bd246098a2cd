/** Requests, quotes and matches of a block: what a list or a lookup selects. Pure. */
import type { Kind, Owner, SealedMatch, SealedQuote, SealedRequest } from "./sealed-columns.ts";

export type RecordKind = Exclude<Kind, "transfers">;
export type SealedRecord = SealedRequest | SealedQuote | SealedMatch;

/** The order of lists: newest first, then by id. Ids are hexadecimal. */
export type RecordPosition = { readonly at: number; readonly id: string };

export type RecordFilter = {
  readonly kind: RecordKind;
  /** The reader's own label. */
  readonly label?: string | undefined;
  readonly status?: string | undefined;
  /** Names one record, or the quotes of a request. */
  readonly key?: RecordKey | undefined;
  /** Of matches: the reader's part. */
  readonly role?: "requester" | "maker" | undefined;
  readonly venue?: string | undefined;
  readonly assetId?: string | undefined;
  /** Unix milliseconds, both included. */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
};

/** Names records by their own id, or by that of their quote or request. */
export type RecordKey = {
  readonly by: "request_id" | "quote_id" | "match_id";
  readonly id: string;
};

export function positionOf(record: SealedRecord): RecordPosition {
  if ("match_id" in record) return { at: record.at, id: record.match_id };
  const id = "quote_id" in record ? record.quote_id : record.request_id;
  return { at: record.opened_at, id };
}

/** Whether `a` comes after `b` in a list: it is older. */
export function isOlder(a: RecordPosition, b: RecordPosition): boolean {
  return a.at === b.at ? a.id < b.id : a.at < b.at;
}

export function newestFirst(records: readonly SealedRecord[]): SealedRecord[] {
  return records.toSorted((a, b) => (isOlder(positionOf(a), positionOf(b)) ? 1 : -1));
}

/** The records of an owner that fit and come after a position. */
export function recordsIn(
  all: readonly SealedRecord[],
  owner: Owner,
  filter: RecordFilter,
  after: RecordPosition | null,
): SealedRecord[] {
  return all.filter(
    (record) =>
      fits(record, owner, filter) && (after === null || isOlder(positionOf(record), after)),
  );
}

function fits(record: SealedRecord, owner: Owner, filter: RecordFilter): boolean {
  const { at } = positionOf(record);
  return (
    at >= (filter.from ?? 0) &&
    at <= (filter.to ?? Number.MAX_SAFE_INTEGER) &&
    fitsBook(record.asset, filter) &&
    (filter.label === undefined || labelOf(record, owner) === filter.label) &&
    (filter.role === undefined || roleOf(record, owner) === filter.role) &&
    (filter.status === undefined || ("status" in record && record.status === filter.status)) &&
    (filter.key === undefined || Reflect.get(record, filter.key.by) === filter.key.id)
  );
}

function fitsBook(asset: string, { venue, assetId }: RecordFilter): boolean {
  if (venue === undefined) return true;
  return assetId === undefined ? asset.startsWith(`${venue}:`) : asset === `${venue}:${assetId}`;
}

function roleOf(record: SealedRecord, owner: Owner): "requester" | "maker" | undefined {
  if (!("match_id" in record)) return undefined;
  return record.maker_id === owner ? "maker" : "requester";
}

function labelOf(record: SealedRecord, owner: Owner): string | null {
  if (!("match_id" in record)) return record.label;
  return record.maker_id === owner ? record.maker_label : record.requester_label;
}
