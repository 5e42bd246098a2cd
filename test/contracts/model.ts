/**
 * What the vaults, the factory and the tokens should do, written down without looking at how the
 * contracts do it. Every verb takes the time of its block and either returns what the transaction
 * reports, or null when the transaction must revert.
 */
import { KIND, REASON, STATE } from "./chain.ts";

const WINDOW = 86_400n;
const LAPSE = 14n * 86_400n;
/** The time lock of every vault in the sequences. */
export const TIMELOCK = 10_000n;
/** Payment ids and deposit addresses in the sequences, by index. */
export const ID_COUNT = 40;
export const SALT_COUNT = 3;

export const ASSETS = ["usdc", "odd", "seven", "eight", "stray", "native"] as const;
export type AssetName = (typeof ASSETS)[number];
/** The third-party token `odd` can refuse everybody, or not even report balances. */
export const ODD_MODES = ["HONEST", "REVERTS", "LIES", "BALANCE_REVERTS"] as const;
export type OddMode = (typeof ODD_MODES)[number];

export const LIMITS = [
  "usdc",
  "odd",
  "seven",
  "eight",
  "default",
  "total",
  "usdcTransaction",
  "oddTransaction",
  "outcomeTransaction",
] as const;
export type LimitName = (typeof LIMITS)[number];

export const PAYABLE = ["usdc", "odd", "seven", "eight"] as const;
export type Payable = (typeof PAYABLE)[number];

export type ModelPayment = {
  id: number;
  asset: Payable;
  amount: bigint;
  /** The vault itself never receives anything; the reenterer calls the vault from its hook. */
  to: "customer" | "vault" | "reenterer";
};
type Limit = { cap: bigint; used: bigint; touched: bigint };
type Pending = { amount: bigint; due: bigint };

const sum = (values: readonly bigint[]): bigint => values.reduce((a, b) => a + b, 0n);
const half = (value: bigint): bigint => (value + 1n) / 2n;
const isOutcome = (asset: Payable): boolean => asset === "seven" || asset === "eight";

export class VaultModel {
  readonly predecessor: VaultModel | null;
  readonly holds: Record<AssetName, bigint>;
  readonly limits = new Map<LimitName, Limit>();
  readonly pendingLimits = new Map<LimitName, Pending>();
  readonly rescues = new Map<string, bigint>();
  readonly states: number[] = Array.from({ length: ID_COUNT }, () => STATE.none);
  batchNo = 1n;
  paused = false;
  migration: { to: VaultModel; due: bigint } | null = null;
  retiredFor: VaultModel | null = null;

  constructor(predecessor: VaultModel | null, holds: Record<AssetName, bigint>) {
    this.predecessor = predecessor;
    this.holds = holds;
  }

  hasTakenOver(): boolean {
    return this.predecessor === null || this.predecessor.retiredFor === this;
  }

  state(id: number): number {
    const own = this.states[id] ?? STATE.none;
    return own === STATE.none && this.predecessor !== null ? this.predecessor.state(id) : own;
  }

  /** The cap in force, and whether the admin ever set it or the one that it derives from. */
  cap(name: LimitName): { cap: bigint; known: boolean } {
    const own = this.limits.get(name);
    if (own !== undefined) return { cap: own.cap, known: true };
    switch (name) {
      case "seven":
      case "eight":
      case "total":
        return this.cap("default");
      case "usdcTransaction":
        return { cap: half(this.cap("usdc").cap), known: this.cap("usdc").known };
      case "oddTransaction":
        return { cap: half(this.cap("odd").cap), known: this.cap("odd").known };
      case "outcomeTransaction":
        return { cap: half(this.cap("total").cap), known: this.cap("total").known };
      default:
        return { cap: 0n, known: false };
    }
  }

  used(name: LimitName, now: bigint): bigint {
    const { used, touched } = this.limits.get(name) ?? this.unset(name);
    const refilled = (this.cap(name).cap * (now - touched)) / WINDOW;
    return used > refilled ? used - refilled : 0n;
  }

  /** Usage of limits that were never set. */
  readonly #usage = new Map<LimitName, Limit>();
  private unset(name: LimitName): Limit {
    return this.#usage.get(name) ?? { cap: 0n, used: 0n, touched: 0n };
  }

