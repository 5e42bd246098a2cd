/**
 * Maps deposits and withdrawals to their wire form (docs/contract.md, section 4). Reads select the
 * columns below. Events store the same row as JSON text, so one function renders both.
 */
import { checksumAddress } from "../assets/address.ts";
import { toHex } from "../assets/amount.ts";
import { type AssetKey, readAssetKey } from "../assets/asset.ts";
import { typed, readUuid, type RowOf } from "../platform/sql.ts";
import { toWireTime, toWireTimeOrNull } from "../platform/time.ts";
import type { FailureCode, ListedDepositStatus, WithdrawalStatus } from "./column-values.ts";

/** The messages that `failure` shows beside its code. */
export const FAILURE_MESSAGES: Readonly<Record<FailureCode, string>> = {
  payment_reverted: "The destination or the token refused the payment.",
  operator_failed: "The operator cancelled the withdrawal.",
  approval_expired: "Nobody approved the withdrawal in time.",
};

/**
 * Columns over `deposits d` or `small_deposit_records d`. Bytes are upper-case hex without `0x`.
 */
export const DEPOSIT = {
  deposit_id: typed<string>("hex(d.deposit_id)"),
  chain: typed<string>("d.chain"),
  address: typed<string>("hex(d.address)"),
  asset: typed<string>("d.asset"),
  amount: typed<string>("d.amount"),
  transaction_hash: typed<string>("hex(d.transaction_hash)"),
  block_number: typed<number>("d.block_number"),
  confirmations: typed<number>(`(iif(d.status = 'orphaned', 0, max(0, 1 - d.block_number + coalesce(
    (SELECT max(c.head_number, c.confirmed_number) FROM chain_cursors c WHERE c.chain = d.chain),
    d.block_number - 1))))`),
  required_confirmations: typed<number>("d.required_confirmations"),
  status: typed<ListedDepositStatus>("d.status"),
  detected_at: typed<number>("d.detected_at"),
  credited_at: typed<number | null>("d.credited_at"),
};

/** Columns over `withdrawals w`, as those of deposits. */
export const WITHDRAWAL = {
  withdrawal_id: typed<string>("hex(w.withdrawal_id)"),
  job_id: typed<string>("hex(w.job_id)"),
  client_withdrawal_id: typed<string>("w.client_withdrawal_id"),
  chain: typed<string>("w.chain"),
  asset: typed<string>("w.asset"),
  amount: typed<string>("CAST(w.amount AS TEXT)"),
  to_address: typed<string>("hex(w.to_address)"),
  status: typed<WithdrawalStatus>("w.status"),
  approval_expires_at: typed<number | null>("w.approval_expires_at"),
  transaction_hash: typed<string | null>(
    "iif(w.transaction_hash IS NULL, NULL, hex(w.transaction_hash))",
  ),
  failure_code: typed<FailureCode | null>("w.failure_code"),
  failure_message: typed<string | null>("w.failure_message"),
  created_at: typed<number>("w.created_at"),
  updated_at: typed<number>("w.updated_at"),
};

/** Rows as reads select them and events store them. */
export type DepositRow = RowOf<typeof DEPOSIT>;
export type WithdrawalRow = RowOf<typeof WITHDRAWAL>;

/** Null for USDC. */
export function assetView(asset: AssetKey) {
  const token = readAssetKey(asset);
  return { venue_id: token?.venue ?? null, asset_id: token?.assetId ?? null };
}

export function depositView(row: DepositRow) {
  return {
    deposit_id: readUuid(row.deposit_id),
    chain: row.chain,
    address: checksumAddress(row.address),
    ...assetView(row.asset),
    amount: toHex(BigInt(row.amount)),
    transaction_hash: hashView(row.transaction_hash),
    block_number: row.block_number,
    confirmations: row.confirmations,
    required_confirmations: row.required_confirmations,
    status: row.status,
    created_at: toWireTime(row.detected_at),
    credited_at: toWireTimeOrNull(row.credited_at),
  };
}

export function withdrawalView(row: WithdrawalRow) {
  return {
    withdrawal_id: readUuid(row.withdrawal_id),
    job_id: readUuid(row.job_id),
    client_withdrawal_id: row.client_withdrawal_id,
    chain: row.chain,
    ...assetView(row.asset),
    amount: toHex(BigInt(row.amount)),
    to_address: checksumAddress(row.to_address),
    status: row.status,
    approval_expires_at: toWireTimeOrNull(row.approval_expires_at),
    transaction_hash: row.transaction_hash === null ? null : hashView(row.transaction_hash),
    failure:
      row.failure_code === null
        ? null
        : { code: row.failure_code, message: row.failure_message ?? "" },
    created_at: toWireTime(row.created_at),
    updated_at: toWireTime(row.updated_at),
  };
}

function hashView(hex: string): string {
  return `0x${hex.toLowerCase()}`;
}
