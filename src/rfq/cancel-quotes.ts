/** Cancels the maker's open quotes in every book, or those that match a filter, in one batch. */
import { actorRejection, mayWrite } from "../auth/may-write.ts";
import type { Venue } from "../platform/venues.ts";
import { commit, newGroup } from "../platform/commit.ts";
import { Problem, unavailable } from "../platform/problem.ts";
import { all, first, type Sql, sql, uuid } from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { eventsToPush, type StreamEvent } from "../streams/event-log.ts";
import { notifyStreams } from "../streams/notify.ts";
import { announceRfq, NOTHING_MADE } from "./announce-rfq.ts";
import { readIds } from "./expire.ts";

import { findCulprits, setAside } from "./set-aside.ts";
import type { Actor } from "../platform/actor.ts";

export type QuoteFilter = {
  readonly venue?: Venue | undefined;
  readonly assetId?: string | undefined;
  readonly requestId?: string | undefined;
  readonly label?: string | undefined;
};

const MAX_TRIES = 3;
/** Quotes that are cancelled one by one if they cannot be cancelled together. */
const MAX_QUOTES = 10_000;

export async function cancelQuotes(env: Env, actor: Actor, filter: QuoteFilter): Promise<number> {
  for (let attempt = 0; attempt < MAX_TRIES; attempt++) {
    const outcome = await cancelOpen(env, actor, fitting(filter));
    if (outcome === "lost") continue;
    const n = outcome === "constraint" ? await cancelEach(env, actor, filter) : outcome.cancelled;
    const denied = n === 0 ? await actorRejection(env.DB, actor) : undefined;
    if (denied !== undefined) throw new Problem(denied);
    return n;
  }
  throw unavailable("none");
}

/** Cancels what can be cancelled, and sets aside the quotes that prevent the others. */
async function cancelEach(env: Env, actor: Actor, filter: QuoteFilter): Promise<number> {
  let cancelled = 0;
  const open = sql`SELECT quote_id FROM quotes WHERE maker_id = ${uuid(actor.userId)}
    AND status = 'open' AND stuck_at IS NULL AND ${fitting(filter)} LIMIT ${MAX_QUOTES}`;
  const culprits = await findCulprits(await readIds(env.DB, open, "quote_id"), async (ids) => {
    const named = sql`SELECT unhex(value, '-') FROM json_each(${JSON.stringify(ids)})`;
    const outcome = await cancelOpen(env, actor, sql`quote_id IN (${named})`);
    if (outcome === "lost") throw unavailable("unknown");
    if (outcome !== "constraint") cancelled += outcome.cancelled;
    return outcome !== "constraint";
  });
  await setAside(env.DB, { table: "quotes", ids: culprits });
  return cancelled;
}

async function cancelOpen(
  env: Env,
  actor: Actor,
  which: Sql,
): Promise<{ cancelled: number } | "constraint" | "lost"> {
  const operation = uuidv7();
  const group = newGroup();
  const outcome = await commit(env.DB, group, [
    sql`UPDATE quotes SET status = 'cancelled', ended_by = ${uuid(operation)},
      ended_group = ${group.seq}
      WHERE maker_id = ${uuid(actor.userId)} AND status = 'open' AND stuck_at IS NULL
        AND expires_at > ${group.at} AND ${mayWrite(actor, group.at)} AND ${which}`,
    ...announceRfq(group, NOTHING_MADE),
  ]);
  if (!outcome.committed) return outcome.reason;
  const ended = sql`SELECT count(*) AS quotes FROM quotes WHERE ended_group = ${group.seq}`;
  const cancelled = await first<{ quotes: number }>(env.DB, ended);
  await notifyStreams(env, await all<StreamEvent>(env.DB, eventsToPush(group)));
  return { cancelled: cancelled?.quotes ?? 0 };
}

function fitting({ venue, assetId, requestId, label }: QuoteFilter): Sql {
  const ofRequest = requestId === undefined ? sql`1` : sql`request_id = ${uuid(requestId)}`;
  const labelled = label === undefined ? sql`1` : sql`label = ${label}`;
  if (venue === undefined) return sql`${ofRequest} AND ${labelled}`;
  const inBooks =
    assetId === undefined
      ? sql`asset >= ${`${venue}:`} AND asset < ${`${venue};`}`
      : sql`asset = ${`${venue}:${assetId}`}`;
  return sql`${ofRequest} AND ${labelled} AND ${inBooks}`;
}