  #use(name: LimitName, amount: bigint, now: bigint): void {
    const used = this.used(name, now) + amount;
    const own = this.limits.get(name);
    if (own === undefined) this.#usage.set(name, { cap: 0n, used, touched: now });
    else this.limits.set(name, { cap: own.cap, used, touched: now });
  }

  pay(payments: readonly ModelPayment[], oddMode: OddMode, now: bigint): string[] | null {
    if (this.paused || !this.hasTakenOver()) return null;
    this.batchNo += 1n;
    const paid: ModelPayment[] = [];
    return payments.map((payment) => {
      const outcome = this.#payOne(payment, paid, oddMode, now);
      if (outcome === "Paid") paid.push(payment);
      return outcome;
    });
  }

  #payOne(
    { id, asset, amount, to }: ModelPayment,
    paidInBatch: readonly ModelPayment[],
    oddMode: OddMode,
    now: bigint,
  ): string {
    if (this.state(id) !== STATE.none) return `Skipped:${REASON.alreadyDone}`;
    if (amount === 0n) return `Skipped:${REASON.invalid}`;
    const rolling: LimitName[] = isOutcome(asset) ? [asset, "total"] : [asset];
    const transaction = isOutcome(asset) ? "outcomeTransaction" : (`${asset}Transaction` as const);
    const inBatch = paidInBatch.filter((other) =>
      isOutcome(asset) ? isOutcome(other.asset) : other.asset === asset,
    );
    const over =
      rolling.some((name) => this.used(name, now) + amount > this.cap(name).cap) ||
      sum(inBatch.map((other) => other.amount)) + amount > this.cap(transaction as LimitName).cap;
    if (over) return `Skipped:${REASON.overLimit}`;
    if (asset === "odd" && oddMode === "BALANCE_REVERTS") return `Skipped:${REASON.short}`;
    if (this.holds[asset] < amount) return `Skipped:${REASON.short}`;
    if (asset === "odd" && oddMode !== "HONEST") return `Skipped:${REASON.refused}`;
    if (to === "vault") {
      this.states[id] = STATE.failed;
      return "Failed";
    }
    this.states[id] = STATE.paid;
    this.holds[asset] -= amount;
    for (const name of rolling) this.#use(name, amount, now);
    return "Paid";
  }

  void(ids: readonly number[]): [event: string, state: number | undefined][] | null {
    if (this.retiredFor !== null || !this.hasTakenOver()) return null;
    return ids.map((id) => {
      const before = this.state(id);
      if (before !== STATE.none) return ["AlreadyDone", before];
      this.states[id] = STATE.voided;
      return ["Voided", undefined];
    });
  }

  setLimit(name: LimitName, amount: bigint, now: bigint): string[] {
    const { cap, known } = this.cap(name);
    if (known && amount > cap) {
      this.pendingLimits.set(name, { amount, due: now + TIMELOCK });
      return ["LimitScheduled"];
    }
    const dropped = this.pendingLimits.delete(name);
    this.#set(name, amount, now);
    return dropped ? ["LimitCanceled", "LimitSet"] : ["LimitSet"];
  }

  applyLimit(name: LimitName, now: bigint): string[] | null {
    const pending = this.pendingLimits.get(name);
    if (pending === undefined || !isDue(pending.due, now)) return null;
    this.pendingLimits.delete(name);
    this.#set(name, pending.amount, now);
    return ["LimitSet"];
  }

  cancelLimit(name: LimitName): string[] | null {
    return this.pendingLimits.delete(name) ? ["LimitCanceled"] : null;
  }

  #set(name: LimitName, amount: bigint, now: bigint): void {
    const used = this.used(name, now);
    this.limits.set(name, { cap: amount, used, touched: now });
  }

  pause(): boolean {
    const possible = !this.paused;
    this.paused = true;
    return possible;
  }

  unpause(): boolean {
    const possible = this.paused && this.retiredFor === null;
    if (possible) this.paused = false;
    return possible;
  }

  scheduleMigration(to: VaultModel, now: bigint): boolean {
    if (this.retiredFor !== null || to.predecessor !== this) return false;
    this.migration = { to, due: now + TIMELOCK };
    return true;
  }

  cancelMigration(): boolean {
    if (this.retiredFor !== null || this.migration === null) return false;
    this.migration = null;
    return true;
  }

  /** The amounts that move, in the order of `assets`. */
  migrate(assets: readonly AssetName[], oddMode: OddMode, now: bigint): bigint[] | null {
    if (!this.paused) return null;
    const to = this.retiredFor ?? this.#successorDue(now);
    if (to === null) return null;
    const refuses = oddMode === "BALANCE_REVERTS" || (oddMode !== "HONEST" && this.holds.odd > 0n);
    if (assets.includes("odd") && refuses) return null;
    this.retiredFor = to;
    return assets.flatMap((asset) => {
      const amount = this.holds[asset];
      if (amount === 0n) return [];
      this.holds[asset] = 0n;
      to.holds[asset] += amount;
      return [amount];
    });
  }

  #successorDue(now: bigint): VaultModel | null {
    const { migration } = this;
    return migration !== null && isDue(migration.due, now) && this.hasTakenOver()
      ? migration.to
      : null;
  }

  /** Every payable token has had a limit since the vault was deployed. */
  scheduleRescue(asset: AssetName, amount: bigint, now: bigint): boolean {
    if (asset !== "stray" && asset !== "native") return false;
    this.rescues.set(`${asset}:${amount}`, now + TIMELOCK);
    return true;
  }

  cancelRescue(asset: AssetName, amount: bigint): boolean {
    return this.rescues.delete(`${asset}:${amount}`);
  }

  rescue(asset: AssetName, amount: bigint, now: bigint): boolean {
    const due = this.rescues.get(`${asset}:${amount}`);
    if (due === undefined || !isDue(due, now) || this.holds[asset] < amount) return false;
    this.rescues.delete(`${asset}:${amount}`);
    this.holds[asset] -= amount;
    return true;
  }
}

