/** Records that have left the database, as their owners read them from the real histories. */
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  type Market,
  openMarket,
  quotedBid,
  startTestStack,
  type TestStack,
  until,
} from "../support/node/stack.ts";

const AMOUNT = 1_000_000n;
/** Windows of seconds: an hour is one, and a day is 24. */
const SHORT = { HOT_WINDOWS_DIVISOR: "3600" };
const RELEASE_MS = 90_000;

let stack: TestStack;
let market: Market;
beforeAll(async () => {
  stack = await startTestStack();
  market = await openMarket(stack, 4n * AMOUNT);
});
afterAll(() => stack?.stop());

it("are listed and repeated as before they left", { timeout: 180_000 }, async () => {
  const { requester, maker } = market;
  const accepted = await quotedBid(market, AMOUNT);
  const match = await requester.client.rfq.accept(accepted.quote);
  const cancelled = await quotedBid(market, AMOUNT);
  await maker.client.rfq.cancelQuote(cancelled.quote);
  await requester.client.rfq.cancelRequest(cancelled.request);
  const read = async () => ({
    requests: await requester.client.rfq.myRequests({ status: "all" }).all(),
    request: await requester.client.rfq.getRequest(cancelled.request),
    quotes: await maker.client.rfq.myQuotes().all(),
    quote: await maker.client.rfq.getQuote(cancelled.quote),
    matches: await requester.client.rfq.matches().all(),
    match: await maker.client.rfq.getMatch({ match_id: match.match_id }),
    entries: await maker.client.custody.ledger().all(),
  });
  const before = await read();
  await stack.restartWorker(SHORT);
  // Someone else's quote is unknown once it has left.
  await until("the quote to leave the database", RELEASE_MS, async () => {
    await stack.runCron();
    const known = requester.client.rfq.getQuote(cancelled.quote);
    return known.then(
      () => null,
      (error: { code?: string }) => (error.code === "quote_unknown" ? true : null),
    );
  });
  expect(await read()).toEqual(before);
  expect(await requester.client.rfq.accept(accepted.quote)).toEqual(match);
  await maker.client.rfq.cancelQuote(cancelled.quote);
  await requester.client.rfq.cancelRequest(cancelled.request);
  await expect(maker.client.rfq.cancelQuote(accepted.quote)).rejects.toMatchObject({
    code: "quote_not_open",
  });
});
