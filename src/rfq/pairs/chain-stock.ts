/** What chains hold of the tokens of pairs, beside what the pairs have issued for USDC. */
import { liquidity } from "../../ledger/liquidity.ts";
import { pairOwner } from "../../ledger/post.ts";
import type { Config } from "../../platform/config.ts";
import { all, atom, type Expr, expr, type Sql, sql } from "../../platform/sql.ts";
import { venueOf } from "../../platform/venues.ts";
import type { Stock } from "../markets/market.ts";
import { pairBalance } from "./redemptions.ts";

/** Table of the venues whose pairs have a chain. `float_owner` may be NULL. */
export function chainVenues({ VENUES }: Pick<Config, "VENUES">): Sql {
  const rows = VENUES.flatMap(({ venue_id, chain, collateral, float_account }) =>
    collateral === undefined ? [] : [[venue_id, chain, float_account ?? null]],
  );
  return sql`(SELECT value ->> 0 AS venue, value ->> 1 AS chain,
    unhex(value ->> 2, '-') AS float_owner FROM json_each(${JSON.stringify(rows)}))`;
}

/** Scalar over a market `m` and the chain of its venue: what can be withdrawn of the token. */
export const ON_CHAIN: Expr = expr`coalesce(${liquidity({
  chain: atom("v.chain"),
  asset: atom("m.asset"),
})}, 0)`;
/** Scalar over a market `m`: what its pair has issued, less what it has taken back. */
export const ISSUED: Expr = expr`-${pairBalance(
  pairOwner(atom("m.asset"), atom("m.complement")),
  atom("m.asset"),
)}`;

export async function readStock(
  db: D1Database,
  settings: Pick<Config, "VENUES">,
): Promise<ReadonlyMap<string, Stock>> {
  if (settings.VENUES.every(({ collateral }) => collateral === undefined)) return new Map();
  const rows = await all<Stock>(
    db,
    sql`SELECT m.asset, CAST(max(0, ${ON_CHAIN}) AS TEXT) AS withdrawable,
        CAST(max(0, ${ISSUED}) AS TEXT) AS issued
      FROM ${chainVenues(settings)} v JOIN markets m ON ${venueOf("m.asset")} = v.venue
      WHERE m.condition IS NOT NULL AND m.paid_at IS NULL`,
  );
  return new Map(rows.map((row) => [row.asset, row]));
}
