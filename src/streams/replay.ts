/** What a new reader must be sent before live messages: a snapshot, or the events after `since`. */
import { NOW } from "../platform/commit.ts";
import { all, prepare, type Sql, sql } from "../platform/sql.ts";
import { PUBLIC, type RequestRow, requestColumns, requestView, select } from "../rfq/records.ts";
import type { LoggedEvent } from "./event-log.ts";

/** Further behind than this, a reader is better served with a snapshot. */
const MAX_REPLAY = 10_000;
const PAGE = 1_000;
const MAX_FRAME_BYTES = 256 * 1_024;

export type StreamHead = { readonly lastSeq: number; readonly firstKept: number };

/** Registers the stream as read, then reads its head and, for public streams, its open requests: one batch, one instant. */
export async function openStream(
  db: D1Database,
  stream: string,
  withSnapshot: boolean,
): Promise<StreamHead & { requests: RequestRow[] }> {
  const statements = [
    sql`INSERT INTO stream_readers (name, since) SELECT ${stream}, ${NOW} WHERE NOT EXISTS (SELECT 1 FROM stream_readers WHERE name = ${stream})`,
    sql`SELECT coalesce((SELECT last_seq FROM streams WHERE name = ${stream}), 0) AS lastSeq,
      coalesce((SELECT first_seq FROM streams WHERE name = ${stream}), 1) AS firstKept`,
    ...(withSnapshot ? [openRequests(stream)] : []),
  ];
  const [, head, requests] = await db.batch(statements.map((statement) => prepare(db, statement)));
  const row = head?.results[0] as StreamHead | undefined;
  if (row === undefined) throw new Error(`no head for ${stream}`);
  return { ...row, requests: (requests?.results ?? []) as RequestRow[] };
}

export async function closeStream(db: D1Database, stream: string): Promise<void> {
  await all(db, sql`DELETE FROM stream_readers WHERE name = ${stream}`);
}

/** Why `since` cannot be replayed; undefined when it can. */
export function resyncReason(since: number, head: StreamHead): string | undefined {
  if (since > head.lastSeq) return "since is above the stream's last number";
  if (since < head.lastSeq && since + 1 < head.firstKept)
    return "the events after since are no longer kept";
  if (head.lastSeq - since > MAX_REPLAY) return `since is more than ${MAX_REPLAY} events behind`;
  return undefined;
}

/** The events in (after, upTo], in pages, oldest first. */
export async function* eventsBetween(
  db: D1Database,
  stream: string,
  after: number,
  upTo: number,
): AsyncGenerator<LoggedEvent[]> {
  for (let from = after; from < upTo;) {
    const page = await all<LoggedEvent>(
      db,
      sql`SELECT ${stream} AS stream, e.seq, e.at, e.type, e.body FROM stream_events e
        WHERE e.stream_id = (SELECT stream_id FROM streams WHERE name = ${stream}) AND e.seq > ${from} AND e.seq <= ${upTo}
        ORDER BY e.seq LIMIT ${PAGE}`,
    );
    const last = page.at(-1);
    if (last === undefined) return;
    yield page;
    from = last.seq;
  }
}

/** Requests in frames of at most 256 KiB; always at least one, so that an empty book is told too. */
export function snapshotFrames(
  rows: readonly RequestRow[],
): { requests: unknown[]; more: boolean }[] {
  const frames: { requests: unknown[]; more: boolean }[] = [];
  let current: unknown[] = [];
  let size = 0;
  for (const row of rows) {
    const view = requestView(row);
    const bytes = JSON.stringify(view).length + 1;
    if (size + bytes > MAX_FRAME_BYTES - 512) {
      frames.push({ requests: current, more: true });
      current = [];
      size = 0;
    }
    current.push(view);
    size += bytes;
  }
  frames.push({ requests: current, more: false });
  return frames;
}

function openRequests(stream: string): Sql {
  const scope = stream.startsWith("book:")
    ? sql`r.asset = ${stream.slice("book:".length)}`
    : sql`r.asset >= ${`${stream.slice("venue:".length)}:`} AND r.asset < ${`${stream.slice("venue:".length)};`}`;
  return sql`SELECT ${select(requestColumns(PUBLIC))} FROM requests r
    WHERE r.state = 'open' AND ${scope} AND +r.expires_at > ${NOW} ORDER BY r.asset, r.opened_at, r.request_id`;
}
