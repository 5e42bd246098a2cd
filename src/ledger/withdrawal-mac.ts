/**
 * The MACs that bind a withdrawal's terms. The verb that accepts an order makes one over its terms,
 * and an approval makes another one over the withdrawal's id. The payer checks both before it signs
 * (payer/park-withdrawal.ts), and the reconciliation compares them. Who can write SQL can edit or
 * insert a withdrawal, but it takes a key of AUDIT_KEYS to have it paid.
 */
import { isMacOf, type MacKeys, macOf } from "../audit/event-mac.ts";
import { atom, type Columns } from "../platform/sql.ts";

/** Ids are text in lower case, addresses and hashes hex with or without `0x`. */
export type MacTerms = Readonly<
  Record<
    | "withdrawalId"
    | "userId"
    | "clientWithdrawalId"
    | "paymentId"
    | "chain"
    | "asset"
    | "amount"
    | "toAddress",
    string
  >
>;

/** `waits`: for its owner's approval, without which the MAC does not count. */
export function termsMac(keys: MacKeys, terms: MacTerms, waits: boolean): string {
  return macOf(keys, "withdrawal v1", valuesOf(terms, waits));
}

export function approvalMac(keys: MacKeys, withdrawalId: string): string {
  return macOf(keys, "withdrawal v1", approvalOf(withdrawalId));
}

function valuesOf(terms: MacTerms, waits: boolean): readonly string[] {
  const [withdrawalId, userId] = [bareId(terms.withdrawalId), bareId(terms.userId)];
  const { clientWithdrawalId, chain, asset, amount } = terms;
  const [paymentId, to] = [bare(terms.paymentId), bare(terms.toAddress)];
  const state = waits ? "awaiting_approval" : "queued";
  return [state, withdrawalId, userId, clientWithdrawalId, paymentId, chain, asset, amount, to];
}

function approvalOf(withdrawalId: string): readonly string[] {
  return ["approved", bareId(withdrawalId)];
}

const bare = (hex: string) => hex.replace(/^0x/, "").toLowerCase();
const bareId = (id: string) => id.replaceAll("-", "").toLowerCase();

/** Over `withdrawals w`. */
export const MAC_COLUMNS: Columns<keyof MacRow> = {
  withdrawalId: atom("hex(w.withdrawal_id)"),
  userId: atom("hex(w.user_id)"),
  clientWithdrawalId: atom("w.client_withdrawal_id"),
  paymentId: atom("hex(w.payment_id)"),
  chain: atom("w.chain"),
  asset: atom("w.asset"),
  amount: atom("CAST(w.amount AS TEXT)"),
  toAddress: atom("hex(w.to_address)"),
  status: atom("w.status"),
  waited: atom("w.approval_expires_at IS NOT NULL"),
  termsMac: atom("w.terms_mac"),
  approvalMac: atom("w.approval_mac"),
};
export type MacRow = MacTerms & {
  readonly status: string;
  readonly waited: number;
  readonly termsMac: string | null;
  readonly approvalMac: string | null;
};

/** Why the row is not what the service wrote, or undefined. */
export function alteredTerms(keys: MacKeys, row: MacRow): string | undefined {
  const { status, withdrawalId } = row;
  const values = valuesOf(row, row.waited === 1);
  if (!isMacOf(keys, "withdrawal v1", { values, mac: row.termsMac }))
    return row.termsMac === null ? "it has no MAC" : "its terms are not those of its MAC";
  if (row.waited === 0 || !["queued", "submitted"].includes(status)) return undefined;
  const approval = { values: approvalOf(withdrawalId), mac: row.approvalMac };
  return isMacOf(keys, "withdrawal v1", approval)
    ? undefined
    : "its owner has not approved it through the service";
}
