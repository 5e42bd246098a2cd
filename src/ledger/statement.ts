/** Streams a user's entries as text, in chunks, so that only one is in memory and blocks D1. */
import { NOW } from "../platform/commit.ts";
import { invalidRequest, Problem } from "../platform/problem.ts";
import { all, expr, scalar, sql, uuid } from "../platform/sql.ts";
import { hasAmounts, type LedgerFilter } from "./filter.ts";
import { countEntries, type EntryRow, readEntries } from "./history.ts";
import type { OldRows } from "./old-rows.ts";

export const MAX_STATEMENT_ROWS = 1_000_000;
/** A chunk usually takes one query, and an invocation may send D1 about a thousand. */
const CHUNK_ROWS = 10_000;

/** The text of a statement. Its last line shows that it is complete, as no error can follow. */
export type StatementFormat = {
  readonly header: string;
  readonly line: (row: EntryRow) => string;
  readonly end: (rows: number) => string;
};

/** The user, and whether their credential still is valid. It is asked before each chunk. */
export type StatementReader = {
  readonly userId: string;
  readonly old: OldRows;
  readonly mayContinue: () => Promise<boolean>;
};

/**
 * Returns the entries up to the newest one now, newest first. Throws `rate_limited` while another
 * statement of the user is written, and `invalid_request` for more entries than the limit.
 */
export async function readStatement(
  db: D1Database,
  reader: StatementReader,
  filter: LedgerFilter,
  format: StatementFormat,
): Promise<ReadableStream<Uint8Array>> {
  const lease = await takeLease(db, reader.userId);
  try {
    return await streamEntries(db, reader, filter, { format, lease });
  } catch (error) {
    await lease.release();
    throw error;
  }
}

async function streamEntries(
  db: D1Database,
  { userId, old, mayContinue }: StatementReader,
  filter: LedgerFilter,
  { format, lease }: { format: StatementFormat; lease: StatementLease },
): Promise<ReadableStream<Uint8Array>> {
  const aboveNewest = expr`SELECT coalesce(max(transfer_id), 0) * 2 + 2 FROM transfers`;
  let before = BigInt(await scalar<number>(db, aboveNewest));
  await rejectIfTooLong(db, { userId, old }, filter, before);
  const text = new TextEncoder();
  let rows = 0;
  const readChunk = async () => {
    // A client that reads slowly may lose the lease to its next statement.
    if (!(await lease.renew())) throw new Error("another statement has begun");
    if (!(await mayContinue())) throw new Error("the credential has ended");
    const chunk = await readEntries(db, userId, filter, { before, limit: CHUNK_ROWS }, old);
    if (chunk.next === null) await lease.release();
    return chunk;
  };
  return new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(text.encode(format.header)),
    pull: async (controller) => {
      const chunk = await readChunk().catch(async (error: unknown) => {
        await lease.release();
        throw error;
      });
      rows += chunk.rows.length;
      const lines = chunk.rows.map(format.line).join("");
      const ended = chunk.next === null;
      controller.enqueue(text.encode(ended ? lines + format.end(rows) : lines));
      if (chunk.next === null) return controller.close();
      before = chunk.next;
    },
    cancel: () => lease.release(),
  });
}

/** Counts the entries from the indexes alone, up to one above the limit. A record has only few. */
async function rejectIfTooLong(
  db: D1Database,
  { userId, old }: Pick<StatementReader, "userId" | "old">,
  filter: LedgerFilter,
  before: bigint,
): Promise<void> {
  if (filter.refId !== undefined) return;
  const count = (counted: LedgerFilter) =>
    countEntries(db, userId, counted, { before, most: MAX_STATEMENT_ROWS + 1 }, old);
  // Entries of any amount are cheaper to count, and usually they are few enough.
  const anyAmount = { ...filter, minAmount: undefined, maxAmount: undefined };
  if ((await count(anyAmount)) <= MAX_STATEMENT_ROWS) return;
  if (hasAmounts(filter) && (await count(filter)) <= MAX_STATEMENT_ROWS) return;
  const message = `more than ${MAX_STATEMENT_ROWS} entries match; set a shorter period`;
  throw invalidRequest([
    { path: "query.from", message },
    { path: "query.to", message },
  ]);
}

/**
 * A user has one statement written at a time, because each reads up to a million entries. The lease
 * is a row of D1, which all isolates share. It is taken for a minute, renewed with each chunk and
 * deleted at the end.
 */
export const LEASE_MS = 60_000;
const RETRY_SECS = 5;

type StatementLease = {
  /** False if the lease has expired and another statement has taken it. */
  readonly renew: () => Promise<boolean>;
  readonly release: () => Promise<void>;
};

/** Throws `rate_limited` while another statement of the user is being written. */
async function takeLease(db: D1Database, userId: string): Promise<StatementLease> {
  const token = crypto.randomUUID();
  const taken = await all(
    db,
    sql`INSERT INTO statement_leases (user_id, token, expires_at)
      SELECT ${uuid(userId)}, ${token}, ${NOW} + ${LEASE_MS} WHERE 1
      ON CONFLICT (user_id) DO UPDATE SET token = excluded.token, expires_at = excluded.expires_at
        WHERE expires_at <= ${NOW}
      RETURNING 1`,
  );
  if (taken.length === 0)
    throw new Problem({
      code: "rate_limited",
      detail: "Another statement of yours is being written. Wait until it is complete.",
      retryAfterSecs: RETRY_SECS,
    });
  const mine = sql`user_id = ${uuid(userId)} AND token = ${token}`;
  return {
    renew: async () => {
      const renewed = await all(
        db,
        sql`UPDATE statement_leases SET expires_at = ${NOW} + ${LEASE_MS} WHERE ${mine}
          RETURNING 1`,
      );
      return renewed.length > 0;
    },
    release: async () => {
      await all(db, sql`DELETE FROM statement_leases WHERE ${mine}`);
    },
  };
}
