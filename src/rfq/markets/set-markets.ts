/** What the operator does to markets. Each change is one commit. What it ends is cancelled next. */
import { type AuditRecord, commitAudited } from "../../audit/audit.ts";
import { assetKey, readAssetKey } from "../../assets/asset.ts";
import { type Group, NOW } from "../../platform/commit.ts";
import { foldText } from "../../platform/normal-text.ts";
import { isAmong, read } from "../../platform/read.ts";
import { type Expr, expr, first, raw, type Sql, sql } from "../../platform/sql.ts";
import { cancelOpenRequests } from "../close-books.ts";
import { markets } from "../tables.ts";
import type { Market } from "./market.ts";
import { findMarket, MAX_MARKETS } from "./market-list.ts";
import type { MarketTerms } from "./schemas.ts";

/** What an asset is. Once it is listed, only a correction changes it, before there is a result. */
const NAMES = ["title", "outcome", "url", "event_id", "description", "rules_url"] as const;
/** Columns that cannot change while the market trades. */
const FIXED = [...NAMES, "test"] as const;
/** Columns that can. */
const FREE = ["category", "closes_at"] as const;
const STATED = [...FIXED, ...FREE] as const;

/** The columns of a market in a JSON list of lists. */
const PAIRED = ["complement", "condition", "slot"] as const;
const GIVEN = ["asset", ...STATED, "folded", ...PAIRED]
  .map((name, index) => `value ->> ${index} AS ${name}`)
  .join(", ");

/** Commits the statements together with the audit event of the command. */
export type Record = (effects: (group: Group) => Sql[]) => Promise<void>;

/** What rejects the whole list, and an asset of it. */
export type MarketRejection = {
  readonly code:
    | "market_limit"
    | "market_listed"
    | "market_trades"
    | "market_resolved"
    | "outcome_listed"
    | "complement_mismatch";
  readonly asset: string | null;
};

type Change = {
  readonly reopen: boolean;
  /** Two operators agreed on it. */
  readonly corrects: boolean;
};

/**
 * Lists markets, or changes listed ones. An earlier close cancels what is open in a market. A
 * market that is listed for the first time keeps the requests that end before its close.
 *
 * What a listed asset is called, `corrects` alone changes. Neither that nor whether it is a test
 * changes while it trades, because quotes and requests were made for it. Two open markets of a
 * venue have not the same title and outcome.
 *
 * Returns the number of cancelled requests.
 */
export async function setMarkets(
  env: Env,
  terms: readonly StatedTerms[],
  { record, ...change }: Change & { readonly record: AuditRecord },
): Promise<number | MarketRejection> {
  const paired = await withComplements(env.DB, terms);
  if ("code" in paired) return paired;
  const { stated, listed } = paired;
  const rows = stated.map((market) => ({
    asset: assetOf(market),
    closesAt: market.closes_at ?? null,
    values: [
      ...STATED.map((name) => market[name] ?? null),
      foldedName(market),
      otherOf(market),
      market.condition ?? null,
      market.slot ?? null,
    ],
  }));
  const assets = rows.map(({ asset }) => asset);
  const given = JSON.stringify(rows.map(({ asset, values }) => [asset, ...values]));
  let changed: Group | undefined;
  const applied = await commitAudited(env.DB, {
    record,
    when: (group) => {
      changed = group;
      return sql`NOT EXISTS (${rejectionOf({ given, ...change, at: group.at })})`;
    },
    statements: (group, guard) => [
      ...(change.corrects ? [correction(group, given, guard)] : []),
      upsert(group, given, change.reopen, guard),
    ],
  });
  if (!applied) {
    const found = await first<MarketRejection>(env.DB, rejectionOf({ given, ...change, at: NOW }));
    return found ?? { code: "market_trades", asset: null };
  }
  const before = new Map(listed.map(({ asset, closesAt }) => [asset, closesAt ?? Infinity]));
  const earlier = rows.flatMap(({ asset, closesAt }) =>
    closesAt !== null && closesAt < (before.get(asset) ?? -Infinity) ? [asset] : [],
  );
  // Only what was open before the change, so that new requests cannot prolong this.
  return cancelOpenRequests(
    env,
    sql`opened_group < ${changed?.seq ?? sql`0`}
      AND asset IN (SELECT value FROM json_each(${JSON.stringify(assets)}))
      AND (asset IN (SELECT value FROM json_each(${JSON.stringify(earlier)}))
        OR expires_at > (SELECT k.closes_at FROM markets k WHERE k.asset = requests.asset))`,
  );
}

