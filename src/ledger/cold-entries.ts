/**
 * Entries that are only in the archive, as get-ledger needs them. The archive implements it
 * (src/archive/cold-entries.ts); the ledger only asks.
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

export type ColdEntries = {
  /** Up to `limit` entries below `before`, newest first. Fewer only if there are no others. */
  readonly read: (
    filter: LedgerFilter,
    page: { readonly before: bigint; readonly limit: number },
  ) => Promise<readonly ColdRow[]>;
  /** At least the number of entries that fit. */
  readonly count: (filter: LedgerFilter, before: bigint) => Promise<number>;
};

/** A page that needs entries which cannot be reached is 503, never short. */
export function unreachable(): Problem {
  return new Problem(unavailable("none", "The older entries cannot be reached.").data);
}

/** For readers without an archive. */
export const UNREACHABLE: ColdEntries = {
  read: () => Promise.reject(unreachable()),
  count: () => Promise.reject(unreachable()),
};
