/**
 * Credits confirmed deposits, small ones once due. At most 2^62 units of an asset are issued over
 * all chains, so no account exceeds that. A deposit that does not fit is quarantined alone.
 */
import type { Group } from "../../platform/commit.ts";
import type { Config } from "../../platform/config.ts";
import { type Expr, expr, join, raw, type Sql, sql, MAX_NATIVE } from "../../platform/sql.ts";
import { alertRow } from "../../platform/alert.ts";
import { moveDueDeposits } from "./small-deposits.ts";
import { externalOwner, post } from "../../ledger/post.ts";

/** Limit of deposits that one group credits. The next groups credit the rest. */
const CREDITS_PER_GROUP = 500;

/** Condition on deposits: confirmed by the second reading and neither credited nor quarantined. */
const DUE = raw("status = 'confirming' AND confirmed_group IS NOT NULL");

const CREDIT = { reason: "deposit", step: "credit", from: "external", to: "available" } as const;

export function creditConfirmed(group: Group, settings: Config, chain: string, when: Sql): Sql[] {
  const issued = issuedOf(settings);
  const credited = sql`SELECT ${externalOwner(chain)} AS from_owner, d.user_id AS to_owner,
    d.asset AS asset, CAST(d.amount AS INTEGER) AS amount, d.deposit_id AS ref, 0 AS line
    FROM deposits d WHERE d.ended_group = ${group.seq} AND d.status = 'credited'`;
  return [
    ...moveDueDeposits(group, chain, when),
    // Compared as text first, because CAST would clamp amounts from 2^63 on.
    sql`UPDATE deposits SET status = 'quarantined', ended_group = ${group.seq}
      WHERE chain = ${chain} AND ${DUE} AND ${when} AND (length(amount) > 19
        OR (length(amount) = 19 AND amount > CAST(${MAX_NATIVE} AS TEXT))
        OR CAST(amount AS INTEGER) + ${issued} > ${MAX_NATIVE})`,
    // One alert per chain, because anyone can mint worthless tokens and cause any number of these.
    alertRow(
      group,
      "deposit_quarantined",
      chain,
      "A deposit is too large for the ledger. See: operator deposits list --status quarantined",
      sql`EXISTS (SELECT 1 FROM deposits INDEXED BY deposits_ended_group
        WHERE ended_group = ${group.seq} AND chain = ${chain} AND status = 'quarantined')`,
    ),
    // Every remaining deposit fits on its own. Credit the first per asset, plus later ones while
    // the running total stays well below the limit of 2^62. The total is REAL, because sum() would
    // overflow, and 4.6e18 is less than 2^62 by more than a REAL rounds. The next group evaluates
    // the rest against what is issued then.
    sql`UPDATE deposits SET status = 'credited', credited_at = ${group.at},
        ended_group = ${group.seq}
      WHERE ${when} AND deposit_id IN (
        SELECT deposit_id FROM (
          SELECT deposit_id, row_number() OVER earlier AS place,
            total(CAST(amount AS INTEGER)) OVER earlier + ${issued} AS after
          FROM (SELECT * FROM deposits WHERE chain = ${chain} AND ${DUE}
            ORDER BY block_number LIMIT ${CREDITS_PER_GROUP}) deposits
          WINDOW earlier AS (PARTITION BY asset ORDER BY block_number, deposit_id))
        WHERE place = 1 OR after < 4.6e18)`,
    ...post(group, { ...CREDIT, source: credited }),
    makeSweepable(
      sql`ended_group = ${group.seq} AND status = 'credited'`,
      sql`amount = CAST(min(4e18, amount + 0.0 + excluded.amount) AS INTEGER)`,
    ),
  ];
}

/** Makes addresses of deposits sweepable, and sets `known` for those that are. */
export function makeSweepable(ofDeposits: Sql, known: Sql): Sql {
  return sql`INSERT INTO sweepable (chain, asset, address, amount, block_number)
    SELECT chain, asset, address, CAST(min(4e18, total(CAST(amount AS INTEGER))) AS INTEGER),
      max(block_number)
    FROM deposits WHERE ${ofDeposits} GROUP BY chain, asset, address
    ON CONFLICT (chain, asset, address) DO UPDATE SET ${known},
      block_number = max(block_number, excluded.block_number)`;
}

/** Condition: confirmed deposits are left to credit. */
export function depositsDue(chain: string): Expr {
  return expr`EXISTS (SELECT 1 FROM deposits WHERE chain = ${chain} AND ${DUE})
    OR EXISTS (SELECT 1 FROM small_deposits WHERE chain = ${chain} AND due = 1)`;
}

/** Scalar: how much of `deposits.asset` the service owes on all chains together. */
function issuedOf(settings: Config): Sql {
  const owners = settings.CHAINS.map(({ chain }) => externalOwner(chain));
  return sql`coalesce((SELECT -sum(balance) FROM accounts
    WHERE owner IN (${join(owners, ", ")}) AND accounts.asset = deposits.asset
      AND kind = 'external'), 0)`;
}
