/** A book with its people, and what they do to it over signed REST. Each market is new: no round meets another's rows. */
import { drive, type LoadResult } from "./load.ts";
import { makePeople, newToken, type Person, signed } from "./people.ts";
import type { BenchStack } from "./stack.ts";

export type Market = {
  readonly assetId: string;
  readonly asset: string;
  readonly makers: readonly Person[];
  readonly requester: Person;
};

const AMOUNT = 1_000;
const PRICE = 500_000;
/** Long enough that nothing expires while a round is measured. */
const LIFE_SECS = 300;
/** Connections of the preparations, which nobody measures. */
const LANES = 16;

export async function openMarket(stack: BenchStack, makers: number): Promise<Market> {
  const token = newToken();
  const [requester, ...others] = (await makePeople(stack, makers + 1, [token.asset, "usdc"])) as [
    Person,
    ...Person[],
  ];
  return { ...token, requester, makers: others };
}

/** Answers their ids. */
export async function openRequests(
  stack: BenchStack,
  market: Market,
  count: number,
  lifeSecs = 3_600,
): Promise<string[]> {
  const body = {
    venue_id: "venue_one",
    asset_id: market.assetId,
    amount: String(AMOUNT),
    side: "Bid",
    expires_in_secs: lifeSecs,
  };
  const request = await signed(market.requester, "POST", "/rfq/request", body);
  const answers = await sendAll(
    stack,
    Array.from({ length: count }, () => request),
  );
  return answers.map((answer) => String(answer["request_id"]));
}

export function quoteFields(requestId: string, lifeSecs = LIFE_SECS) {
  return { request_id: requestId, price: PRICE, expires_in_secs: lifeSecs };
}

/** One quote on each request, by the makers in turn; the ids of the quotes, in the order of the requests. */
export async function quoteEach(
  stack: BenchStack,
  market: Market,
  requestIds: readonly string[],
  lifeSecs?: number,
): Promise<string[]> {
  const { makers } = market;
  const requests = requestIds.map((id, index) =>
    signed(
      makers[index % makers.length] as Person,
      "POST",
      "/rfq/quote",
      quoteFields(id, lifeSecs),
    ),
  );
  return (await sendAll(stack, await Promise.all(requests))).map((answer) =>
    String(answer["quote_id"]),
  );
}

export function acceptsOf(market: Market, quoteIds: readonly string[]): Promise<Uint8Array[]> {
  return Promise.all(
    quoteIds.map((quote_id) => signed(market.requester, "POST", "/rfq/accept", { quote_id })),
  );
}

/** Sends them over a few connections; the answers in their order. Throws at the first that is no success. */
export async function sendAll(
  stack: BenchStack,
  requests: readonly Uint8Array[],
): Promise<Record<string, unknown>[]> {
  const lanes = spread(requests, LANES);
  const { bodies } = succeeded(await drive({ port: stack.port, lanes, collect: true }));
  return requests.map(
    (_, index) =>
      JSON.parse(
        bodies[index % lanes.length]?.[Math.floor(index / lanes.length)] ?? "null",
      ) as Record<string, unknown>,
  );
}

/** A ticket with the key's own scopes, as the target of an upgrade. */
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
  if (result.firstFault !== null) throw new Error(`the Worker answered ${result.firstFault}`);
  return result;
}

/** Deals items round to so many lanes. */
export function spread<T>(items: readonly T[], lanes: number): T[][] {
  const count = Math.min(lanes, items.length);
  return Array.from({ length: count }, (_, lane) =>
    items.filter((_item, index) => index % count === lane),
  );
}
