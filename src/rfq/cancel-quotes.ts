/** Cancels the maker's open quotes in every book, or those that match a filter, in one batch. */
import { count, eq } from "drizzle-orm";
import { actorRejection, mayWrite } from "../auth/may-write.ts";
import type { Venue } from "../platform/venues.ts";
import { commit, newGroup } from "../platform/commit.ts";
import { Problem, unavailable } from "../platform/problem.ts";
import { all, type Sql, sql, uuid } from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { eventsToPush, type StreamEvent } from "../streams/event-log.ts";
import { notifyStreams } from "../streams/notify.ts";
import { announceRfq } from "./announce.ts";
import { releaseQuotesEndedBy } from "./release.ts";
import type { Actor } from "../platform/actor.ts";
import { read } from "../platform/read.ts";
import { quotes } from "./tables.ts";

export type QuoteFilter = {
  readonly venue?: Venue | undefined;
  readonly assetId?: string | undefined;
  readonly requestId?: string | undefined;
};

const MAX_TRIES = 3;

export async function cancelQuotes(env: Env, actor: Actor, filter: QuoteFilter): Promise<number> {
  for (let attempt = 0; attempt < MAX_TRIES; attempt++) {
    const operation = uuidv7();
    const group = newGroup();
    const outcome = await commit(env.DB, group, [
      sql`UPDATE quotes SET status = 'cancelled', ended_by = ${uuid(operation)},
        ended_group = ${group.seq}
        WHERE maker_id = ${uuid(actor.userId)} AND status = 'open' AND expires_at > ${group.at}
          AND ${mayWrite(actor, group.at)} AND ${fitting(filter)}`,
      releaseQuotesEndedBy(group, operation),
      ...announceRfq(group),
    ]);
    if (!outcome.committed) continue;
    const [cancelled] = await read(env.DB, ({ select }) =>
      select({ quotes: count() }).from(quotes).where(eq(quotes.endedBy, operation)),
    );
    await notifyStreams(env, await all<StreamEvent>(env.DB, eventsToPush(group)));
    const n = cancelled?.quotes ?? 0;
    const denied = n === 0 ? await actorRejection(env.DB, actor) : undefined;
    if (denied !== undefined) throw new Problem(denied);
    return n;
  }
  throw unavailable("none");
}

function fitting({ venue, assetId, requestId }: QuoteFilter): Sql {
  const ofRequest = requestId === undefined ? sql`1` : sql`request_id = ${uuid(requestId)}`;
  if (venue === undefined) return ofRequest;
  const inBooks =
    assetId === undefined
      ? sql`asset >= ${`${venue}:`} AND asset < ${`${venue};`}`
      : sql`asset = ${`${venue}:${assetId}`}`;
  return sql`${ofRequest} AND ${inBooks}`;
}
