/** The calls of D1 and of other objects that a command costs its book. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { RfqBook } from "../../src/rfq/rfq-book.ts";
import { countingCalls } from "../support/counting-database.ts";
import { newAsset } from "../support/ledger.ts";
import { command, openMarket, outcomeOf } from "../support/market.ts";
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
