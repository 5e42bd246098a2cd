/** Operator commands over markets. */
import * as z from "zod";
import { type AssetKey, assetKey } from "../assets/asset.ts";
import { assetId, venueField } from "../assets/asset-fields.ts";
import { conditionsOf } from "../chain/conditions.ts";
import { describe } from "../chain/rpc.ts";
import { MAX_PAGE } from "../http/cursor.ts";
import { chainlessVenues } from "../platform/config.ts";
import { invalidRequest, type Problem, problem } from "../platform/problem.ts";
import type { Venue } from "../platform/venues.ts";
import { MARKET_STATUSES } from "../rfq/markets/market.ts";
import { MAX_MARKETS, MarketList, wordsOf } from "../rfq/markets/market-list.ts";
import { marketsQuery, MarketTerms, resultField } from "../rfq/markets/schemas.ts";
import { resolveMarket } from "../rfq/markets/resolve-market.ts";
import {
  closeMarket,
  type MarketRejection,
  setMarkets,
  type StatedTerms,
} from "../rfq/markets/set-markets.ts";
import { recordBy } from "../audit/audit.ts";
import { recordCommand } from "./audit-commands.ts";
import {
  actorOf,
  checkVenues,
  fieldOption,
  flag,
  limitOption,
  oneOfOption,
  type OperatorContext,
  option,
  optional,
  optionalField,
  parse,
  readJson,
} from "./context.ts";
import { Listed } from "./listed.ts";
import { OperatorRejection } from "./operator-rejection.ts";

/** Markets of one `market import`. */
const MAX_IMPORTED = 1_000;

/** Lists a market, or changes a listed one. */
export async function set(context: OperatorContext): Promise<unknown> {
  const { data: terms, error } = MarketTerms.safeParse({
    venue_id: option(context, "venue"),
    asset_id: option(context, "asset-id"),
    title: option(context, "title"),
    outcome: option(context, "outcome"),
    url: optional(context, "url"),
    event_id: optional(context, "event-id"),
    category: optional(context, "category"),
    description: optional(context, "description"),
    rules_url: optional(context, "rules-url"),
    closes_at: optional(context, "closes-at"),
    test: flag(context, "test"),
    complement: optional(context, "complement"),
    condition: optional(context, "condition"),
  });
  if (terms === undefined) throw optionErrors(error);
  checkVenues(context, [terms.venue_id], "--venue");
  const asset = assetKey({ venue: terms.venue_id, assetId: terms.asset_id });
  return store(context, [terms], {
    kind: "market_set",
    subject: asset,
    reopen: flag(context, "reopen"),
    corrects: flag(context, "correct"),
  });
}

/** Lists many markets in one commit. Those that are not named stay as they are. */
export async function importAll(context: OperatorContext): Promise<unknown> {
  const schema = z.array(MarketTerms).min(1).max(MAX_IMPORTED);
  const terms = parse(schema, readJson(option(context, "markets"), "--file"), "--file");
  const venues = terms.map(({ venue_id }) => venue_id);
  checkVenues(context, venues, "--file.venue_id");
  return store(context, terms, {
    kind: "markets_imported",
    subject: `${terms.length} markets`,
    reopen: false,
    corrects: flag(context, "correct"),
  });
}

async function store(
  context: OperatorContext,
  terms: readonly MarketTerms[],
  change: {
    kind: "market_set" | "markets_imported";
    subject: string;
    reopen: boolean;
    corrects: boolean;
  },
): Promise<unknown> {
  const assets = new Set(terms.map((market) => `${market.venue_id}:${market.asset_id}`));
  if (assets.size < terms.length)
    throw invalidRequest([{ path: "--file", message: "must name each asset once" }]);
  const chainless = chainlessVenues(context.settings);
  const onChain = terms.find(
    (one) => typeof one.complement === "string" && !chainless.has(one.venue_id),
  );
  if (onChain !== undefined)
    throw invalidRequest([
      { path: "--complement", message: `${onChain.venue_id} has a chain: name the condition` },
    ]);
  const result = await setMarkets(context.env, await withPositions(context, terms), {
    ...change,
    record: recordBy(actorOf(context), change.kind, { subjectId: change.subject }),
  });
  if (typeof result === "number") return { markets: terms.length, cancelled_requests: result };
  throw new OperatorRejection(result.code, REASONS[result.code](result.asset));
}

