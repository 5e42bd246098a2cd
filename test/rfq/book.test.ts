import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { readBalance } from "../../src/ledger/balance.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import {
  accept,
  codeOf,
  matchOf,
  newActor,
  newBook,
  openRequest,
  placedQuote,
  quote,
  send,
} from "../support/rfq.ts";

describe("a trade", () => {
  it("settles a Bid at once: USDC one way, the asset the other, losers released", async () => {
    const book = newBook();
    const taker = await newActor({ usdc: 1_000_000n });
    const winner = await newActor({ [book]: 500n });
    const loser = await newActor({ [book]: 500n });
    const request = await openRequest(taker, book, { amount: 100n });
    const good = await placedQuote(winner, request.request_id, 600_000);
    await placedQuote(loser, request.request_id, 700_000);
    expect(await readBalance(env.DB, winner.userId, book)).toEqual({
      available: 400n,
      pending: 100n,
    });

    const match = matchOf(await accept(taker, good.quote_id));

    expect(match).toMatchObject({ usdc_amount: "0x3c", role: "requester", price: 600_000 });
    expect(await readBalance(env.DB, taker.userId, "usdc")).toEqual({
      available: 999_940n,
      pending: 0n,
    });
    expect(await readBalance(env.DB, taker.userId, book)).toEqual({ available: 100n, pending: 0n });
    expect(await readBalance(env.DB, winner.userId, "usdc")).toEqual({
      available: 60n,
      pending: 0n,
    });
    expect(await readBalance(env.DB, winner.userId, book)).toEqual({
      available: 400n,
      pending: 0n,
    });
    expect(await readBalance(env.DB, loser.userId, book)).toEqual({ available: 500n, pending: 0n });
  });

  it("settles an Ask with both fees, which go to the house", async () => {
    const book = newBook("venue_two");
    const taker = await newActor({ [book]: 1_000_000n });
    const maker = await newActor({ usdc: 1_000_000n });
    const request = await openRequest(taker, book, { amount: 1_000_000n, side: "Ask" });
    const placed = await placedQuote(maker, request.request_id, 500_000);
    expect(placed).toMatchObject({ usdc_amount: "0x7a120", fee: "0x9c4" });
    expect(await readBalance(env.DB, maker.userId, "usdc")).toEqual({
      available: 497_500n,
      pending: 502_500n,
    });

    expect(matchOf(await accept(taker, placed.quote_id)).fee).toBe("0x1388");

    expect(await readBalance(env.DB, maker.userId, "usdc")).toEqual({
      available: 497_500n,
      pending: 0n,
    });
    expect(await readBalance(env.DB, taker.userId, "usdc")).toEqual({
      available: 495_000n,
      pending: 0n,
    });
    expect(await readBalance(env.DB, maker.userId, book)).toEqual({
      available: 1_000_000n,
      pending: 0n,
    });
  });
});

