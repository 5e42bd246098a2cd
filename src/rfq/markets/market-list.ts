/** All markets, in memory, so searches cost D1 nothing. Changes are read about once a second. */
import { eq, sql } from "drizzle-orm";
import { readAssetKey } from "../../assets/asset.ts";
import type { BookFilter } from "../examined-page.ts";
import { examining, fetchCount, type Page, pageOf, type PageQuery } from "../../http/cursor.ts";
import { Remembered } from "../../http/remembered.ts";
import { foldText } from "../../platform/normal-text.ts";
import { type Config, chainlessVenues } from "../../platform/config.ts";
import { invalidRequest } from "../../platform/problem.ts";
import { read } from "../../platform/read.ts";
import { markets } from "../tables.ts";
import { readStock } from "../pairs/chain-stock.ts";
import { type Market, type MarketStatus, marketStatus, marketView, type Stock } from "./market.ts";

/** Bounds the memory of each isolate and the work of a search. */
export const MAX_MARKETS = 20_000;
const ROWS_PER_READ = 2_000;
/** A restore of D1 could bring back rows that are older than the newest known change. */
const RELOAD_MS = 600_000;
/** It reads three accounts of each token of a pair with a chain. */
const STOCK_MS = 5_000;

type Known = {
  readonly loadedAt: number;
  readonly byAsset: ReadonlyMap<string, Market>;
  /** By title, outcome and asset. */
  readonly sorted: readonly Market[];
};

/** A cursor is the asset of the last market of the page before. */
export type MarketQuery = BookFilter &
  PageQuery<string> & {
    readonly status?: MarketStatus | undefined;
    /** Only those for tests, or only others. Default: all. */
    readonly test?: boolean | undefined;
    readonly event_id?: string | undefined;
    readonly category?: string | undefined;
    /** Assets of `venue`. */
    readonly assets?: readonly string[] | undefined;
    /** Every word occurs in the title or the outcome. */
    readonly words: readonly string[];
  };

/** An asset, and the USDC for which it traded in the last day. */
type Traded = { readonly asset: string; readonly usdc_amount: string };

export class MarketList {
  readonly #known = new Remembered<Known>();
  readonly #stock = new Remembered<ReadonlyMap<string, Stock>>(STOCK_MS);
  /** The last order by volume, which stays until markets or tickers change. */
  #ranked: { from: Known; by: readonly Traded[]; sorted: readonly Market[] } | undefined;

  /** By title, or by the volume of the question in `traded`. */
  async page(
    env: { readonly DB: D1Database },
    query: MarketQuery,
    settings: Pick<Config, "VENUES">,
    traded?: readonly Traded[],
  ) {
    const now = Date.now();
    const known = await this.#known.get(env, (earlier) => readChanges(env.DB, earlier, now));
    const sorted = traded === undefined ? known.sorted : this.#byVolume(known, traded);
    const stock = await this.#stock.get(env, () => readStock(env.DB, settings));
    return pageOfMarkets({ ...known, sorted }, query, now, chainlessVenues(settings), stock);
  }

  #byVolume(from: Known, by: readonly Traded[]): readonly Market[] {
    if (this.#ranked?.from !== from || this.#ranked.by !== by)
      this.#ranked = { from, by, sorted: rankedByVolume(from.sorted, by) };
    return this.#ranked.sorted;
  }
}

/** Pure: the outcomes of a question together, the questions that traded most first. */
export function rankedByVolume(
  sorted: readonly Market[],
  traded: readonly Traded[],
): readonly Market[] {
  const volumes = new Map(traded.map(({ asset, usdc_amount }) => [asset, BigInt(usdc_amount)]));
  const questions = Map.groupBy(sorted, ({ asset, eventId, title }) =>
    JSON.stringify([readAssetKey(asset)?.venue, eventId, title]),
  );
  return [...questions.values()]
    .map((outcomes) => ({
      outcomes,
      volume: outcomes.reduce((sum, { asset }) => sum + (volumes.get(asset) ?? 0n), 0n),
    }))
    .toSorted((one, other) => compare(other.volume, one.volume))
    .flatMap(({ outcomes }) => outcomes);
}

