/**
 * Quotes every request of a venue over a websocket until Ctrl-C or SIGTERM:
 *
 *   npx node examples/market-maker.ts <venue>
 *
 * It sells at FAIR_PRICE plus HALF_SPREAD and buys at FAIR_PRICE minus HALF_SPREAD, both scaled by
 * 1e6. It buys only while its balance and its open buying quotes together stay within MAX_POSITION,
 * in millionths of a token. With INVENTORY_SKEW it moves both prices down by that much at
 * MAX_POSITION, and in proportion below it. After a trade it replaces its open quotes on the asset.
 *
 * Its quotes end with it: when its account stream ends (cancel on disconnect), or 30 s after its
 * last heartbeat (cancel-after). MAX_MATCHES a minute trip the protection of the account. To stop,
 * it first stops quoting and then cancels its open quotes, because a quote in flight may commit
 * after a cancel.
 */
import {
  type Client,
  type MarketAsset,
  type Match,
  Problem,
  type QuoteRequest,
  type Side,
  type Stream,
} from "@rfq-custody/client";
import { clientOfEnvironment, priceSetting, refuse, wholeSetting } from "./settings.ts";

const venue_id = process.argv[2] ?? refuse("usage: npx node examples/market-maker.ts <venue>");
const fair = priceSetting("FAIR_PRICE", 500_000);
const halfSpread = Number(wholeSetting("HALF_SPREAD", 10_000n));
if (fair - halfSpread < 1 || fair + halfSpread > 1_000_000) {
  refuse(
    `HALF_SPREAD is ${halfSpread}, but FAIR_PRICE plus and minus it must be a price: 1 to 1000000.`,
  );
}
// A million tokens, ten times what the maker of `npm run dev` starts with.
const maxPosition = wholeSetting("MAX_POSITION", 1_000_000_000_000n);
const skew = wholeSetting("INVENTORY_SKEW", 0n);
const maxMatches = Number(wholeSetting("MAX_MATCHES", 100n));
const HEARTBEAT_MS = 10_000;
const TIMEOUT_SECS = 30;

/** Open quotes of this program. Other programs may quote with the same account. */
const placed = new Map<string, { request: QuoteRequest; side: Side; price: number }>();
/** Amounts of our open buying quotes, by asset and quote. */
const buying = new Map<string, Map<string, bigint>>();
/** The last decision for each asset. They run one by one, or two could both pass the limit. */
const inFlight = new Map<string, Promise<void>>();
/** Requests that we have seen. A snapshot after a broken connection names them again. */
const considered = new Set<string>();
let stopping = false;

const client = clientOfEnvironment();
// A restart begins without open quotes.
await client.rfq.cancelQuotes({ venue_id });
await client.rfq.saveProtection({ window_secs: 60, max_matches: maxMatches, cooldown_secs: 60 });
await client.rfq.cancelAfter({ timeout_secs: TIMEOUT_SECS });
const heartbeat = setInterval(() => {
  client.rfq
    .cancelAfter({ timeout_secs: TIMEOUT_SECS })
    .catch((error: unknown) => console.error(`no heartbeat: ${String(error)}`));
}, HEARTBEAT_MS);
const market = client.venueStream({ venue_id });
const account = client.accountStream({ cancel_on_disconnect: true });
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
    if (message.type === "quote.closed") forget(message.data.quote_id, message.data.reason);
    if (message.type === "match.created") await report(message.data);
    // The missed messages are lost, so the quotes that we count as open may be closed. Start again.
    if (message.type === "resync") {
      await client.rfq.cancelQuotes({ venue_id });
      buying.clear();
    }
  }
}

function forget(quoteId: string, reason: string): void {
  for (const quotes of buying.values()) quotes.delete(quoteId);
  // The match of an accepted quote may arrive later.
  if (reason !== "accepted") placed.delete(quoteId);
}

async function report(match: Match): Promise<void> {
  // A match may arrive before the response to its quote.
  await Promise.allSettled(inFlight.values());
  if (!placed.delete(match.quote_id)) return;
  console.log(`traded: ${match.side} ${match.amount} at ${match.price}`);
  if (skew === 0n) return;
  for (const [replaces, { request, side }] of placed)
    if (request.asset_id === match.asset_id) decide(request, side, replaces);
}

function consider(request: QuoteRequest): void {
  if (considered.has(request.request_id)) return;
  considered.add(request.request_id);
  const sides: Side[] = request.side === "TwoWay" ? ["Bid", "Ask"] : [request.side];
  for (const side of sides) decide(request, side);
}

function decide(request: QuoteRequest, side: Side, replaces?: string): void {
  const before = inFlight.get(request.asset_id) ?? Promise.resolve();
  inFlight.set(
    request.asset_id,
    before.then(() => quote(client, { request, side, replaces })),
  );
}

/** Both prices fall while we hold much of the asset, so that we sell more and buy less. */
async function priceOf(maker: Client, request: QuoteRequest, side: Side): Promise<number> {
  // A Bid buys from us, an Ask sells to us.
  const price = side === "Bid" ? fair + halfSpread : fair - halfSpread;
  if (skew === 0n || maxPosition === 0n) return price;
  const { balance, pending_balance } = await maker.custody.balance(request);
  const lower = ((balance + pending_balance) * skew) / maxPosition;
  return Math.max(1, price - Number(lower));
}

async function quote(
  maker: Client,
  terms: { request: QuoteRequest; side: Side; replaces: string | undefined },
): Promise<void> {
  if (stopping) return;
  const { request, side, replaces } = terms;
  const { request_id, asset_id } = request;
  const price = await priceOf(maker, request, side);
  if (replaces !== undefined && placed.get(replaces)?.price === price) return;
  // What the requester's USDC buys at this price, if the size is in USDC.
  const amount = request.amount ?? ((request.usdc_amount ?? 0n) * 1_000_000n) / BigInt(price);
  try {
    if (side === "Ask" && replaces === undefined && !(await fits(maker, { ...request, amount })))
      return console.log(`passed: ${amount} of ${asset_id} is over the inventory limit`);
    const old = replaces === undefined ? {} : { replaces };
    const own = await market.quote({ request_id, side, price, expires_in_secs: 60, ...old });
    placed.set(own.quote_id, { request, side, price });
    if (side === "Ask") openBuys(asset_id).set(own.quote_id, own.amount);
    console.log(`quoted: ${side} ${own.amount} of ${asset_id} at ${price}`);
  } catch (error) {
    // The request may close before the quote arrives, and funds may run out.
    if (!(error instanceof Problem) || error.status !== 409) throw error;
    console.log(`passed: ${error.code}`);
  }
}

async function fits(
  maker: Client,
  { venue_id: venue, asset_id, amount }: MarketAsset & { amount: bigint },
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
  clearInterval(heartbeat);
  await Promise.allSettled(inFlight.values());
  // Before the sockets end, so that it counts the quotes that it cancels.
  const { cancelled } = await client.rfq.cancelQuotes({ venue_id });
  market.close();
  account.close();
  await client.rfq.cancelAfter({ timeout_secs: 0 });
  console.log(`stopped: ${cancelled} quotes cancelled`);
}
