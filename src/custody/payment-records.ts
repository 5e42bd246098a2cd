/**
 * Maps deposits and withdrawals to their wire form (docs/contract.md, section 4). Reads select the
 * columns below. Events store the same row as JSON text, so one function renders both.
 */
import { checksumAddress } from "../assets/address.ts";
import { toHex } from "../assets/amount.ts";
import { readAssetKey } from "../assets/asset.ts";
import { atom, type Columns, expr, readUuid } from "../platform/sql.ts";
import { toWireTime, toWireTimeOrNull } from "../platform/time.ts";
import type { FailureCode, ListedDepositStatus, WithdrawalStatus } from "./tables.ts";

/** The messages that `failure` shows beside its code. */
export const FAILURE_MESSAGES: Readonly<Record<FailureCode, string>> = {
  payment_reverted: "The destination or the token refused the payment.",
  operator_failed: "The operator cancelled the withdrawal.",
  approval_expired: "Nobody approved the withdrawal in time.",
};

/**
 * Rows as reads select them and events store them. Ids, hashes and addresses are upper-case hex
 * without `0x`, as from hex().
 */
export type DepositRow = {
  readonly deposit_id: string;
  readonly chain: string;
  readonly address: string;
  readonly asset: string;
  readonly amount: string;
  readonly transaction_hash: string;
  readonly block_number: number;
  readonly confirmations: number;
  readonly required_confirmations: number;
  readonly status: ListedDepositStatus;
  readonly detected_at: number;
  readonly credited_at: number | null;
};

export type WithdrawalRow = {
  readonly withdrawal_id: string;
  readonly job_id: string;
  readonly client_withdrawal_id: string;
  readonly chain: string;
  readonly asset: string;
  readonly amount: string;
  readonly to_address: string;
  readonly status: WithdrawalStatus;
  readonly approval_expires_at: number | null;
  readonly transaction_hash: string | null;
  readonly failure_code: FailureCode | null;
  readonly failure_message: string | null;
  readonly created_at: number;
  readonly updated_at: number;
};

/** Columns over `deposits d`, or over `small_deposit_records d`. */
export const DEPOSIT: Columns<keyof DepositRow> = {
  deposit_id: atom("hex(d.deposit_id)"),
  chain: atom("d.chain"),
  address: atom("hex(d.address)"),
  asset: atom("d.asset"),
  amount: atom("d.amount"),
  transaction_hash: atom("hex(d.transaction_hash)"),
  block_number: atom("d.block_number"),
  confirmations: expr`iif(d.status = 'orphaned', 0, max(0, 1 - d.block_number + coalesce(
    (SELECT max(c.head_number, c.confirmed_number) FROM chain_cursors c WHERE c.chain = d.chain),
    d.block_number - 1)))`,
  required_confirmations: atom("d.required_confirmations"),
  status: atom("d.status"),
  detected_at: atom("d.detected_at"),
  credited_at: atom("d.credited_at"),
};

/** Columns over `withdrawals w`. */
export const WITHDRAWAL: Columns<keyof WithdrawalRow> = {
  withdrawal_id: atom("hex(w.withdrawal_id)"),
  job_id: atom("hex(w.job_id)"),
  client_withdrawal_id: atom("w.client_withdrawal_id"),
  chain: atom("w.chain"),
  asset: atom("w.asset"),
  amount: atom("CAST(w.amount AS TEXT)"),
  to_address: atom("hex(w.to_address)"),
  status: atom("w.status"),
  approval_expires_at: atom("w.approval_expires_at"),
  transaction_hash: expr`iif(w.transaction_hash IS NULL, NULL, hex(w.transaction_hash))`,
  failure_code: atom("w.failure_code"),
  failure_message: atom("w.failure_message"),
  created_at: atom("w.created_at"),
  updated_at: atom("w.updated_at"),
};

export function depositView(row: DepositRow) {
  const token = readAssetKey(row.asset);
  return {
    deposit_id: readUuid(row.deposit_id),
    chain: row.chain,
    address: checksumAddress(row.address),
    venue_id: token?.venue ?? null,
    asset_id: token?.assetId ?? null,
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
  const token = readAssetKey(row.asset);
  return {
    withdrawal_id: readUuid(row.withdrawal_id),
    job_id: readUuid(row.job_id),
    client_withdrawal_id: row.client_withdrawal_id,
    chain: row.chain,
    venue_id: token?.venue ?? null,
    asset_id: token?.assetId ?? null,
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
