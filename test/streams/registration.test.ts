/** A stream with open sockets stays registered, so its events keep arriving. */
import type { Actor } from "../../src/platform/actor.ts";
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { Feed } from "../../src/feeds/feed.ts";
import { commit, newGroup, NOW } from "../../src/platform/commit.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { config } from "../../src/platform/config.ts";
import { GroupCommitter } from "../../src/rfq/group-committer.ts";
import { closeSocketsOfEndedCredentials, rightsChanged } from "../../src/streams/close-ended.ts";
import { announce } from "../../src/platform/announce.ts";
import {
  accountStream,
  bookStream,
  committedEvents,
  eventsToPush,
  type StreamEvent,
} from "../../src/streams/event-log.ts";
import { renotify, streamObject } from "../../src/streams/notify.ts";
import { ACTOR_HEADER } from "../../src/streams/socket.ts";
import { nameOf } from "../../src/streams/stream-object.ts";
import type { AssetKey } from "../../src/assets/asset.ts";
import { commitOperations } from "../../src/rfq/book-group.ts";
import { insertEvent } from "../support/audit.ts";
import { emptyNotice } from "../support/events.ts";
import { newAsset } from "../support/ledger.ts";
import { command, openMarket, operationOf } from "../support/market.ts";
import { withStatements } from "../support/slow-database.ts";
import { awakeAndEvicted, connect } from "../support/sockets.ts";
import { newUser, type TestUser } from "../support/users.ts";

const isRegistered = async (stream: string) =>
  (await all(env.DB, sql`SELECT 1 FROM stream_subscribers WHERE name = ${stream}`)).length === 1;

/** Commits one notice on the stream without notifying anyone. */
async function writeNotice(stream: string) {
  const group = newGroup();
  const result = await commit(env.DB, group, [
    ...announce(group, sql`SELECT ${stream} AS stream, ${emptyNotice}, '1' AS ord`),
    eventsToPush(group),
  ]);
  if (!result.committed) throw new Error("not committed", { cause: result.cause });
  return { group, rows: result.rows };
}

/** Opens a request without the book's object, so nobody is notified. */
async function openRequestUnnoticed(user: TestUser, book: AssetKey) {
  const operation = await operationOf(command.openRequest(user, book, { amount: 1n }));
  await commitOperations(env.DB, book, [operation]);
}

/** Opens a socket of the user at a stream's object. */
function upgradesOf(feed: Feed, { actor }: { readonly actor: Actor }): () => Promise<Response> {
  const headers = {
    upgrade: "websocket",
    [ACTOR_HEADER]: JSON.stringify({ actor, endsAt: null }),
  };
  return () => feed.fetch(new Request("https://stream.internal/", { headers }));
}

it("keeps the next subscriber registered when the last one's deletion arrives late", async () => {
  const user = await newUser();
  const stream = accountStream(user.userId);
  await runInDurableObject(env.FEED.getByName(stream), async (instance: Feed, state) => {
    const slow = new Proxy(env, {
      get: (target, name) =>
        name === "DB" ? withSlowDeletions(env.DB) : Reflect.get(target, name),
    });
    const feed = new (instance.constructor as typeof Feed)(state, slow);
    const upgrade = upgradesOf(feed, user);
    (await upgrade()).webSocket?.accept();
    const [server] = state.getWebSockets();
    if (server === undefined) throw new Error("no socket");
    server.close(1000, "");
    const left = feed.webSocketClose(server, 1000);
    // The deletion is on its way when the next subscriber registers.
    await scheduler.wait(20);
    const { webSocket } = await upgrade();
    const received: string[] = [];
    webSocket?.addEventListener("message", ({ data }) => {
      received.push(JSON.parse(String(data)).type);
    });
    webSocket?.accept();
    await left;
    expect(await isRegistered(stream)).toBe(true);
    await writeNotice(stream);
    await feed.catchUp();
    await scheduler.wait(10);
    expect(received).toContain("account.notice");
  });
});

