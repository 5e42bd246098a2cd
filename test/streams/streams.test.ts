import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { NOW } from "../../src/platform/commit.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { closeEndedSockets } from "../../src/streams/close-ended.ts";
import { accountStream, bookStream } from "../../src/streams/event-log.ts";
import { renotify, streamObject } from "../../src/streams/notify.ts";
import { accept, newActor, newBook, openRequest, placedQuote } from "../support/rfq.ts";
import { connect } from "../support/socket.ts";

const seqs = (messages: { seq: number }[]) => messages.map((message) => message.seq);

describe("a book stream", () => {
  it("begins with hello and a snapshot, then numbers its events without gap, and names nobody", async () => {
    const book = newBook();
    const taker = await newActor({ usdc: 1_000n });
    const maker = await newActor({ [book]: 1_000n });
    const before = await openRequest(taker, book, { amount: 10n });
    const reader = await connect(maker, bookStream(book));
    const request = await openRequest(taker, book, { amount: 20n });
    const quote = await placedQuote(maker, request.request_id, 500_000);
    await accept(taker, quote.quote_id);
    await reader.until((message) => message.type === "request.closed");

    const [hello, snapshot] = reader.messages;
    expect(hello).toMatchObject({ type: "hello", seq: 1, stream: bookStream(book) });
    expect(snapshot).toMatchObject({ type: "snapshot", seq: 1, data: { more: false } });
    expect(snapshot?.data.requests.map((item: { request_id: string }) => item.request_id)).toEqual([
      before.request_id,
    ]);
    expect(reader.events().map((message) => [message.type, message.seq])).toEqual([
      ["request.opened", 2],
      ["request.closed", 3],
    ]);
    expect(reader.events()[0]?.data).toMatchObject({
      user_id: null,
      request_id: request.request_id,
      amount: "0x14",
    });
    expect(reader.events()[0]?.data).not.toHaveProperty("best_price");
    expect(JSON.stringify(reader.messages)).not.toContain(taker.userId);
  });

  it("shows who asked only when they disclosed it", async () => {
    const book = newBook();
    const taker = await newActor();
    const reader = await connect(await newActor(), bookStream(book));
    await openRequest(taker, book, { amount: 10n, disclosed: true });
    const opened = await reader.until((message) => message.type === "request.opened");
    expect(opened.data.user_id).toBe(taker.userId);
  });

  it("replays what was missed since a number, and answers a number from the future with resync and a snapshot", async () => {
    const book = newBook();
    const taker = await newActor();
    for (let n = 1; n <= 5; n++) await openRequest(taker, book, { amount: 10n });
    const late = await connect(taker, bookStream(book), 2);
    await late.until((message) => message.seq === 5 && message.type === "request.opened");
    expect(seqs(late.events())).toEqual([3, 4, 5]);
    expect(late.messages.some((message) => message.type === "snapshot")).toBe(false);
    const lost = await connect(taker, bookStream(book), 99);
    await lost.until((message) => message.type === "snapshot");
    expect(lost.messages.map((message) => message.type)).toEqual(["hello", "resync", "snapshot"]);
  });

  it("replays from memory while it is awake just what D1 would have replayed", async () => {
    const book = newBook();
    const taker = await newActor();
    const first = await connect(taker, bookStream(book));
    for (let n = 1; n <= 5; n++) await openRequest(taker, book, { amount: 10n });
    await first.until((message) => message.seq === 5 && message.type === "request.opened");
    const [late, level] = [
      await connect(taker, bookStream(book), 2),
      await connect(taker, bookStream(book), 5),
    ];
    await late.until((message) => message.seq === 5 && message.type === "request.opened");
    expect(late.messages[0]).toMatchObject({ type: "hello", seq: 5 });
    expect(late.events()).toEqual(first.events().slice(2));
    await openRequest(taker, book, { amount: 10n });
    for (const reader of [late, level]) await reader.until((message) => message.seq === 6);
    expect(seqs(level.events())).toEqual([6]);
  });

  it.each(["hibernate", "close"] as const)(
    "loses nothing over an eviction that lets sockets %s",
    async (webSockets) => {
      const book = newBook();
      const taker = await newActor();
      const reader = await connect(taker, bookStream(book));
      await openRequest(taker, book, { amount: 10n });
      await reader.until((message) => message.seq === 1 && message.type === "request.opened");
      await evictDurableObject(env.RFQ_BOOK.getByName(book), { webSockets });
      await openRequest(taker, book, { amount: 11n });
      const next = webSockets === "hibernate" ? reader : await connect(taker, bookStream(book), 1);
      await next.until((message) => message.seq === 2 && message.type === "request.opened");
      expect(seqs(next.events())).toEqual(webSockets === "hibernate" ? [1, 2] : [2]);
    },
  );

  it("answers ping with its true last number while it sleeps", async () => {
    const book = newBook();
    const taker = await newActor();
    const reader = await connect(taker, bookStream(book));
    await openRequest(taker, book, { amount: 10n });
    await reader.until((message) => message.type === "request.opened");
    await evictDurableObject(env.RFQ_BOOK.getByName(book), { webSockets: "hibernate" });
    reader.socket.send("ping");
    expect(await reader.until((message) => message.type === "pong")).toEqual({
      type: "pong",
      seq: 1,
    });
  });
});

