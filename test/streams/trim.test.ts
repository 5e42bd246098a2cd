/** Streams that nobody uses are removed, and their numbers never repeat. */
import { env } from "cloudflare:workers";
import { afterEach, expect, it } from "vitest";
import { reconcile } from "../../src/reconcile/reconcile.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { accountStream, bookStream } from "../../src/streams/event-log.ts";
import { trimStreams } from "../../src/streams/trim-streams.ts";
import { ageEvents, ageStreams, writeNotices } from "../support/events.ts";
import { newAsset, tamper } from "../support/ledger.ts";
import { openRequest } from "../support/market.ts";
import { connect, evict, type Subscriber } from "../support/sockets.ts";
import { newUser } from "../support/users.ts";
import { settings } from "../support/http.ts";

const DAY_MS = 86_400_000;

/** Other files expect that a stream begins with 1. They are new in each test. */
afterEach(() => all(env.DB, sql`DELETE FROM removed_streams`));

async function rowsOf(stream: string): Promise<[streams: number, events: number]> {
  const [row] = await all<{ streams: number; events: number }>(
    env.DB,
    sql`SELECT count(DISTINCT s.stream_id) AS streams, count(e.seq) AS events
      FROM streams s LEFT JOIN stream_events e ON e.stream_id = s.stream_id
      WHERE s.name = ${stream}`,
  );
  return [row?.streams ?? 0, row?.events ?? 0];
}

const numbers = (subscriber: Subscriber) => subscriber.events().map(({ seq }) => seq);

it("removes the streams of assets in which nothing happens any more", async () => {
  const user = await newUser();
  const assets = Array.from({ length: 5 }, () => newAsset());
  for (const { key } of assets) await openRequest(user, key, { amount: 1n });
  const books = assets.map(({ key }) => bookStream(key));
  await ageStreams(...books);
  await trimStreams(env);
  for (const book of books) expect(await rowsOf(book)).toEqual([0, 0]);
});

it("keeps streams with a recent event or a subscriber", async () => {
  const [recent, subscribed] = [await newUser(), await newUser()];
  await writeNotices(recent);
  await writeNotices(subscribed);
  const subscriber = await connect(subscribed, accountStream(subscribed.userId));
  const { seq: last } = await subscriber.until("hello");
  await ageStreams(accountStream(subscribed.userId));
  await trimStreams(env);
  expect(await rowsOf(accountStream(recent.userId))).toEqual([1, 1]);
  expect(await rowsOf(accountStream(subscribed.userId))).toEqual([1, 1]);
  await writeNotices(subscribed);
  await trimStreams(env);
  expect(await rowsOf(accountStream(subscribed.userId))).toEqual([1, 2]);
  expect(
    (await connect(subscribed, accountStream(subscribed.userId), last)).closed,
  ).toBeUndefined();
});

it("continues above every number that a removed stream has used", async () => {
  const [user, other] = [await newUser(), await newUser()];
  const stream = accountStream(user.userId);
  await writeNotices(user, 7);
  await writeNotices(other, 30);
  const before = await connect(user, stream);
  const { seq: seen } = await before.until("hello");
  await leave(before, stream);
  await ageStreams(stream, accountStream(other.userId));
  await trimStreams(env);
  expect(await rowsOf(stream)).toEqual([0, 0]);

  const returned = await connect(user, stream, seen);
  const { seq: resync } = await returned.until("resync");
  expect(resync).toBeGreaterThan(seen);
  await writeNotices(user);
  await env.FEED.getByName(stream).catchUp();
  await returned.until("account.notice");
  expect(numbers(returned)).toEqual([resync + 1]);
});

const headOf = (stream: string) =>
  all<{ first: number; last: number }>(
    env.DB,
    sql`SELECT first_seq AS first, last_seq AS last FROM streams WHERE name = ${stream}`,
  );

