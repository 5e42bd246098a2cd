/** What a token of a market is worth. An order sets it and ends trading; cron tells the holders. */
import { sql } from "../../platform/sql.ts";
import { cancelOpenRequests } from "../close-books.ts";
import { findMarket } from "./market-list.ts";
import type { Record } from "./set-markets.ts";

/**
 * Sets or corrects the result of a listed market, in USDC for one token scaled by 1e6, and cancels
 * what is open in it. The same result is not set again. Undefined if the asset is not listed.
 */
export async function resolveMarket(
  env: Env,
  asset: string,
  { result, record }: { readonly result: number; readonly record: Record },
): Promise<{ readonly previous: number | null; readonly cancelled: number } | undefined> {
  const listed = await findMarket(env.DB, asset);
  if (listed === undefined) return undefined;
  const previous = listed.result;
  // The trigger of the table refuses it, and the audit event with it, if the result has changed.
  if (previous !== result)
    await record((group) => [
      sql`INSERT INTO market_results (asset, result, previous, at, set_group)
        VALUES (${asset}, ${result}, ${previous}, ${group.at}, ${group.seq})`,
    ]);
  return { previous, cancelled: await cancelOpenRequests(env, sql`asset = ${asset}`) };
}
