/**
 * Loads of quotes: over signed REST, over sockets, and 50 a call. Each goes to the service, or with
 * the same bytes to the peer `lean`.
 */
import { median, percentile } from "./figures.ts";
import { joinLeanPeer } from "./lean-peer.ts";
import { drive, lanesOf, type LoadResult } from "./load.ts";
import {
  type Market,
  openMarket,
  openRequests,
  quoteFields,
  sendAll,
  signedQuote,
  signedRequest,
  streamTargets,
  succeeded,
} from "./market.ts";
import { type Person, signed } from "./people.ts";
import { driveSockets, openSocket } from "./sockets.ts";
import { type BenchStack, numberIn } from "./stack.ts";

/** Connections, and makers if the load does not say otherwise. */
export const MAKERS = 64;
/** A request accepts 1 000 open quotes. With so many requests no round fills one. */
const REQUESTS = 64;
/** For few makers, because each may have 20 open quotes on a request. */
const MORE_REQUESTS = 256;
export const MANY_BOOKS = 256;
const REQUESTS_PER_BOOK = 4;
/** Quotes of a `POST /rfq/quotes`, the most that it takes. */
export const MASS = 50;
const MASS_MAKERS = 16;
const WARM_UP_MS = 500;

/** A busy machine or a first commit with cold caches must not end the bench with a 503 or 401. */
export const PATIENT = { RFQ_COMMAND_MAX_WAIT_MS: "60000", AUTH_HMAC_TOLERANCE_SECS: "300" };

export type Rate = {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  /** NaN of the peer. */
  readonly perCommit: number;
  readonly cpuMicros: number;
};

type To = "service" | "peer";
type Book = { readonly market: Market; readonly requestIds: readonly string[] };

/** A new book with its makers and requests, and the port to send to. */
async function openBook(stack: BenchStack, makers: number, to: To) {
  const market = await openMarket(stack, makers);
  const count = makers < MASS_MAKERS ? MORE_REQUESTS : REQUESTS;
  const requestIds = await openRequests(stack, market, count);
  if (to === "peer") await joinLeanPeer(stack, market.makers);
  return { market, requestIds, port: to === "peer" ? stack.peerPort : stack.port };
}

/** Each maker begins at another request, so that they spread over all of them. */
function requestAt({ requestIds }: Book, maker: number, step: number): string {
  return requestIds[(maker + step) % requestIds.length] ?? "";
}

/** The peer only verifies the signature and calls its object. */
export async function quotesOverRest(
  stack: BenchStack,
  forMs: number,
  to: To = "service",
): Promise<Rate> {
  const book = await openBook(stack, MAKERS, to);
  const lanes = await lanesOf(book.market.makers, REQUESTS, (maker, index, step) =>
    signedQuote(maker, requestAt(book, index, step)),
  );
  const before = stack.cpuMs();
  const result = succeeded(
    await drive({ port: book.port, lanes, forMs, warmUpMs: WARM_UP_MS, freshKeys: true }),
  );
  return rateOf(result, stack.cpuMs() - before, await perCommit(stack, [book.market], "quotes"));
}

/** One command is in flight on each of 64 sockets, which belong to the makers in turn. */
export async function quotesOverSockets(
  stack: BenchStack,
  forMs: number,
  { to = "service", makers = MAKERS }: { to?: To; makers?: number } = {},
): Promise<Rate> {
  const book = await openBook(stack, makers, to);
  const owners = Array.from(
    { length: MAKERS },
    (_, socket) => book.market.makers[socket % makers] as Person,
  );
  const targets =
    to === "peer"
      ? owners.map(({ userId }) => `/?maker=${userId}`)
      : await streamTargets(stack, owners, book.market.assetId);
  const sockets = await Promise.all(targets.map((target) => openSocket(book.port, target)));
  const before = stack.cpuMs();
  const result = await driveSockets(sockets, {
    forMs,
    warmUpMs: WARM_UP_MS,
    commandOf: (socket, step) => ({
      op: "quote",
      idempotency_key: `bench-${socket}-${step}`,
      ...quoteFields(requestAt(book, socket, step)),
    }),
  });
  const cpuMs = stack.cpuMs() - before;
  for (const socket of sockets) socket.close();
  return rateOf(result, cpuMs, await perCommit(stack, [book.market], "quotes"));
}

