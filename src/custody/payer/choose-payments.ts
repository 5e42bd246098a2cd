/** Chooses the queued withdrawals that fit into the next vault payment. Pure. */
import type { AssetKey } from "../../assets/asset.ts";
import { tokenName } from "../../chain/token.ts";

export type Job = {
  readonly withdrawalId: string;
  readonly paymentId: `0x${string}`;
  readonly asset: AssetKey;
  readonly amount: bigint;
  readonly to: `0x${string}`;
};

/** What the vault's limits leave of an asset (`paymentLimitOf` in Limits.sol) or of a contract. */
type PaymentLimit = {
  /** The largest payment that is ever possible. */
  readonly maximum: bigint;
  /** The most that one transaction can pay now. */
  readonly available: bigint;
};

/** By asset, and by the name of a contract whose ids share one. Unknown limits are omitted. */
export type PaymentLimits = ReadonlyMap<string, PaymentLimit>;

export type Choice = {
  readonly chosen: readonly Job[];
  /** How much more of each asset the vault needs to pay the jobs that were skipped. */
  readonly missing: ReadonlyMap<AssetKey, bigint>;
};

/**
 * Takes the first jobs. One that exceeds what the vault holds is skipped. One that waits for a
 * limit holds back later ones that count towards it, which would use up what the limit refills.
 */
export function choosePayments(
  jobs: readonly Job[],
  held: ReadonlyMap<AssetKey, bigint>,
  count: number,
  limits: PaymentLimits = new Map(),
): Choice {
  const left = new Map(held);
  const payable = new Map([...limits].map(([name, { available }]) => [name, available]));
  const waiting = new Set<string>();
  const chosen: Job[] = [];
  const missing = new Map<AssetKey, bigint>();
  for (const job of jobs) {
    const { asset, amount } = job;
    const free = left.get(asset) ?? 0n;
    const names = limitsOf(job);
    if (names.some((name) => waiting.has(name))) continue;
    const reached = names.filter((name) => amount > (payable.get(name) ?? amount));
    if (reached.length > 0 && isEverPayable(job, limits))
      for (const name of reached) waiting.add(name);
    else if (amount > free) missing.set(asset, (missing.get(asset) ?? 0n) + amount);
    else if (chosen.length < count) {
      left.set(asset, free - amount);
      for (const name of names) {
        const now = payable.get(name);
        if (now !== undefined && amount <= now) payable.set(name, now - amount);
      }
      chosen.push(job);
    }
  }
  for (const [asset, wanted] of missing) missing.set(asset, wanted - (left.get(asset) ?? 0n));
  return { chosen, missing };
}

/** The limits that cannot pay all jobs now. */
export function reachedLimits(jobs: readonly Job[], limits: PaymentLimits): string[] {
  const wanted = new Map<string, bigint>();
  for (const job of jobs)
    if (isEverPayable(job, limits))
      for (const name of limitsOf(job)) wanted.set(name, (wanted.get(name) ?? 0n) + job.amount);
  return [...wanted].flatMap(([name, amount]) =>
    amount > (limits.get(name)?.available ?? amount) ? [name] : [],
  );
}

/** The first job that must wait for the limit, because it alone exceeds what is left now. */
export function waitingForLimit(jobs: readonly Job[], limits: PaymentLimits): Job | undefined {
  return jobs.find(
    (job) =>
      isEverPayable(job, limits) && job.amount > (limits.get(job.asset)?.available ?? job.amount),
  );
}

/** What a payment counts towards. Both names of USDC are the same. */
function limitsOf({ asset }: Job): string[] {
  return [...new Set([asset, tokenName(asset)])];
}

/**
 * Whether the job fits an empty limit. The vault skips a larger one until park-withdrawal.ts sets
 * it aside. A limit of zero stops the whole asset and says nothing about the job.
 */
export function isEverPayable({ asset, amount }: Job, limits: PaymentLimits): boolean {
  const { maximum = 0n } = limits.get(asset) ?? {};
  return maximum === 0n || amount <= maximum;
}
