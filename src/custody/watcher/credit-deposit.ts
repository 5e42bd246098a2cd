/**
 * Confirmed deposits become money.
 *
 * No amount may take what is issued of an asset past 2^62, over all chains: then no account can ever pass it, whoever
 * trades with whom. A deposit that alone does not fit is quarantined; its neighbours are credited.
 */
import type { Group } from "../../platform/commit.ts";
import type { Config } from "../../platform/config.ts";
import { join, raw, type Sql, sql } from "../../platform/sql.ts";
import { alertRow } from "../../chain/alert.ts";
import { externalOwner, openExternalAccounts, post } from "../../ledger/post.ts";

/** Deposits credited by one group. What is left follows in the next. */
const CREDITS_PER_GROUP = 500;

/** Confirmed and not yet credited: seen again in a canonical block at the confirmed height. */
const DUE = raw("status = 'confirming' AND confirmed_group IS NOT NULL");

export function creditConfirmed(group: Group, settings: Config, chain: string, when: Sql): Sql[] {
  const issued = issuedOf(settings);
  const credited = sql`SELECT ${externalOwner(chain)} AS from_owner, d.user_id AS to_owner, d.asset AS asset,
    CAST(d.amount AS INTEGER) AS amount, d.deposit_id AS ref, 0 AS line
    FROM deposits d WHERE d.ended_group = ${group.seq} AND d.status = 'credited'`;
  return [
    // Text first: CAST would clamp an amount of 2^63 and more.
    sql`UPDATE deposits SET status = 'quarantined', ended_group = ${group.seq}
      WHERE chain = ${chain} AND ${DUE} AND ${when} AND (length(amount) > 19 OR (length(amount) = 19 AND amount > '4611686018427387904')
        OR CAST(amount AS INTEGER) + ${issued} > 4611686018427387904)`,
    // One for the chain, however many follow: whoever can make junk tokens can make as many of these as they like.
    alertRow({
      kind: "deposit_quarantined",
      subject: chain,
      detail:
        "A deposit is larger than the ledger can hold: operator deposits list --status quarantined.",
      at: group.at,
      when: sql`EXISTS (SELECT 1 FROM deposits INDEXED BY deposits_ended_group WHERE ended_group = ${group.seq} AND chain = ${chain} AND status = 'quarantined')`,
    }),
    // Each fits alone now. The first of each asset is credited, and those after it that leave the bound far away, in
    // REAL since sum() may not overflow; the others are judged again against what is issued then.
    sql`UPDATE deposits SET status = 'credited', credited_at = ${group.at}, ended_group = ${group.seq}
      WHERE ${when} AND deposit_id IN (
        SELECT deposit_id FROM (
          SELECT deposit_id, row_number() OVER earlier AS place, total(CAST(amount AS INTEGER)) OVER earlier + ${issued} AS after
          FROM (SELECT * FROM deposits WHERE chain = ${chain} AND ${DUE} ORDER BY block_number LIMIT ${CREDITS_PER_GROUP}) deposits
          WINDOW earlier AS (PARTITION BY asset ORDER BY block_number, deposit_id))
        WHERE place = 1 OR after < 4.6e18)`,
    openExternalAccounts(credited),
    ...post(group, {
      reason: "deposit",
      step: "credit",
      from: "external",
      to: "available",
      source: credited,
    }),
    sql`INSERT INTO sweepable (chain, asset, address, amount, block_number)
      SELECT chain, asset, address, CAST(min(4e18, total(CAST(amount AS INTEGER))) AS INTEGER), max(block_number)
      FROM deposits WHERE ended_group = ${group.seq} AND status = 'credited' GROUP BY chain, asset, address
      ON CONFLICT (chain, asset, address) DO UPDATE SET amount = CAST(min(4e18, amount + 0.0 + excluded.amount) AS INTEGER),
        block_number = max(block_number, excluded.block_number)`,
  ];
}

/** Deposits still to be credited after a group that could not take them all. */
export function depositsDue(chain: string): Sql {
  return sql`SELECT count(*) AS n FROM (SELECT 1 FROM deposits WHERE chain = ${chain} AND ${DUE} LIMIT 1)`;
}

/** Scalar: what the service owes of `deposits.asset`, on all chains together. */
function issuedOf(settings: Config): Sql {
  const owners = join(
    settings.CHAINS.map(({ chain }) => externalOwner(chain)),
    ", ",
  );
  return sql`coalesce((SELECT -sum(balance) FROM accounts WHERE owner IN (${owners}) AND accounts.asset = deposits.asset AND kind = 'external'), 0)`;
}
