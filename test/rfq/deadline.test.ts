/** Deadlines: no command takes effect at or after `not_after`, and a delay shortens a quote. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { now, toWireTime } from "../../src/platform/time.ts";
import { commitOperations } from "../../src/rfq/book-group.ts";
import type { Command } from "../../src/rfq/command.ts";
import { bookStream } from "../../src/streams/event-log.ts";
import { apiOf } from "../support/http.ts";
import { balances, newAddress, newAsset } from "../support/ledger.ts";
import {
  command,
  openMarket,
  operationOf,
  outcomeOf,
  quotedMarket,
  rejectionOf,
} from "../support/market.ts";
import { withBatch } from "../support/slow-database.ts";
import { connect } from "../support/sockets.ts";
import { newKey, newUser } from "../support/users.ts";

const past = () => toWireTime(now() - 1);
const future = () => toWireTime(now() + 60_000);

/** Commits a command in a batch that D1 begins after `delayMs`. */
async function commitLate(book: string, sent: Command, delayMs: number) {
  const slow = withBatch(env.DB, async (statements) => {
    await scheduler.wait(delayMs);
    return env.DB.batch(statements);
  });
  const operation = await operationOf(sent);
  const done = await commitOperations(slow, book, [operation]);
  if (!done.committed) throw new Error("the group was rolled back", { cause: done.cause });
  return operation.result(done.effects) ?? (await rejectionOf(operation));
}

describe("not_after in the past", () => {
  const passed = {
    status: 409,
    json: { code: "deadline_passed", server_time: expect.stringMatching(/Z$/) },
  };

  it("rejects a request, a quote and an accept, which change nothing", async () => {
    const { book, requester, maker, request, quote } = await quotedMarket();
    const { key: _, ...asset } = newAsset();
    const terms = { ...asset, amount: "10", side: "Bid" };
    const price = { request_id: request.request_id, price: 400_000 };
    const accept = { quote_id: quote.quote_id };
    const [ofRequester, ofMaker] = [apiOf(requester), apiOf(maker)];

    const [late, inTime] = [{ not_after: past() }, { not_after: future() }];
    expect(await ofRequester.post("/rfq/request", { ...terms, ...late })).toMatchObject(passed);
    expect(await ofMaker.post("/rfq/quote", { ...price, ...late })).toMatchObject(passed);
    expect(await ofRequester.post("/rfq/accept", { ...accept, ...late })).toMatchObject(passed);
    expect(await balances(maker.userId, book)).toEqual([990n, 10n]);

    expect((await ofRequester.post("/rfq/request", { ...terms, ...inTime })).status).toBe(201);
    expect((await ofMaker.post("/rfq/quote", { ...price, ...inTime })).status).toBe(201);
    expect((await ofRequester.post("/rfq/accept", { ...accept, ...inTime })).status).toBe(200);
  });

  it("rejects a withdrawal and does not use up its id", async () => {
    const { key, ...asset } = newAsset();
    const { userId } = await newUser({ [key]: 100n });
    const api = apiOf(await newKey({ userId }));
    const withdraw = (not_after: string) =>
      api.post("/custody/withdraw", {
        client_withdrawal_id: "w",
        amount: "10",
        to_address: address,
        ...asset,
        not_after,
      });
    const address = newAddress();
    expect(await withdraw(past())).toMatchObject(passed);
    expect(await balances(userId, key)).toEqual([100n, 0n]);
    expect((await withdraw(future())).status).toBe(202);
    // Replays are decided first, even after their deadline.
    const replay = await withdraw(past());
    expect(replay.status).toBe(202);
    expect(replay.headers.get("idempotency-replayed")).toBe("true");
  });

  it("is no term of an idempotency key, and a replay is decided first", async () => {
    const { maker, request } = await openMarket();
    const api = apiOf(maker);
    const body = { request_id: request.request_id, price: 1, idempotency_key: "k" };
    const first = await api.post("/rfq/quote", { ...body, not_after: future() });
    const again = await api.post("/rfq/quote", { ...body, not_after: past() });
    expect(again).toMatchObject({ status: 201, json: { quote_id: first.json["quote_id"] } });
    expect(again.headers.get("idempotency-replayed")).toBe("true");
  });

  it("rejects a repeated accept only if there is no match", async () => {
    const { requester, quote } = await quotedMarket();
    const api = apiOf(requester);
    const { json } = await api.post("/rfq/accept", { quote_id: quote.quote_id });
    const again = { quote_id: quote.quote_id, not_after: past() };
    expect(await api.post("/rfq/accept", again)).toMatchObject({
      status: 200,
      json: { match_id: json["match_id"] },
    });
  });

  it("rejects commands of a socket", async () => {
    const { book, requester, maker, request, quote } = await quotedMarket();
    const ofMaker = await connect(maker, bookStream(book));
    const ofRequester = await connect(requester, bookStream(book));
    const not_after = past();
    ofMaker.send({ id: "q", op: "quote", request_id: request.request_id, price: 1, not_after });
    ofRequester.send({ id: "a", op: "accept", quote_id: quote.quote_id, not_after });
    for (const [socket, id] of [[ofMaker, "q"] as const, [ofRequester, "a"] as const])
      expect(await socket.until((message) => message.id === id)).toMatchObject({
        type: "error",
        data: { code: "deadline_passed", status: 409 },
      });
    ofMaker.send({ id: "c", op: "cancel_quote", quote_id: quote.quote_id, not_after });
    expect(await ofMaker.until(({ id }) => id === "c")).toMatchObject({
      data: { code: "invalid_request" },
    });
  });
});

