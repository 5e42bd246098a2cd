import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import { commit, newGroup, NOW } from "../../src/platform/commit.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { closeSocketsOfEndedCredentials } from "../../src/streams/close-ended.ts";
import { accountStream, bookStream } from "../../src/streams/event-log.ts";
import { announceNotice } from "../../src/streams/notice.ts";
import { renotify, streamObject } from "../../src/streams/notify.ts";
import { apiOf } from "../support/http.ts";
import { insertEvent } from "../support/audit.ts";
import { newAsset } from "../support/ledger.ts";
import {
  command,
  matchOf,
  openMarket,
  openRequest,
  placeQuote,
  submit,
} from "../support/market.ts";
import { awakeAndEvicted, connect, evict } from "../support/sockets.ts";
import { newKey, newUser } from "../support/users.ts";

// A new stream begins above those that another file has removed.
beforeAll(() => all(env.DB, sql`DELETE FROM removed_streams`));

const seqs = (messages: { seq: number }[]) => messages.map((message) => message.seq);
const types = (messages: { type: string }[]) => messages.map((message) => message.type);

/** A book in which one user opens requests and subscribes. */
async function newBook() {
  const { key: book } = newAsset();
  const user = await newUser();
  const stream = bookStream(book);
  return {
    stream,
    subscribe: (since?: number) => connect(user, stream, since),
    openRequests: async (count: number) => {
      for (let n = 0; n < count; n++) await openRequest(user, book, { amount: 10n });
    },
  };
}

awakeAndEvicted("a book stream", (maybeEvict) => {
  it("sends hello, a snapshot, then numbered events that name no party", async () => {
    const { book, stream, requester, maker, request: before } = await openMarket();
    const subscriber = await connect(maker, stream);
    const request = await openRequest(requester, book, { amount: 20n });
    const quote = await placeQuote(maker, request.request_id, 500_000);
    await maybeEvict(stream);
    await submit(command.accept(requester, quote.quote_id));
    await subscriber.until("trade.printed");

    const [hello, snapshot] = subscriber.messages;
    expect(hello).toMatchObject({ type: "hello", seq: 1, stream });
    expect(snapshot).toMatchObject({ type: "snapshot", seq: 1, data: { more: false } });
    expect(snapshot?.data.requests.map((item: { request_id: string }) => item.request_id)).toEqual([
      before.request_id,
    ]);
    expect(subscriber.events().map(({ type, seq }) => [type, seq])).toEqual([
      ["request.opened", 2],
      ["request.closed", 3],
      ["trade.printed", 4],
    ]);
    expect(subscriber.events()[0]?.data).toMatchObject({
      user_id: null,
      request_id: request.request_id,
      amount: "0x14",
    });
    expect(subscriber.events()[0]?.data).not.toHaveProperty("best_price");
    expect(JSON.stringify(subscriber.messages)).not.toContain(requester.userId);
  });

  it("names the requester only if they disclosed it", async () => {
    const { key: book } = newAsset();
    const requester = await newUser();
    const subscriber = await connect(await newUser(), bookStream(book));
    await maybeEvict(bookStream(book));
    await openRequest(requester, book, { amount: 10n, disclosed: true });
    const opened = await subscriber.until("request.opened");
    expect(opened.data.user_id).toBe(requester.userId);
  });

  it("replays the events after `since`", async () => {
    const { stream, openRequests, subscribe } = await newBook();
    await openRequests(5);
    await maybeEvict(stream);
    const late = await subscribe(2);
    await late.untilEvent(5);
    expect(seqs(late.events())).toEqual([3, 4, 5]);
    expect(types(late.messages)).not.toContain("snapshot");
  });

  it("resyncs a subscriber whose `since` lies in the future", async () => {
    const { stream, openRequests, subscribe } = await newBook();
    await openRequests(1);
    await maybeEvict(stream);
    const lost = await subscribe(99);
    await lost.until("snapshot");
    expect(types(lost.messages)).toEqual(["hello", "resync", "snapshot"]);
  });

  it("replays the same events from memory as from D1", async () => {
    const { stream, openRequests, subscribe } = await newBook();
    const first = await subscribe();
    await openRequests(5);
    await first.untilEvent(5);
    await maybeEvict(stream);
    const [late, level] = [await subscribe(2), await subscribe(5)];
    await late.untilEvent(5);
    expect(late.messages[0]).toMatchObject({ type: "hello", seq: 5 });
    expect(late.events()).toEqual(first.events().slice(2));
    await maybeEvict(stream);
    await openRequests(1);
    for (const subscriber of [late, level]) await subscriber.untilEvent(6);
    expect(seqs(level.events())).toEqual([6]);
  });

  it("reports its last number in the pong", async () => {
    const { stream, openRequests, subscribe } = await newBook();
    const subscriber = await subscribe();
    await openRequests(1);
    await subscriber.until("request.opened");
    await maybeEvict(stream);
    subscriber.send("ping");
    expect(await subscriber.until("pong")).toEqual({ type: "pong", seq: 1 });
  });
});