describe("guards", () => {
  it("two accepts of two quotes at once make one match, and the loser is told why", async () => {
    const book = newBook();
    const taker = await newActor({ usdc: 1_000n });
    const maker = await newActor({ [book]: 1_000n });
    const request = await openRequest(taker, book, { amount: 100n });
    const first = await placedQuote(maker, request.request_id, 500_000);
    const second = await placedQuote(maker, request.request_id, 600_000);

    const answers = await Promise.all([
      accept(taker, first.quote_id),
      accept(taker, second.quote_id),
    ]);

    expect(answers.map(codeOf).toSorted()).toEqual(["ok", "quote_not_open"]);
    expect(await readBalance(env.DB, maker.userId, book)).toEqual({ available: 900n, pending: 0n });
  });

  it("an underfunded quote in a group does not hurt its neighbours, and quotes of one group see each other", async () => {
    const book = newBook();
    const taker = await newActor();
    const rich = await newActor({ [book]: 1_000n });
    const poor = await newActor({ [book]: 100n });
    const requests = await Promise.all(
      [60n, 60n, 30n].map((amount) => openRequest(taker, book, { amount })),
    );
    const ids = requests.map((request) => request.request_id);

    const answers = await Promise.all([
      ...ids.map((id) => quote(poor, id, 1)),
      ...ids.map((id) => quote(rich, id, 1)),
    ]);

    expect(answers.map(codeOf)).toEqual(["ok", "insufficient_funds", "ok", "ok", "ok", "ok"]);
    expect(await readBalance(env.DB, poor.userId, book)).toEqual({ available: 10n, pending: 90n });
  });

  it("the same accept again returns the same match", async () => {
    const book = newBook();
    const taker = await newActor({ usdc: 1_000n });
    const maker = await newActor({ [book]: 1_000n });
    const request = await openRequest(taker, book, { amount: 100n });
    const placed = await placedQuote(maker, request.request_id, 500_000);
    const once = matchOf(await accept(taker, placed.quote_id));
    expect(matchOf(await accept(taker, placed.quote_id))).toEqual(once);
  });

  it("someone else's accept is refused, and so is a quote on one's own request", async () => {
    const book = newBook();
    const taker = await newActor({ usdc: 1_000n, [book]: 1_000n });
    const maker = await newActor({ [book]: 1_000n });
    const request = await openRequest(taker, book, { amount: 100n });
    const placed = await placedQuote(maker, request.request_id, 500_000);
    expect(codeOf(await accept(maker, placed.quote_id))).toBe("not_request_owner");
    expect(codeOf(await quote(taker, request.request_id, 1))).toBe("own_request");
  });

  it("a cancelled quote never fills, and cancelling it again is the same answer", async () => {
    const book = newBook();
    const taker = await newActor({ usdc: 1_000n });
    const maker = await newActor({ [book]: 1_000n });
    const request = await openRequest(taker, book, { amount: 100n });
    const placed = await placedQuote(maker, request.request_id, 500_000);
    const cancel = () =>
      send({ op: "cancel_quote", actor: maker, operationId: uuidv7(), quoteId: placed.quote_id });
    expect((await Promise.all([cancel(), cancel(), cancel()])).map(codeOf)).toEqual([
      "ok",
      "ok",
      "ok",
    ]);
    expect(codeOf(await accept(taker, placed.quote_id))).toBe("quote_not_open");
    expect(await readBalance(env.DB, maker.userId, book)).toEqual({
      available: 1_000n,
      pending: 0n,
    });
  });

  it("cancelling a request rejects its quotes and gives their reserves back", async () => {
    const book = newBook();
    const taker = await newActor({ usdc: 1_000n });
    const maker = await newActor({ [book]: 1_000n });
    const request = await openRequest(taker, book, { amount: 100n });
    await placedQuote(maker, request.request_id, 500_000);
    const cancel = () =>
      send({
        op: "cancel_request",
        actor: taker,
        operationId: uuidv7(),
        requestId: request.request_id,
      });
    expect(codeOf(await cancel())).toBe("ok");
    expect(codeOf(await cancel())).toBe("ok");
    expect(await readBalance(env.DB, maker.userId, book)).toEqual({
      available: 1_000n,
      pending: 0n,
    });
    expect(codeOf(await quote(maker, request.request_id, 1))).toBe("request_not_open");
  });

  it("an amount beyond any balance is never funded, exactly and without overflow", async () => {
    const book = newBook();
    const taker = await newActor();
    const maker = await newActor({ [book]: 1_000n });
    const request = await openRequest(taker, book, { amount: 2n ** 256n - 1n });
    const answer = await quote(maker, request.request_id, 1_000_000);
    expect(answer).toMatchObject({
      ok: false,
      problem: {
        code: "insufficient_funds",
        extensions: { available: "0x3e8", required: `0x${"f".repeat(64)}` },
      },
    });
  });

  it("the same idempotency key gives one quote and two equal answers, also in one group; other terms are refused", async () => {
    const book = newBook();
    const taker = await newActor();
    const maker = await newActor({ [book]: 1_000n });
    const { request_id: requestId } = await openRequest(taker, book, { amount: 100n });
    const place = (price: number) =>
      send({
        op: "place_quote",
        actor: maker,
        quoteId: uuidv7(),
        requestId,
        price,
        expiresInSecs: 30,
        idempotency: { key: "k", terms: `${price}` },
      });
    const [one, two] = await Promise.all([place(5), place(5)]);
    expect(one).toMatchObject({ ok: true, replayed: false });
    expect(two).toMatchObject({ ok: true, replayed: true });
    expect(one?.ok && two?.ok && "row" in one && "row" in two && one.row).toEqual(
      two?.ok && "row" in two && two.row,
    );
    expect(codeOf(await place(6))).toBe("idempotency_key_reused");
    expect(await readBalance(env.DB, maker.userId, book)).toEqual({
      available: 900n,
      pending: 100n,
    });
  });
});
