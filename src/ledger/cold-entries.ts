/**
 * Entries that are only in the archive, as get-ledger needs them. The archive implements it
 * (src/archive/ask-history.ts); the ledger only asks.
 */
import { Problem, unavailable } from "../platform/problem.ts";
import type { LedgerFilter, SubAccount } from "./filter.ts";

export type ColdRow = {
  readonly entry_id: number;
  readonly account: SubAccount;
  readonly asset: string;
  readonly delta: string;
  readonly reason: number;
  /** As the public ledger shows it: a UUID in the form of `hex()`, or a `0x` transaction hash. */
  readonly ref: string;
  readonly balance_after: string;
  readonly at: number;
};

type ColdRows = {
  readonly rows: readonly ColdRow[];
  /** Where to continue if the archive has not been searched to its end; otherwise null. */
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
  return new Problem(unavailable("none", "The older entries cannot be reached.").data);
}

/** For readers without an archive. */
export const UNREACHABLE: ColdEntries = {
  read: () => Promise.reject(unreachable()),
  count: () => Promise.reject(unreachable()),
};
