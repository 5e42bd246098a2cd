/** A difference that the reconciliation found, and how it names an account. */
import { all, readUuid, type Sql } from "../platform/sql.ts";

/** What is wrong. docs/invariants.md explains each name to the operator who sees it. */
export type Check =
  | "transfer_invalid"
  | "running_balance_broken"
  | "balance_mismatch"
  | "negative_balance"
  | "clock_went_back"
  | "pending_mismatch"
  | "promised_mismatch"
  | "record_mismatch"
  | "terms_mismatch"
  | "position_mismatch"
  | "pair_mismatch"
  | "request_mismatch"
  | "payment_mismatch"
  | "withdrawal_mismatch"
  | "event_mismatch"
  | "expiry_overdue"
  | "address_mismatch"
  | "holdings_short"
  | "check_failed";

export type Difference = {
  readonly check: Check;
  /**
   * `<owner>/<kind>/<asset>`, where the owner is a user id, `fees`, `external:<chain>` or `all`. Of
   * `event_mismatch`: the name of the stream. Of `address_mismatch`:
   * `<user id>/deposit/<deposit_id>` or `<user id>/deposit-address/<chain>/<0x…>`. Of
   * `withdrawal_mismatch`: `<user id>/withdrawal/<withdrawal_id>`. Of `check_failed`:
   * `all/check/<name of the check>`.
   */
  readonly account: string;
  /** Native units, signed: what is there less what should be there. */
  readonly amount: string;
  readonly detail: string;
};

/** The columns that identify an account in a row. */
export type AccountRow = {
  readonly owner: string | null;
  readonly kind: string | null;
  readonly asset: string | null;
};

/** The differences that a statement selects: `owner`, `kind`, `asset`, `amount` and `detail`. */
export async function differencesIn(
  db: D1Database,
  check: Check,
  statement: Sql,
): Promise<Difference[]> {
  const rows = await all<AccountRow & Pick<Difference, "amount" | "detail">>(db, statement);
  return rows.map(({ amount, detail, ...account }) => ({
    check,
    account: accountName(account),
    amount,
    detail,
  }));
}

/** `<owner>/<kind>/<asset>`. An owner of 16 bytes is a user; any other owner is a name. */
export function accountName({ owner, kind, asset }: AccountRow): string {
  if (owner === null) return "unknown account";
  const name = owner.length === 32 ? readUuid(owner) : Buffer.from(owner, "hex").toString("utf8");
  return `${name}/${kind}/${asset}`;
}
