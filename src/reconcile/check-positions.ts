/** The checks of the sums of trades (`position_mismatch`) against the matches. */
import { all, atom, expr, type Expr, type Sql, sql } from "../platform/sql.ts";
import type { Chunk } from "./check-alone.ts";
import { reasonCode } from "../ledger/codes.ts";
import { accountName, type AccountRow, type Difference } from "./difference.ts";
import { isNext, MAX_PER_CHUNK, scanName, type Scan, within } from "./check-journal.ts";
import { DELIVERED } from "../ledger/released.ts";
import { tradeSums } from "../ledger/trade-sums.ts";
import { isIndexedCredit } from "../ledger/transfer-types.ts";

/** Transfers after a chunk in which its accounts may have traded again and are compared still. */
const AHEAD = 2_000;

/**
 * Compares the sums of the accounts that traded in a chunk of transfers with those at the
 * checkpoint and the matches since. An account that traded even later is compared with that chunk.
 */
export function checkSums(db: D1Database, scan: Scan, chunk: Chunk): Promise<Difference[]> {
  const upTo = chunk.upTo + AHEAD;
  return differences(
    db,
    sql`(${tradeSums({ after: chunk.after, upTo })}) n
      CROSS JOIN accounts a ON a.account_id = n.account_id
      LEFT JOIN checked_balances s ON s.scan = ${scanName(scan, "transfers")}
        AND s.account_id = a.account_id
      WHERE ${notTradedAfter(expr`${upTo}`)} AND ${isNext(scan, chunk)}`,
    { traded: expr`n.traded`, usdc: expr`n.traded_usdc` },
  );
}

/** Compares the accounts of a chunk of accounts that have not traded since the last seal. */
export function checkSealedSums(db: D1Database, chunk: Chunk): Promise<Difference[]> {
  return differences(
    db,
    sql`accounts a LEFT JOIN sealed_balances s ON s.account_id = a.account_id
      WHERE ${within("a.account_id", chunk)} AND ${notTradedAfter(DELIVERED)}`,
    { traded: expr`0`, usdc: expr`0` },
  );
}

/** Condition on account `a`. A token enters it as available and leaves it as pending. */
function notTradedAfter(transfer: Expr): Expr {
  const later = (index: Sql, account: Expr) => expr`EXISTS (SELECT 1
    FROM transfers t INDEXED BY ${index}
    WHERE ${account} = a.account_id AND t.reason = ${reasonCode("trade")}
      AND ${isIndexedCredit(atom("t.reason"))} AND t.transfer_id > ${transfer})`;
  return expr`NOT ${later(sql`transfers_to`, atom("t.to_account"))}
    AND NOT ${later(sql`transfers_from`, atom("t.from_account"))}`;
}

type SumsRow = AccountRow & {
  readonly traded: string;
  readonly usdc: string;
  readonly expected: string;
  readonly expected_usdc: string;
};

/** Accounts `a` whose sums are not those of the checkpoint `s` and what came after it. */
async function differences(
  db: D1Database,
  from: Sql,
  since: { readonly traded: Expr; readonly usdc: Expr },
): Promise<Difference[]> {
  const rows = await all<SumsRow>(
    db,
    sql`SELECT hex(owner) AS owner, kind, asset, CAST(traded AS TEXT) AS traded,
        CAST(traded_usdc AS TEXT) AS usdc, CAST(expected AS TEXT) AS expected,
        CAST(expected_usdc AS TEXT) AS expected_usdc
      FROM (SELECT a.owner, a.kind, a.asset, a.traded, a.traded_usdc,
          coalesce(s.traded, 0) + ${since.traded} AS expected,
          coalesce(s.traded_usdc, 0) + ${since.usdc} AS expected_usdc
        FROM ${from})
      WHERE (traded, traded_usdc) IS NOT (expected, expected_usdc) LIMIT ${MAX_PER_CHUNK}`,
  );
  return rows.map(({ traded, usdc, expected, expected_usdc: expectedUsdc, ...row }) => ({
    check: "position_mismatch",
    account: accountName(row),
    amount: (BigInt(traded) - BigInt(expected)).toString(),
    detail: `sums ${traded} for ${usdc} USDC; its matches sum to ${expected} for ${expectedUsdc}`,
  }));
}
