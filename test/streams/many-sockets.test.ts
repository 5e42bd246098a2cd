/** An event for many sockets is sent in several turns, between which anything else may happen. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { commitOrThrow, newGroup } from "../../src/platform/commit.ts";
import { sql } from "../../src/platform/sql.ts";
import {
  accountStream,
  committedEvents,
  eventsToPush,
  type StreamEvent,
} from "../../src/streams/event-log.ts";
import { announceNotice } from "../../src/streams/notice.ts";
import { streamObject } from "../../src/streams/notify.ts";
import { readState } from "../../src/streams/socket.ts";
import type { StreamObject } from "../../src/streams/stream-object.ts";
import { awakeAndEvicted, connect, type Subscriber } from "../support/sockets.ts";
import { newUser } from "../support/users.ts";

const SOCKETS = 120;
/** The default limit. */
const SOCKETS_PER_USER = 20;

/** A stream with many sockets. Each user holds twenty in a row. */
async function manySockets() {
  const { userId } = await newUser();
  const owners = [];
  for (let n = 0; n < SOCKETS / SOCKETS_PER_USER; n++) owners.push(await newUser());
  const stream = accountStream(userId);
  const subscribers: Subscriber[] = [];
  for (const owner of owners)
    for (let n = 0; n < SOCKETS_PER_USER; n++) subscribers.push(await connect(owner, stream));
  return {
    stream,
    owners,
    subscribers,
    /** Commits an event of the stream and returns it. Nothing pushes it yet. */
    commitEvent: async () => {
      const group = newGroup();
      const notice = { userId, kind: "test", subjectId: null, when: sql`1` };
      const statements = [...announceNotice(group, notice), eventsToPush(group)];
      const rows = await commitOrThrow(env.DB, group, statements);
      return committedEvents(env.DB, group, { rows });
    },
  };
}

/** Runs in the object that holds the sockets of an account stream. */
function inside<T>(stream: string, run: (feed: StreamObject, ctx: DurableObjectState) => T) {
  return runInDurableObject(env.FEED.getByName(stream), run);
}

/** A new stream begins above the numbers of all removed ones. */
const lastOf = (events: readonly StreamEvent[]): number => events.at(-1)?.seq ?? 0;
const seqs = (subscriber: Subscriber) => subscriber.events().map(({ seq }) => seq);

awakeAndEvicted("an event for 120 sockets", (maybeEvict) => {
  it("is not sent to a socket that closes before its turn", async () => {
    const { stream, owners, subscribers, commitEvent } = await manySockets();
    const events = await commitEvent();
    await maybeEvict(stream);
    const userId = await inside(stream, async (feed, ctx) => {
      const pushed = feed.push(events);
      await scheduler.wait(0);
      const last = ctx.getWebSockets().at(-1);
      const user = last === undefined ? "" : readState(last).actor.userId;
      await feed.closeSockets({ userId: user });
      await pushed;
      return user;
    });
    const from = SOCKETS_PER_USER * owners.findIndex((owner) => owner.userId === userId);
    const closed = subscribers.splice(from, SOCKETS_PER_USER);
    for (const subscriber of closed) expect(await subscriber.untilClosed()).toBe(4401);
    for (const subscriber of subscribers) await subscriber.untilEvent(lastOf(events));
    expect(closed.flatMap(seqs)).toEqual([]);
    expect(subscribers.filter(({ closed: end }) => end !== undefined)).toEqual([]);
  });

  it("is not overtaken by the next one", async () => {
    const { stream, subscribers, commitEvent } = await manySockets();
    const [first, second] = [await commitEvent(), await commitEvent()];
    await maybeEvict(stream);
    await inside(stream, async (feed) => {
      const pushed = feed.push(first);
      await scheduler.wait(0);
      await Promise.all([pushed, feed.push(second)]);
    });
    const sent = [lastOf(first), lastOf(second)];
    for (const subscriber of subscribers) await subscriber.untilEvent(lastOf(second));
    expect(subscribers.map(seqs)).toEqual(subscribers.map(() => sent));
  });

  it("ends no turn while later events wait", async () => {
    const { stream, subscribers, commitEvent } = await manySockets();
    const pushes: (readonly StreamEvent[])[] = [];
    for (let n = 0; n < 10; n++) pushes.push(await commitEvent());
    await maybeEvict(stream);
    const turns = await inside(stream, async (feed) => {
      const wait = vi.spyOn(scheduler, "wait");
      await Promise.all(pushes.map((events) => feed.push(events)));
      const ended = wait.mock.calls.filter(([ms]) => ms === 0).length;
      wait.mockRestore();
      return ended;
    });
    const sent = pushes.map(lastOf);
    for (const subscriber of subscribers) await subscriber.untilEvent(sent.at(-1) ?? 0);
    expect(subscribers.map(seqs)).toEqual(subscribers.map(() => sent));
    // Two, of the last event.
    expect(turns).toBe(2);
  });

  it.each(["nothing", "the event before"])("reaches once who joins after %s", async (after) => {
    const { stream, subscribers, commitEvent } = await manySockets();
    const first = await commitEvent();
    await maybeEvict(stream);
    const since = after === "nothing" ? undefined : lastOf(first) - 1;
    const pushed = streamObject(env, stream).push(first);
    const joined = await connect(await newUser(), stream, since);
    await pushed;
    const second = await commitEvent();
    await streamObject(env, stream).push(second);
    const sent = [lastOf(first), lastOf(second)];
    for (const subscriber of [joined, ...subscribers]) await subscriber.untilEvent(lastOf(second));
    expect(seqs(joined)).toEqual(since === undefined ? sent.slice(1) : sent);
    expect(subscribers.map(seqs)).toEqual(subscribers.map(() => sent));
  });
});