describe("an eviction of a book", () => {
  it.each(["hibernate", "close"] as const)(
    "loses no event when its sockets %s",
    async (webSockets) => {
      const { stream, openRequests, subscribe } = await newBook();
      const subscriber = await subscribe();
      await openRequests(1);
      await subscriber.untilEvent(1);
      await evict(stream, webSockets);
      await openRequests(1);
      const next = webSockets === "hibernate" ? subscriber : await subscribe(1);
      await next.untilEvent(2);
      expect(seqs(next.events())).toEqual(webSockets === "hibernate" ? [1, 2] : [2]);
    },
  );
});

awakeAndEvicted("an account stream", (maybeEvict) => {
  it("sends both parties the match, each with their own role", async () => {
    const { book, stream, requester, maker } = await openMarket();
    const accounts = [requester, maker].map(({ userId }) => accountStream(userId));
    const [ofRequester, ofMaker] = [
      await connect(requester, accountStream(requester.userId)),
      await connect(maker, accountStream(maker.userId)),
    ];
    const request = await openRequest(requester, book, { amount: 20n });
    const quote = await placeQuote(maker, request.request_id, 500_000);
    await maybeEvict(stream, ...accounts);
    await submit(command.accept(requester, quote.quote_id));

    expect((await ofRequester.until("match.created")).data).toMatchObject({ role: "requester" });
    expect((await ofMaker.until("match.created")).data).toMatchObject({ role: "maker" });
    expect(types(ofRequester.events())).toEqual([
      "request.opened",
      "quote.received",
      "quote.closed",
      "request.closed",
      "match.created",
    ]);
    expect(types(ofMaker.events())).toEqual(["quote.opened", "quote.closed", "match.created"]);
    expect(JSON.stringify(ofRequester.messages)).not.toContain(maker.userId);
    expect(JSON.stringify(ofMaker.messages)).not.toContain(requester.userId);
  });

  it("sends records as the verbs return them", async () => {
    const { book, requester, maker } = await openMarket();
    const [ofRequester, ofMaker] = [
      await connect(requester, accountStream(requester.userId)),
      await connect(maker, accountStream(maker.userId)),
    ];
    const request = await openRequest(requester, book, { amount: 20n });
    const quote = await placeQuote(maker, request.request_id, 500_000);
    const match = matchOf(await submit(command.accept(requester, quote.quote_id)));
    expect((await ofRequester.until("request.opened")).data).toEqual(request);
    expect((await ofMaker.until("quote.opened")).data).toEqual(quote);
    expect((await ofRequester.until("quote.received")).data).toEqual({
      ...quote,
      reserve: null,
      fee: match.fee,
    });
    expect((await ofRequester.until("match.created")).data).toEqual(match);
  });

  it("sends an event by cron if its notification was lost", async () => {
    const user = await newUser();
    const stream = accountStream(user.userId);
    const subscriber = await connect(user, stream);
    // An event without a notification, as if the process had died after the commit.
    const group = newGroup();
    const notice = { userId: user.userId, kind: "test", subjectId: null };
    expect((await commit(env.DB, group, announceNotice(group, notice))).committed).toBe(true);
    await maybeEvict(stream);
    await renotify(env);
    expect(await subscriber.until("account.notice")).toMatchObject({ seq: 1 });
  });

  it("closes only the sockets of a revoked key", async () => {
    const user = await newUser();
    const key = await newKey(user);
    const stream = accountStream(user.userId);
    const [ofSession, ofKey] = [await connect(user, stream), await connect(key, stream)];
    await maybeEvict(stream);
    await streamObject(env, stream).closeSockets({ apiKeyId: key.apiKeyId });
    expect(await ofKey.untilClosed()).toBe(4401);
    expect(ofSession.closed).toBeUndefined();
  });

  it("closes the sockets of ended sessions by cron, and no newer ones", async () => {
    const user = await newUser();
    const stream = accountStream(user.userId);
    const credential = {
      kind: "session",
      epoch: 1,
      issuedAtMs: Date.now(),
      expiresAtMs: Date.now() + 60_000,
    } as const;
    const [old, fresh] = [
      await connect(user, stream),
      await connect({ actor: { ...user.actor, credential } }, stream),
    ];
    // What `endSessions` commits. The process died before it closed the sockets.
    await all(env.DB, sql`UPDATE users SET session_epoch = 1 WHERE user_id = ${uuid(user.userId)}`);
    await insertEvent("sessions_ended", user.userId);
    await all(
      env.DB,
      sql`INSERT INTO opened_streams (user_id, opener, stream, opened_at)
        VALUES (${uuid(user.userId)}, ${uuid(user.userId)}, ${stream}, ${NOW})`,
    );
    // More audit rows than one pass reads, so that the row must be found by an index.
    await all(
      env.DB,
      sql`INSERT INTO audit_events (audit_event_id, kind, actor, user_id, at)
        WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 1200)
        SELECT randomblob(16), 'login', 'password', ${uuid(user.userId)}, ${NOW} FROM n`,
    );
    await maybeEvict(stream);
    await closeSocketsOfEndedCredentials(env);
    expect(await old.untilClosed()).toBe(4401);
    expect(fresh.closed).toBeUndefined();
  });

  it("closes by a repeated revocation what the first one could not", async () => {
    const user = await newUser();
    const key = await newKey(user);
    const stream = accountStream(user.userId);
    const [ofSession, ofKey] = [await connect(user, stream), await connect(key, stream)];
    // What a revocation commits. Its process died, and cron closes only what ended lately.
    await all(
      env.DB,
      sql`UPDATE api_keys SET revoked_at = ${NOW} - 600000 WHERE api_key_id = ${uuid(key.apiKeyId)}`,
    );
    await all(
      env.DB,
      sql`INSERT INTO opened_streams (user_id, opener, stream, opened_at)
        VALUES (${uuid(user.userId)}, ${uuid(key.apiKeyId)}, ${stream}, ${NOW})`,
    );
    await maybeEvict(stream);
    const path = `/auth/api-keys?api_key_id=${key.apiKeyId}`;
    expect(await apiOf(user).delete(path)).toMatchObject({ status: 200 });
    expect(await ofKey.untilClosed()).toBe(4401);
    expect(ofSession.closed).toBeUndefined();
  });
});

