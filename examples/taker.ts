/**
 * Asks for quotes, waits, and accepts the best one:
 *
 *   npx node examples/taker.ts <venue> <asset_id> <amount> <Bid|Ask>
 *
 * `Bid` buys the outcome token with USDC, `Ask` sells it. The amount is in millionths of a token.
 * LIMIT_PRICE is the worst price to accept, scaled by 1e6. WAIT_SECS is how long it waits.
 */
import {
  type Client,
  type Match,
  Problem,
  type Quote,
  type QuoteRequest,
  type Side,
} from "@rfq-custody/client";
import { clientOfEnvironment, priceSetting, refuse, runProgram, wholeSetting } from "./settings.ts";

/** A request without `expires_in_secs` stays open this long. */
const MAX_WAIT_SECS = 300;

const [venue_id, asset_id, amountText = "", sideName] = process.argv.slice(2);
const side: Side | undefined = sideName === "Bid" || sideName === "Ask" ? sideName : undefined;
if (venue_id === undefined || side === undefined || asset_id === undefined) {
  refuse("usage: npx node examples/taker.ts <venue> <asset_id> <amount> <Bid|Ask>");
}
if (!/^[1-9]\d{0,77}$/.test(amountText)) {
  refuse(`The amount is "${amountText}". It must be a whole number above 0, in millionths.`);
}
const terms = { venue_id, asset_id, amount: BigInt(amountText), side };
const waitSecs = Number(wholeSetting("WAIT_SECS", 5n));
if (waitSecs > MAX_WAIT_SECS) {
  refuse(`WAIT_SECS is ${waitSecs}, but a request expires after ${MAX_WAIT_SECS} s.`);
}
const limit = priceSetting("LIMIT_PRICE", side === "Bid" ? 1_000_000 : 1);

await runProgram(async () => {
  const client = clientOfEnvironment();
  const request = await client.rfq.request(terms);
  console.log(`asked: ${side} ${request.amount} of ${asset_id}, request ${request.request_id}`);
  console.log(`waiting ${waitSecs} s for quotes`);
  // The first quote is seldom the best.
  await new Promise((resolve) => setTimeout(resolve, waitSecs * 1_000));
  const match = await acceptBest(client, request);
  if (match === undefined) {
    await client.rfq.cancelRequest(request);
    console.log("no quote within the limit; the request is cancelled");
    return 1;
  }
  console.log(
    `matched: ${match.amount} for ${match.usdc_amount} USDC units at ${match.price / 1e6}, ` +
      `match ${match.match_id}`,
  );
  const { balance, pending_balance } = await client.custody.usdcBalance();
  console.log(`usdc: ${balance} available, ${pending_balance} pending`);
  return 0;
});

/** Accepts the best quote, or the next one if its maker was faster to end it. */
async function acceptBest(client: Client, request: QuoteRequest): Promise<Match | undefined> {
  for (;;) {
    const best = await bestQuote(client, request);
    if (best === undefined) return undefined;
    try {
      // A repeated accept returns the same match, so the client repeats it after a lost response.
      return await client.rfq.accept(best);
    } catch (error) {
      const isGone =
        error instanceof Problem && ["quote_expired", "quote_not_open"].includes(error.code);
      if (!isGone) throw error;
      console.log(`${error.code}: trying the next quote`);
    }
  }
}

async function bestQuote(client: Client, { request_id }: QuoteRequest): Promise<Quote | undefined> {
  // Best for the requester first.
  const { items } = await client.rfq.quotes({ request_id, status: "open", limit: 1 }).page();
  return items.find(({ price }) => (side === "Bid" ? price <= limit : price >= limit));
}
