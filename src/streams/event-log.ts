/**
 * Streams are a table. An event is written in the batch of its change, so it exists exactly when
 * the change does. Objects only push it. What an audience may not see is left out of the row.
 */
import { commit, type Committed, committedRows, type Group } from "../platform/commit.ts";
import { firstRunOf } from "../platform/announce.ts";
import type { StoredEvent } from "../platform/event-forms.ts";
import { all, expr, type Sql, sql } from "../platform/sql.ts";

export const bookStream = (asset: string): string => `book:${asset}`;
export const venueStream = (venue: string): string => `venue:${venue}`;
export const accountStream = (userId: string): string => `account:${userId.toLowerCase()}`;

/** The user of an account stream. Undefined for another stream. */
export const userOfStream = (stream: string): string | undefined =>
  stream.startsWith("account:") ? stream.slice("account:".length) : undefined;

/** One event as it is stored. `readEvent` (platform/event-forms.ts) reads its columns. */
export type StreamEvent = StoredEvent & {
  readonly stream: string;
  readonly seq: number;
  readonly at: number;
};

/** The group's events to push. The last statement, so D1's order decides who is notified. */
export function eventsToPush(group: Group): Sql {
  // Reads the events only of streams that have subscribers.
  return sql`SELECT s.name AS stream, e.seq, e.at, e.ids, e.body
    FROM event_runs g CROSS JOIN streams s ON s.stream_id = g.stream_id
      CROSS JOIN stream_subscribers r ON r.name = s.name
      CROSS JOIN stream_events e ON e.run_id = g.run_id
    WHERE g.run_id >= ${firstRunOf(group.seq)} AND g.run_id < ${firstRunOf(expr`${group.seq} + 1`)}
    ORDER BY e.stream_id, e.seq`;
}

/** What `eventsToPush` found. Read again if D1's response was lost, so nobody waits for cron. */
export async function committedEvents(
  db: D1Database,
  group: Group,
  { rows }: Pick<Committed, "rows">,
): Promise<readonly StreamEvent[]> {
  // Safe cast: `eventsToPush` selects the columns of StreamEvent.
  return (rows?.at(-1) ?? (await all(db, eventsToPush(group)))) as readonly StreamEvent[];
}

/** Who commits, and where committed events go. */
export type Pusher = {
  readonly db: D1Database;
  readonly push: (events: readonly StreamEvent[]) => Promise<void>;
};

export async function commitAndPush(
  { db, push }: Pusher,
  group: Group,
  statements: readonly Sql[],
) {
  const result = await commit(db, group, [...statements, eventsToPush(group)]);
  if (!result.committed) return result;
  const events = await committedEvents(db, group, result);
  if (events.length > 0) await push(events);
  return result;
}

/** As `commitAndPush`, but throws as `commitOrThrow` does. Returns the rows of each statement. */
export async function pushOrThrow(
  to: Pusher,
  group: Group,
  statements: readonly Sql[],
): Promise<Committed["rows"]> {
  return committedRows(group, await commitAndPush(to, group, statements));
}
