/** Kills workerd between the commit of an accept and its push to the streams. */
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  type FailpointStack,
  openMarket,
  quotedBid,
  startFailpointStack,
  untilServing,
} from "../support/node/stack.ts";

const AMOUNT = 1_000_000n;

let stack: FailpointStack;
beforeAll(async () => {
  stack = await startFailpointStack();
});
afterAll(() => stack?.stop());

it("streams replay a match whose push was lost, and a repeated accept returns it", async () => {
  const market = await openMarket(stack, AMOUNT);
  const { requester, maker, asset } = market;
  const { quote } = await quotedBid(market, AMOUNT);

  const reached = stack.stopAt("match_committed");
  const lost = requester.client.rfq
    .accept({ quote_id: quote.quote_id })
    .catch((error: unknown) => error);
  await reached;
  await stack.killWorkerd();
  await untilServing(stack);

  const match = await requester.client.rfq.accept({ quote_id: quote.quote_id });
  expect(match).toMatchObject({
    quote_id: quote.quote_id,
    usdc_amount: AMOUNT / 2n,
    role: "requester",
  });
  for (const { client } of [requester, maker]) {
    const stream = client.accountStream({ since: 0 });
    try {
      for await (const message of stream) {
        if (message.type !== "match.created") continue;
        expect(message.data.match_id).toBe(match.match_id);
        break;
      }
    } finally {
      stream.close();
    }
  }
  expect(await requester.client.custody.balance(asset)).toMatchObject({
    balance: AMOUNT,
    pending_balance: 0n,
  });
  expect(await maker.client.custody.usdcBalance()).toMatchObject({
    balance: AMOUNT / 2n,
    pending_balance: 0n,
  });
  await lost;
});
