/** Routes without a credential: the time, the health check and the configuration. */
import * as z from "zod";
import { toHex } from "./assets/amount.ts";
import { USDC } from "./assets/asset.ts";
import { paymentLimit } from "./chain/payment-limit.ts";
import { Limits, limitsOf } from "./limits.ts";
import { VENUE_ID } from "./platform/venues.ts";
import { type Config, defaultChain, witnessesOf } from "./platform/config.ts";
import { problem, unavailable } from "./platform/problem.ts";
import { route } from "./http/define-route.ts";
import { Remembered } from "./http/remembered.ts";
import { described, u256Out, timeOut } from "./http/fields.ts";
import { all, sql } from "./platform/sql.ts";
import { VERSION } from "./platform/version.ts";
import { toWireTime } from "./platform/time.ts";
import type { Api } from "./http/route-definition.ts";

export function registerPublicRoutes(app: Api): void {
  route(app, {
    method: "get",
    path: "/time",
    operationId: "getTime",
    tag: "Service",
    summary: "Get the server's time",
    description: "Compare it with your clock before you sign or set a deadline.",
    credential: "public",
    response: z.object({
      server_time: timeOut("The server's time"),
      unix_ms: described(z.int(), "The same time in Unix milliseconds"),
    }),
    handler: () => {
      const now = Date.now();
      return { server_time: toWireTime(now), unix_ms: now };
    },
  });
  const health = new Remembered<boolean>();
  route(app, {
    method: "get",
    path: "/health",
    operationId: "getHealth",
    tag: "Service",
    summary: "Check that the service and its database respond",
    description: "The response may be a second old.",
    credential: "public",
    response: z.object({ status: described(z.literal("ok"), "Always `ok`; otherwise 503") }),
    handler: async ({ env, db }) => {
      const responds = await health.get(env, () =>
        all(db, sql`SELECT 1`).then(
          () => true,
          () => false,
        ),
      );
      if (!responds) throw unavailable("none");
      return { status: "ok" } as const;
    },
  });
  route(app, {
    method: "get",
    path: "/.well-known/security.txt",
    operationId: "getSecurityTxt",
    tag: "Service",
    summary: "Get whom to tell about a vulnerability (RFC 9116)",
    description: "404 in a deployment without the setting SECURITY_TXT.",
    credential: "public",
    response: z.string().meta({
      examples: ["Contact: https://example.com/security\nExpires: 2027-11-22T00:00:00.000Z\n"],
    }),
    mediaType: "text/plain",
    problems: ["route_unknown"],
    handler: ({ settings }) => {
      if (settings.SECURITY_TXT === "") throw problem("route_unknown", "No such path.");
      return new Response(settings.SECURITY_TXT, {
        headers: { "content-type": "text/plain; charset=utf-8" },
      });
    },
  });
  registerConfig(app);
}

const MIN_DEPOSIT =
  "Deposits below it are credited once their address has received this much of the asset. Native " +
  "units.";

const ChainSchema = z.object({
  chain: described(z.string(), "Name of the chain in this API"),
  chain_id: described(z.int(), "Chain id (EIP-155)"),
  usdc: described(z.string(), "Address of the USDC contract"),
  vault: described(z.string(), "Address of the vault that holds the assets and pays withdrawals"),
  required_confirmations: described(
    z.int(),
    "Blocks before a deposit is credited, its own included",
  ),
  min_deposit: u256Out(MIN_DEPOSIT),
  min_withdrawal: u256Out("Smallest withdrawal in native units"),
  max_withdrawal: u256Out(
    "Largest withdrawal of USDC in native units. It is the vault's, at most a minute old, if that " +
      "is below the service's own.",
  ),
  witnesses: described(
    z.int(),
    "RPC endpoints that must agree before a deposit is credited or a withdrawal ends: 1 or 2",
  ),
  explorer: described(
    z.string().nullable(),
    "A block explorer, whose pages of transactions are at `/tx/<hash>`; null: none is known",
  ),
  default: described(z.boolean(), "Whether requests without `chain` use this chain"),
});

