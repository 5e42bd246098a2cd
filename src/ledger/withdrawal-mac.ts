/**
 * The MACs of a withdrawal: over its terms when accepted, over its id when approved, and over the
 * entry of the address book that allows it. The payer checks the first two before it signs
 * (payer/park-withdrawal.ts), and the reconciliation compares them. Who can write SQL can edit or
 * insert a withdrawal, but it takes a key of AUDIT_KEYS to have it paid.
 */
import { isMacOf, type MacKeys, macOf } from "../audit/event-mac.ts";
import { type RowOf, typed } from "../platform/sql.ts";

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

/** An entry of the address book, which counts from an instant. */
export type ListedAddress = {
  readonly userId: string;
  readonly chain: string;
  readonly address: string;
  readonly activeFrom: number;
};

export function listedMac(keys: MacKeys, entry: ListedAddress): string {
  return macOf(keys, "withdrawal v1", listedOf(entry));
}

export function isListedMac(keys: MacKeys, entry: ListedAddress, mac: string | null): boolean {
  return isMacOf(keys, "withdrawal v1", { values: listedOf(entry), mac });
}

function listedOf({ userId, chain, address, activeFrom }: ListedAddress): readonly string[] {
  return ["listed", bareId(userId), chain, bare(address), String(activeFrom)];
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
export const MAC_COLUMNS = {
  withdrawalId: typed<string>("hex(w.withdrawal_id)"),
  userId: typed<string>("hex(w.user_id)"),
  clientWithdrawalId: typed<string>("w.client_withdrawal_id"),
  paymentId: typed<string>("hex(w.payment_id)"),
  chain: typed<string>("w.chain"),
  asset: typed<string>("w.asset"),
  amount: typed<string>("CAST(w.amount AS TEXT)"),
  toAddress: typed<string>("hex(w.to_address)"),
  status: typed<string>("w.status"),
  waited: typed<number>("w.approval_expires_at IS NOT NULL"),
  termsMac: typed<string | null>("w.terms_mac"),
  approvalMac: typed<string | null>("w.approval_mac"),
};
export type MacRow = RowOf<typeof MAC_COLUMNS>;

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