it("keeps the next subscriber registered when the last one's registration arrives late", async () => {
  const user = await newUser();
  const stream = accountStream(user.userId);
  await runInDurableObject(env.FEED.getByName(stream), async (instance: Feed, state) => {
    let hold: Promise<void> | undefined;
    const reached = Promise.withResolvers<void>();
    const db = withStatements(env.DB, async (texts) => {
      if (!texts.some((text) => text.includes("INSERT INTO stream_subscribers"))) return;
      const held = hold;
      hold = undefined;
      if (held !== undefined) reached.resolve();
      await held;
    });
    const feed = new (instance.constructor as typeof Feed)(state, { ...env, DB: db });
    const upgrade = upgradesOf(feed, user);
    (await upgrade()).webSocket?.accept();
    const [server] = state.getWebSockets();
    if (server === undefined) throw new Error("no socket");
    // The alarm registers again, and D1 is slow with that batch.
    const { promise, resolve } = Promise.withResolvers<void>();
    hold = promise;
    const checking = feed.alarm();
    await reached.promise;
    server.close(1000, "");
    await feed.webSocketClose(server, 1000);
    const { webSocket } = await upgrade();
    const received: string[] = [];
    webSocket?.addEventListener("message", ({ data }) => {
      received.push(JSON.parse(String(data)).type);
    });
    webSocket?.accept();
    resolve();
    await checking;
    expect(await isRegistered(stream)).toBe(true);
    await writeNotice(stream);
    // Safe cast: cron calls nothing else of the namespace.
    await renotify({ ...env, FEED: { getByName: () => feed } as unknown as Env["FEED"] });
    await scheduler.wait(10);
    expect(received).toContain("account.notice");
  });
});

it("lets nobody join from memory while its registration is not known to be stored", async () => {
  const user = await newUser();
  const stream = accountStream(user.userId);
  await runInDurableObject(env.FEED.getByName(stream), async (instance: Feed, state) => {
    let losing = false;
    const losingBatches = new Proxy(env.DB, {
      get(target, name) {
        if (name === "batch" && losing)
          return () => Promise.reject(new Error("D1_ERROR: Network connection lost."));
        return bound(target, name);
      },
    });
    const other = new Proxy(env, {
      get: (target, name) => (name === "DB" ? losingBatches : Reflect.get(target, name)),
    });
    const feed = new (instance.constructor as typeof Feed)(state, other);
    const upgrade = (query: string) => {
      const headers = {
        upgrade: "websocket",
        [ACTOR_HEADER]: JSON.stringify({ actor: user.actor, endsAt: null }),
      };
      return feed.fetch(new Request(`https://stream.internal/${query}`, { headers }));
    };
    (await upgrade("")).webSocket?.accept();
    for (const server of state.getWebSockets()) {
      server.close(1000, "");
      await feed.webSocketClose(server, 1000);
    }
    expect(await isRegistered(stream)).toBe(false);
    losing = true;
    await expect(upgrade("")).rejects.toThrow("Network connection lost");
    losing = false;
    (await upgrade("?since=0")).webSocket?.accept();
    expect(await isRegistered(stream)).toBe(true);
  });
});

it.each(["name", "asset", "stream"])(
  "an object whose name is stored as '%s' keeps it",
  async (key) => {
    const object = env.FEED.get(env.FEED.newUniqueId());
    await runInDurableObject(object, (_, { id, storage }) => {
      storage.kv.put(key, "account:1");
      // Safe cast: it reads nothing else.
      expect(nameOf({ id: { toString: () => id.toString() }, storage } as DurableObjectState)).toBe(
        "account:1",
      );
    });
  },
);

awakeAndEvicted("an object with open sockets", (maybeEvict) => {
  it.each(["book", "account"] as const)(
    "registers again by its alarm after its registration was lost: %s stream",
    async (kind) => {
      const user = await newUser();
      const { key: book } = newAsset();
      const stream = kind === "book" ? bookStream(book) : accountStream(user.userId);
      const subscriber = await connect(user, stream);
      // What a restore of D1 to an earlier instant does.
      await all(env.DB, sql`DELETE FROM stream_subscribers WHERE name = ${stream}`);
      if (kind === "book") await openRequestUnnoticed(user, book);
      else await writeNotice(stream);
      await maybeEvict(stream);
      await renotify(env);
      expect(await isRegistered(stream)).toBe(false);
      const object = kind === "book" ? env.RFQ_BOOK.getByName(book) : env.FEED.getByName(stream);
      expect(await runDurableObjectAlarm(object)).toBe(true);
      await subscriber.untilEvent(1);
      expect(await isRegistered(stream)).toBe(true);
    },
  );

  it("closes its sockets on a gap and answers the reconnect with resync", async () => {
    const user = await newUser();
    const stream = accountStream(user.userId);
    const subscriber = await connect(user, stream);
    await writeNotice(stream);
    await all(env.DB, sql`UPDATE streams SET last_seq = 3, first_seq = 1 WHERE name = ${stream}`);
    await maybeEvict(stream);
    await renotify(env);
    expect(await subscriber.untilClosed()).toBe(1011);
    const again = await connect(user, stream, 1);
    await again.until("resync");
    // The stream counts as pushed, so cron stops notifying it.
    await scheduler.wait(300);
    const [row] = await all(
      env.DB,
      sql`SELECT last_seq - pushed_seq AS behind FROM streams WHERE name = ${stream}`,
    );
    expect(row).toEqual({ behind: 0 });
  });
});

