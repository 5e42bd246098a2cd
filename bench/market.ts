/**
 * A book with its users, and their commands over signed REST. Each round has its own market, so
 * rounds share no rows.
 */
import { FRESH_KEY, type LoadResult, run } from "./load.ts";
import { makePeople, newToken, type Person, signed } from "./people.ts";
import type { BenchStack } from "./stack.ts";

export type Market = {
  readonly assetId: string;
  readonly asset: string;
  readonly makers: readonly Person[];
  readonly requester: Person;
};

const AMOUNT = 1_000;
/** The most that a maker may have open on a side of a request. */
export const QUOTES_PER_SIDE = 20;
const PRICE = 500_000;
/** Long enough that nothing expires while a round is measured. */
const LIFE_SECS = 300;
/** Connections for the preparations, which are not measured. */
const LANES = 16;

export async function openMarket(stack: BenchStack, makers: number): Promise<Market> {
  const token = newToken();
  const assets = [token.asset, "usdc"];
  const people = await makePeople(stack, makers + 1, assets);
  const [requester, ...others] = people as [Person, ...Person[]];
  return { ...token, requester, makers: others };
}

/** Returns the ids of the new requests. */
export async function openRequests(
  stack: BenchStack,
  market: Market,
  count: number,
  lifeSecs?: number,
): Promise<string[]> {
  const request = await signedRequest(market, lifeSecs);
  const opened = await sendAll(
    stack,
    Array.from({ length: count }, () => request),
  );
  return opened.map((one) => String(one["request_id"]));
}

export function requestFields({ assetId }: Pick<Market, "assetId">, lifeSecs = 3_600) {
  return {
    venue_id: "venue_one",
    asset_id: assetId,
    amount: String(AMOUNT),
    side: "Bid",
    expires_in_secs: lifeSecs,
  };
}

export function signedRequest(
  market: Market,
  lifeSecs?: number,
  headers: Readonly<Record<string, string>> = {},
): Promise<Uint8Array> {
  const fields = requestFields(market, lifeSecs);
  return signed(market.requester, "POST", "/rfq/request", fields, headers);
}

export function quoteFields(requestId: string, lifeSecs = LIFE_SECS) {
  return { request_id: requestId, price: PRICE, expires_in_secs: lifeSecs };
}

export const WITH_KEY = { "idempotency-key": FRESH_KEY };

export function signedQuote(maker: Person, requestId: string, lifeSecs?: number) {
  return signed(maker, "POST", "/rfq/quote", quoteFields(requestId, lifeSecs), WITH_KEY);
}

/**
 * Places one quote with a key on each request, makers taking turns. Returns their ids in the same
 * order.
 */
export async function quoteEach(
  stack: BenchStack,
  market: Market,
  requestIds: readonly string[],
  lifeSecs?: number,
): Promise<string[]> {
  const { makers } = market;
  const requests = requestIds.map((id, index) =>
    signedQuote(makers[index % makers.length] as Person, id, lifeSecs),
  );
  const opened = await sendAll(stack, await Promise.all(requests));
  return opened.map((one) => String(one["quote_id"]));
}

export function acceptsOf(market: Market, quoteIds: readonly string[]): Promise<Uint8Array[]> {
  return Promise.all(
    quoteIds.map((quote_id) => signed(market.requester, "POST", "/rfq/accept", { quote_id })),
  );
}

export function acceptsAtPrice(
  market: Market,
  requestIds: readonly string[],
): Promise<Uint8Array[]> {
  return Promise.all(
    requestIds.map((request_id) =>
      signed(market.requester, "POST", "/rfq/accept", { request_id, price: PRICE }),
    ),
  );
}

/** Each maker places 20 quotes on each request. Returns the first one's quote of each. */
export async function fillRequests(
  stack: BenchStack,
  { makers }: Market,
  requestIds: readonly string[],
): Promise<string[]> {
  const firsts: string[] = [];
  for (const requestId of requestIds) {
    const quotes = Array.from({ length: QUOTES_PER_SIDE }, () => quoteFields(requestId));
    const calls = makers.map((maker) => signed(maker, "POST", "/rfq/quotes", { quotes }));
    const placed = await sendAll(stack, await Promise.all(calls), 1);
    const ids = placed.map((body) => firstQuote(body));
    firsts.push(ids[0] ?? "");
  }
  return firsts;
}

/** Throws if one of several quotes was rejected. Safe cast: the documented response. */
function firstQuote(body: Record<string, unknown>): string {
  const { results } = body as { results: readonly { quote: { quote_id: string } | null }[] };
  const ids = results.map(({ quote }) => quote?.quote_id);
  if (ids[0] === undefined || ids.includes(undefined)) throw new Error("a quote was rejected");
  return ids[0];
}

/**
 * Sends requests over a few connections. Returns the bodies in order, throws if a request failed.
 */
export async function sendAll(
  stack: BenchStack,
  requests: readonly Uint8Array[],
  connections = LANES,
): Promise<Record<string, unknown>[]> {
  const lanes = spread(requests, connections);
  const { bodies } = succeeded(
    await run({ port: stack.port, lanes, collect: true, freshKeys: true }),
  );
  return requests.map(
    (_, index) =>
      JSON.parse(
        bodies[index % lanes.length]?.[Math.floor(index / lanes.length)] ?? "null",
      ) as Record<string, unknown>,
  );
}

/** Targets of upgrades, each with a ticket that has the scopes of the user's key. */
export async function streamTargets(
  stack: BenchStack,
  people: readonly Person[],
  assetId: string,
): Promise<string[]> {
  const tickets = await sendAll(
    stack,
    await Promise.all(people.map((person) => signed(person, "POST", "/auth/ws-ticket/signed"))),
  );
  return tickets.map(
    ({ ticket }) => `/rfq/stream?ticket=${String(ticket)}&venue_id=venue_one&asset_id=${assetId}`,
  );
}

export function succeeded(result: LoadResult): LoadResult {
  if (result.firstFailure !== null) throw new Error(`the Worker returned ${result.firstFailure}`);
  return result;
}

/** Distributes items over lanes in turn. */
export function spread<T>(items: readonly T[], lanes: number): T[][] {
  const count = Math.min(lanes, items.length);
  return Array.from({ length: count }, (_, lane) =>
    items.filter((_item, index) => index % count === lane),
  );
}