/** The outcome of the condition for which the token pays. */
export type StatedTerms = MarketTerms & { readonly slot?: number | null };

const assetOf = ({ venue_id: venue, asset_id: assetId }: MarketTerms) =>
  assetKey({ venue, assetId });

/** The key of the complement. */
function otherOf({ venue_id: venue, complement }: MarketTerms): string | null {
  return typeof complement === "string" ? assetKey({ venue, assetId: complement }) : null;
}

/**
 * The terms with the complements of all paired markets, because both close and open together. One
 * that is not named is stated as it is listed, but for its close.
 */
async function withComplements(
  db: D1Database,
  terms: readonly StatedTerms[],
): Promise<MarketRejection | { stated: StatedTerms[]; listed: Market[] }> {
  const named = new Map(terms.map((market) => [assetOf(market), market]));
  const known = new Map<string, Market>();
  const learn = async (assets: readonly string[]) => {
    const rows = await read(db, ({ select }) =>
      select().from(markets).where(isAmong(markets.asset, assets)),
    );
    for (const row of rows) known.set(row.asset, row);
  };
  await learn([...named.keys(), ...terms.flatMap((market) => otherOf(market) ?? [])]);
  await learn([...known.values()].flatMap(({ complement }) => complement ?? []));
  const pairs = new Map<string, string>();
  for (const [asset, market] of named) {
    const other = otherOf(market) ?? known.get(asset)?.complement ?? null;
    if (other === null) continue;
    // Neither has another complement.
    if (
      other === asset ||
      (pairs.get(asset) ?? other) !== other ||
      (pairs.get(other) ?? asset) !== asset
    )
      return { code: "complement_mismatch", asset };
    pairs.set(asset, other).set(other, asset);
  }
  const stated = [...new Set([...named.keys(), ...pairs.keys()])].flatMap((asset) => {
    const [own, listed, other] = [named.get(asset), known.get(asset), pairs.get(asset)];
    const complement = other === undefined ? null : (readAssetKey(other)?.assetId ?? null);
    const twin = named.get(other ?? "");
    const { condition = null, slot = null } = listed ?? {};
    const pair = {
      complement,
      condition: own?.condition ?? twin?.condition ?? condition,
      slot: own?.slot ?? (typeof twin?.slot === "number" ? 1 - twin.slot : slot),
    };
    if (own !== undefined) return [{ ...own, ...pair }];
    return listed === undefined
      ? []
      : [{ ...termsOf(listed), closes_at: twin?.closes_at, ...pair }];
  });
  const closes = new Map(stated.map((market) => [assetOf(market), market.closes_at ?? null]));
  for (const [one, other] of pairs)
    if (!closes.has(other) || closes.get(one) !== closes.get(other))
      return { code: "complement_mismatch", asset: one };
  return { stated, listed: [...known.values()] };
}

/** The terms of a listed market. */
function termsOf(market: Market): MarketTerms {
  const { venue = "", assetId = "" } = readAssetKey(market.asset) ?? {};
  return {
    venue_id: venue,
    asset_id: assetId,
    title: market.title,
    outcome: market.outcome,
    url: market.url,
    event_id: market.eventId,
    category: market.category,
    description: market.description,
    rules_url: market.rulesUrl,
    test: market.test,
  };
}

/** By which twins are found, and what a search looks in: a line each. */
function foldedName({ title, outcome }: MarketTerms): string {
  return `${foldText(title)}\n${foldText(outcome)}`;
}

