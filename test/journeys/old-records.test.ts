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

it("are listed or exported as before they left", { timeout: 180_000 }, async () => {
  const { requester, maker } = market;
  const accepted = await quotedBid(market, AMOUNT);
  const match = await requester.client.rfq.accept(accepted.quote);
  const cancelled = await quotedBid(market, AMOUNT);
  await maker.client.rfq.cancelQuote(cancelled.quote);
  await requester.client.rfq.cancelRequest(cancelled.request);
  const lists = async () => ({
    matches: await requester.client.rfq.matches().all(),
    match: await maker.client.rfq.getMatch({ match_id: match.match_id }),
    entries: await maker.client.custody.ledger().all(),
  });
  const before = await lists();
  const requests = await requester.client.rfq.myRequests({ status: "all" }).all();
  const quotes = await maker.client.rfq.myQuotes().all();
  await stack.restartWorker(SHORT);
  const left = (read: Promise<unknown>) =>
    read.then(
      () => false,
      (error: { code?: string }) => error.code?.endsWith("_unknown") === true,
    );
  await until("the records to leave the database", RELEASE_MS, async () => {
    await stack.runCron();
    const reads = [
      requester.client.rfq.getQuote(cancelled.quote),
      requester.client.rfq.getRequest(cancelled.request),
      requester.client.rfq.getRequest(accepted.request),
    ];
    return (await Promise.all(reads.map(left))).every(Boolean) ? true : null;
  });
  expect(await lists()).toEqual(before);
  const day = quotes[0]?.created_at.slice(0, 10) ?? "";
  const byId = <Item extends { request_id: string }>(items: readonly Item[]) =>
    items.toSorted((a, b) => (a.request_id < b.request_id ? -1 : 1));
  const exported = {
    requests: await requester.client.rfq.exportRecords({ kind: "requests", day }).all(),
    quotes: await maker.client.rfq.exportRecords({ kind: "quotes", day }).all(),
  };
  expect(byId(exported.requests)).toEqual(byId(requests));
  expect(byId(exported.quotes)).toEqual(byId(quotes));
  await expect(maker.client.rfq.cancelQuote(cancelled.quote)).rejects.toMatchObject({
    code: "quote_unknown",
  });
});