function isDue(due: bigint, now: bigint): boolean {
  return due <= now && now <= due + LAPSE;
}

export type Sweepable = "usdc" | "seven" | "native";

/** All vaults of one sequence, and the factory that sweeps into one of them. */
export class Model {
  readonly vaults: VaultModel[];
  readonly deposits: Record<Sweepable, bigint>[] = Array.from({ length: SALT_COUNT }, () => ({
    usdc: 0n,
    seven: 0n,
    native: 0n,
  }));
  sweepsInto: VaultModel;
  oddMode: OddMode = "HONEST";

  constructor(first: VaultModel) {
    this.vaults = [first];
    this.sweepsInto = first;
  }

  /** The vault that may pay: the end of the line of retirements. */
  active(): VaultModel {
    let active = this.vaults[0] as VaultModel;
    while (active.retiredFor !== null) active = active.retiredFor;
    return active;
  }

  sweep(salt: number, asset: Sweepable, minAmount: bigint): [event: string, amount: bigint] {
    const account = this.deposits[salt];
    if (account === undefined) throw new Error(`no deposit address ${salt}`);
    const held = account[asset];
    if (held === 0n || held < minAmount) return ["SweepSkipped", held];
    account[asset] = 0n;
    this.sweepsInto.holds[asset] += held;
    return ["Swept", held];
  }
}

/** Where the contracts keep each limit; `usdc`, `odd` and `outcomes` are the tokens. */
export const LIMIT_PLACES: Record<
  LimitName,
  { token: "usdc" | "odd" | "outcomes"; kind: number; tokenId: bigint }
> = {
  usdc: { token: "usdc", kind: KIND.erc20, tokenId: 0n },
  odd: { token: "odd", kind: KIND.erc20, tokenId: 0n },
  seven: { token: "outcomes", kind: KIND.erc1155, tokenId: 7n },
  eight: { token: "outcomes", kind: KIND.erc1155, tokenId: 8n },
  default: { token: "outcomes", kind: KIND.erc1155Default, tokenId: 0n },
  total: { token: "outcomes", kind: KIND.erc1155Total, tokenId: 0n },
  usdcTransaction: { token: "usdc", kind: KIND.erc20Transaction, tokenId: 0n },
  oddTransaction: { token: "odd", kind: KIND.erc20Transaction, tokenId: 0n },
  outcomeTransaction: { token: "outcomes", kind: KIND.erc1155Transaction, tokenId: 0n },
};
