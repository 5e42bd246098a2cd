/** Entries that are only in the archive, which implements this (src/archive/ask-history.ts). */
import type { AssetKey } from "../assets/asset.ts";
import { type Problem, unavailable } from "../platform/problem.ts";
import type { LedgerFilter, SubAccount } from "./filter.ts";

/** An entry with the code of its reason, as database and archive have it. */
export type CodedRow = {
  readonly entry_id: number;
  readonly account: SubAccount;
  readonly asset: AssetKey;
  /** Signed decimal native units. */
  readonly delta: string;
  readonly reason: number;
  /** A UUID in the form of `hex()`, or a deposit's `0x` transaction hash. */
  readonly ref: string;
  readonly balance_after: string;
  readonly at: number;
};

export type ColdRows = {
  readonly rows: readonly CodedRow[];
  /** Below this position nothing has been searched yet. Null: the search has reached the end. */
  readonly before: bigint | null;
};

export type ColdEntries = {
  /**
   * Up to `limit` entries below `before`, newest first. Fewer only if there are no others, or if
   * they fit so rarely that the search ended early, at `before` of the result.
   */
  readonly read: (
    filter: LedgerFilter,
    page: { readonly before: bigint; readonly limit: number },
  ) => Promise<ColdRows>;
  /** At least the number of entries that fit. */
  readonly count: (filter: LedgerFilter, before: bigint) => Promise<number>;
};

/** A page that needs entries which cannot be reached is 503. */
export function unreachable(): Problem {
  return unavailable("none", "The older entries cannot be reached.");
}

/** For readers without an archive. */
export const UNREACHABLE: ColdEntries = {
  read: () => Promise.reject(unreachable()),
  count: () => Promise.reject(unreachable()),
};