const VenueSchema = z.object({
  venue_id: described(z.string().regex(VENUE_ID), "The venue"),
  chain: described(
    z.string().nullable(),
    "Chain of the venue's outcome tokens. Null: they exist in this service only, so they cannot " +
      "be deposited or withdrawn. POST /custody/split issues them, /custody/redeem takes them back",
  ),
  outcome_tokens: described(
    z.string().nullable(),
    "Address of the ERC-1155 contract of the outcome tokens; null without a chain",
  ),
  collateral: described(
    z.string().nullable(),
    "Address of the ERC-20 that the outcome tokens pay (Conditional Tokens); null: the venue has " +
      "no pairs with a `condition`",
  ),
  min_deposit: u256Out(MIN_DEPOSIT),
  min_request: u256Out(
    "Smallest request in native units: of the token, or of USDC if its size is in USDC",
  ),
  min_priced_trade: u256Out(
    "Native units of the token from which a trade counts for candles, tickers and the last price",
  ),
  paused: described(z.boolean(), "Whether new requests, quotes and accepts are rejected for now"),
  taker_fee_bps: described(z.int(), "Fee of the requester in basis points of the trade's cost"),
  maker_fee_bps: described(z.int(), "Fee of the maker in basis points of the trade's cost"),
});

const ConfigResponse = z
  .object({
    version: described(z.string(), "Version of the service; CHANGELOG.md lists what each changes"),
    chains: described(z.array(ChainSchema), "The chains that the deployment serves"),
    venues: described(z.array(VenueSchema), "The venues that the deployment serves"),
    listed_only: described(z.boolean(), "Whether requests are only for the assets of GET /markets"),
    registration_open: described(
      z.boolean(),
      "Whether POST /auth/register makes accounts. Otherwise the operator does",
    ),
    limits: Limits,
    withdrawals_paused: described(z.boolean(), "Whether new withdrawals are rejected for now"),
  })
  .meta({ id: "Config" });

function registerConfig(app: Api): void {
  const state = new Remembered<z.input<typeof ConfigResponse>>();
  route(app, {
    method: "get",
    path: "/config",
    operationId: "getConfig",
    tag: "Service",
    summary: "Get the chains, venues, limits and pauses of this deployment",
    description: "The response may be a second old.",
    credential: "public",
    response: ConfigResponse,
    handler: ({ env, db, settings }) =>
      state.get(env, async () => {
        const pauses = await all<{ kind: string; name: string }>(
          db,
          sql`SELECT 'venue' AS kind, venue AS name FROM paused_venues
        UNION ALL
        SELECT 'switch', name FROM kill_switches WHERE name = 'withdrawals_paused'`,
        );
        const paused = pauses.flatMap(({ kind, name }) => (kind === "venue" ? [name] : []));
        const vaultLimits = await Promise.all(
          settings.CHAINS.map((chain) => paymentLimit(settings, chain, USDC)),
        );
        return describeConfig(settings, vaultLimits, {
          venues: paused,
          withdrawals: pauses.some((pause) => pause.kind === "switch"),
        });
      }),
  });
}

function describeConfig(
  settings: Config,
  vaultLimits: readonly (bigint | undefined)[],
  paused: { venues: readonly string[]; withdrawals: boolean },
): z.input<typeof ConfigResponse> {
  const defaultName = defaultChain(settings).chain;
  return {
    version: VERSION,
    chains: settings.CHAINS.map((chain, index) => ({
      chain: chain.chain,
      chain_id: chain.chain_id,
      usdc: chain.usdc,
      vault: chain.vault,
      required_confirmations: chain.confirmations,
      min_deposit: toHex(BigInt(chain.min_deposit)),
      min_withdrawal: toHex(settings.WITHDRAWAL_MIN_UNITS),
      max_withdrawal: toHex(lower(settings.WITHDRAWAL_MAX_UNITS, vaultLimits[index])),
      witnesses: witnessesOf(chain),
      explorer: chain.explorer ?? null,
      default: chain.chain === defaultName,
    })),
    venues: settings.VENUES.map((venue) => ({
      venue_id: venue.venue_id,
      taker_fee_bps: venue.taker_fee_bps,
      maker_fee_bps: venue.maker_fee_bps,
      collateral: venue.collateral ?? null,
      chain: venue.chain ?? null,
      outcome_tokens: venue.outcome_tokens ?? null,
      min_deposit: toHex(BigInt(venue.min_deposit)),
      min_request: toHex(BigInt(venue.min_request)),
      min_priced_trade: toHex(BigInt(venue.min_priced_trade)),
      paused: paused.venues.includes(venue.venue_id),
    })),
    listed_only: settings.RFQ_LISTED_ONLY === "on",
    registration_open: settings.AUTH_REGISTRATION === "open",
    limits: limitsOf(settings),
    withdrawals_paused: paused.withdrawals,
  };
}

function lower(one: bigint, other: bigint | undefined): bigint {
  return other !== undefined && other < one ? other : one;
}
