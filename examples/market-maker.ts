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
 * It quotes a request again when its quote has expired or ended with a lost connection. Its quotes
 * end with it: when its account stream ends (cancel on disconnect), or 30 s after its last
 * heartbeat (cancel-after). MAX_MATCHES a minute trip the protection of the account. To stop, it
 * first stops quoting and then cancels its open quotes, because a quote in flight may commit after
 * a cancel.
 */
import {
  NoAnswer,
  Problem,
  type QuoteRequest,
  type Side,
  type StreamMessage,
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
const RETRY_MS = 1_000;
const TIMEOUT_SECS = 30;
/** Names this run on its quotes. Other programs may quote with the same account. */
const LABEL = `maker-${crypto.randomUUID().slice(0, 8)}`;

/** The last decision for each asset. They run one by one, or two could both pass the limit. */
const inFlight = new Map<string, Promise<void>>();
/** What was printed of a request that is tried again and again. */
const printed = new WeakMap<QuoteRequest, string>();
let stopping = false;
let heartbeat: NodeJS.Timeout;

const client = clientOfEnvironment();
// A restart begins without open quotes.
await client.rfq.cancelQuotes({ venue_id });
await client.rfq.saveProtection({ window_secs: 60, max_matches: maxMatches, cooldown_secs: 60 });
await client.rfq.cancelAfter({ timeout_secs: TIMEOUT_SECS });
heartbeat = setTimeout(beat, HEARTBEAT_MS);
const requests = client.requests({
  venue_id,
  label: LABEL,
  cancel_on_disconnect: true,
  onMessage: report,
});
process.once("SIGINT", () => void stop());
process.once("SIGTERM", () => void stop());
await requests.ready();
console.log(`quoting ${venue_id} at ${fair} ± ${halfSpread}, at most ${maxPosition} of an asset`);
await requests.keepQuoted((request, side) => decide(request, side));

function beat(): void {
  client.rfq.cancelAfter({ timeout_secs: TIMEOUT_SECS }).then(
    () => (heartbeat = setTimeout(beat, HEARTBEAT_MS)),
    (error: unknown) => {
      console.error(`no heartbeat: ${String(error)}`);
      heartbeat = setTimeout(beat, RETRY_MS);
    },
  );
}

function report({ type, data }: StreamMessage): void {
  if (type !== "match.created" || data.label !== LABEL) return;
  console.log(`traded: ${data.side} ${data.amount} at ${data.price}`);
  if (skew === 0n) return;
  for (const { request, quotes } of requests)
    for (const { asset_id, side, quote_id } of quotes)
      if (asset_id === data.asset_id) void decide(request, side, quote_id);
}

function decide(request: QuoteRequest, side: Side, replaces?: string): Promise<void> {
  const before = inFlight.get(request.asset_id) ?? Promise.resolve();
  const decided = before.then(() => quote(request, side, replaces));
  inFlight.set(request.asset_id, decided);
  return decided;
}

/** Both prices fall while we hold much of the asset, so that we sell more and buy less. */
async function priceOf(request: QuoteRequest, side: Side): Promise<number> {
  // A Bid buys from us, an Ask sells to us.
  const price = side === "Bid" ? fair + halfSpread : fair - halfSpread;
  if (skew === 0n || maxPosition === 0n) return price;
  const lower = ((await held(request)) * skew) / maxPosition;
  return Math.max(1, price - Number(lower));
}

async function held(request: QuoteRequest): Promise<bigint> {
  const { balance, pending_balance } = await client.custody.balance(request);
  return balance + pending_balance;
}

async function quote(request: QuoteRequest, side: Side, replaces?: string): Promise<void> {
  if (stopping) return;
  const { request_id, asset_id } = request;
  try {
    const price = await priceOf(request, side);
    const old = requests.get(request_id)?.quotes.find(({ quote_id }) => quote_id === replaces);
    if (replaces !== undefined && (old === undefined || old.price === price)) return;
    // What the requester's USDC buys at this price, if the size is in USDC.
    const amount = request.amount ?? ((request.usdc_amount ?? 0n) * 1_000_000n) / BigInt(price);
    if (side === "Ask" && replaces === undefined && !(await fits(request, amount)))
      return passed(request, `${amount} of ${asset_id} is over the inventory limit`);
    const replaced = replaces === undefined ? {} : { replaces };
    const own = await requests.quote({ request_id, side, price, ...replaced });
    console.log(`quoted: ${side} ${own.amount} of ${asset_id} at ${price}`);
  } catch (error) {
    // The request may close before the quote arrives, and funds may run out.
    if (error instanceof Problem) passed(request, error.code);
    else if (error instanceof NoAnswer) passed(request, error.message);
    else throw error;
  }
}

function passed(request: QuoteRequest, why: string): void {
  if (printed.get(request) !== why) console.log(`passed: ${why}`);
  printed.set(request, why);
}

async function fits(request: QuoteRequest, amount: bigint): Promise<boolean> {
  const buying = [...requests]
    .flatMap(({ quotes }) => quotes)
    .filter(({ asset_id, side }) => asset_id === request.asset_id && side === "Ask")
    .reduce((sum, own) => sum + own.amount, 0n);
  return (await held(request)) + buying + amount <= maxPosition;
}

async function stop(): Promise<void> {
  stopping = true;
  clearTimeout(heartbeat);
  await Promise.allSettled(inFlight.values());
  // Before the sockets end, so that it counts the quotes that it cancels.
  const { cancelled } = await client.rfq.cancelQuotes({ venue_id });
  requests.close();
  await client.rfq.cancelAfter({ timeout_secs: 0 });
  console.log(`stopped: ${cancelled} quotes cancelled`);
}
