/** What a chain can pay of an asset. */
import { IN_FLIGHT } from "../assets/withdrawal-status.ts";
import { type Expr, expr } from "../platform/sql.ts";

/** What the chain has issued, its external account's negative balance, less what is in flight. */
export function liquidity({
  chain,
  asset,
}: Readonly<Record<"chain" | "asset", string | Expr>>): Expr {
  return expr`coalesce((SELECT -a.balance FROM accounts a
      WHERE a.owner = CAST('external:' || ${chain} AS BLOB) AND a.asset = ${asset}
        AND a.kind = 'external'), 0)
    - coalesce((SELECT sum(o.amount) FROM withdrawals o INDEXED BY withdrawals_open
      WHERE o.chain = ${chain} AND o.asset = ${asset} AND o.status ${IN_FLIGHT}), 0)`;
}
