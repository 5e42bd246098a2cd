/** What get-ledger can be asked for, and which entries a filter leaves. */
import { USDC } from "../assets/asset.ts";
import { VENUES, type Venue } from "../platform/venues.ts";
import { join, MAX_NATIVE_UNITS, raw, type Sql, sql } from "../platform/sql.ts";
import { type Reason, reasonNumber } from "./codes.ts";
import { COUNTERPARTY_CREDITS, TRANSFER_TYPES } from "./transfer-types.ts";
import type { AccountKind } from "./post.ts";

export type SubAccount = "available" | "pending";
type Direction = "credit" | "debit";

export type LedgerFilter = {
  readonly account?: SubAccount | undefined;
  readonly direction?: Direction | undefined;
  readonly reasons?: readonly Reason[] | undefined;
  readonly usdc?: boolean | undefined;
  readonly venue?: Venue | undefined;
  /** In canonical form. Without a venue it names the asset of that id on every venue. */
  readonly assetId?: string | undefined;
  /** A record's UUID, or the `0x` hash of a deposit's transaction. */
  readonly refId?: string | undefined;
  /** Unix milliseconds, both included. */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  /** Absolute native units, both included. */
  readonly minAmount?: bigint | undefined;
  readonly maxAmount?: bigint | undefined;
};

/** The movements as their owners see them: one entry for each end that is a sub-account. */
const ENTRIES = TRANSFER_TYPES.flatMap(([reason, from, to]) => [
  ...(isSubAccount(from) ? [{ kind: from, direction: "debit" as const, reason }] : []),
  ...(isSubAccount(to) ? [{ kind: to, direction: "credit" as const, reason }] : []),
]);

function isSubAccount(kind: AccountKind): kind is SubAccount {
  return kind === "available" || kind === "pending";
}

/** The indexes of a run: `position` has its transfers in order, `amount` by size. */
export type Order = "position" | "amount";

/** One run of entries, and how an index finds it. */
type Run = {
  /** The sub-account that shows them, as credits or as debits. */
  readonly kind: SubAccount;
  readonly credit: 0 | 1;
  readonly reason: number;
  /** The sub-account they are found at, as what it receives or as what it gives. */
  readonly foundAt: SubAccount;
  readonly incoming: 0 | 1;
};

/** By amount, a credit that its owner gave is found by its debit, at the other sub-account: one index serves both entries. */
export function runsOf(filter: LedgerFilter, order: Order): Run[] {
  return ENTRIES.filter(
    ({ kind, direction, reason }) =>
      (filter.account ?? kind) === kind &&
      (filter.direction ?? direction) === direction &&
      (filter.reasons === undefined || filter.reasons.includes(reason)),
  ).map(({ kind, direction, reason }) => {
    const credit = direction === "credit" ? 1 : 0;
    const byDebit =
      order === "amount" && credit === 1 && !COUNTERPARTY_CREDITS.some((name) => name === reason);
    const foundAt = !byDebit ? kind : kind === "available" ? "pending" : "available";
    return { kind, credit, reason: reasonNumber(reason), incoming: byDebit ? 0 : credit, foundAt };
  });
}

/** Filters that contradict each other, or ask for more than any posting moves. */
export function selectsNothing(filter: LedgerFilter): boolean {
  const tokenOnly = filter.venue !== undefined || filter.assetId !== undefined;
  if (filter.usdc === true && tokenOnly) return true;
  if (filter.minAmount !== undefined && filter.minAmount > MAX_NATIVE_UNITS) return true;
  return runsOf(filter, "position").length === 0;
}

export function hasAmounts({ minAmount, maxAmount }: LedgerFilter): boolean {
  return minAmount !== undefined || maxAmount !== undefined;
}

/** The absolute delta's bounds, both included. */
export function amountBounds({ minAmount = 0n, maxAmount = MAX_NATIVE_UNITS }: LedgerFilter): {
  least: bigint;
  most: bigint;
} {
  return { least: minAmount, most: maxAmount < MAX_NATIVE_UNITS ? maxAmount : MAX_NATIVE_UNITS };
}

/** Condition on the transfer `t`. */
export function amountFits(filter: LedgerFilter): Sql {
  if (!hasAmounts(filter)) return raw("1");
  const { least, most } = amountBounds(filter);
  return sql`t.amount BETWEEN ${least} AND ${most}`;
}

/** Condition on the account `a`. */
export function assetFits({ usdc, venue, assetId }: LedgerFilter): Sql {
  if (usdc === true) return sql`a.asset = ${USDC}`;
  if (assetId !== undefined) {
    const venues = venue === undefined ? VENUES : [venue];
    return sql`a.asset IN (${join(
      venues.map((name) => sql`${`${name}:${assetId}`}`),
      ", ",
    )})`;
  }
  // ';' follows ':' in ASCII, so this is the range of all keys with the prefix.
  if (venue !== undefined) return sql`a.asset >= ${`${venue}:`} AND a.asset < ${`${venue};`}`;
  return usdc === false ? sql`a.asset <> ${USDC}` : raw("1");
}