/** Pure: a page of the known markets. */
export function pageOfMarkets(
  { byAsset, sorted }: Pick<Known, "byAsset" | "sorted">,
  query: MarketQuery,
  now: number,
  chainless: ReadonlySet<string> = new Set(),
  stock: ReadonlyMap<string, Stock> = new Map(),
): Page<ReturnType<typeof marketView>> {
  const after = query.last_cursor?.position;
  const last = after === undefined ? undefined : byAsset.get(after);
  if (after !== undefined && last === undefined)
    throw invalidRequest([
      { path: "query.last_cursor", message: "must be a next_cursor of this list" },
    ]);
  const found: Market[] = [];
  let examined = 0;
  for (const market of sorted.slice(last === undefined ? 0 : sorted.indexOf(last) + 1)) {
    examined++;
    if (fits(market, query, now)) found.push(market);
    if (found.length === fetchCount(query)) break;
  }
  const page = pageOf(
    query,
    found,
    (market) => marketView(market, now, chainless, stock.get(market.asset)),
    ({ asset }) => [asset],
  );
  return examining(page, examined);
}

function fits(market: Market, query: MarketQuery, now: number): boolean {
  const { venue, assetId, status, test = market.test, words } = query;
  if (market.test !== test) return false;
  if (venue !== undefined && !market.asset.startsWith(`${venue}:`)) return false;
  if (assetId !== undefined && market.asset !== `${venue}:${assetId}`) return false;
  if (query.assets?.every((id) => market.asset !== `${venue}:${id}`) === true) return false;
  if (status !== undefined && marketStatus(market, now) !== status) return false;
  if (query.event_id !== undefined && market.eventId !== query.event_id) return false;
  if (query.category !== undefined && market.category !== query.category) return false;
  return words.every((word) => market.folded.includes(word));
}

/** The words of a search, as `fits` compares them. */
export function wordsOf(search = ""): string[] {
  return foldText(search).split(" ").filter(Boolean);
}

/** By code units, so that every isolate has the same order. */
export function byTitle(one: Market, other: Market): number {
  return (
    compare(one.title, other.title) ||
    compare(one.outcome, other.outcome) ||
    compare(one.asset, other.asset)
  );
}

function compare<T extends string | bigint>(one: T, other: T): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** The markets after what changed since `earlier`, or all of them. */
async function readChanges(
  db: D1Database,
  earlier: Known | undefined,
  now: number,
): Promise<Known> {
  const base = earlier !== undefined && now - earlier.loadedAt < RELOAD_MS ? earlier : undefined;
  const newest = base?.sorted.reduce((group, market) => Math.max(group, market.changedGroup), 0);
  const changed = await readSince(db, newest ?? 0);
  if (base !== undefined && changed.length === 0) return base;
  const byAsset = new Map([
    ...(base?.byAsset ?? []),
    ...changed.map((market) => [market.asset, market] as const),
  ]);
  return {
    loadedAt: base?.loadedAt ?? now,
    byAsset,
    sorted: [...byAsset.values()].toSorted(byTitle),
  };
}

async function readSince(db: D1Database, group: number): Promise<Market[]> {
  const { changedGroup, asset } = markets;
  const found: Market[] = [];
  for (let after: Market | undefined; ; after = found.at(-1)) {
    const start = sql`(${after?.changedGroup ?? group + 1}, ${after?.asset ?? ""})`;
    const rows = await read(db, ({ select }) =>
      select()
        .from(markets)
        .where(sql`(${changedGroup}, ${asset}) > ${start}`)
        .orderBy(changedGroup, asset)
        .limit(ROWS_PER_READ),
    );
    found.push(...rows);
    if (rows.length < ROWS_PER_READ) return found;
  }
}

export async function findMarket(db: D1Database, asset: string): Promise<Market | undefined> {
  const [market] = await read(db, ({ select }) =>
    select().from(markets).where(eq(markets.asset, asset)),
  );
  return market;
}
