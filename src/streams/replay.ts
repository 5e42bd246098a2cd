/** What a new subscriber receives before live messages: a snapshot, or events after `since`. */
import { NOW } from "../platform/commit.ts";
import { all, batch, expr, type Sql, sql, TRUE } from "../platform/sql.ts";
import { ACTIVE_WITHIN_MS, openStreams } from "../platform/announce.ts";
import type { StreamEvent } from "./event-log.ts";

/** A subscriber further behind than this receives a snapshot instead. */
export const MAX_REPLAY = 10_000;
const PAGE = 1_000;
export const MAX_SNAPSHOT_FRAME_BYTES = 256 * 1_024;

/** A stream with sockets, for as long as it has any. */
export type Registration = { readonly stream: string; readonly token: string };

type Rows = readonly (readonly unknown[])[];

export type StreamHead = { readonly lastSeq: number; readonly firstKept: number };

/** Provided by the domains that own the records. */
export type Snapshot = readonly SnapshotPart[];

export type SnapshotPart = {
  /** The member of the message's `data` that holds the records. */
  readonly name: string;
  readonly statement: Sql;
  /** A row of `statement` in its wire form. */
  readonly view: (row: unknown) => object;
};

/** What a new subscriber asks for. Undefined for nothing but the head. */
export type Wanted = { readonly snapshot: Snapshot } | { readonly since: number } | undefined;

/** Registers and reads head and rows in one batch, so the rows stand exactly at the head. */
export async function openStream(
  db: D1Database,
  { stream, token }: Registration,
  wanted: Wanted,
): Promise<StreamHead & { rows: Rows }> {
  const statements = [
    // A token sorts above those of earlier registrations, which may arrive after it.
    sql`INSERT INTO stream_subscribers (name, token, since) VALUES (${stream}, ${token}, ${NOW})
      ON CONFLICT (name) DO UPDATE SET token = excluded.token, since = excluded.since
        WHERE excluded.token > token`,
    // Without it the first number could change while it has subscribers.
    openStreams(sql`SELECT ${stream} AS stream`, NOW),
    headOf(stream),
    ...rowsOf(stream, wanted),
  ];
  const [, , head, ...rows] = await batch(db, statements);
  return { ...readHead(stream, head), rows };
}

function headOf(stream: string): Sql {
  return sql`SELECT last_seq AS lastSeq, first_seq AS firstKept FROM streams WHERE name = ${stream}`;
}

/** Safe cast: the rows of `headOf`. */
function readHead(stream: string, rows: readonly unknown[] | undefined): StreamHead {
  const row = rows?.[0] as StreamHead | undefined;
  if (row === undefined) throw new Error(`no head for ${stream}`);
  return row;
}

function rowsOf(stream: string, wanted: Wanted): Sql[] {
  if (wanted === undefined) return [];
  if ("snapshot" in wanted) return wanted.snapshot.map((part) => part.statement);
  const { since } = wanted;
  return [
    eventsAfter(
      stream,
      since,
      sql`s.last_seq > ${since} AND s.first_seq <= ${since + 1}
        AND s.last_seq <= ${since + MAX_REPLAY}`,
    ),
  ];
}

/** The head of a stream for a reader that polls, who keeps the stream as a subscriber does. */
export async function pollStream(db: D1Database, stream: string): Promise<StreamHead> {
  const [, , head] = await batch(db, [
    openStreams(sql`SELECT ${stream} AS stream`, NOW),
    sql`UPDATE streams SET active_at = ${NOW}
        WHERE name = ${stream} AND active_at < ${NOW} - ${ACTIVE_WITHIN_MS}`,
    headOf(stream),
  ]);
  return readHead(stream, head);
}

/** Why a subscriber cannot receive the events after `since`; undefined when it can. */
export function resyncReason(since: number, head: StreamHead): string | undefined {
  const gone = goneReason(since, head);
  if (gone !== undefined) return gone;
  if (head.lastSeq - since > MAX_REPLAY) return `since is more than ${MAX_REPLAY} events behind`;
  return undefined;
}

