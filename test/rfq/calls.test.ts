/** The calls of D1 and of other objects that a command costs its book. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { listQuotesOnRequest } from "../../src/rfq/list-quotes.ts";
import { RfqBook } from "../../src/rfq/rfq-book.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { countingCalls } from "../support/counting-database.ts";
import { newAsset } from "../support/ledger.ts";
import { command, openMarket, openRequest, outcomeOf, placeQuote } from "../support/market.ts";
import { connect } from "../support/sockets.ts";
import { newUser } from "../support/users.ts";

it("a command on a book's own socket does not call the book's stub", async () => {
  const { book, stream, maker, request } = await openMarket();
  const subscriber = await connect(maker, stream);
  const unreachable = new Proxy(env.RFQ_BOOK, {
    get: (_target, name) => {
      throw new Error(`RFQ_BOOK.${String(name)} was used`);
    },
  });
  const terms = { request_id: request.request_id, price: 1, expires_in_secs: 30 };
  await runInDurableObject(env.RFQ_BOOK.getByName(book), async (_instance, ctx) => {
    const object = new RfqBook(ctx, { ...env, RFQ_BOOK: unreachable });
    const [socket] = ctx.getWebSockets();
    if (socket === undefined) throw new Error("no socket");
    await object.webSocketMessage(socket, JSON.stringify({ op: "quote", id: "q", ...terms }));
  });
  expect(await subscriber.until(({ id }) => id === "q")).toMatchObject({
    type: "result",
    data: { request_id: request.request_id, status: "open" },
  });
});

it("the first quote on a request that the book opened reads no terms", async () => {
  const { key: book } = newAsset();
  const requester = await newUser({ usdc: 1_000n });
  const maker = await newUser({ [book]: 1_000n });
  const { db, count } = countingCalls();
  await runInDurableObject(env.RFQ_BOOK.getByName(book), async (_instance, ctx) => {
    const object = new RfqBook(ctx, { ...env, DB: db });
    const open = command.openRequest(requester, book, { amount: 10n });
    expect(outcomeOf(await object.submit(open))).toBe("ok");
    const before = count();
    const quote = await object.submit(command.placeQuote(maker, open.requestId, 500_000));
    expect(quote).toMatchObject({ ok: true, row: { amount: "10", usdc_amount: "5" } });
    expect(count() - before).toBe(1);
  });
});

it("a request that was refused leaves no terms in the book", async () => {
  const { key: book } = newAsset();
  const requester = await newUser({ usdc: 1_000n });
  const maker = await newUser({ [book]: 1_000n });
  await runInDurableObject(env.RFQ_BOOK.getByName(book), async (_instance, ctx) => {
    const object = new RfqBook(ctx, env);
    const late = { ...command.openRequest(requester, book, { amount: 10n }), notAfter: 1 };
    expect(outcomeOf(await object.submit(late))).toBe("deadline_passed");
    const quote = await object.submit(command.placeQuote(maker, late.requestId, 1));
    expect(outcomeOf(quote)).toBe("request_unknown");
  });
});

it.each([
  ["Bid", [5, 6, 7]],
  ["Ask", [7, 6, 5]],
] as const)("lists the quotes on a %s best first with one call of D1", async (side, prices) => {
  const { book, requester, maker, request } = await openMarket({ side });
  const other = await openRequest(requester, book, { amount: 10n, side });
  for (const price of [6, 5, 7]) await placeQuote(maker, request.request_id, price);
  await placeQuote(maker, other.request_id, 8);
  const { db, count } = countingCalls();
  const query = { requestId: request.request_id };
  const { items } = await listQuotesOnRequest(db, requester.userId, query, { limit: 50 });
  expect(items.map(({ price }) => price)).toEqual(prices);
  expect(count()).toBe(1);
  const someoneElse = listQuotesOnRequest(db, maker.userId, query, { limit: 50 });
  await expect(someoneElse).rejects.toMatchObject({ data: { code: "not_request_owner" } });
  const unknown = listQuotesOnRequest(db, maker.userId, { requestId: uuidv7() }, { limit: 50 });
  await expect(unknown).rejects.toMatchObject({ data: { code: "request_unknown" } });
});

it("refuses a quote with two calls of D1: its group and the reason", async () => {
  const { book, requester, request } = await openMarket();
  const { db, count } = countingCalls();
  await runInDurableObject(env.RFQ_BOOK.getByName(book), async (_instance, ctx) => {
    const object = new RfqBook(ctx, { ...env, DB: db });
    const own = command.placeQuote(requester, request.request_id, 1);
    await object.submit(own);
    const before = count();
    expect(outcomeOf(await object.submit({ ...own, quoteId: uuidv7() }))).toBe("own_request");
    expect(count() - before).toBe(2);
  });
});