/** Each maker sends one call at a time, of a quote on each of as many requests. */
export async function quotesInCalls(
  stack: BenchStack,
  callsPerMaker: number,
  to: To = "service",
): Promise<Rate> {
  const book = await openBook(stack, MASS_MAKERS, to);
  const lanes = await lanesOf(book.market.makers, callsPerMaker, (maker, index, call) =>
    signed(maker, "POST", "/rfq/quotes", {
      quotes: Array.from({ length: MASS }, (_, n) => ({
        ...quoteFields(requestAt(book, index + call, n)),
        idempotency_key: `bench-${call}-${n}`,
      })),
    }),
  );
  const before = stack.cpuMs();
  const result = succeeded(await drive({ port: book.port, lanes, collect: true }));
  const cpuMs = stack.cpuMs() - before;
  const placed = result.bodies
    .flat()
    .flatMap((body) => (JSON.parse(body) as { results: { quote: object | null }[] }).results);
  if (placed.length !== result.all * MASS || placed.some(({ quote }) => quote === null))
    throw new Error("a quote of several was rejected");
  const rate = rateOf(result, cpuMs, await perCommit(stack, [book.market], "quotes"));
  return { ...rate, perSecond: rate.perSecond * MASS, cpuMicros: rate.cpuMicros / MASS };
}

/** Each of as many connections as for one book quotes in books of its own, in turn. */
export async function quotesOverBooks(stack: BenchStack, forMs: number): Promise<Rate> {
  const markets: Market[] = [];
  for (let book = 0; book < MANY_BOOKS; book++) markets.push(await openMarket(stack, 1));
  const targets = markets.flatMap((market) =>
    Array.from({ length: REQUESTS_PER_BOOK }, () => market),
  );
  const requests = await Promise.all(targets.map((market) => signedRequest(market)));
  const opened = await sendAll(stack, requests);
  const quotes = await Promise.all(
    targets.map(({ makers: [maker] }, index) =>
      signedQuote(maker as Person, String(opened[index]?.["request_id"])),
    ),
  );
  // The first quote of a maker reads the key and notes its use, and each book sets its alarm.
  await sendAll(
    stack,
    quotes.filter((_quote, index) => index % REQUESTS_PER_BOOK === 0),
  );
  const before = stack.cpuMs();
  const result = succeeded(
    await drive({
      port: stack.port,
      // A book's quotes are neighbours, so `spread` would give them to different connections.
      lanes: Array.from({ length: MAKERS }, (_, lane) =>
        quotes.filter((_quote, index) => Math.floor(index / REQUESTS_PER_BOOK) % MAKERS === lane),
      ),
      forMs,
      warmUpMs: WARM_UP_MS,
      freshKeys: true,
    }),
  );
  return rateOf(result, stack.cpuMs() - before, await perCommit(stack, markets, "quotes"));
}

/** The mean number of rows that a commit group wrote for one of these books. */
export function perCommit(
  { db }: BenchStack,
  markets: readonly Market[],
  table: "quotes" | "matches",
): Promise<number> {
  const column = table === "quotes" ? "opened_group" : "matched_group";
  return numberIn(
    db,
    `SELECT 1.0 * count(*) / count(DISTINCT ${column}) AS n FROM ${table}
      WHERE asset IN (SELECT value FROM json_each(?))`,
    JSON.stringify(markets.map(({ asset }) => asset)),
  );
}

export function rateOf(
  result: Pick<LoadResult, "perSecond" | "latencies" | "all">,
  cpuMs: number,
  commitSize: number,
): Rate {
  return {
    perSecond: result.perSecond,
    p50: percentile(result.latencies, 0.5),
    p99: percentile(result.latencies, 0.99),
    perCommit: commitSize,
    cpuMicros: (1_000 * cpuMs) / result.all,
  };
}

export function medianOf(rates: readonly Rate[], pick: keyof Rate): number {
  return median(rates.map((rate) => rate[pick]));
}

export function sayFailures(stack: BenchStack, say: (line: string) => void): void {
  const failures = stack.failures();
  if (failures.length > 0)
    say(`  ${failures.length} failures were logged, the first: ${failures[0]?.slice(0, 300)}`);
}
