/**
 * Ends open requests and quotes that nobody named: of a user (freeze), of credentials that lost
 * their rights, a venue (pause) or markets (close). A record that cannot be ended is set aside, so
 * it stops no other.
 */
import { holdUntil } from "../auth/hold.ts";
import { sessionsMayTrade } from "../auth/policy.ts";
import type { Venue } from "../platform/venues.ts";
import { inChunks } from "../platform/chunks.ts";
import { type Group, newGroup, NOW } from "../platform/commit.ts";
import {
  all,
  and,
  type Expr,
  expr,
  FALSE,
  type Sql,
  sql,
  TRUE,
  uuid,
  uuids,
} from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import type { Pusher } from "../streams/event-log.ts";
import { pusherOf } from "../streams/notify.ts";
import { announceRfq } from "./announce-rfq.ts";
import { closeEach, closeStatement, commitEnds, countEnded } from "./close-quotes.ts";
import { inBook } from "./examined-page.ts";
import { readIds } from "./expire.ts";
import { ENDABLE, endedAs, endedBy } from "./ended.ts";
import { findCulprits, setAside } from "./set-aside.ts";

/** Requests that one batch of a market close ends, each with its quotes, at most 1 000. */
const REQUESTS_PER_BATCH = 50;

/**
 * What ends: all that a user has open, or the open quotes of revoked keys, and those of sessions if
 * these may not trade. `sessions`: their quotes end in any case.
 */
export type Ending = { readonly userId: string; readonly of: "user" | "sessions" | "lost_rights" };

function quotesOf({ userId, of }: Ending, at: Expr): Sql {
  const user = uuid(userId);
  const revoked = sql`SELECT api_key_id FROM api_keys
    WHERE user_id = ${user} AND revoked_at IS NOT NULL`;
  const sessionsEnd =
    of === "sessions"
      ? TRUE
      : expr`(NOT ${sessionsMayTrade(user, at)} OR ${holdUntil(user, at)} > ${at})`;
  return sql`maker_id = ${user} AND (${of === "user" ? TRUE : FALSE}
    OR credential IN (${revoked}) OR (credential = ${user} AND ${sessionsEnd}))`;
}

/**
 * Statements and events for the batch that freezes a user or ends credentials, whose guard is
 * `applied`. They cancel the open quotes, and of a user the open requests with all quotes on them.
 */
export function closeAllOf(group: Group, ending: Ending, applied: Sql): Sql[] {
  const ofUser = sql`requester_id = ${uuid(ending.userId)} AND ${applied}`;
  return [
    closeStatement(group, { which: (at) => sql`${quotesOf(ending, at)} AND ${applied}` }),
    ...(ending.of === "user" ? endRequests(group, ofUser) : []),
    ...announceRfq(group),
  ];
}

/** Ends the same in groups of its own, for what that batch could not end. */
export async function closeEachOf(env: Env, ending: Ending): Promise<void> {
  const to = pusherOf(env);
  await closeEach(to, { which: (at) => quotesOf(ending, at) });
  if (ending.of !== "user") return;
  const requests = sql`SELECT request_id FROM requests
    WHERE requester_id = ${uuid(ending.userId)} AND ${ENDABLE}`;
  for (const ids of inChunks(await readIds(env.DB, requests, "request_id"), REQUESTS_PER_BATCH))
    await endRequestsOneByOne(to, ids);
}

/** Closes a venue for new business, then cancels its open requests. Returns their number. */
export async function pauseVenue(env: Env, venue: Venue): Promise<number> {
  await all(
    env.DB,
    sql`INSERT INTO paused_venues (venue, since) SELECT ${venue}, ${NOW} WHERE NOT EXISTS (SELECT 1
      FROM paused_venues WHERE venue = ${venue})`,
  );
  return cancelOpenRequests(env, and(inBook("asset", { venue })));
}

/** Cancels open requests in batches, by a condition on `requests`. Returns their number. */
export async function cancelOpenRequests(env: Env, which: Sql): Promise<number> {
  const open = sql`SELECT request_id FROM requests WHERE ${ENDABLE} AND ${which}
    LIMIT ${REQUESTS_PER_BATCH}`;
  for (let cancelled = 0; ;) {
    const ids = await readIds(env.DB, open, "request_id");
    if (ids.length === 0) return cancelled;
    cancelled += await endRequestsOneByOne(pusherOf(env), ids);
  }
}

export async function resumeVenue(db: D1Database, venue: Venue): Promise<boolean> {
  const resumed = sql`DELETE FROM paused_venues WHERE venue = ${venue} RETURNING venue`;
  return (await all(db, resumed)).length > 0;
}

/** Ends requests, together if possible, and sets aside the others. Returns the number ended. */
export async function endRequestsOneByOne(to: Pusher, ids: readonly string[]): Promise<number> {
  const groups: Group[] = [];
  const end = (some: readonly string[]) => {
    const group = newGroup();
    groups.push(group);
    return commitEnds(to, group, endRequests(group, sql`request_id IN (${uuids(some)})`));
  };
  for (const id of await findCulprits(ids, end)) {
    // A quote on it may be what cannot be ended.
    await closeEach(to, { as: "rejected", which: () => sql`request_id = ${uuid(id)}` });
    if (!(await end([id]))) await setAside(to.db, { table: "requests", ids: [id] });
  }
  return countEnded(to.db, "requests", groups);
}

function endRequests(group: Group, which: Sql): Sql[] {
  const operation = uuidv7();
  const ofThese = sql`request_id IN (SELECT request_id FROM requests
    WHERE ${endedBy(group, operation)})`;
  return [
    sql`UPDATE requests SET status = ${endedAs("cancelled", group)}, ended_by = ${uuid(operation)},
      ended_group = ${group.seq} WHERE ${ENDABLE} AND ${which}`,
    closeStatement(group, { as: "rejected", which: () => ofThese }, operation),
  ];
}
