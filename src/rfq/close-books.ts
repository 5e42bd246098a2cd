/**
 * Ends open requests and quotes that nobody named: of one user (freeze), of revoked keys, of one
 * venue (pause) or of markets (close). A record that cannot be ended is set aside, so that it does
 * not stop the others.
 */
import type { Venue } from "../platform/venues.ts";
import { inChunks } from "../platform/chunks.ts";
import { commit, type Group, newGroup, NOW } from "../platform/commit.ts";
import { unavailable } from "../platform/problem.ts";
import { all, first, type Sql, sql, uuid } from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { eventsToPush, type StreamEvent } from "../streams/event-log.ts";
import { notifyStreams } from "../streams/notify.ts";
import { announceRfq, NOTHING_MADE } from "./announce-rfq.ts";
import { readIds } from "./expire.ts";
import { endedAs, endedBy } from "./ended.ts";
import { findCulprits, setAside } from "./set-aside.ts";

/**
 * Requests that one batch of a market close ends. Their quotes, at most 1 000 each, end with them.
 */
const REQUESTS_PER_BATCH = 50;
const QUOTES_PER_BATCH = 500;

/** What can be ended. A record that was set aside waits for the operator. */
const ENDABLE = sql`status = 'open' AND stuck_at IS NULL`;

/** What ends: all that a user has open, or the open quotes of their revoked keys. */
export type Ending = { readonly userId: string; readonly of: "user" | "revoked_keys" };

function quotesOf({ userId, of }: Ending): Sql {
  const revoked = sql`AND credential IN (SELECT api_key_id FROM api_keys
    WHERE user_id = ${uuid(userId)} AND revoked_at IS NOT NULL)`;
  return sql`maker_id = ${uuid(userId)} ${of === "user" ? sql`` : revoked} AND ${ENDABLE}`;
}

/**
 * Statements for the batch that freezes a user or revokes keys. They cancel the open quotes, and of
 * a user the open requests with other makers' quotes on them. They announce the
 * changes. `applied` is the guard of that batch.
 */
export function closeAllOf(group: Group, ending: Ending, applied: Sql): Sql[] {
  const operation = uuidv7();
  const ofUser = sql`requester_id = ${uuid(ending.userId)} AND ${applied}`;
  return [
    sql`UPDATE quotes SET status = ${endedAs("cancelled", group)}, ended_by = ${uuid(operation)},
      ended_group = ${group.seq} WHERE ${quotesOf(ending)} AND ${applied}`,
    ...(ending.of === "user" ? endRequests(group, operation, ofUser) : []),
    ...announceRfq(group, NOTHING_MADE),
  ];
}

/** Ends the same in groups of its own, for what that batch could not end. */
export async function closeEachOf(env: Env, ending: Ending): Promise<void> {
  const quotes = sql`SELECT quote_id FROM quotes WHERE ${quotesOf(ending)}`;
  for (const ids of inChunks(await readIds(env.DB, quotes, "quote_id"), QUOTES_PER_BATCH))
    await endQuotesOneByOne(env, ids, "cancelled");
  if (ending.of !== "user") return;
  const requests = sql`SELECT request_id FROM requests
    WHERE requester_id = ${uuid(ending.userId)} AND ${ENDABLE}`;
  for (const ids of inChunks(await readIds(env.DB, requests, "request_id"), REQUESTS_PER_BATCH))
    await endRequestsOneByOne(env, ids);
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
  return cancelOpenRequests(env, sql`asset >= ${`${venue}:`} AND asset < ${`${venue};`}`);
}

/**
 * Cancels open requests in batches. `which` is a condition on `requests`. Returns the number
 * cancelled.
 */
export async function cancelOpenRequests(env: Env, which: Sql): Promise<number> {
  const open = sql`SELECT request_id FROM requests WHERE ${ENDABLE} AND ${which}
    LIMIT ${REQUESTS_PER_BATCH}`;
  for (let cancelled = 0; ;) {
    const ids = await readIds(env.DB, open, "request_id");
    if (ids.length === 0) return cancelled;
    cancelled += await endRequestsOneByOne(env, ids);
  }
}

export async function resumeVenue(db: D1Database, venue: Venue): Promise<boolean> {
  return (
    (await all(db, sql`DELETE FROM paused_venues WHERE venue = ${venue} RETURNING venue`)).length >
    0
  );
}

/**
 * Ends requests, together if possible. Sets aside what cannot be ended. Returns the number ended.
 */
async function endRequestsOneByOne(env: Env, ids: readonly string[]): Promise<number> {
  let ended = 0;
  const end = async (some: readonly string[]) => {
    const group = newGroup();
    const committed = await commitClose(
      env,
      group,
      endRequests(group, uuidv7(), sql`request_id IN (${named(some)})`),
    );
    const count = sql`SELECT count(*) AS n FROM requests WHERE ended_group = ${group.seq}`;
    if (committed) ended += (await first<{ n: number }>(env.DB, count))?.n ?? 0;
    return committed;
  };
  for (const id of await findCulprits(ids, end)) {
    // A quote on it may be what cannot be ended.
    const quotes = sql`SELECT quote_id FROM quotes
      WHERE request_id = ${uuid(id)} AND ${ENDABLE}`;
    await endQuotesOneByOne(env, await readIds(env.DB, quotes, "quote_id"), "rejected");
    if (!(await end([id]))) await setAside(env.DB, { table: "requests", ids: [id] });
  }
  return ended;
}

async function endQuotesOneByOne(
  env: Env,
  ids: readonly string[],
  status: "cancelled" | "rejected",
): Promise<void> {
  const culprits = await findCulprits(ids, (some) => {
    const group = newGroup();
    const operation = uuidv7();
    return commitClose(env, group, [
      sql`UPDATE quotes SET status = ${endedAs(status, group)}, ended_by = ${uuid(operation)},
        ended_group = ${group.seq} WHERE quote_id IN (${named(some)}) AND ${ENDABLE}`,
    ]);
  });
  await setAside(env.DB, { table: "quotes", ids: culprits });
}

/** Returns false if a constraint failed, so that nothing was written. */
async function commitClose(env: Env, group: Group, statements: readonly Sql[]): Promise<boolean> {
  const outcome = await commit(env.DB, group, [...statements, ...announceRfq(group, NOTHING_MADE)]);
  if (outcome.committed)
    await notifyStreams(env, await all<StreamEvent>(env.DB, eventsToPush(group)));
  // The freeze or the pause has taken effect, and so have the batches before.
  else if (outcome.reason === "lost") throw unavailable("unknown");
  return outcome.committed;
}

function endRequests(group: Group, operation: string, which: Sql): Sql[] {
  return [
    sql`UPDATE requests SET status = ${endedAs("cancelled", group)}, ended_by = ${uuid(operation)},
      ended_group = ${group.seq} WHERE ${ENDABLE} AND ${which}`,
    sql`UPDATE quotes SET status = ${endedAs("rejected", group)}, ended_by = ${uuid(operation)},
      ended_group = ${group.seq}
      WHERE ${ENDABLE} AND request_id IN (SELECT request_id FROM requests
        WHERE ${endedBy(group, operation)})`,
  ];
}

function named(ids: readonly string[]): Sql {
  return sql`SELECT unhex(value, '-') FROM json_each(${JSON.stringify(ids)})`;
}
