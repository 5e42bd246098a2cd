/**
 * What one call of `journal verify` returns (verify-journal.ts). The operator's tool joins the
 * parts (scripts/operator/verify-archive.ts), as it has room for all balances. Pure.
 */
import type { SealRef } from "./footer.ts";
import type { OwnerEnds, OwnerLink } from "./owner-ends.ts";

/** The balance of one account before and after what a seal has moved, in decimal. */
export type Moved = {
  /** Owner, kind and asset. */
  readonly account: string;
  readonly before: string;
  readonly after: string;
};

export type Discrepancy = {
  readonly seal: number;
  /**
   * `missing`, `malformed`, `changed`: the object, or the row of a seal whose event exists.
   * `chain`: the row does not continue the one before. `unsigned`: no genuine audit event states
   * this hash, so this service did not make the seal. `history`: a block does not name its owner's
   * block before, or the database names other seals of an owner. `balance`: a balance does not
   * follow from the one before, or differs from the database's.
   */
  readonly kind: "missing" | "malformed" | "changed" | "chain" | "unsigned" | "history" | "balance";
  readonly detail: string;
};

/** One seal. The tool compares it with the seals before. */
export type CheckedSeal = {
  readonly head: SealRef & { readonly transfers: number; readonly bytes: number };
  /** Null if it could not be read. */
  readonly content: {
    readonly moved: readonly Moved[];
    readonly owners: readonly OwnerLink[];
  } | null;
  readonly discrepancies: readonly Discrepancy[];
};

export type SealsPart = {
  readonly seals: readonly CheckedSeal[];
  /** Whether a further seal exists. */
  readonly more: boolean;
  /** The seal after the last one, if only its event is there. */
  readonly missing: readonly Discrepancy[];
};

export type AccountsPart = {
  /** The newest seal when the accounts were read. */
  readonly seal: number;
  readonly accounts: readonly {
    readonly id: number;
    readonly account: string;
    /** The balance, as recorded with the last seal. */
    readonly sealed: string;
  }[];
};

export type OwnersPart = {
  /** The newest seal when the rows were read. */
  readonly seal: number;
  /** As `sealed_owners` has them, by owner. */
  readonly owners: readonly { readonly owner: string; readonly ends: OwnerEnds }[];
};

const MAX_LISTED = 100;

/** The first of them. What follows from something else is listed behind that. */
export function causesFirst(found: readonly Discrepancy[]): Discrepancy[] {
  const follows = ({ kind }: Discrepancy) => kind === "balance" || kind === "history";
  const causes = found.filter((one) => !follows(one));
  return [...causes, ...found.filter(follows)].slice(0, MAX_LISTED);
}
