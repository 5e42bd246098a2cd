/**
 * The sums of a user's trades of an asset, from the matches: what was bought and paid with the fee,
 * on the available account, and what was sold and received less the fee, on the pending account.
 */
import { type AssetKey, USDC } from "../assets/asset.ts";
import { addBounded, boundedSum } from "../platform/bounded-sum.ts";
import { raw, type Sql, sql, uuid } from "../platform/sql.ts";
import { reasonCode } from "./codes.ts";
import type { AccountKind } from "./tables.ts";

/**
 * `account_id`, `traded` and `traded_usdc` of the matches of a range of transfers. The leg of the
 * token carries the seller's reference. A match that was edited by SQL stops no scan.
 */
export function tradeSums(range: { readonly after: number; readonly upTo: number }): Sql {
  const legs = (account: string, usdc: string) => sql`SELECT t.${raw(account)} AS account_id,
      m.amount, ${raw(usdc)} AS usdc
    FROM transfers t JOIN match_sides m ON m.match_id = t.ref OR m.quote_id = t.ref
    WHERE t.transfer_id > ${range.after} AND t.transfer_id <= ${range.upTo}
      AND t.reason = ${reasonCode("trade")} AND t.ref = m.seller_ref`;
  return sql`SELECT account_id, ${boundedSum("amount")} AS traded, ${boundedSum("usdc")} AS traded_usdc
    FROM (${legs("to_account", "m.usdc_amount + m.buyer_fee")}
      UNION ALL ${legs("from_account", "m.usdc_amount - m.seller_fee")}) GROUP BY account_id`;
}

/** Assignments of an upsert of `table` that adds sums. */
export function addSums(table: "checked_balances" | "sealed_balances"): Sql {
  return sql`${addBounded(table, "traded")}, ${addBounded(table, "traded_usdc")}`;
}

/** A user's sums of an asset, and what they hold, as decimal texts. */
export type TradeSums = {
  readonly asset: AssetKey;
  readonly amount: string;
  readonly bought: string;
  readonly spent: string;
  readonly sold: string;
  readonly received: string;
};

/**
 * The outcome tokens that a user holds or has traded, in the order of their keys: those after
 * `after`, from `from` on, and before `before` if it is given.
 */
export function tradedAssets(
  userId: string,
  range: { after: string; from: string; before: string | null; limit: number },
): Sql {
  const { after, from, before, limit } = range;
  const of = (kind: AccountKind, column: string) =>
    sql`CAST(sum(iif(kind = ${kind}, ${raw(column)}, 0)) AS TEXT)`;
  return sql`SELECT asset, CAST(sum(balance) AS TEXT) AS amount,
      ${of("available", "traded")} AS bought, ${of("available", "traded_usdc")} AS spent,
      ${of("pending", "traded")} AS sold, ${of("pending", "traded_usdc")} AS received
    FROM accounts INDEXED BY accounts_owner
    WHERE owner = ${uuid(userId)} AND asset >= max(${after}, ${from})
      AND asset < coalesce(${before}, '~') AND asset NOT IN (${after}, ${USDC})
    GROUP BY asset HAVING max(balance) > 0 OR max(traded) > 0 ORDER BY asset LIMIT ${limit}`;
}