it("deletes old events, and the stream continues its numbers", async () => {
  const user = await newUser();
  const stream = accountStream(user.userId);
  await writeNotices(user, 3);
  const [before] = await headOf(stream);
  const last = before?.last ?? 0;
  await ageEvents();
  await trimStreams(env);
  expect(await rowsOf(stream)).toEqual([1, 0]);
  expect(await headOf(stream)).toEqual([{ first: last + 1, last }]);
  const behind = await connect(user, stream, last - 1);
  await behind.until("resync");
  const current = await connect(user, stream, last);
  await writeNotices(user);
  await env.FEED.getByName(stream).catchUp();
  await current.until("account.notice");
  expect(numbers(current)).toEqual([last + 1]);
  expect(await headOf(stream)).toEqual([{ first: last + 1, last: last + 1 }]);
  const { differences } = await reconcile(env.DB, { macKeys: settings(), chains: [], full: true });
  expect(differences.filter(({ account }) => account === stream)).toEqual([]);
});

it("keeps young events, and those that the reconciliation has not compared", async () => {
  const [compared, fresh] = [await newUser(), await newUser()];
  await writeNotices(compared);
  await reconcile(env.DB, { macKeys: settings(), chains: [] });
  await trimStreams(env);
  expect(await rowsOf(accountStream(compared.userId))).toEqual([1, 1]);
  await writeNotices(fresh);
  await tamper("event_runs_update", sql`UPDATE event_runs SET at = at - ${2 * DAY_MS}`);
  await trimStreams(env);
  expect(await rowsOf(accountStream(compared.userId))).toEqual([1, 0]);
  expect(await rowsOf(accountStream(fresh.userId))).toEqual([1, 1]);
});

it("keeps the first number above the gap that a restore left", async () => {
  const user = await newUser();
  const stream = accountStream(user.userId);
  await writeNotices(user);
  await ageEvents();
  await writeNotices(user);
  await reconcile(env.DB, { macKeys: settings(), chains: [] });
  // As in a restore (`skipEvents`).
  await all(
    env.DB,
    sql`UPDATE streams SET last_seq = last_seq + 1000, pushed_seq = last_seq + 1000,
      first_seq = last_seq + 1001 WHERE name = ${stream}`,
  );
  await writeNotices(user, 5);
  const before = await headOf(stream);
  await trimStreams(env);
  // The older of the two events from before the restore was deleted, the other was not.
  expect(await rowsOf(stream)).toEqual([1, 6]);
  expect(await headOf(stream)).toEqual(before);
});

it("gives a subscriber of an empty stream no gap when another stream is removed", async () => {
  const [waiting, busy] = [await newUser(), await newUser()];
  const stream = accountStream(waiting.userId);
  const subscriber = await connect(waiting, stream);
  const { seq } = await subscriber.until("hello");
  await writeNotices(busy, 50);
  await ageStreams(accountStream(busy.userId));
  await trimStreams(env);
  expect(await rowsOf(accountStream(busy.userId))).toEqual([0, 0]);
  await writeNotices(waiting);
  await env.FEED.getByName(stream).catchUp();
  await subscriber.until("account.notice");
  expect(numbers(subscriber)).toEqual([seq + 1]);
});

it("removes a dormant stream after its object lost all sockets unnoticed", async () => {
  const user = await newUser();
  const stream = accountStream(user.userId);
  await writeNotices(user);
  const subscriber = await connect(user, stream);
  await subscriber.until("hello");
  await evict(stream, "close");
  await ageStreams(stream);
  await trimStreams(env);
  expect(await rowsOf(stream)).toEqual([1, 1]);
  expect(await all(env.DB, sql`SELECT 1 FROM stream_subscribers WHERE name = ${stream}`)).toEqual(
    [],
  );
  await ageStreams(stream);
  await trimStreams(env);
  expect(await rowsOf(stream)).toEqual([0, 0]);
});

async function leave(subscriber: Subscriber, stream: string): Promise<void> {
  subscriber.socket.close(1000);
  await subscriber.untilClosed();
  await env.FEED.getByName(stream).catchUp();
}