/** The terms with the complement that the token contract names. No operator states it. */
async function withPositions(
  { env, settings }: OperatorContext,
  terms: readonly MarketTerms[],
): Promise<StatedTerms[]> {
  const positions = new Map<string, readonly string[]>();
  const named = terms.filter(({ condition }) => typeof condition === "string");
  for (const [venue, ofVenue] of Map.groupBy(named, ({ venue_id }) => venue_id)) {
    const conditions = [...new Set(ofVenue.flatMap(({ condition }) => condition ?? []))];
    const found = await conditionsOf(env.DB, settings, venue)
      .then((contract) => contract.positions(conditions))
      .catch((error: unknown): never => {
        throw new OperatorRejection("condition_unreadable", describe(error));
      });
    for (const [index, ids] of found.entries()) positions.set(`${venue}:${conditions[index]}`, ids);
  }
  return terms.map((one) => {
    if (typeof one.condition !== "string") return one;
    const ids = positions.get(`${one.venue_id}:${one.condition}`) ?? [];
    const slot = ids.indexOf(one.asset_id);
    if (slot < 0)
      throw new OperatorRejection(
        "condition_mismatch",
        `${one.venue_id}:${one.asset_id} is neither outcome of an open condition ${one.condition} ` +
          "with two outcomes and the collateral of the venue.",
      );
    return { ...one, complement: ids[1 - slot] ?? null, slot };
  });
}

const REASONS: Readonly<
  Record<MarketRejection["code"], (asset: MarketRejection["asset"]) => string>
> = {
  market_limit: () => `At most ${MAX_MARKETS} markets can be listed.`,
  market_listed: (asset) =>
    `${asset} is listed, so one operator changes only closes_at, category and test. To correct ` +
    "the rest, close it (`market close`) and set it with --correct, which takes two operators.",
  market_trades: (asset) =>
    `${asset ?? "A market"} is open, so only closes_at and category can change. Close it first ` +
    "(`market close`), then set it again with --reopen.",
  market_resolved: (asset) =>
    `${asset ?? "A market"} has a result: it keeps its name and never trades again.`,
  complement_mismatch: (asset) =>
    `${asset} and its complement must be two listed markets of one venue that close together, ` +
    "and a pair and its condition never change.",
  outcome_listed: (asset) =>
    `Another open market of the venue has the title and outcome of ${asset}. Close that first.`,
};

/** Closes a market for good and cancels what is open in it. */
export async function close(context: OperatorContext): Promise<unknown> {
  const asset = assetOption(context);
  const cancelled = await closeMarket(context.env, asset, (effects) =>
    recordCommand(context, "market_closed", asset, effects),
  );
  if (cancelled === undefined) throw notListed(asset);
  return { asset, status: "closed", cancelled_requests: cancelled };
}

/** Sets or corrects what a token of a market pays, in millionths of a USDC. */
export async function resolve(context: OperatorContext): Promise<unknown> {
  const asset = assetOption(context);
  const result = fieldOption(context, "result", resultField);
  const resolved = await resolveMarket(context.env, asset, {
    result,
    settleDelayMs: context.settings.SETTLE_DELAY_SECS * 1_000,
    record: (effects) => recordCommand(context, "market_resolved", asset, effects),
  });
  if (resolved === undefined) throw notListed(asset);
  if (resolved === "settled")
    throw new OperatorRejection("market_settled", `The result of ${asset} is final and is paid.`);
  if (resolved === "conditional")
    throw new OperatorRejection(
      "market_conditional",
      `The chain has shown no result of ${asset} yet. Operators only correct one that it has shown.`,
    );
  const { previous, cancelled, complement } = resolved;
  return { asset, result, previous, complement, status: "closed", cancelled_requests: cancelled };
}

export async function list(context: OperatorContext): Promise<unknown> {
  const words = wordsOf(optional(context, "q"));
  const query = {
    venue: context.options["venue"] === undefined ? undefined : venueOption(context),
    status: oneOfOption(context, "status", MARKET_STATUSES),
    words,
    limit: Math.min(limitOption(context), MAX_PAGE),
    last_cursor: optionalField(context, "cursor", marketsQuery.last_cursor),
  };
  const known = new MarketList();
  const { items, next_cursor } = await known.page(context.env, query, context.settings);
  return new Listed(items, next_cursor);
}

function venueOption(context: OperatorContext): Venue {
  const venue = fieldOption(context, "venue", venueField);
  checkVenues(context, [venue], "--venue");
  return venue;
}

function assetOption(context: OperatorContext): AssetKey {
  const venue = venueOption(context);
  return assetKey({ venue, assetId: fieldOption(context, "asset-id", assetId) });
}

function notListed(asset: AssetKey): Problem {
  return problem("market_unknown", `${asset} is not listed.`);
}

function optionErrors(error: z.ZodError) {
  return invalidRequest(
    error.issues.map(({ path, message }) => ({
      path: `--${path.join(".").replace("venue_id", "venue").replaceAll("_", "-")}`,
      message,
    })),
  );
}
