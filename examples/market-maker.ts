/**
 * Quotes every request of a venue over a websocket, until it is stopped:
 *
 *   npx node examples/market-maker.ts <venue>
 *
 * FAIR_PRICE and HALF_SPREAD (scaled by 1e6) make its prices. MAX_POSITION (native units) is the most of one asset that it
 * will ever hold: what it holds, plus what its open buying quotes would bring, stays within it. A Ctrl-C stops quoting first
 * and then cancels what is open, since a quote under way may commit after a cancel.
 */
import { type Client, Problem, type QuoteRequest, type Stream, VENUES } from "@rfq-custody/client";
import { clientOfEnvironment, priceSetting, refuse, wholeSetting } from "./settings.ts";

const venue_id = VENUES.find((venue) => venue === process.argv[2]);
if (venue_id === undefined)
  refuse(`usage: npx node examples/market-maker.ts <${VENUES.join("|")}>`);
const fair = priceSetting("FAIR_PRICE", 500_000);
const halfSpread = Number(wholeSetting("HALF_SPREAD", 10_000n));
if (fair - halfSpread < 1 || fair + halfSpread > 1_000_000) {
  refuse(
    `HALF_SPREAD is ${halfSpread}; FAIR_PRICE less and plus it must be 1 to 1000000, scaled by 1e6.`,
  );
}
// A million tokens: ten times what the maker of `npm run dev` begins with.
const maxPosition = wholeSetting("MAX_POSITION", 1_000_000_000_000n);

/** Amounts of our open buying quotes, by asset and quote. */
const buying = new Map<string, Map<string, bigint>>();
/** Decisions under way. One at a time for each asset, or two could both think that they are within the limit. */
const underWay = new Map<string, Promise<void>>();
/** Requests that we have considered: a snapshot after a broken connection names them again. */
const considered = new Set<string>();
let stopping = false;

const client = clientOfEnvironment();
// A restart begins with a clean book.
await client.rfq.cancelQuotes({ venue_id });
const market = client.venueStream({ venue_id });
const account = client.accountStream();
process.once("SIGINT", () => void stop());
process.once("SIGTERM", () => void stop());
await Promise.all([market.ready(), account.ready()]);
console.log(`quoting ${venue_id} at ${fair} ± ${halfSpread}, at most ${maxPosition} of an asset`);
await Promise.all([readMarket(market), readAccount(account)]);

async function readMarket(stream: Stream): Promise<void> {
  for await (const message of stream) {
    if (message.type === "snapshot") for (const request of message.data.requests) consider(request);
    if (message.type === "request.opened") consider(message.data);
    if (message.type === "request.closed") considered.delete(message.data.request_id);
  }
}

async function readAccount(stream: Stream): Promise<void> {
  for await (const message of stream) {
    if (message.type === "quote.closed")
      for (const quotes of buying.values()) quotes.delete(message.data.quote_id);
    if (message.type === "match.created")
      console.log(`traded: ${message.data.side} ${message.data.amount} at ${message.data.price}`);
    // What was missed cannot be replayed: what we believe is open may not be. Begin afresh.
    if (message.type === "resync") {
      await client.rfq.cancelQuotes({ venue_id: venue_id ?? "venue_one" });
      buying.clear();
    }
  }
}

function consider(request: QuoteRequest): void {
  if (considered.has(request.request_id)) return;
  considered.add(request.request_id);
  const before = underWay.get(request.asset_id) ?? Promise.resolve();
  underWay.set(
    request.asset_id,
    before.then(() => quote(client, request)),
  );
}

async function quote(maker: Client, request: QuoteRequest): Promise<void> {
  if (stopping) return;
  // A Bid buys from us, an Ask sells to us.
  const price = request.side === "Bid" ? fair + halfSpread : fair - halfSpread;
  try {
    if (request.side === "Ask" && !(await fits(maker, request))) {
      return console.log(
        `passed: ${request.amount} of ${request.asset_id} is over the inventory limit`,
      );
    }
    const placed = await market.quote({
      request_id: request.request_id,
      price,
      expires_in_secs: 60,
    });
    if (request.side === "Ask") openBuys(request.asset_id).set(placed.quote_id, placed.amount);
    console.log(`quoted: ${request.side} ${request.amount} of ${request.asset_id} at ${price}`);
  } catch (error) {
    // Requests end while they are quoted, and funds run out: that is business, not failure.
    if (!(error instanceof Problem) || error.status !== 409) throw error;
    console.log(`passed: ${error.code}`);
  }
}

async function fits(
  maker: Client,
  { venue_id: venue, asset_id, amount }: QuoteRequest,
): Promise<boolean> {
  const { balance, pending_balance } = await maker.custody.balance({ venue_id: venue, asset_id });
  const open = [...openBuys(asset_id).values()].reduce((sum, each) => sum + each, 0n);
  return balance + pending_balance + open + amount <= maxPosition;
}

function openBuys(asset_id: string): Map<string, bigint> {
  const quotes = buying.get(asset_id) ?? new Map<string, bigint>();
  buying.set(asset_id, quotes);
  return quotes;
}

async function stop(): Promise<void> {
  stopping = true;
  await Promise.allSettled(underWay.values());
  market.close();
  account.close();
  const { cancelled } = await client.rfq.cancelQuotes({ venue_id: venue_id ?? "venue_one" });
  console.log(`stopped: ${cancelled} quotes cancelled`);
}
