/** One finding of the reconciliation, and how it names an account. */
import { readUuid } from "../platform/sql.ts";

export type Difference = {
  /** The invariant that does not hold. */
  readonly check: "J1" | "J2" | "J3" | "J4" | "J5" | "J6" | "J8" | "J9" | "S1";
  /** `<owner>/<kind>/<asset>`, where the owner is a user id, `fees` or `external:<chain>`. */
  readonly account: string;
  /** Native units, signed: what is there less what should be. */
  readonly amount: string;
  readonly detail: string;
};

/** An account as a row names it, and how far it is off. */
export type AccountRow = {
  readonly owner: string | null;
  readonly kind: string | null;
  readonly asset: string | null;
};

/** `<owner>/<kind>/<asset>`; an owner of 16 bytes is a user, any other one a name. */
export function accountName({ owner, kind, asset }: AccountRow): string {
  if (owner === null) return "unknown account";
  const name = owner.length === 32 ? readUuid(owner) : Buffer.from(owner, "hex").toString("utf8");
  return `${name}/${kind}/${asset}`;
}