describe("an account stream", () => {
  it("tells both parties of the match, each with their own role", async () => {
    const book = newBook();
    const taker = await newActor({ usdc: 1_000n });
    const maker = await newActor({ [book]: 1_000n });
    const takerReader = await connect(taker, accountStream(taker.userId));
    const makerReader = await connect(maker, accountStream(maker.userId));
    const request = await openRequest(taker, book, { amount: 20n });
    const quote = await placedQuote(maker, request.request_id, 500_000);
    await accept(taker, quote.quote_id);
    expect(
      (await takerReader.until((message) => message.type === "match.created")).data,
    ).toMatchObject({ role: "requester" });
    expect(
      (await makerReader.until((message) => message.type === "match.created")).data,
    ).toMatchObject({ role: "maker" });
    expect(takerReader.events().map((message) => message.type)).toEqual([
      "request.opened",
      "quote.received",
      "quote.closed",
      "request.closed",
      "match.created",
    ]);
    expect(makerReader.events().map((message) => message.type)).toEqual([
      "quote.opened",
      "quote.closed",
      "match.created",
    ]);
    expect(JSON.stringify(takerReader.messages)).not.toContain(maker.userId);
    expect(JSON.stringify(makerReader.messages)).not.toContain(taker.userId);
  });

  it("hears of the last event even if its hint was lost, by cron", async () => {
    const book = newBook();
    const taker = await newActor();
    const reader = await connect(taker, accountStream(taker.userId));
    // The object forgets the event: as if the hint had never come, its sockets stand before it.
    await env.DB.prepare(
      "INSERT INTO streams (name, last_seq, pushed_seq, first_seq) VALUES (?, 0, 0, 1)",
    )
      .bind(accountStream(taker.userId))
      .run();
    await env.DB.prepare(
      "INSERT INTO stream_events (stream_id, seq, written_group, at, type, body) SELECT stream_id, 1, 0, 0, 'account.notice', '{}' FROM streams WHERE name = ?",
    )
      .bind(accountStream(taker.userId))
      .run();
    await renotify(env);
    expect(await reader.until((message) => message.type === "account.notice")).toMatchObject({
      seq: 1,
    });
    expect(book).toBeTruthy();
  });

  it("closes the sockets of a key that was revoked, and no others", async () => {
    const user = await newActor();
    const keyed = {
      ...user,
      credential: { kind: "api_key", apiKeyId: crypto.randomUUID() } as const,
    };
    const stream = accountStream(user.userId);
    const [plain, revoked] = [await connect(user, stream), await connect(keyed, stream)];
    await streamObject(env, stream).closeSockets({ apiKeyId: keyed.credential.apiKeyId });
    for (let waited = 0; revoked.closed === undefined && waited < 1_000; waited += 10)
      await scheduler.wait(10);
    expect(revoked.closed?.code).toBe(4401);
    expect(plain.closed).toBeUndefined();
  });
});

describe("a reader who leaves", () => {
  for (const [stream, told] of [
    ["book", 1000],
    ["account", 4000],
    ["account", undefined],
  ] as const) {
    it(`is answered at once: ${stream} stream, code ${told ?? "none"}`, async () => {
      const actor = await newActor();
      const reader = await connect(
        actor,
        stream === "book" ? bookStream(newBook()) : accountStream(actor.userId),
      );
      await reader.until((message) => message.type === "hello");
      reader.socket.close(told);
      await expect.poll(() => reader.closed?.code).toBe(told ?? 1000);
    });
  }
});