awakeAndEvicted("subscribers", (maybeEvict) => {
  it("receive what a push skips", async () => {
    const user = await newUser();
    const stream = accountStream(user.userId);
    const subscriber = await connect(user, stream);
    await writeNotice(stream);
    const { rows } = await writeNotice(stream);
    await maybeEvict(stream);
    await streamObject(env, stream).push((rows?.at(-1) ?? []) as StreamEvent[]);
    await subscriber.untilEvent(2);
    expect(subscriber.events().map(({ seq }) => seq)).toEqual([1, 2]);
  });

  it("are brought up to the snapshot of one who joins", async () => {
    const user = await newUser();
    const stream = accountStream(user.userId);
    const first = await connect(user, stream);
    await writeNotice(stream);
    await maybeEvict(stream);
    const second = await connect(user, stream);
    expect(await second.until("hello")).toMatchObject({ seq: 1 });
    await first.untilEvent(1);
    await writeNotice(stream);
    await renotify(env);
    await second.untilEvent(2);
    expect(first.events().map(({ seq }) => seq)).toEqual([1, 2]);
    expect(second.events().map(({ seq }) => seq)).toEqual([2]);
  });

  it("that return with a number before the object's memory miss nothing", async () => {
    const user = await newUser();
    const stream = accountStream(user.userId);
    for (let count = 0; count < 3; count++) await writeNotice(stream);
    await connect(user, stream);
    await writeNotice(stream);
    await renotify(env);
    await maybeEvict(stream);
    for (const since of [1, 2, 3]) {
      const again = await connect(user, stream, since);
      await again.untilEvent(4);
      const missed = [2, 3, 4].filter((seq) => seq > since);
      expect(again.events().map(({ seq }) => seq)).toEqual(missed);
    }
  });

  it("are disconnected by a gap in the middle", async () => {
    const user = await newUser();
    const stream = accountStream(user.userId);
    const subscriber = await connect(user, stream);
    for (let count = 0; count < 3; count++) await writeNotice(stream);
    await all(
      env.DB,
      sql`DELETE FROM event_runs WHERE last_seq = 2
        AND stream_id = (SELECT stream_id FROM streams WHERE name = ${stream})`,
    );
    await maybeEvict(stream);
    await renotify(env);
    expect(await subscriber.untilClosed()).toBe(1011);
    expect(subscriber.events()).toEqual([]);
  });
});

it("a subscriber receives what is pushed while it joins", async () => {
  const user = await newUser();
  const stream = accountStream(user.userId);
  await runInDurableObject(env.FEED.getByName(stream), async (instance: Feed, state) => {
    const notified: Promise<void>[] = [];
    const busy = new Proxy(env.DB, {
      get(target, name) {
        if (name !== "batch") return bound(target, name);
        return async (statements: D1PreparedStatement[]) => {
          const result = await target.batch(statements);
          // Committed after the new subscriber read the head, pushed before it joins.
          if (joining) {
            joining = false;
            const { rows } = await writeNotice(stream);
            notified.push(feed.push((rows?.at(-1) ?? []) as StreamEvent[]));
            await notified[0];
          }
          return result;
        };
      },
    });
    const other = new Proxy(env, {
      get: (target, name) => (name === "DB" ? busy : Reflect.get(target, name)),
    });
    let joining = false;
    const feed = new (instance.constructor as typeof Feed)(state, other);
    const upgrade = async () => {
      const headers = {
        upgrade: "websocket",
        [ACTOR_HEADER]: JSON.stringify({ actor: user.actor, endsAt: null }),
      };
      const { webSocket } = await feed.fetch(new Request("https://stream.internal/", { headers }));
      const seqs: number[] = [];
      webSocket?.addEventListener("message", ({ data }) => {
        const { type, seq } = JSON.parse(String(data));
        if (type === "account.notice") seqs.push(seq);
      });
      webSocket?.accept();
      return seqs;
    };
    const first = await upgrade();
    joining = true;
    const second = await upgrade();
    await scheduler.wait(10);
    expect([first, second]).toEqual([[1], [1]]);
  });
});

