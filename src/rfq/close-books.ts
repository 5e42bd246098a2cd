/**
 * Ends open requests and quotes for the operator: of one user (freeze) or of one venue (market
 * close).
 */
import type { Venue } from "../platform/venues.ts";
import { commitOrThrow, type Group, newGroup, NOW } from "../platform/commit.ts";
import { all, first, type Sql, sql, uuid } from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { eventsToPush, type StreamEvent } from "../streams/event-log.ts";
import { notifyStreams } from "../streams/notify.ts";
import { announceRfq } from "./announce.ts";
import { endedAs, releaseQuotesEndedBy } from "./release.ts";

/**
 * Requests that one batch of a market close ends. Their quotes, at most 1 000 each, end with them.
 */
const REQUESTS_PER_BATCH = 50;

/**
 * Statements for the batch that freezes a user. They cancel the user's open quotes and requests,
 * reject other makers' quotes on those requests, release every reserve and announce the changes.
 * `applied` is the guard of that batch.
 */
export function closeAllOf(group: Group, userId: string, applied: Sql): Sql[] {
  const operation = uuidv7();
  return [
    sql`UPDATE quotes SET status = ${endedAs("cancelled", group)}, ended_by = ${uuid(operation)},
      ended_group = ${group.seq}
      WHERE maker_id = ${uuid(userId)} AND status = 'open' AND ${applied}`,
    ...closeRequests(group, operation, sql`requester_id = ${uuid(userId)} AND ${applied}`),
  ];
}

/**
 * Closes a venue for new business, then cancels its open requests in batches. Returns the number
 * cancelled.
 */
export async function pauseVenue(env: Env, venue: Venue): Promise<number> {
  await all(
    env.DB,
    sql`INSERT INTO paused_venues (venue, since) SELECT ${venue}, ${NOW} WHERE NOT EXISTS (SELECT 1
      FROM paused_venues WHERE venue = ${venue})`,
  );
  for (let cancelled = 0; ;) {
    const group = newGroup();
    const open = sql`SELECT request_id FROM requests WHERE status = 'open'
      AND asset >= ${`${venue}:`} AND asset < ${`${venue};`} LIMIT ${REQUESTS_PER_BATCH}`;
    await commitOrThrow(
      env.DB,
      group,
      closeRequests(group, uuidv7(), sql`request_id IN (${open})`),
    );
    await notifyStreams(env, await all<StreamEvent>(env.DB, eventsToPush(group)));
    const ended =
      (
        await first<{ n: number }>(
          env.DB,
          sql`SELECT count(*) AS n FROM requests WHERE ended_group = ${group.seq}`,
        )
      )?.n ?? 0;
    cancelled += ended;
    if (ended < REQUESTS_PER_BATCH) return cancelled;
  }
}

export async function resumeVenue(db: D1Database, venue: Venue): Promise<boolean> {
  return (
    (await all(db, sql`DELETE FROM paused_venues WHERE venue = ${venue} RETURNING venue`)).length >
    0
  );
}

function closeRequests(group: Group, operation: string, which: Sql): Sql[] {
  return [
    sql`UPDATE requests SET status = ${endedAs("cancelled", group)}, ended_by = ${uuid(operation)},
      ended_group = ${group.seq} WHERE status = 'open' AND ${which}`,
    sql`UPDATE quotes SET status = ${endedAs("rejected", group)}, ended_by = ${uuid(operation)},
      ended_group = ${group.seq}
      WHERE status = 'open' AND request_id IN (SELECT request_id FROM requests
        WHERE ended_by = ${uuid(operation)})`,
    releaseQuotesEndedBy(group, operation),
    ...announceRfq(group),
  ];
}
