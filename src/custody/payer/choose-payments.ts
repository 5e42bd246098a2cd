/** Chooses the queued withdrawals that fit into the next vault payment. Pure. */
import type { AssetKey } from "../../assets/asset.ts";

export type Job = {
  readonly withdrawalId: string;
  readonly paymentId: `0x${string}`;
  readonly asset: AssetKey;
  readonly amount: bigint;
  readonly to: `0x${string}`;
};

export type Choice = {
  readonly chosen: readonly Job[];
  /** How much more of each asset the vault needs to pay the jobs that were skipped. */
  readonly missing: ReadonlyMap<AssetKey, bigint>;
};

/** Takes the oldest jobs first. A job that does not fit is skipped, so it does not delay others. */
export function choosePayments(
  jobs: readonly Job[],
  held: ReadonlyMap<AssetKey, bigint>,
  limit: number,
): Choice {
  const left = new Map(held);
  const chosen: Job[] = [];
  const missing = new Map<AssetKey, bigint>();
  for (const job of jobs) {
    const free = left.get(job.asset) ?? 0n;
    if (job.amount > free) {
      missing.set(job.asset, (missing.get(job.asset) ?? 0n) + job.amount);
    } else if (chosen.length < limit) {
      left.set(job.asset, free - job.amount);
      chosen.push(job);
    }
  }
  for (const [asset, wanted] of missing) missing.set(asset, wanted - (left.get(asset) ?? 0n));
  return { chosen, missing };
}
