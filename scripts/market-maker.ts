/**
 * A simple market maker for `npm run dev`. It quotes every request of every venue, so that people
 * who try the API get quotes. It invents a price for each asset, and mints the funds that it lacks.
 */
import type { Address } from "viem";
import {
  type Client,
  type LiveRequests,
  Problem,
  type QuoteRequest,
  type Side,
} from "../packages/client/src/index.ts";
import type { Faucet } from "./stack/faucet.ts";
import { LOCAL_VENUES } from "./stack/local-venues.ts";
import { fund } from "./actors/users.ts";

const QUOTE_LIFE_SECS = 120;
/** Half the difference between its selling and its buying price, scaled by 1e6. */
const HALF_SPREAD = 10_000;
/** How many times the amount of one quote it mints. */
const RESTOCK_FACTOR = 10n;
/**
 * The largest request that it mints for. All deposits of an asset together are at most 2^62 units,
 * so this suffices for hundreds of them.
 */
const MAX_RESTOCK_UNITS = 2n ** 50n;

export type MarketMakerOptions = {
  client: Client;
  faucet: Faucet;
  log: (line: string) => void;
};

/** Resolves when it listens to every venue. `stop` cancels its quotes. */
export async function startMarketMaker(
  options: MarketMakerOptions,
): Promise<{ stop(): Promise<void> }> {
  const { client, log } = options;
  const [current] = (await client.custody.depositAddresses()).filter((address) => address.current);
  const address = (current ?? (await client.custody.createDepositAddress())).address as Address;
  const venues = LOCAL_VENUES.map((venue_id) => client.requests({ venue_id }));
  await Promise.all(venues.map((requests) => requests.ready()));
  for (const requests of venues) {
    const maker = { ...options, requests, address, skipped: new WeakSet<QuoteRequest>() };
    requests
      .keepQuoted((request, side) => quote(maker, request, side))
      .catch((error: unknown) => log(`market maker: stream ended: ${text(error)}`));
  }
  return {
    stop: async () => {
      for (const requests of venues) requests.close();
      await client.rfq.cancelQuotes();
    },
  };
}

type MarketMaker = MarketMakerOptions & {
  requests: LiveRequests;
  address: Address;
  /** Requests of which it has said why it does not quote them. */
  skipped: WeakSet<QuoteRequest>;
};
/** A request with the side on which it is quoted. */
type OneSided = QuoteRequest & { side: Side };

async function quote(maker: MarketMaker, of: QuoteRequest, side: Side): Promise<void> {
  if (maker.skipped.has(of)) return;
  const request = { ...of, side };
  const { request_id } = request;
  const terms = { request_id, side, price: priceOf(request), expires_in_secs: QUOTE_LIFE_SECS };
  // It has no market to lose money in, and the machine may be slow.
  const options = { maxAgeMs: 30_000 };
  try {
    const placed = await maker.requests.quote(terms, options).catch(async (error: unknown) => {
      if (!(error instanceof Problem) || error.code !== "insufficient_funds") throw error;
      await restock(maker, request);
      return maker.requests.quote(terms, options);
    });
    maker.log(
      `market maker: quoted ${side} of ${of.venue_id} ${of.asset_id} at ${placed.price / 1e6}`,
    );
  } catch (error) {
    // A request may close before the quote arrives. Other errors are logged.
    if (
      error instanceof Problem &&
      ["request_not_open", "request_expired", "own_request"].includes(error.code)
    )
      return;
    if (error instanceof TooMuch) maker.skipped.add(of);
    maker.log(`market maker: no quote for ${request_id}: ${text(error)}`);
  }
}

class TooMuch extends Error {}

/** Mints what the quote would deliver and resolves when the deposit is credited. */
async function restock(
  { client, faucet, address: to }: MarketMaker,
  request: OneSided,
): Promise<void> {
  const { amount: tokens, usdc_amount: usdc = 0n } = request;
  const units = tokens ?? (usdc * 1_000_000n) / BigInt(priceOf(request));
  if (units > MAX_RESTOCK_UNITS)
    throw new TooMuch(`${units} units are more than this market maker mints`);
  const asset = request.side === "Bid" ? request : null;
  await fund(faucet, [{ client, to, asset, amount: units * RESTOCK_FACTOR }]);
}

/** 0.30 to 0.70 by asset, plus the spread against the requester. */
function priceOf({ asset_id, side }: OneSided): number {
  const fair = 300_000 + Number((BigInt(asset_id) * 7_919n) % 400_001n);
  return side === "Bid" ? fair + HALF_SPREAD : fair - HALF_SPREAD;
}

function text(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