describe("a batch that begins late", () => {
  it("commits nothing at or after not_after", async () => {
    const { book, requester, maker, request, quote } = await quotedMarket();
    const notAfter = now() + 200;
    const commands = [
      { ...command.placeQuote(maker, request.request_id, 1), notAfter },
      { ...command.accept(requester, quote.quote_id), notAfter },
    ];
    const results = await Promise.all(commands.map((sent) => commitLate(book, sent, 300)));
    expect(results.map((result) => result && outcomeOf(result))).toEqual([
      "deadline_passed",
      "deadline_passed",
    ]);
    expect(await balances(maker.userId, book)).toEqual([990n, 10n]);
  });

  it("shortens the life of a quote, which counts from when it was received", async () => {
    const { book, maker, request } = await openMarket();
    const sent = command.placeQuote(maker, request.request_id, 1, 5);
    await commitLate(book, sent, 300);
    const rows = await all<{ opened_at: number; expires_at: number }>(
      env.DB,
      sql`SELECT opened_at, expires_at FROM quotes WHERE quote_id = ${uuid(sent.quoteId)}`,
    );
    expect(rows.map(({ expires_at }) => expires_at)).toEqual([sent.receivedAt + 5_000]);
    expect(rows[0]?.opened_at).toBeGreaterThan(sent.receivedAt + 200);
  });

  it("places no quote whose life is over", async () => {
    const { book, maker, request } = await openMarket();
    const sent = command.placeQuote(maker, request.request_id, 1, 1);
    const result = await commitLate(book, { ...sent, receivedAt: now() - 1_000 }, 0);
    expect(result).toMatchObject({ ok: false, problem: { code: "deadline_passed" } });
    expect(await balances(maker.userId, book)).toEqual([1_000n, 0n]);
  });

  it("commits nothing of a Worker whose clock is far ahead", async () => {
    const { book, requester, maker, request, quote } = await quotedMarket();
    for (const [aheadMs, expected] of [
      [61_000, { ok: false, problem: { code: "unavailable", extensions: { outcome: "none" } } }],
      [50_000, { ok: true }],
    ] as const) {
      const receivedAt = now() + aheadMs;
      for (const sent of [
        { ...command.openRequest(requester, book, { amount: 10n }), receivedAt },
        { ...command.placeQuote(maker, request.request_id, 1, 300), receivedAt },
        { ...command.accept(requester, quote.quote_id), receivedAt },
      ])
        expect(await commitLate(book, sent, 0), sent.op).toMatchObject(expected);
    }
  });

  it("commits no quote and no accept long after it was received", async () => {
    const { book, requester, maker, request, quote } = await quotedMarket();
    // The setting of the tests, and one second for the difference of the clocks.
    const receivedAt = now() - 31_001;
    for (const sent of [
      { ...command.placeQuote(maker, request.request_id, 1, 300), receivedAt },
      { ...command.accept(requester, quote.quote_id), receivedAt },
    ])
      expect(await commitLate(book, sent, 0)).toMatchObject({
        ok: false,
        problem: { code: "unavailable", extensions: { outcome: "none" } },
      });
  });
});