/** A row for each thing that rejects the list: code and asset. None if it can be listed. */
function rejectionOf({ given, reopen, corrects, at }: Change & { given: string; at: Expr }): Sql {
  const opens = (closesAt: Expr) => expr`(${closesAt} IS NULL OR ${closesAt} > ${at})`;
  const repaired = expr`(${columns("m", PAIRED)}) IS NOT (${columns("g", PAIRED)})
    AND (m.complement IS NOT NULL OR m.result IS NOT NULL)`;
  // At most five terms, as D1 takes.
  return sql`WITH given AS (SELECT ${raw(GIVEN)} FROM json_each(${given})),
    open_after AS (
      SELECT g.asset, g.folded, 1 AS is_given
      FROM given g LEFT JOIN markets m ON m.asset = g.asset
      WHERE (${reopen} OR m.closed_at IS NULL) AND ${opens(expr`g.closes_at`)}
      UNION ALL SELECT k.asset, k.folded, 0
      FROM markets k WHERE k.closed_at IS NULL AND ${opens(expr`k.closes_at`)}
        AND k.asset NOT IN (SELECT asset FROM given))
    SELECT iif(${repaired}, 'complement_mismatch', 'market_resolved') AS code, m.asset AS asset
    FROM given g JOIN markets m ON m.asset = g.asset
    WHERE ${repaired} OR m.result IS NOT NULL
      AND (${reopen} OR (${columns("m", NAMES)}) IS NOT (${columns("g", NAMES)}))
    UNION ALL SELECT 'market_listed', m.asset FROM given g JOIN markets m ON m.asset = g.asset
    WHERE NOT ${corrects} AND (${columns("m", NAMES)}) IS NOT (${columns("g", NAMES)})
    UNION ALL SELECT 'market_trades', m.asset FROM given g JOIN markets m ON m.asset = g.asset
    WHERE (${columns("m", FIXED)}) IS NOT (${columns("g", FIXED)})
      AND ((m.closed_at IS NULL AND ${opens(expr`m.closes_at`)})
        OR EXISTS (SELECT 1 FROM requests r
          WHERE r.asset = m.asset AND r.status = 'open' AND r.expires_at > ${at}))
    UNION ALL SELECT 'outcome_listed', max(asset) FROM open_after
    GROUP BY substr(asset, 1, instr(asset, ':')), folded
    HAVING count(*) > 1 AND max(is_given) = 1
    UNION ALL SELECT 'market_limit', NULL
    WHERE (SELECT count(*) FROM markets) + (SELECT count(*) FROM given
      WHERE asset NOT IN (SELECT asset FROM markets)) > ${MAX_MARKETS}`;
}

/** Before the change, so that it also has the names of before. */
function correction(group: Group, given: string, guard: Sql): Sql {
  return sql`INSERT INTO market_corrections
      (asset, title, outcome, previous_title, previous_outcome, at, set_group)
    SELECT g.asset, g.title, g.outcome, m.title, m.outcome, ${group.at}, ${group.seq}
    FROM (SELECT ${raw(GIVEN)} FROM json_each(${given})) g JOIN markets m ON m.asset = g.asset
    WHERE (${columns("m", NAMES)}) IS NOT (${columns("g", NAMES)}) AND ${guard}`;
}

/** A row that would not change keeps its group, so that nobody reads it again. */
function upsert(group: Group, given: string, reopen: boolean, guard: Sql): Sql {
  const stated = [...STATED, "folded", ...PAIRED];
  return sql`INSERT INTO markets (asset, ${raw(stated.join(", "))}, closed_at, changed_group)
    SELECT ${raw(GIVEN)}, NULL, ${group.seq} FROM json_each(${given}) WHERE ${guard}
    ON CONFLICT (asset) DO UPDATE SET
      ${raw(stated.map((name) => `${name} = excluded.${name}`).join(", "))},
      closed_at = iif(${reopen}, NULL, markets.closed_at), changed_group = excluded.changed_group
    WHERE (${columns("markets", stated)}) IS NOT (${columns("excluded", stated)})
      OR (${reopen} AND markets.closed_at IS NOT NULL)`;
}

function columns(table: string, names: readonly string[]): Sql {
  return raw(names.map((name) => `${table}.${name}`).join(", "));
}

/** SELECT: the asset, and its complement. */
export function pairOf(asset: string): Sql {
  return sql`SELECT ${asset} UNION ALL SELECT complement FROM markets
    WHERE asset = ${asset} AND complement IS NOT NULL`;
}

/**
 * Closes a listed market and its complement for good and cancels what is open in them. Repeating it
 * cancels what an interrupted call left open. Returns undefined if the asset is not listed.
 */
export async function closeMarket(
  env: Env,
  asset: string,
  record: Record,
): Promise<number | undefined> {
  if ((await findMarket(env.DB, asset)) === undefined) return undefined;
  await record((group) => [
    sql`UPDATE markets SET closed_at = ${group.at}, changed_group = ${group.seq}
      WHERE asset IN (${pairOf(asset)}) AND closed_at IS NULL`,
  ]);
  return cancelOpenRequests(env, sql`asset IN (${pairOf(asset)})`);
}
