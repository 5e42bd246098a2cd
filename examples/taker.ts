/**
 * Asks for a price, waits for quotes and accepts the best one:
 *
 *   npx node examples/taker.ts <venue> <asset_id> <amount> <Bid|Ask>
 *
 * LIMIT_PRICE (scaled by 1e6) is the worst price to accept, WAIT_SECS how long to wait for quotes.
 */
import { type Client, type Quote, type QuoteRequest, type Side, VENUES } from "@rfq-custody/client";
import { clientOfEnvironment, priceSetting, refuse, wholeSetting } from "./settings.ts";

/** What a request lives when it does not say. */
const MAX_WAIT_SECS = 300;

const [venueName, asset_id, amount, sideName] = process.argv.slice(2);
const venue_id = VENUES.find((venue) => venue === venueName);
const side: Side | undefined = sideName === "Bid" || sideName === "Ask" ? sideName : undefined;
if (
  venue_id === undefined ||
  side === undefined ||
  asset_id === undefined ||
  !/^\d+$/.test(amount ?? "")
) {
  refuse(`usage: npx node examples/taker.ts <${VENUES.join("|")}> <asset_id> <amount> <Bid|Ask>`);
}
const waitSecs = Number(wholeSetting("WAIT_SECS", 5n));
if (waitSecs > MAX_WAIT_SECS)
  refuse(`WAIT_SECS is ${waitSecs}; a request lives ${MAX_WAIT_SECS} s.`);
const limit = priceSetting("LIMIT_PRICE", side === "Bid" ? 1_000_000 : 1);

const client = clientOfEnvironment();
const request = await client.rfq.request({
  venue_id,
  asset_id,
  amount: BigInt(amount ?? ""),
  side,
});
console.log(
  `asked: ${side} ${request.amount} of ${request.asset_id}, request ${request.request_id}`,
);

const best = await bestQuote(client, request);
if (best === undefined) {
  await client.rfq.cancelRequest(request);
  console.log("no quote within the limit; the request is cancelled");
  process.exit(1);
}
// Repeating an accept answers the same match, so the client may do so when an answer is lost.
const match = await client.rfq.accept(best);
const { balance, pending_balance } = await client.custody.usdcBalance();
console.log(
  `matched: ${match.amount} for ${match.usdc_amount} USDC units at ${match.price / 1e6}, match ${match.match_id}`,
);
console.log(`usdc: ${balance} available, ${pending_balance} pending`);

/** Gives every maker the whole time: the first quote is seldom the best. */
async function bestQuote(
  of: Client,
  { request_id, side: asked }: QuoteRequest,
): Promise<Quote | undefined> {
  await new Promise((resolve) => setTimeout(resolve, waitSecs * 1_000));
  // Best for the requester first.
  const { items } = await of.rfq.quotes({ request_id, status: "open", limit: 1 }).page();
  return items.find(({ price }) => (asked === "Bid" ? price <= limit : price >= limit));
}