awakeAndEvicted("a subscriber who leaves", (maybeEvict) => {
  it.each([
    ["book", 1000],
    ["account", 4000],
    ["account", undefined],
  ] as const)("receives the close frame: %s stream, code %s", async (kind, code) => {
    const user = await newUser();
    const stream = kind === "book" ? bookStream(newAsset().key) : accountStream(user.userId);
    const subscriber = await connect(user, stream);
    await subscriber.until("hello");
    await maybeEvict(stream);
    subscriber.socket.close(code);
    expect(await subscriber.untilClosed()).toBe(code ?? 1000);
  });
});

awakeAndEvicted("a command on a socket", (maybeEvict) => {
  it("returns what REST returns, with the sender's id", async () => {
    const { stream, requester, maker, request } = await openMarket({ amount: 20n });
    const account = accountStream(requester.userId);
    const ofRequester = await connect(requester, account);
    const ofMaker = await connect(maker, stream);
    await maybeEvict(stream, account);
    ofMaker.send({
      id: "1",
      op: "quote",
      request_id: request.request_id,
      price: 500_000,
      idempotency_key: "a",
    });
    const placed = await ofMaker.until(({ id }) => id === "1");
    expect(placed).toMatchObject({
      type: "result",
      data: { status: "open", price: 500_000, usdc_amount: "0xa" },
      replayed: false,
    });
    await maybeEvict(stream);
    ofMaker.send({ id: "2", op: "cancel_quote", quote_id: placed.data.quote_id });
    expect(await ofMaker.until(({ id }) => id === "2")).toMatchObject({
      type: "result",
      data: { status: "cancelled" },
      replayed: false,
    });
    ofMaker.send({
      id: "4",
      op: "quote",
      request_id: request.request_id,
      price: 500_000,
      idempotency_key: "a",
    });
    expect(await ofMaker.until(({ id }) => id === "4")).toMatchObject({
      type: "result",
      data: { status: "cancelled", quote_id: placed.data.quote_id },
      replayed: true,
    });
    ofRequester.send({ id: "3", op: "accept", quote_id: placed.data.quote_id });
    expect(await ofRequester.until(({ id }) => id === "3")).toMatchObject({
      type: "error",
      data: { code: "quote_not_open", status: 409 },
    });
  });

  it("that is malformed is reported by field", async () => {
    const stream = bookStream(newAsset().key);
    const subscriber = await connect(await newUser(), stream);
    await maybeEvict(stream);
    subscriber.send({ id: "x", op: "quote", request_id: uuidv7(), price: 0, extra: 1 });
    const error = await subscriber.until("error");
    expect(error).toMatchObject({ id: "x", data: { code: "invalid_request" } });
    expect(error.data.errors.map(({ path }: { path: string }) => path).toSorted()).toEqual([
      "command.extra",
      "command.price",
    ]);
  });

  it("closes the socket when it is the tenth malformed one in a minute", async () => {
    const stream = bookStream(newAsset().key);
    const subscriber = await connect(await newUser(), stream);
    const malformed = [
      "{",
      "[]",
      { id: "x", op: "buy" },
      { id: "x", op: "accept", quote_id: uuidv7(), extra: 1 },
    ];
    const errors = () => subscriber.messages.filter(({ type }) => type === "error");
    for (let n = 0; n < 9; n++) subscriber.send(malformed[n % malformed.length] ?? "");
    await expect.poll(() => errors().length).toBe(9);
    expect(errors()[7]?.data.detail).not.toContain("closes the socket");
    expect(errors()[8]?.data.detail).toContain("closes the socket");
    await maybeEvict(stream);
    expect(subscriber.closed).toBeUndefined();
    subscriber.send("{");
    expect(await subscriber.untilClosed()).toBe(1008);
  });

  it("is not malformed if its values or the ticket's scopes do not suffice", async () => {
    const stream = bookStream(newAsset().key);
    const subscriber = await connect(await newUser(), stream);
    const readOnly = await connect(await newKey(await newUser(), ["read"]), stream);
    await maybeEvict(stream);
    for (let n = 0; n < 12; n++) {
      subscriber.send({ id: "x", op: "quote", request_id: uuidv7(), price: 0 });
      readOnly.send({ id: "x", op: "accept", quote_id: uuidv7() });
    }
    for (const { messages } of [subscriber, readOnly])
      await expect.poll(() => messages.filter(({ type }) => type === "error").length).toBe(12);
    expect([subscriber.closed, readOnly.closed]).toEqual([undefined, undefined]);
  });

  it("closes the socket with 1009 if it is over 16 KiB", async () => {
    const stream = bookStream(newAsset().key);
    const [text, binary] = [
      await connect(await newUser(), stream),
      await connect(await newUser(), stream),
    ];
    await maybeEvict(stream);
    text.send("€".repeat(6_000));
    binary.socket.send(new Uint8Array(16 * 1_024 + 1));
    expect([await text.untilClosed(), await binary.untilClosed()]).toEqual([1009, 1009]);
  });

  it("has no effect after the socket was closed", async () => {
    const { stream, maker, request } = await openMarket();
    const subscriber = await connect(maker, stream);
    await maybeEvict(stream);
    for (let n = 0; n < 30; n++) subscriber.send("{");
    subscriber.send({ id: "q", op: "quote", request_id: request.request_id, price: 1 });
    await subscriber.untilClosed();
    await scheduler.wait(100);
    expect(
      await all(env.DB, sql`SELECT 1 FROM quotes WHERE request_id = ${uuid(request.request_id)}`),
    ).toEqual([]);
  });

  it("is rejected without the scope trade", async () => {
    const readOnly = await newKey(await newUser(), ["read"]);
    const stream = bookStream(newAsset().key);
    const subscriber = await connect(readOnly, stream);
    await maybeEvict(stream);
    subscriber.send({ id: "x", op: "accept", quote_id: uuidv7() });
    expect(await subscriber.until(({ id }) => id === "x")).toMatchObject({
      type: "error",
      data: { code: "scope_missing", required_scope: "trade" },
    });
  });
});
