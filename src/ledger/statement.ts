/** All matching entries of a user as a stream of text, read in slices, so that memory and D1 see one slice at a time. */
import { invalidRequest } from "../platform/problem.ts";
import { first, sql } from "../platform/sql.ts";
import { hasAmounts, type LedgerFilter } from "./filter.ts";
import { countEntries, type EntryRow, readEntries } from "./history.ts";

const MAX_STATEMENT_ROWS = 1_000_000;
/** An invocation has some thousand queries of D1, and a slice mostly takes one. */
const SLICE_ROWS = 10_000;

/** Text of a statement; a file without the last line is incomplete, since an error cannot be told once it has begun. */
export type StatementFormat = {
  readonly header: string;
  readonly line: (row: EntryRow) => string;
  readonly end: (rows: number) => string;
};

/** Entries up to the last one now, newest first. Throws `invalid_request` when there are more than the limit. */
export async function readStatement(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  format: StatementFormat,
): Promise<ReadableStream<Uint8Array>> {
  const newest = await first<{ entry: number }>(
    db,
    sql`SELECT coalesce(max(transfer_id), 0) * 2 + 2 AS entry FROM transfers`,
  );
  let before = BigInt(newest?.entry ?? 0);
  await refuseIfLong(db, userId, filter, before);
  const text = new TextEncoder();
  let rows = 0;
  return new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(text.encode(format.header)),
    pull: async (controller) => {
      const slice = await readEntries(db, userId, filter, { before, limit: SLICE_ROWS });
      rows += slice.rows.length;
      const lines = slice.rows.map(format.line).join("");
      controller.enqueue(text.encode(slice.more ? lines : lines + format.end(rows)));
      if (!slice.more) return controller.close();
      before = BigInt(slice.rows.at(-1)?.entry_id ?? 0);
    },
  });
}

/** A record's own entries are few; everything else is counted in the indexes, up to one above the limit. */
async function refuseIfLong(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  before: bigint,
): Promise<void> {
  if (filter.refId !== undefined) return;
  const count = (counted: LedgerFilter) =>
    countEntries(db, userId, counted, { before, most: MAX_STATEMENT_ROWS + 1 });
  // Entries of any amount are counted without looking at one; mostly they are few enough.
  if (
    (await count({ ...filter, minAmount: undefined, maxAmount: undefined })) <= MAX_STATEMENT_ROWS
  )
    return;
  if (hasAmounts(filter) && (await count(filter)) <= MAX_STATEMENT_ROWS) return;
  const message = `more than ${MAX_STATEMENT_ROWS} entries match; narrow the statement with from and to`;
  throw invalidRequest([
    { path: "query.from", message },
    { path: "query.to", message },
  ]);
}
