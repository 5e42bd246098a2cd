/** Pages of an account stream, for readers that poll instead of holding a socket. */
import { examining } from "../http/cursor.ts";
import { problem, type Problem } from "../platform/problem.ts";
import { MAX_EXAMINED } from "../rfq/examined-page.ts";
import { accountStream } from "../streams/event-log.ts";
import { type EventMessage, eventMessage } from "../streams/render.ts";
import { EventsMissing, goneReason, pollStream, readEvents } from "../streams/replay.ts";
import { codesOfTypes, EVENT_VIEWS } from "./event-views.ts";

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
  const pageTo = (seq: number, items: EventMessage[] = []) =>
    examining({ items, next_since: seq, last_seq: head.lastSeq }, seq - after);
  const upTo = Math.min(head.lastSeq, after + (types === undefined ? limit : MAX_EXAMINED));
  if (limit === 0) return pageTo(after);
  const codes = types === undefined ? undefined : codesOfTypes(types);
  try {
    const events = await readEvents(db, stream, { after, upTo, codes, limit });
    const items = events.map((event) => eventMessage(EVENT_VIEWS, event));
    const last = items.length === limit ? events.at(-1)?.seq : undefined;
    return pageTo(last ?? upTo, items);
  } catch (error) {
    if (error instanceof EventsMissing)
      throw eventsGone("events after since are missing", head.lastSeq);
    throw error;
  }
}

function eventsGone(reason: string, lastSeq: number): Problem {
  return problem(
    "events_gone",
    `Not available, because ${reason}. Read balances, requests, quotes, matches, deposits and ` +
      `withdrawals, then continue with since=${lastSeq}.`,
    { last_seq: lastSeq },
  );
}
