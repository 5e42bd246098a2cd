import * as z from "zod";
import { assetKey } from "../../assets/asset.ts";
import { assetId, positiveU256, venueField, venueOut } from "../../assets/asset-fields.ts";
import { route } from "../../http/define-route.ts";
import { described, notAfter, u256Out } from "../../http/fields.ts";
import { type Api, reply } from "../../http/route-definition.ts";
import type { ProblemCode } from "../../platform/problem.ts";
import { notifyStreams } from "../../streams/notify.ts";
import { changePair, type PairCommand } from "./redeem.ts";
import { redemptionView } from "./redemptions.ts";

const either = { venue_id: venueField, asset_id: assetId };
const SplitBody = z.strictObject({
  ...either,
  amount: described(positiveU256, "Native units of USDC, and of each token that they become"),
  not_after: notAfter,
});
const RedeemBody = z.strictObject({
  ...either,
  amount: described(
    positiveU256,
    "Native units of each token. Omitted: all that is free",
  ).optional(),
  not_after: notAfter,
});

const Redemption = z
  .object({
    redemption_id: described(z.uuid(), "`ref_id` of its ledger entries"),
    venue_id: venueOut("Venue of the token"),
    asset_id: described(z.string(), "Outcome token, as canonical 0x hex"),
    amount: u256Out("Native units of the token"),
    usdc_amount: u256Out("Native units of USDC that count for this token"),
    created_at: described(z.iso.datetime(), "When it was carried out"),
  })
  .meta({ id: "Redemption" });
const Redemptions = z.object({
  items: described(z.array(Redemption), "One for each token; empty if nothing is free"),
});

const PAIR = { tag: "Custody", credential: "any", scope: "trade", method: "post" } as const;
const PROBLEMS: readonly ProblemCode[] = [
  "market_unknown",
  "not_paired",
  "deadline_passed",
  "venue_paused",
  "key_limit",
  "insufficient_funds",
  "balance_limit",
  "chain_liquidity",
  "unavailable",
];
const responseHeaders = { "idempotency-replayed": "`true` when an earlier call had done it" };

export function registerPairRoutes(api: Api): void {
  route(api, {
    ...PAIR,
    path: "/custody/split",
    operationId: "split",
    summary: "Turn USDC into both tokens of a pair",
    description:
      "Either token names the pair (`complement_asset_id` of GET /markets). Of each you get " +
      "`amount`. POST /custody/redeem is the reverse. It has no fee.",
    idempotent: true,
    body: SplitBody,
    response: Redemptions,
    responseHeaders,
    problems: [...PROBLEMS, "market_closed"],
    handler: (call) => answer(call, "split"),
  });
  route(api, {
    ...PAIR,
    path: "/custody/redeem",
    operationId: "redeem",
    summary: "Turn tokens of a pair back into USDC",
    description:
      "Before `settles_at` of GET /markets it takes the same amount of both tokens, at 1 USDC " +
      "for the two, and either names the pair. From then on it takes the named token, at its result. " +
      "What open quotes promise is not free. Holders who do nothing are paid automatically.",
    idempotent: true,
    body: RedeemBody,
    response: Redemptions,
    responseHeaders,
    problems: PROBLEMS,
    handler: (call) => answer(call, "redeem"),
  });
}

type Call = Pick<PairCommand, "actor"> & {
  readonly env: Env;
  readonly settings: Parameters<typeof changePair>[1];
  readonly body: {
    readonly venue_id: string;
    readonly asset_id: string;
    readonly amount?: bigint | undefined;
    readonly not_after?: number | undefined;
  };
  readonly idempotencyKey: string | undefined;
  readonly waitUntil: (work: Promise<unknown>) => void;
};

async function answer(call: Call, verb: "split" | "redeem") {
  const { env, settings, body, actor, idempotencyKey: key } = call;
  const asset = assetKey({ venue: body.venue_id, assetId: body.asset_id });
  const terms = JSON.stringify([asset, body.amount?.toString() ?? null]);
  const { rows, replayed, events } = await changePair(env.DB, settings, verb, {
    actor,
    asset,
    amount: body.amount,
    notAfter: body.not_after,
    idempotency: key === undefined ? undefined : { key, terms },
  });
  call.waitUntil(notifyStreams(env, events));
  const headers: Record<string, string> = replayed ? { "idempotency-replayed": "true" } : {};
  return reply({ items: rows.map(redemptionView) }, headers);
}
