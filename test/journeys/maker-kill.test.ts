/** Kills workerd while a maker's safeguards are at work: none of their quotes stays open. */
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  type FailpointStack,
  fund,
  type Market,
  newAsset,
  newTrader,
  quotedBid,
  SLOW_MACHINE,
  startFailpointStack,
  until,
  untilServing,
} from "../support/node/stack.ts";

const AMOUNT = 1_000_000n;
const CLOSE_MS = 20_000;

let stack: FailpointStack;
let market: Market;
beforeAll(async () => {
  stack = await startFailpointStack();
  const [requester, maker] = await Promise.all([newTrader(stack), newTrader(stack)]);
  const asset = newAsset();
  await fund(stack, [
    { trader: requester, usdc: 4n * AMOUNT },
    { trader: maker, tokens: { asset, amount: 4n * AMOUNT } },
  ]);
  market = { requester, maker, asset };
});
afterAll(() => stack?.stop());

const quoteBid = async () => (await quotedBid(market, AMOUNT)).quote;
const closedAs = (quote: { quote_id: string }) =>
  until("the quote to close", CLOSE_MS, async () => {
    const { close_reason } = await market.maker.client.rfq.getQuote(quote);
    return close_reason;
  });

it("a protection that trips just before the kill has cancelled the other quotes", async () => {
  const { requester, maker } = market;
  await maker.client.rfq.saveProtection({ window_secs: 60, max_matches: 1, cooldown_secs: 300 });
  const [accepted, other] = [await quoteBid(), await quoteBid()];

  const reached = stack.stopAt("match_committed");
  const lost = requester.client.rfq.accept(accepted).catch((error: unknown) => error);
  await reached;
  await stack.killWorkerd();
  await untilServing(stack);

  expect(await closedAs(other)).toBe("protection");
  expect((await requester.client.rfq.accept(accepted)).quote_id).toBe(accepted.quote_id);
  expect((await maker.client.rfq.protection()).tripped_at).not.toBeNull();
  await expect(quoteBid()).rejects.toMatchObject({ code: "protection_tripped" });
  expect(await maker.client.custody.balance(market.asset)).toMatchObject({ pending_balance: 0n });
  await maker.client.rfq.resetProtection();
  await lost;
});

it("an accept and a replace queued behind a trip change nothing", async () => {
  const { requester, maker, asset } = market;
  await maker.client.rfq.saveProtection({ window_secs: 60, max_matches: 1, cooldown_secs: 300 });
  const [first, second, third] = [await quoteBid(), await quoteBid(), await quoteBid()];
  const { request_id, side } = third;
  const replacing = { request_id, side, replaces: third.quote_id, price: 400_000 };

  const reached = stack.stopAt("match_committed");
  const lost = requester.client.rfq.accept(first).catch((error: unknown) => error);
  await reached;
  // The book waits, so both are in its queue or fail with it. The client sends them again.
  const accepted = requester.client.rfq.accept(second).catch((error: unknown) => error);
  const replaced = maker.client.rfq.quote(replacing, SLOW_MACHINE).catch((error: unknown) => error);
  await stack.killWorkerd();
  await untilServing(stack);

  expect(await accepted).toMatchObject({ code: "quote_not_open" });
  expect(["protection_tripped", "quote_not_open"]).toContain(
    ((await replaced) as { code?: string }).code,
  );
  expect([await closedAs(second), await closedAs(third)]).toEqual(["protection", "protection"]);
  expect((await requester.client.rfq.accept(first)).quote_id).toBe(first.quote_id);
  expect(await maker.client.rfq.myQuotes({ status: "open" }).all()).toEqual([]);
  expect(await maker.client.custody.balance(asset)).toMatchObject({ pending_balance: 0n });
  await maker.client.rfq.resetProtection();
  await maker.client.rfq.saveProtection({ window_secs: 60, max_matches: null });
  await lost;
});

it("a reconnected socket takes over from the one that was killed", async () => {
  const { maker } = market;
  const quote = await quoteBid();
  const stream = maker.client.accountStream({ cancel_on_disconnect: true });
  await stream.ready();
  await stack.killWorkerd();
  await untilServing(stack);
  // Over the new socket, so it is armed. The row of the dead one is still there.
  await until("the stream to reconnect", CLOSE_MS, async () => {
    const { quote_id } = quote;
    const answer = await stream.accept({ quote_id }).catch((error: { code?: string }) => error);
    return "code" in answer && answer.code === "not_request_owner" ? true : null;
  });
  await stack.runCron();
  expect((await maker.client.rfq.getQuote(quote)).status).toBe("open");
  stream.close();
  expect(await closedAs(quote)).toBe("disconnect");
});

it("cron cancels the quotes of an armed socket whose object was killed", async () => {
  const { maker } = market;
  const quote = await quoteBid();
  const stream = maker.client.accountStream({ cancel_on_disconnect: true });
  await stream.ready();
  await stack.killWorkerd();
  stream.close();
  await untilServing(stack);
  await stack.runCron();
  expect(await closedAs(quote)).toBe("disconnect");
});

it("a cancel-after timer closes its quotes although workerd was killed", async () => {
  const { maker, requester, asset } = market;
  const quote = await quoteBid();
  await maker.client.rfq.cancelAfter({ timeout_secs: 5 });
  await stack.killWorkerd();
  await untilServing(stack);
  expect(await closedAs(quote)).toBe("timeout");
  const request = await requester.client.rfq.request({ ...asset, amount: AMOUNT, side: "Bid" });
  const terms = { request_id: request.request_id, price: 500_000 };
  await expect(maker.client.rfq.quote(terms, SLOW_MACHINE)).rejects.toMatchObject({
    code: "cancel_after_passed",
  });
  expect(await maker.client.custody.balance(asset)).toMatchObject({ pending_balance: 0n });
});
