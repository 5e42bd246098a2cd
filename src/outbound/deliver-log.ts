/**
 * Delivers a log of the database to one receiver, in order and at least once. Cron reads on from a
 * cursor, so no action waits for the receiver. The cursor moves only past messages that the
 * receiver has accepted: none is lost while it is away, and one may arrive twice.
 */
import type { AlertKind } from "../platform/alert-kinds.ts";
import { clearAlert, raiseAlert } from "../platform/alert.ts";
import { NOW } from "../platform/commit.ts";
import { all, first, type Sql, sql } from "../platform/sql.ts";
import { now } from "../platform/time.ts";
import { type Post, postOnce } from "./post-once.ts";

/** Of one invocation, because cron gives a task 25 s. A receiver has 10 s for the last message. */
const MAX_SENDING_MS = 12_000;
const LATE_MS = 15 * 60_000;

type Message = { readonly position: number; readonly post: Post };

export type LogPage = {
  /** In the order of the log. Each is sent once the one before it has been accepted. */
  readonly messages: readonly Message[];
  /** The last position that was read, of a message or not. */
  readonly through: number;
  readonly more: boolean;
};

export type DeliveredLog = {
  readonly name: "alerts" | "notices";
  /** Empty: nobody wants it. */
  readonly url: string;
  /** Where the first delivery begins, so that a new receiver does not get the whole history. */
  readonly start: Sql;
  readonly read: (after: number) => Promise<LogPage>;
  /** Raised if the receiver has accepted nothing for a quarter of an hour. */
  readonly late: AlertKind;
};

/** Cron task. Resolves to whether there is more to deliver. */
export async function deliverLog(db: D1Database, log: DeliveredLog): Promise<boolean> {
  if (log.url === "") return forget(db, log);
  const cursor = await readCursor(db, log);
  const { messages, through, more } = await log.read(cursor.position);
  const until = now() + MAX_SENDING_MS;
  let reached = cursor.position;
  for (const { position, post } of messages) {
    if (now() >= until) return move(db, log, { cursor, to: reached, more: true });
    if (!(await postOnce(post)).accepted) return fail(db, log, { cursor, reached });
    reached = position;
  }
  return move(db, log, { cursor, to: through, more });
}

type Cursor = { readonly position: number; readonly failing_since: number | null };

async function readCursor(db: D1Database, { name, start }: DeliveredLog): Promise<Cursor> {
  const known = sql`SELECT position, failing_since FROM delivery_cursors WHERE name = ${name}`;
  const cursor = await first<Cursor>(db, known);
  if (cursor !== undefined) return cursor;
  const [made] = await all<Cursor>(
    db,
    sql`INSERT INTO delivery_cursors (name, position) SELECT ${name}, (${start})
      WHERE 1 ON CONFLICT (name) DO UPDATE SET position = position
      RETURNING position, failing_since`,
  );
  if (made === undefined) throw new Error(`the cursor of the ${name} is missing`);
  return made;
}

/** A receiver that is set again later begins anew. */
async function forget(db: D1Database, { name, late }: DeliveredLog): Promise<false> {
  const [cursor] = await all(
    db,
    sql`DELETE FROM delivery_cursors WHERE name = ${name} RETURNING name`,
  );
  if (cursor !== undefined) await clearAlert(db, late, name);
  return false;
}

/** Only from where it was read: a pass that overlaps with another one does not move it back. */
async function move(
  db: D1Database,
  { name, late }: DeliveredLog,
  { cursor, to, more }: { cursor: Cursor; to: number; more: boolean },
): Promise<boolean> {
  if (to === cursor.position) return more;
  await all(
    db,
    sql`UPDATE delivery_cursors SET position = ${to}, failing_since = NULL
      WHERE name = ${name} AND position = ${cursor.position}`,
  );
  if (cursor.failing_since !== null) await clearAlert(db, late, name);
  return more;
}

async function fail(
  db: D1Database,
  { name, late }: DeliveredLog,
  { cursor: { position }, reached }: { cursor: Cursor; reached: number },
): Promise<false> {
  const since = reached === position ? sql`coalesce(failing_since, ${NOW})` : NOW;
  const [row] = await all<{ late: number }>(
    db,
    sql`UPDATE delivery_cursors SET position = ${reached}, failing_since = ${since}
      WHERE name = ${name} AND position = ${position}
      RETURNING failing_since <= ${NOW} - ${LATE_MS} AS late`,
  );
  if (row?.late === 1) await raiseAlert(db, late, name, `the receiver does not accept ${name}`);
  return false;
}