describe("the sockets of a frozen user", () => {
  const freezeEvent = (userId: string) => insertEvent("account_frozen", userId);

  it("are closed again by cron while the freeze lasts", async () => {
    const { user, subscriber } = await connectedUser();
    await freezeEvent(user.userId);
    await all(env.DB, sql`UPDATE users SET frozen_at = 1 WHERE user_id = ${uuid(user.userId)}`);
    await closeSocketsOfEndedCredentials(env);
    expect(await subscriber.untilClosed()).toBe(4401);
  });

  it("receive the notice of the freeze before they are closed", async () => {
    const { user, subscriber, stream } = await connectedUser();
    await all(env.DB, sql`UPDATE users SET frozen_at = 1 WHERE user_id = ${uuid(user.userId)}`);
    await writeNotice(stream);
    await rightsChanged(env, user.userId, "ended");
    expect(await subscriber.untilClosed()).toBe(4401);
    expect(subscriber.events().map(({ type }) => type)).toEqual(["account.notice"]);
  });

  it("stay open once the user is unfrozen", async () => {
    const { user, subscriber, stream } = await connectedUser();
    await freezeEvent(user.userId);
    await closeSocketsOfEndedCredentials(env);
    await writeNotice(stream);
    await renotify(env);
    await subscriber.until("account.notice");
    expect(subscriber.closed).toBeUndefined();
  });

  async function connectedUser() {
    const user = await newUser();
    const stream = accountStream(user.userId);
    const subscriber = await connect(user, stream);
    await all(
      env.DB,
      sql`INSERT INTO opened_streams (user_id, opener, stream, opened_at)
        VALUES (${uuid(user.userId)}, ${uuid(user.userId)}, ${stream}, ${NOW})`,
    );
    return { user, subscriber, stream };
  }
});

describe("a group whose response was lost", () => {
  it("has its events read again", async () => {
    const user = await newUser();
    const stream = accountStream(user.userId);
    await connect(user, stream);
    const { group, rows } = await writeNotice(stream);
    const found = await committedEvents(env.DB, group, { rows: null });
    expect(found).toMatchObject([{ stream, seq: 1 }]);
    expect(found).toEqual(rows?.at(-1));
  });

  it("has its events pushed once the book finds that it committed", async () => {
    const { book, requester, request } = await openMarket();
    const pushed: unknown[] = [];
    const { db, comeBack } = losingFirstResponse(env.DB);
    const committer = new GroupCommitter(db, {
      asset: book,
      waitMs: 0,
      maxWaitMs: 60_000,
      maxOperations: 64,
      macKeys: config(env),
      onCommitted: async () => {},
      onFailed: () => {},
      onClockAhead: () => {},
      push: async (events) => {
        pushed.push(events);
      },
    });
    const operation = await operationOf(command.cancelRequest(requester, request.request_id));
    expect(await committer.submit(operation)).toMatchObject({
      ok: false,
      problem: { extensions: { outcome: "unknown" } },
    });
    comeBack();
    // The next command waits until the first group's outcome is known.
    const next = await operationOf(command.cancelRequest(requester, request.request_id));
    await committer.submit(next);
    expect(pushed).toHaveLength(1);
  }, 20_000);
});

/** D1 whose deletion of a registration takes effect 150 ms after it was sent. */
function withSlowDeletions(db: D1Database): D1Database {
  return new Proxy(db, {
    get(target, name) {
      if (name !== "prepare") return bound(target, name);
      return (text: string) => {
        const statement = target.prepare(text);
        if (!/^\s*DELETE FROM stream_subscribers/.test(text)) return statement;
        return {
          bind: (...values: unknown[]) => ({
            all: async () => {
              await scheduler.wait(150);
              return statement.bind(...values).all();
            },
          }),
        };
      };
    },
  });
}

/** D1 that commits its first batch, loses the response and is away until it comes back. */
function losingFirstResponse(db: D1Database): { db: D1Database; comeBack: () => void } {
  let status: "serving" | "away" | "back" = "serving";
  const lost = new Error("D1_ERROR: Network connection lost.");
  const losing = new Proxy(db, {
    get(target, name) {
      if (name === "batch")
        return async (statements: D1PreparedStatement[]) => {
          const result = await target.batch(statements);
          if (status !== "serving") return result;
          status = "away";
          throw lost;
        };
      if (name === "prepare" && status === "away") throw lost;
      return bound(target, name);
    },
  });
  return { db: losing, comeBack: () => void (status = "back") };
}

function bound(target: D1Database, name: string | symbol): unknown {
  const value: unknown = Reflect.get(target, name);
  return typeof value === "function" ? value.bind(target) : value;
}
