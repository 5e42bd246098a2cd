/** The filters of get-ledger, the runs that they select, and their conditions in SQL. */
import { USDC } from "../assets/asset.ts";
import { type Expr, expr, join, MAX_NATIVE_UNITS, sql, TRUE } from "../platform/sql.ts";
import type { Venue } from "../platform/venues.ts";
import { type AccountKind, type Reason, reasonNumber, TRANSFER_TYPES } from "./codes.ts";

export type SubAccount = "available" | "pending";
type Direction = "credit" | "debit";

export type LedgerFilter = {
  readonly account?: SubAccount | undefined;
  readonly direction?: Direction | undefined;
  readonly reasons?: readonly Reason[] | undefined;
  readonly usdc?: boolean | undefined;
  readonly venue?: Venue | undefined;
  /** In canonical form. Without a venue it selects the asset of that id on each of `venues`. */
  readonly assetId?: string | undefined;
  /** The venues of the deployment. */
  readonly venues?: readonly Venue[] | undefined;
  /** A record's UUID, or the `0x` hash of a deposit's transaction. */
  readonly refId?: string | undefined;
  /** Unix milliseconds, both included. */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  /** Absolute native units, both included. */
  readonly minAmount?: bigint | undefined;
  readonly maxAmount?: bigint | undefined;
};

/** The entries of a user that each transfer type makes: one for each end that is a sub-account. */
const ENTRY_TYPES = TRANSFER_TYPES.flatMap(([reason, from, to]) => [
  ...(isSubAccount(from) ? [{ kind: from, direction: "debit" as const, reason }] : []),
  ...(isSubAccount(to) ? [{ kind: to, direction: "credit" as const, reason }] : []),
]);

/** Credits from another owner. All others have their debit on another account of the same user. */
const COUNTERPARTY_CREDITS = ["deposit", "trade"] as const satisfies Reason[];

function isSubAccount(kind: AccountKind): kind is SubAccount {
  return kind === "available" || kind === "pending";
}

/** The indexes of runs (see entry-queries.ts): one run for all assets, or one per asset. */
export type RunIndex = "sub_account" | "account";

/** The index that serves a filter with the fewest runs. */
export function indexOf({ usdc, venue, assetId }: LedgerFilter): RunIndex {
  const ofSomeAssets = usdc !== undefined || venue !== undefined || assetId !== undefined;
  return ofSomeAssets ? "account" : "sub_account";
}

/** A run, of each asset if the index has one per asset, and where the index contains it. */
type Run = {
  /** The sub-account that the entries belong to, and whether they are its credits or debits. */
  readonly kind: SubAccount;
  readonly credit: 0 | 1;
  readonly reason: number;
  /** The sub-account at which the index finds them, and whether among its credits or debits. */
  readonly indexedAt: SubAccount;
  readonly viaCredit: 0 | 1;
};

/** The runs of a filter. A credit from the owner's other account is found by its debit. */
export function runsOf(filter: LedgerFilter): Run[] {
  return ENTRY_TYPES.filter(
    ({ kind, direction, reason }) =>
      (filter.account ?? kind) === kind &&
      (filter.direction ?? direction) === direction &&
      (filter.reasons === undefined || filter.reasons.includes(reason)),
  ).map(({ kind, direction, reason }) => {
    const credit = direction === "credit" ? 1 : 0;
    const fromCounterparty = COUNTERPARTY_CREDITS.some((name) => name === reason);
    const viaDebit = credit === 1 && !fromCounterparty;
    const indexedAt = !viaDebit ? kind : kind === "available" ? "pending" : "available";
    return {
      kind,
      credit,
      reason: reasonNumber(reason),
      indexedAt,
      viaCredit: viaDebit ? 0 : credit,
    };
  });
}

/** Whether the conditions contradict each other, or ask for more than any transfer moves. */
export function selectsNothing(filter: LedgerFilter): boolean {
  const tokenOnly = filter.venue !== undefined || filter.assetId !== undefined;
  if (filter.usdc === true && tokenOnly) return true;
  if (filter.minAmount !== undefined && filter.minAmount > MAX_NATIVE_UNITS) return true;
  return runsOf(filter).length === 0;
}

export function hasAmounts({ minAmount, maxAmount }: LedgerFilter): boolean {
  return minAmount !== undefined || maxAmount !== undefined;
}

/** The bounds of the absolute amount, both included. */
function amountBounds({ minAmount = 0n, maxAmount = MAX_NATIVE_UNITS }: LedgerFilter): {
  least: bigint;
  most: bigint;
} {
  return { least: minAmount, most: maxAmount < MAX_NATIVE_UNITS ? maxAmount : MAX_NATIVE_UNITS };
}

/** Condition on the transfer `t`. */
export function amountFits(filter: LedgerFilter): Expr {
  if (!hasAmounts(filter)) return TRUE;
  const { least, most } = amountBounds(filter);
  return expr`t.amount BETWEEN ${least} AND ${most}`;
}

/** Condition on the account `a`. */
export function assetFits({ usdc, venue, assetId, venues = [] }: LedgerFilter): Expr {
  if (usdc === true) return expr`a.asset = ${USDC}`;
  if (assetId !== undefined) {
    const named = venue === undefined ? venues : [venue];
    const keys = named.map((name) => sql`${`${name}:${assetId}`}`);
    return expr`a.asset IN (${join(keys, ", ")})`;
  }
  // The range of all keys with the prefix, because ';' follows ':' in ASCII.
  if (venue !== undefined) return expr`a.asset >= ${`${venue}:`} AND a.asset < ${`${venue};`}`;
  return usdc === false ? expr`a.asset <> ${USDC}` : TRUE;
}
