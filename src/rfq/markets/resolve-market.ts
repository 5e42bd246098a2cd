/** What a token of a market is worth. An order sets it and ends trading; cron tells the holders. */
import { NOW } from "../../platform/commit.ts";
import { expr, literal, scalar, sql } from "../../platform/sql.ts";
import { cancelOpenRequests } from "../close-books.ts";
import { findMarket } from "./market-list.ts";
import { pairOf, type Record } from "./set-markets.ts";

const ONE = 1_000_000;

type Resolved = {
  readonly previous: number | null;
  readonly cancelled: number;
  /** The other token of a pair, whose result is what is left of 1 USDC. */
  readonly complement: string | null;
};

/**
 * Sets or corrects the result of a listed market, in USDC for one token scaled by 1e6, and cancels
 * what is open in it. The same result is not set again. That of a pair can be corrected until it
 * settles. Undefined if the asset is not listed.
 */
export async function resolveMarket(
  env: Env,
  asset: string,
  {
    result,
    rest = ONE - result,
    settleDelayMs,
    record,
    isRead = false,
  }: {
    readonly result: number;
    /** The result of the complement. */
    readonly rest?: number;
    readonly settleDelayMs: number;
    readonly record: Record;
    /** The chain has shown it. Operators only correct what a chain has shown. */
    readonly isRead?: boolean;
  },
): Promise<Resolved | "settled" | "conditional" | undefined> {
  const listed = await findMarket(env.DB, asset);
  if (listed === undefined) return undefined;
  const { result: previous, complement, condition, settlesAt, readAt } = listed;
  const finalAt = condition === null ? settlesAt : readAt;
  if (previous !== result && finalAt !== null && finalAt <= (await scalar<number>(env.DB, NOW)))
    return "settled";
  if (condition !== null && previous === null && !isRead) return "conditional";
  const other = complement === null ? undefined : await findMarket(env.DB, complement);
  // One order sets both tokens of a pair, so that they are worth 1 USDC together.
  const rows = JSON.stringify([
    [asset, result, previous],
    ...(other === undefined ? [] : [[other.asset, rest, other.result]]),
  ]);
  // A trigger of the table refuses it, and the audit event with it, if the result has changed.
  // `market_results_apply` writes it into `markets`.
  if (previous !== result)
    await record((group) => [
      sql`INSERT INTO market_results (asset, result, previous, at, set_group, settles_at)
        SELECT value ->> 0, value ->> 1, value ->> 2, ${group.at}, ${group.seq},
          ${complement === null ? null : expr`${group.at} + ${literal(settleDelayMs)}`}
        FROM json_each(${rows}) WHERE value ->> 1 IS NOT value ->> 2`,
    ]);
  const cancelled = await cancelOpenRequests(env, sql`asset IN (${pairOf(asset)})`);
  return { previous, cancelled, complement };
}