/** Why the events after `since` cannot be read; undefined when they can. */
export function goneReason(since: number, head: StreamHead): string | undefined {
  if (since > head.lastSeq) return "since is above the stream's last number";
  if (since < head.lastSeq && since + 1 < head.firstKept)
    return "the events after since are no longer kept";
  return undefined;
}

/** The log has no event with a number that it must contain. */
export class EventsMissing extends Error {
  constructor(stream: string, after: number) {
    super(`${stream} has no event after ${after}`);
    this.name = "EventsMissing";
  }
}

/** Pages of events in (after, upTo]; `first` if read already. Throws `EventsMissing` on a gap. */
export async function* eventsBetween(
  db: D1Database,
  stream: string,
  { after, upTo, first }: { after: number; upTo: number; first?: readonly StreamEvent[] },
): AsyncGenerator<readonly StreamEvent[]> {
  for (let from = after; from < upTo;) {
    const known = from === after ? first : undefined;
    const page =
      known ?? (await all<StreamEvent>(db, eventsAfter(stream, from, sql`e.seq <= ${upTo}`)));
    const last = page.at(-1);
    if (last?.seq !== from + page.length) throw new EventsMissing(stream, from);
    yield page;
    from = last.seq;
  }
}

type EventRange = {
  readonly after: number;
  readonly upTo: number;
  /** The types that are wanted. Undefined: all. */
  readonly codes: readonly number[] | undefined;
  readonly limit: number;
};

/** Up to `limit` events in (after, upTo], oldest first. Throws `EventsMissing` on a gap there. */
export async function readEvents(
  db: D1Database,
  stream: string,
  { after, upTo, codes, limit }: EventRange,
): Promise<readonly StreamEvent[]> {
  const wanted =
    codes === undefined
      ? TRUE
      : expr`e.code IN (SELECT value FROM json_each(${JSON.stringify(codes)}))`;
  // Safe cast: the columns of the two statements.
  const [[kept], events] = (await batch(db, [
    sql`SELECT coalesce(sum(min(r.last_seq, ${upTo}) - max(r.first_seq - 1, ${after})), 0) AS events
      FROM streams s CROSS JOIN event_runs r ON r.stream_id = s.stream_id
      WHERE s.name = ${stream} AND r.last_seq > ${after} AND r.first_seq <= ${upTo}`,
    eventsAfter(stream, after, sql`e.seq <= ${upTo} AND ${wanted}`, limit),
  ])) as [[{ events: number }], StreamEvent[]];
  if (kept.events !== upTo - after) throw new EventsMissing(stream, after);
  return events;
}

/** A page of the events after a number, oldest first, that also fulfil `and`. */
function eventsAfter(stream: string, after: number, and: Sql, limit = PAGE): Sql {
  return sql`SELECT s.name AS stream, e.seq, e.at, e.ids, e.body
    FROM streams s CROSS JOIN stream_events e ON e.stream_id = s.stream_id
    WHERE s.name = ${stream} AND e.run_seq > ${after} AND e.seq > ${after} AND ${and}
    ORDER BY e.run_seq, e.seq LIMIT ${limit}`;
}

/** Frames of at most 256 KiB, each with a list for each part; one frame if there are no records. */
export function snapshotFrames(
  snapshot: Snapshot,
  rows: Rows,
  wanted: (record: object) => boolean = () => true,
): Record<string, unknown>[] {
  const empty = () => new Map(snapshot.map(({ name }) => [name, [] as unknown[]]));
  const frames: Record<string, unknown>[] = [];
  let current = empty();
  let size = 0;
  for (const [index, { name, view }] of snapshot.entries()) {
    for (const row of rows[index] ?? []) {
      const record = view(row);
      if (!wanted(record)) continue;
      const bytes = JSON.stringify(record).length + 1;
      if (size + bytes > MAX_SNAPSHOT_FRAME_BYTES - 512) {
        frames.push({ ...Object.fromEntries(current), more: true });
        current = empty();
        size = 0;
      }
      current.get(name)?.push(record);
      size += bytes;
    }
  }
  frames.push({ ...Object.fromEntries(current), more: false });
  return frames;
}
