/** Routes without a credential: the time, the health check and the configuration. */
import * as z from "zod";
import { VENUE_ID } from "../platform/venues.ts";
import { type ChainConfig, defaultChain, type Config, witnessesOf } from "../platform/config.ts";
import { problem, unavailable } from "../platform/problem.ts";
import { route } from "./define-route.ts";
import { Remembered } from "./remembered.ts";
import { described, u256Out, timeOut } from "./fields.ts";
import { all, sql } from "../platform/sql.ts";
import { VERSION } from "../platform/version.ts";
import { toWireTime } from "../platform/time.ts";
import type { Api } from "./route-definition.ts";

/** The vault's largest payment of USDC on a chain. Undefined if the chain does not answer. */
type UsdcLimit = (settings: Config, chain: ChainConfig) => Promise<bigint | undefined>;

/** What the public routes state about the layers above this one. */
export type Published = {
  readonly usdcLimit: UsdcLimit;
  readonly limits: {
    readonly schema: z.ZodType<Record<string, number | string>>;
    readonly of: (settings: Config) => Record<string, number | string>;
  };
};

export function registerPublicRoutes(app: Api, published: Published): void {
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
      const responds = await health.get(env, () => respondsTo(db));
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
  registerConfig(app, published);
}

const MIN_DEPOSIT =
  "Deposits below it are credited once their address has received this much of the asset. Native " +
  "units.";

function respondsTo(db: D1Database): Promise<boolean> {
  return all(db, sql`SELECT 1`).then(
    () => true,
    () => false,
  );
}

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
  default: described(z.boolean(), "Whether requests without `chain` use this chain"),
});

const VenueSchema = z.object({
  venue_id: described(z.string().regex(VENUE_ID), "The venue"),
  chain: described(z.string(), "Chain of the venue's outcome tokens"),
  outcome_tokens: described(z.string(), "Address of the ERC-1155 contract of the outcome tokens"),
  min_deposit: u256Out(MIN_DEPOSIT),
  paused: described(z.boolean(), "Whether new requests, quotes and accepts are rejected for now"),
  taker_fee_bps: described(z.int(), "Fee of the requester in basis points of the trade's cost"),
  maker_fee_bps: described(z.int(), "Fee of the maker in basis points of the trade's cost"),
});

const configResponse = (limits: Published["limits"]["schema"]) =>
  z
    .object({
      version: described(
        z.string(),
        "Version of the service; CHANGELOG.md lists what each changes",
      ),
      chains: described(z.array(ChainSchema), "The chains that the deployment serves"),
      venues: described(z.array(VenueSchema), "The venues that the deployment serves"),
      listed_only: described(
        z.boolean(),
        "Whether requests are only for the assets of GET /markets",
      ),
      limits,
      withdrawals_paused: described(z.boolean(), "Whether new withdrawals are rejected for now"),
    })
    .meta({ id: "Config" });

function registerConfig(app: Api, { usdcLimit, limits }: Published): void {
  const state = new Remembered<z.input<ReturnType<typeof configResponse>>>();
  route(app, {
    method: "get",
    path: "/config",
    operationId: "getConfig",
    tag: "Service",
    summary: "Get the chains, venues, limits and pauses of this deployment",
    description: "The response may be a second old.",
    credential: "public",
    response: configResponse(limits.schema),
    handler: ({ env, db, settings }) =>
      state.get(env, async () => {
        const pauses = await all<{ kind: string; name: string }>(
          db,
          sql`SELECT 'venue' AS kind, venue AS name FROM paused_venues
        UNION ALL
        SELECT 'switch', name FROM kill_switches WHERE name = 'withdrawals_paused'`,
        );
        const paused = new Set(
          pauses.filter((pause) => pause.kind === "venue").map((pause) => pause.name),
        );
        const vaultLimits = await Promise.all(
          settings.CHAINS.map((chain) => usdcLimit(settings, chain)),
        );
        return describeConfig(settings, limits.of(settings), vaultLimits, {
          venues: paused,
          withdrawals: pauses.some((pause) => pause.kind === "switch"),
        });
      }),
  });
}

function describeConfig(
  settings: Config,
  limits: Record<string, number | string>,
  vaultLimits: readonly (bigint | undefined)[],
  paused: { venues: ReadonlySet<string>; withdrawals: boolean },
): z.input<ReturnType<typeof configResponse>> {
  const defaultName = defaultChain(settings).chain;
  return {
    version: VERSION,
    chains: settings.CHAINS.map((chain, index) => ({
      chain: chain.chain,
      chain_id: chain.chain_id,
      usdc: chain.usdc,
      vault: chain.vault,
      required_confirmations: chain.confirmations,
      min_deposit: hex(BigInt(chain.min_deposit)),
      min_withdrawal: hex(settings.WITHDRAWAL_MIN_UNITS),
      max_withdrawal: hex(lower(settings.WITHDRAWAL_MAX_UNITS, vaultLimits[index])),
      witnesses: witnessesOf(chain),
      default: chain.chain === defaultName,
    })),
    venues: settings.VENUES.map((venue) => ({
      ...venue,
      min_deposit: hex(BigInt(venue.min_deposit)),
      paused: paused.venues.has(venue.venue_id),
    })),
    listed_only: settings.RFQ_LISTED_ONLY === "on",
    limits,
    withdrawals_paused: paused.withdrawals,
  };
}

function hex(amount: bigint): string {
  return `0x${amount.toString(16)}`;
}

function lower(one: bigint, other: bigint | undefined): bigint {
  return other !== undefined && other < one ? other : one;
}
