/** Chooses the queued withdrawals that fit into the next vault payment. Pure. */
import type { AssetKey } from "../../assets/asset.ts";

export type Job = {
  readonly withdrawalId: string;
  readonly paymentId: `0x${string}`;
  readonly asset: AssetKey;
  readonly amount: bigint;
  readonly to: `0x${string}`;
};

/** What the vault's limits leave of an asset (`paymentLimitOf` in Limits.sol). */
export type PaymentLimit = {
  /** The largest payment that is ever possible. */
  readonly maximum: bigint;
  /** The most that one transaction can pay now. */
  readonly available: bigint;
};

export type Choice = {
  readonly chosen: readonly Job[];
  /** How much more of each asset the vault needs to pay the jobs that were skipped. */
  readonly missing: ReadonlyMap<AssetKey, bigint>;
};

/**
 * Takes the first jobs. One that exceeds what the vault holds is skipped, so it does not delay
 * others. One that must wait for the vault's limit holds back the later ones of its asset, which
 * would otherwise use up whatever becomes available. `limits` lacks assets whose limit is unknown.
 */
export function choosePayments(
  jobs: readonly Job[],
  held: ReadonlyMap<AssetKey, bigint>,
  count: number,
  limits: ReadonlyMap<AssetKey, PaymentLimit> = new Map(),
): Choice {
  const left = new Map(held);
  const payable = new Map([...limits].map(([asset, { available }]) => [asset, available]));
  const waiting = new Set<AssetKey>();
  const chosen: Job[] = [];
  const missing = new Map<AssetKey, bigint>();
  for (const job of jobs) {
    const { asset, amount } = job;
    const free = left.get(asset) ?? 0n;
    const now = payable.get(asset) ?? amount;
    if (waiting.has(asset)) continue;
    if (amount > now && isEverPayable(job, limits)) waiting.add(asset);
    else if (amount > free) missing.set(asset, (missing.get(asset) ?? 0n) + amount);
    else if (chosen.length < count) {
      left.set(asset, free - amount);
      if (limits.has(asset) && amount <= now) payable.set(asset, now - amount);
      chosen.push(job);
    }
  }
  for (const [asset, wanted] of missing) missing.set(asset, wanted - (left.get(asset) ?? 0n));
  return { chosen, missing };
}

/** The assets of which the vault's limit cannot pay all jobs now. */
export function limitedAssets(
  jobs: readonly Job[],
  limits: ReadonlyMap<AssetKey, PaymentLimit>,
): AssetKey[] {
  const wanted = new Map<AssetKey, bigint>();
  for (const job of jobs)
    if (isEverPayable(job, limits))
      wanted.set(job.asset, (wanted.get(job.asset) ?? 0n) + job.amount);
  return [...wanted].flatMap(([asset, amount]) =>
    amount > (limits.get(asset)?.available ?? amount) ? [asset] : [],
  );
}

/** The first job that must wait for the limit, because it alone exceeds what is left now. */
export function waitingForLimit(
  jobs: readonly Job[],
  limits: ReadonlyMap<AssetKey, PaymentLimit>,
): Job | undefined {
  return jobs.find(
    (job) =>
      isEverPayable(job, limits) && job.amount > (limits.get(job.asset)?.available ?? job.amount),
  );
}

/**
 * Whether the job fits an empty limit. The vault skips a larger one until park-over-limit.ts sets
 * it aside. A limit of zero stops the whole asset and says nothing about the job.
 */
function isEverPayable(
  { asset, amount }: Job,
  limits: ReadonlyMap<AssetKey, PaymentLimit>,
): boolean {
  const { maximum = 0n } = limits.get(asset) ?? {};
  return maximum === 0n || amount <= maximum;
}
