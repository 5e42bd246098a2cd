/**
 * Cron reads the results of conditions from their chains. What it reads first is a proposal, which
 * two operators can correct until it settles. Then it is read again: the same makes it final, so
 * its holders are paid. Another one pays nobody until operators or the chain change it.
 */
import { auditRow, recordBy } from "../../audit/audit.ts";
import { type Conditions, conditionsOf } from "../../chain/conditions.ts";
import { EndpointsDisagree } from "../../chain/witnesses.ts";
import { alertRows, clearAlert, raiseAlert } from "../../platform/alert.ts";
import { commitOrThrow, newGroup, NOW } from "../../platform/commit.ts";
import { type Config, config } from "../../platform/config.ts";
import { errorFields, log } from "../../platform/log.ts";
import { all, expr, literal, sql, TRUE } from "../../platform/sql.ts";
import { cancelOpenRequests } from "../close-books.ts";
import { resolveMarket } from "../markets/resolve-market.ts";

/** One call of a node asks for as many. Of several chunks each has its turn. */
const PER_ROUND = 100;
const LATE_MS = 600_000;

/** The first token of a condition, and the results that are to be shown again, if any. */
type Unread = {
  readonly asset: string;
  readonly complement: string;
  readonly condition: string;
  readonly first: number | null;
  readonly second: number | null;
};

/** A venue that cannot be read stops no other. Holders who wait for it are reported. */
export async function readResults(env: Env): Promise<void> {
  const settings = config(env);
  for (const { venue_id: venue, chain, collateral } of settings.VENUES) {
    if (collateral === undefined) continue;
    const [db, subject] = [env.DB, `${chain}:${venue}`];
    try {
      await readVenue(env, settings, venue);
      await clearAlert(db, "nodes_disagree", subject);
    } catch (error) {
      log("warn", "results.unread", { venue, ...errorFields(error) });
      if (error instanceof EndpointsDisagree)
        await raiseAlert(db, "nodes_disagree", subject, `Results of ${venue}: ${error.message}`);
    }
  }
  await all(
    env.DB,
    alertRows(
      { at: NOW },
      "settlement_late",
      sql`SELECT m.asset AS subject, 'The settled result of ' || m.asset
          || ' was not read again, so its holders wait.' AS detail
        FROM markets m INDEXED BY markets_unread
        WHERE m.slot = 0 AND m.read_at IS NULL AND m.settles_at <= ${NOW} - ${literal(LATE_MS)}`,
    ),
  );
}

async function readVenue(env: Env, settings: Config, venue: string): Promise<void> {
  const scan = `results:${venue}`;
  const unread = await all<Unread>(
    env.DB,
    sql`SELECT m.asset, m.complement, m.condition, m.result AS first, c.result AS second
      FROM markets m INDEXED BY markets_unread JOIN markets c ON c.asset = m.complement
      WHERE m.slot = 0 AND m.read_at IS NULL AND m.asset >= ${`${venue}:`} AND m.asset < ${`${venue};`}
        AND (m.result IS NULL OR max(m.settles_at, c.settles_at) <= ${NOW})
      ORDER BY m.result IS NULL, m.asset <= coalesce((SELECT mark FROM ledger_checkpoints
        WHERE scan = ${scan}), ''), m.asset LIMIT ${PER_ROUND}`,
  );
  if (unread.length === 0) return;
  const contract = await conditionsOf(env.DB, settings, venue);
  const payouts = await contract.payouts(unread.map(({ condition }) => condition));
  for (const [index, market] of unread.entries())
    try {
      await (market.first === null
        ? propose(env, settings, market, payouts[index])
        : confirm(env, contract, market, payouts[index]));
    } catch (error) {
      log("error", "results.refused", { asset: market.asset, ...errorFields(error) });
    }
  const mark = unread.at(-1)?.asset ?? "";
  await all(
    env.DB,
    sql`INSERT INTO ledger_checkpoints (scan, position, mark) SELECT ${scan}, 0, ${mark} WHERE 1
      ON CONFLICT (scan) DO UPDATE SET mark = excluded.mark`,
  );
}

type Payout = readonly number[] | null | undefined;

async function propose(
  env: Env,
  { SETTLE_DELAY_SECS }: Config,
  { asset }: Unread,
  payout: Payout,
): Promise<void> {
  const [result, rest] = payout ?? [];
  if (result === undefined || rest === undefined) return;
  await resolveMarket(env, asset, {
    result,
    rest,
    isRead: true,
    settleDelayMs: SETTLE_DELAY_SECS * 1_000,
    record: async (effects) => {
      const group = newGroup();
      const record = recordBy("service", "market_resolved", { subjectId: asset });
      await commitOrThrow(env.DB, group, [auditRow(record, group.at, TRUE), ...effects(group)]);
    },
  });
}

async function confirm(
  env: Env,
  { chain, block }: Conditions,
  { asset, complement, first, second }: Unread,
  payout: Payout,
): Promise<void> {
  // A correction names one result, and the other is the rest of 1 USDC, so it may be one higher.
  const isSame = [first, second].every((result, slot) => {
    const shown = payout?.[slot];
    return result === shown || (shown !== undefined && result === shown + 1);
  });
  if (!isSame)
    return raiseAlert(
      env.DB,
      "result_differs",
      asset,
      `${chain} shows ${payout?.join(" and ") ?? "no result"} of ${asset} and ${complement} at ` +
        `block ${block}, and ${first} and ${second} have settled. Nobody is paid. What the chain ` +
        "has shown wrongly, two operators correct: operator market resolve",
    );
  // The proposal may have died before this.
  await cancelOpenRequests(env, sql`asset IN (${asset}, ${complement})`);
  await all(
    env.DB,
    sql`UPDATE markets SET read_at = ${NOW} WHERE asset IN (${asset}, ${complement})
      AND read_at IS NULL AND result = iif(asset = ${asset}, ${first}, ${second})
      AND ${expr`EXISTS (SELECT 1 FROM chain_cursors c WHERE c.chain = ${chain}
        AND c.halted_at IS NULL AND c.confirmed_number >= ${block})`}
      AND NOT EXISTS (SELECT 1 FROM markets o WHERE o.asset IN (${asset}, ${complement})
        AND (o.settles_at > ${NOW} OR o.result <> iif(o.asset = ${asset}, ${first}, ${second})))`,
  );
  await clearAlert(env.DB, "result_differs", asset);
}
