/** The calls of D1 that a socket costs: one for its ticket, one in the stream's object. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { consumeTicket } from "../../src/auth/ws-ticket.ts";
import type { Feed } from "../../src/feeds/feed.ts";
import { commitOrThrow, newGroup } from "../../src/platform/commit.ts";
import { config } from "../../src/platform/config.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { announce } from "../../src/platform/announce.ts";
import { accountStream, venueStream } from "../../src/streams/event-log.ts";
import { ACTOR_HEADER } from "../../src/streams/socket.ts";
import { countingCalls } from "../support/counting-database.ts";
import { emptyNotice } from "../support/events.ts";
import { apiOf } from "../support/http.ts";
import { withStatements } from "../support/slow-database.ts";
import { newKey, newUser, type TestUser } from "../support/users.ts";

it("a ticket of a key or a session is consumed with one call of D1", async () => {
  const user = await newUser();
  const key = await newKey(user, ["read"]);
  const tickets = [
    (await apiOf(user).post("/auth/ws-ticket")).json["ticket"],
    (await apiOf(key).post("/auth/ws-ticket/signed")).json["ticket"],
  ];
  for (const ticket of tickets) {
    const { db, count } = countingCalls();
    const upgrade = { ticket, stream: "account:test", clientIp: undefined };
    expect(await consumeTicket(db, config(env), upgrade)).toMatchObject({ userId: user.userId });
    expect(count()).toBe(1);
  }
});

it("upgrades leave connections of the object for its commits", async () => {
  const user = await newUser();
  const stream = venueStream("venue_three");
  let [now, most] = [0, 0];
  const db = withStatements(env.DB, async () => {
    most = Math.max(most, ++now);
    await scheduler.wait(20);
    now--;
  });
  await runInDurableObject(env.FEED.getByName(stream), async (instance: Feed, ctx) => {
    const feed = new (instance.constructor as typeof Feed)(ctx, { ...env, DB: db });
    const actor = JSON.stringify({ actor: user.actor, endsAt: null });
    const headers = { upgrade: "websocket", [ACTOR_HEADER]: actor };
    const upgrade = () => feed.fetch(new Request("https://stream.internal/", { headers }));
    const responses = await Promise.all(Array.from({ length: 10 }, upgrade));
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThanOrEqual(4);
    for (const { webSocket } of responses) {
      webSocket?.accept();
      webSocket?.close();
    }
  });
});

async function typesAfterOneCall(user: TestUser, stream: string, since?: number) {
  const { db, count } = countingCalls();
  const types: string[] = [];
  await runInDurableObject(env.FEED.getByName(stream), async (instance: Feed, ctx) => {
    const feed = new (instance.constructor as typeof Feed)(ctx, { ...env, DB: db });
    const url = `https://stream.internal/${since === undefined ? "" : `?since=${since}`}`;
    const actor = JSON.stringify({ actor: user.actor, endsAt: null });
    const headers = { upgrade: "websocket", [ACTOR_HEADER]: actor };
    const response = await feed.fetch(new Request(url, { headers }));
    const socket = response.webSocket;
    if (socket === null) throw new Error("no socket");
    socket.addEventListener("message", ({ data }) => {
      types.push((JSON.parse(String(data)) as { type: string }).type);
    });
    socket.accept();
    await scheduler.wait(20);
    expect(count()).toBe(1);
    socket.close();
  });
  return types;
}

it("a subscriber receives the snapshot with one call of D1", async () => {
  const types = await typesAfterOneCall(await newUser(), venueStream("venue_three"));
  expect([...new Set(types)]).toEqual(["hello", "snapshot"]);
});

it("a subscriber resumes with one call of D1", async () => {
  const user = await newUser();
  const stream = accountStream(user.userId);
  const group = newGroup();
  const three = sql`SELECT ${stream} AS stream, ${emptyNotice}, value AS ord FROM json_each('[1,2,3]')`;
  await commitOrThrow(env.DB, group, announce(group, three));
  const [head] = await all<{ last: number }>(
    env.DB,
    sql`SELECT last_seq AS last FROM streams WHERE name = ${stream}`,
  );
  const notices = Array.from({ length: 2 }, () => "account.notice");
  expect(await typesAfterOneCall(user, stream, (head?.last ?? 0) - 2)).toEqual([
    "hello",
    ...notices,
  ]);
});