describe("commands on a socket", () => {
  it("quote, cancel and accept answer as REST does, with the sender's id", async () => {
    const book = newBook();
    const taker = await newActor({ usdc: 1_000n });
    const maker = await newActor({ [book]: 1_000n });
    const [takerReader, makerReader] = [
      await connect(taker, accountStream(taker.userId)),
      await connect(maker, bookStream(book)),
    ];
    const request = await openRequest(taker, book, { amount: 20n });
    makerReader.socket.send(
      JSON.stringify({
        id: "1",
        op: "quote",
        request_id: request.request_id,
        price: 500_000,
        idempotency_key: "a",
      }),
    );
    const placed = await makerReader.until((message) => message.id === "1");
    expect(placed).toMatchObject({
      type: "result",
      data: { status: "open", price: 500_000, usdc_amount: "0xa" },
    });
    makerReader.socket.send(
      JSON.stringify({ id: "2", op: "cancel_quote", quote_id: placed.data.quote_id }),
    );
    expect(await makerReader.until((message) => message.id === "2")).toMatchObject({
      type: "result",
      data: { status: "cancelled" },
    });
    takerReader.socket.send(
      JSON.stringify({ id: "3", op: "accept", quote_id: placed.data.quote_id }),
    );
    expect(await takerReader.until((message) => message.id === "3")).toMatchObject({
      type: "error",
      data: { code: "quote_not_open", status: 409 },
    });
  });

  it("bad frames are named, and the tenth within a minute closes the socket", async () => {
    const reader = await connect(await newActor(), bookStream(newBook()));
    reader.socket.send(
      JSON.stringify({ id: "x", op: "quote", request_id: uuidv7(), price: 0, extra: 1 }),
    );
    const error = await reader.until((message) => message.type === "error");
    expect(error).toMatchObject({ id: "x", data: { code: "invalid_request" } });
    expect(error.data.errors.map((fault: { path: string }) => fault.path).toSorted()).toEqual([
      "command.extra",
      "command.price",
    ]);
    for (let n = 0; n < 9; n++) reader.socket.send("{");
    for (let waited = 0; reader.closed === undefined && waited < 1_000; waited += 10)
      await scheduler.wait(10);
    expect(reader.closed?.code).toBe(1008);
  });

  it("what arrives after the close is nobody's: nothing is placed", async () => {
    const book = newBook();
    const maker = await newActor({ [book]: 100n });
    const request = await openRequest(await newActor(), book, { amount: 10n });
    const reader = await connect(maker, bookStream(book));
    for (let n = 0; n < 30; n++) reader.socket.send("{");
    reader.socket.send(
      JSON.stringify({ id: "q", op: "quote", request_id: request.request_id, price: 1 }),
    );
    for (let waited = 0; reader.closed === undefined && waited < 1_000; waited += 10)
      await scheduler.wait(10);
    await scheduler.wait(100);
    expect(
      await all(env.DB, sql`SELECT 1 FROM quotes WHERE request_id = ${uuid(request.request_id)}`),
    ).toEqual([]);
  });

  it("a reader who may not trade cannot flood the book with commands", async () => {
    const reader = await connect(
      { ...(await newActor()), scopes: ["read"] },
      bookStream(newBook()),
    );
    for (let n = 0; n < 50; n++)
      reader.socket.send(JSON.stringify({ id: "x", op: "accept", quote_id: uuidv7() }));
    for (let waited = 0; reader.closed === undefined && waited < 1_000; waited += 10)
      await scheduler.wait(10);
    expect(reader.closed?.code).toBe(1008);
  });

  it("a ticket without trade cannot command", async () => {
    const actor = await newActor();
    const reader = await connect({ ...actor, scopes: ["read"] }, bookStream(newBook()));
    reader.socket.send(JSON.stringify({ id: "x", op: "accept", quote_id: uuidv7() }));
    expect(await reader.until((message) => message.id === "x")).toMatchObject({
      type: "error",
      data: { code: "scope_missing", required_scope: "trade" },
    });
  });
});

describe("cron", () => {
  it("closes the sockets of ended sessions again, and leaves those of newer ones alone", async () => {
    const user = await newActor();
    const stream = accountStream(user.userId);
    const renewed = {
      ...user,
      credential: { kind: "session", epoch: 1, expiresAtMs: Date.now() + 60_000 } as const,
    };
    const [old, fresh] = [await connect(user, stream), await connect(renewed, stream)];
    // What `endSessions` commits, by a process that died before it told anybody.
    await all(env.DB, sql`UPDATE users SET session_epoch = 1 WHERE user_id = ${uuid(user.userId)}`);
    await all(
      env.DB,
      sql`INSERT INTO audit_events (audit_event_id, kind, actor, user_id, at)
      VALUES (${uuid(uuidv7())}, 'sessions_ended', 'session', ${uuid(user.userId)}, ${NOW})`,
    );
    await all(
      env.DB,
      sql`INSERT INTO ws_tickets (ticket_hash, user_id, session_epoch, scopes, expires_at, used_at, stream)
      VALUES (${uuid(uuidv7())}, ${uuid(user.userId)}, 0, 'read', ${NOW} + 30000, ${NOW}, ${stream})`,
    );
    // Other people's noise in between.
    await all(
      env.DB,
      sql`INSERT INTO audit_events (audit_event_id, kind, actor, user_id, at)
      WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 1200)
      SELECT randomblob(16), 'login', 'password', ${uuid(user.userId)}, ${NOW} FROM n`,
    );
    await closeEndedSockets(env);
    for (let waited = 0; old.closed === undefined && waited < 1_000; waited += 10)
      await scheduler.wait(10);
    expect(old.closed?.code).toBe(4401);
    expect(fresh.closed).toBeUndefined();
  });
});
