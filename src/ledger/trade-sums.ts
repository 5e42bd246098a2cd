/**
 * What a range of transfers leaves on the accounts: balances, and the sums of a user's trades:
 * bought and paid with the fee on the available account, sold and received less it on pending.
 */
import { type AssetKey, USDC } from "../assets/asset.ts";
import { addBounded, boundedSum } from "../platform/bounded-sum.ts";
import { type Expr, expr, raw, type Sql, sql, uuid } from "../platform/sql.ts";
import { type AccountKind, reasonCode, stepCode } from "./codes.ts";

/** Transfers with `after < id <= upTo`. */
type Range = { readonly after: number; readonly upTo: number };

/** Both entries of each transfer of a range, as `account_id, entry_id, delta, after`. */
export function entriesIn({ after, upTo }: Range): Sql {
  return sql`SELECT from_account AS account_id, 2 * transfer_id AS entry_id, -amount AS delta,
      from_balance AS after
    FROM transfers WHERE transfer_id > ${after} AND transfer_id <= ${upTo}
    UNION ALL
    SELECT to_account, 2 * transfer_id + 1, amount, to_balance
    FROM transfers WHERE transfer_id > ${after} AND transfer_id <= ${upTo}`;
}

/** `account_id, balance, traded, traded_usdc` of the accounts in a range, for `addClosing`. */
export function closingBalances(range: Range): Sql {
  return sql`SELECT account_id, coalesce(after, 0) AS balance, coalesce(traded, 0) AS traded,
      coalesce(traded_usdc, 0) AS traded_usdc
    FROM (SELECT account_id, after, max(entry_id) FROM (${entriesIn(range)}) GROUP BY account_id)
      LEFT JOIN (${tradeSums(range)}) USING (account_id)`;
}

/** Assignments of an upsert of `table`: the range's balances, and its sums added. */
export function addClosing(table: "checked_balances" | "sealed_balances"): Sql {
  return sql`balance = excluded.balance, ${addBounded(table, "traded")},
    ${addBounded(table, "traded_usdc")}`;
}

/**
 * `account_id`, `traded` and `traded_usdc` of the matches and redemptions of a range of transfers.
 * The leg of a match's token is that of a user's account, the leg of a redemption's has its own
 * step. A match that was edited by SQL stops no scan.
 */
export function tradeSums(range: Range): Sql {
  const fee = expr`iif(a.owner = m.requester_id, m.taker_fee, m.maker_fee)`;
  const usdc = expr`iif(a.owner = m.requester_id OR m.complement IS NULL, m.usdc_amount,
    m.amount - m.usdc_amount)`;
  const legs = (account: "from_account" | "to_account", usdcWithFee: Expr) =>
    sql`SELECT a.account_id, m.amount, ${usdcWithFee} AS usdc
    FROM transfers t CROSS JOIN accounts a ON a.account_id = t.${raw(account)}
      CROSS JOIN matches m ON m.match_id = t.ref OR m.quote_id = t.ref
    WHERE t.transfer_id > ${range.after} AND t.transfer_id <= ${range.upTo}
      AND t.reason = ${reasonCode("trade")} AND a.asset <> ${USDC} AND a.kind <> 'external'`;
  return sql`SELECT account_id, ${boundedSum("amount")} AS traded, ${boundedSum("usdc")} AS traded_usdc
    FROM (${legs("to_account", expr`${usdc} + ${fee}`)}
      UNION ALL ${legs("from_account", expr`${usdc} - ${fee}`)}
      UNION ALL SELECT iif(r.kind = 'split', t.to_account, t.from_account), r.amount, r.usdc_amount
      FROM transfers t JOIN redemptions r ON r.redemption_id = t.ref
      WHERE t.transfer_id > ${range.after} AND t.transfer_id <= ${range.upTo}
        AND t.step = iif(r.kind = 'split', ${stepCode("credit")}, ${stepCode("end")}))
    GROUP BY account_id`;
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

/** Outcome tokens held or traded by a user, by key: above `after`, from `from`, below `before`. */
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
