/** What the payer needs to know of the vault's limits before it chooses payments. */
import type { AssetKey } from "../../assets/asset.ts";
import { describe } from "../../chain/rpc.ts";
import { tokenOf } from "../../chain/token.ts";
import { readPaymentLimits } from "../../chain/vault.ts";
import { askAgreed } from "../../chain/witnesses.ts";
import { clearAlert, raiseAlert } from "../../platform/alert.ts";
import { NOW } from "../../platform/commit.ts";
import { log } from "../../platform/log.ts";
import { all, sql } from "../../platform/sql.ts";
import { type Job, type PaymentLimit, waitingForLimit } from "./choose-payments.ts";
import type { HeadView } from "./payer-context.ts";

const DAY_MS = 86_400_000;
/** Withdrawals that were paid in the last day were ordered within this time, but for a few. */
const ORDERED_WITHIN_MS = 7 * DAY_MS;

export type Limits = ReadonlyMap<AssetKey, PaymentLimit>;

/** Limits of the jobs' assets at the head. Empty if unknown: the vault checks them in any case. */
export async function readLimits(context: HeadView, jobs: readonly Job[]): Promise<Limits> {
  const { chain, settings, head } = context;
  const assets = [...new Set(jobs.map(({ asset }) => asset))];
  if (!context.agreed || assets.length === 0) return new Map();
  const tokens = assets.map((asset) => tokenOf(settings, chain, asset));
  try {
    const { value } = await askAgreed(
      chain,
      (endpoint) => readPaymentLimits(endpoint, chain, { tokens, block: head.number }),
      (limits) => limits.map(({ maximum, available }) => `${maximum} ${available}`).join(),
      context.firstEndpoint,
    );
    return new Map(value.map((limit, index) => [assets[index] ?? "", limit]));
  } catch (error) {
    log("warn", "payer.limits_unknown", { chain: chain.chain, error: describe(error) });
    return new Map();
  }
}

/** Raises or closes the alert about withdrawals that wait for the limit. */
export async function alertLimit(
  { db, chain: { chain } }: HeadView,
  jobs: readonly Job[],
  limits: Limits,
): Promise<void> {
  const job = waitingForLimit(jobs, limits);
  if (job === undefined) return clearAlert(db, "limit_reached", chain);
  await raiseAlert(
    db,
    "limit_reached",
    chain,
    `withdrawals of ${job.asset} wait for the vault's limit, which refills over 24 hours: the first ` +
      `needs ${job.amount}, and ${limits.get(job.asset)?.available} can be paid now. Raise the ` +
      `limit (contracts/README.md), or return it: withdrawals fail --id ${job.withdrawalId}`,
  );
}

/**
 * Withdrawals of limited assets whose owner would get more than the largest payment within a day.
 * Those of other users come first, so that capital that is sent round keeps nobody waiting.
 */
export async function beyondShare(
  { db, chain: { chain } }: HeadView,
  limits: Limits,
  limited: readonly AssetKey[],
): Promise<string[]> {
  const maxima = limited.map((asset) => ({ asset, maximum: `${limits.get(asset)?.maximum}` }));
  const rows = await all<{ id: string }>(
    db,
    sql`SELECT hex(w.withdrawal_id) AS id
      FROM withdrawals w INDEXED BY withdrawals_open
      JOIN json_each(${JSON.stringify(maxima)}) l ON l.value ->> 'asset' = w.asset
      WHERE w.chain = ${chain} AND w.status IN ('queued', 'submitted')
        AND w.amount + (SELECT total(p.amount) FROM withdrawals p INDEXED BY withdrawals_user
          WHERE p.user_id = w.user_id AND p.created_at >= ${NOW} - ${ORDERED_WITHIN_MS}
            AND p.chain = w.chain AND p.asset = w.asset AND p.status IN ('submitted', 'settled')
            AND p.updated_at >= ${NOW} - ${DAY_MS}) > CAST(l.value ->> 'maximum' AS REAL)`,
  );
  return rows.map(({ id }) => id);
}
