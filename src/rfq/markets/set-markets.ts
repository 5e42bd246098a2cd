/**
 * What the operator does to markets. Each change is one commit; what it ends is cancelled after it.
 */
import { assetKey } from "../../assets/asset.ts";
import type { Group } from "../../platform/commit.ts";
import { all, first, type Sql, sql } from "../../platform/sql.ts";
import { cancelOpenRequests } from "../close-books.ts";
import { MAX_MARKETS } from "./market-list.ts";
import type { MarketTerms } from "./schemas.ts";

/** Commits the statements together with the audit event of the command. */
export type Record = (effects: (group: Group) => Sql[]) => Promise<void>;

type Closing = { readonly asset: string; readonly closesAt: number | null };

/**
 * Lists markets, or changes listed ones. An earlier close cancels what is open in a market. A
 * market that is listed for the first time keeps the requests that end before its close.
 *
 * Returns the number of cancelled requests. Undefined if there would be too many markets.
 */
export async function setMarkets(
  env: Env,
  terms: readonly MarketTerms[],
  { reopen, record }: { readonly reopen: boolean; readonly record: Record },
): Promise<number | undefined> {
  const rows = terms.map((market) => ({
    asset: assetKey({ venue: market.venue_id, assetId: market.asset_id }),
    closesAt: market.closes_at ?? null,
    texts: [market.title, market.outcome, market.url ?? null],
  }));
  const assets = JSON.stringify(rows.map(({ asset }) => asset));
  const listed = await all<Closing>(
    env.DB,
    sql`SELECT asset, closes_at AS closesAt FROM markets
      WHERE asset IN (SELECT value FROM json_each(${assets}))`,
  );
  const number = (await first<{ n: number }>(env.DB, sql`SELECT count(*) AS n FROM markets`))?.n;
  if ((number ?? 0) + rows.length - listed.length > MAX_MARKETS) return undefined;
  const given = JSON.stringify(
    rows.map(({ asset, texts, closesAt }) => [asset, ...texts, closesAt]),
  );
  let changed: Sql | undefined;
  await record((group) => {
    changed = group.seq;
    return [upsert(group, given, reopen)];
  });
  const before = new Map(listed.map(({ asset, closesAt }) => [asset, closesAt ?? Infinity]));
  const earlier = rows.flatMap(({ asset, closesAt }) =>
    closesAt !== null && closesAt < (before.get(asset) ?? -Infinity) ? [asset] : [],
  );
  // Only what was open before the change, so that new requests cannot prolong this.
  return cancelOpenRequests(
    env,
    sql`opened_group < ${changed ?? sql`0`}
      AND asset IN (SELECT value FROM json_each(${assets}))
      AND (asset IN (SELECT value FROM json_each(${JSON.stringify(earlier)}))
        OR expires_at > (SELECT k.closes_at FROM markets k WHERE k.asset = requests.asset))`,
  );
}

/** A row that would not change keeps its group, so that nobody reads it again. */
function upsert(group: Group, given: string, reopen: boolean): Sql {
  return sql`INSERT INTO markets (asset, title, outcome, url, closes_at, closed_at, changed_group)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, NULL, ${group.seq}
    FROM json_each(${given}) WHERE 1
    ON CONFLICT (asset) DO UPDATE SET title = excluded.title, outcome = excluded.outcome,
      url = excluded.url, closes_at = excluded.closes_at,
      closed_at = iif(${reopen}, NULL, markets.closed_at), changed_group = excluded.changed_group
    WHERE (markets.title, markets.outcome, markets.url, markets.closes_at)
        IS NOT (excluded.title, excluded.outcome, excluded.url, excluded.closes_at)
      OR (${reopen} AND markets.closed_at IS NOT NULL)`;
}

/**
 * Closes a listed market for good and cancels what is open in it. Repeating it cancels what an
 * interrupted call left open. Returns undefined if the asset is not listed.
 */
export async function closeMarket(
  env: Env,
  asset: string,
  record: Record,
): Promise<number | undefined> {
  const listed = await first(env.DB, sql`SELECT 1 FROM markets WHERE asset = ${asset}`);
  if (listed === undefined) return undefined;
  await record((group) => [
    sql`UPDATE markets SET closed_at = ${group.at}, changed_group = ${group.seq}
      WHERE asset = ${asset} AND closed_at IS NULL`,
  ]);
  return cancelOpenRequests(env, sql`asset = ${asset}`);
}
