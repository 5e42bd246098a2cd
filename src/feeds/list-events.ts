/** Pages of an account stream, for readers that poll instead of holding a socket. */
import { problem, type Problem } from "../platform/problem.ts";
import { MAX_EXAMINED } from "../rfq/examined-page.ts";
import { accountStream } from "../streams/event-log.ts";
import { type EventMessage, eventMessage } from "../streams/render.ts";
import { EventsMissing, eventsBetween, goneReason, pollStream } from "../streams/replay.ts";
import { EVENT_VIEWS } from "./event-views.ts";

type EventsQuery = {
  readonly since?: number | undefined;
  readonly types?: readonly string[] | undefined;
  readonly limit: number;
};

/**
 * The user's events after `since`, by default all that are kept, oldest first. `next_since` is the
 * last number that was examined, so no later page misses one. Throws `events_gone`.
 */
export async function listEvents(
  db: D1Database,
  userId: string,
  { since, types, limit }: EventsQuery,
) {
  const stream = accountStream(userId);
  const head = await pollStream(db, stream);
  const after = since ?? head.firstKept - 1;
  const gone = goneReason(after, head);
  if (gone !== undefined) throw eventsGone(gone, head.lastSeq);
  const examined = types === undefined || limit === 0 ? limit : MAX_EXAMINED;
  const upTo = Math.min(head.lastSeq, after + examined);
  const items: EventMessage[] = [];
  const pageTo = (seq: number) => ({ items, next_since: seq, last_seq: head.lastSeq });
  try {
    for await (const events of eventsBetween(db, stream, { after, upTo })) {
      for (const event of events) {
        const message = eventMessage(EVENT_VIEWS, event);
        if (types?.includes(message.type) !== false) items.push(message);
        if (items.length === limit) return pageTo(event.seq);
      }
    }
  } catch (error) {
    if (error instanceof EventsMissing)
      throw eventsGone("events after since are missing", head.lastSeq);
    throw error;
  }
  return pageTo(upTo);
}

function eventsGone(reason: string, lastSeq: number): Problem {
  return problem(
    "events_gone",
    `Not available, because ${reason}. Read balances, requests, quotes, matches, deposits and ` +
      `withdrawals, then continue with since=${lastSeq}.`,
    { last_seq: lastSeq },
  );
}
