/**
 * Maps deposits and withdrawals to their wire form (docs/contract.md, section 4). Reads select the
 * columns below. Events store the same row as JSON text, so one function renders both.
 */
import { checksumAddress } from "../assets/address.ts";
import { toHex } from "../assets/amount.ts";
import { readAssetKey } from "../assets/asset.ts";
import { raw, readUuid, type Sql } from "../platform/sql.ts";
import { toWireTime, toWireTimeOrNull } from "../platform/time.ts";

export const DEPOSIT_STATUSES = ["confirming", "credited", "orphaned", "quarantined"] as const;
export type DepositStatus = (typeof DEPOSIT_STATUSES)[number];
export const WITHDRAWAL_STATUSES = ["queued", "submitted", "settled", "failed"] as const;
export type WithdrawalStatus = (typeof WITHDRAWAL_STATUSES)[number];
type FailureCode = "payment_reverted" | "operator_failed";
/** The messages that `failure` shows beside its code. */
export const FAILURE_MESSAGES: Readonly<Record<FailureCode, string>> = {
  payment_reverted: "The destination or the token refused the payment.",
  operator_failed: "The operator cancelled the withdrawal.",
};

/**
 * Ids, hashes and addresses are upper-case hex without `0x`, as from hex(). Amounts are decimal.
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
  readonly status: DepositStatus;
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
  readonly transaction_hash: string | null;
  readonly failure_code: FailureCode | null;
  readonly failure_message: string | null;
  readonly created_at: number;
  readonly updated_at: number;
};

type Columns<Row> = { readonly [Name in keyof Row]: string };

/** Column expressions over `deposits d`. */
const DEPOSIT: Columns<DepositRow> = {
  deposit_id: "hex(d.deposit_id)",
  chain: "d.chain",
  address: "hex(d.address)",
  asset: "d.asset",
  amount: "d.amount",
  transaction_hash: "hex(d.transaction_hash)",
  block_number: "d.block_number",
  confirmations: `iif(d.status = 'orphaned', 0, max(0, 1 - d.block_number + coalesce(
    (SELECT max(c.head_number, c.confirmed_number) FROM chain_cursors c WHERE c.chain = d.chain),
    d.block_number - 1)))`,
  required_confirmations: "d.required_confirmations",
  status: "d.status",
  detected_at: "d.detected_at",
  credited_at: "d.credited_at",
};

/** Column expressions over `withdrawals w`. */
const WITHDRAWAL: Columns<WithdrawalRow> = {
  withdrawal_id: "hex(w.withdrawal_id)",
  job_id: "hex(w.job_id)",
  client_withdrawal_id: "w.client_withdrawal_id",
  chain: "w.chain",
  asset: "w.asset",
  amount: "CAST(w.amount AS TEXT)",
  to_address: "hex(w.to_address)",
  status: "w.status",
  transaction_hash: "iif(w.transaction_hash IS NULL, NULL, hex(w.transaction_hash))",
  failure_code: "w.failure_code",
  failure_message: "w.failure_message",
  created_at: "w.created_at",
  updated_at: "w.updated_at",
};

/** For a SELECT: `SELECT ${DEPOSIT_COLUMNS} FROM deposits d`. */
export const DEPOSIT_COLUMNS: Sql = columnList(DEPOSIT);
/** For a SELECT: `SELECT ${WITHDRAWAL_COLUMNS} FROM withdrawals w`. */
export const WITHDRAWAL_COLUMNS: Sql = columnList(WITHDRAWAL);
/** The same rows as JSON text, for event bodies. */
export const DEPOSIT_BODY: Sql = jsonObject(DEPOSIT);
export const WITHDRAWAL_BODY: Sql = jsonObject(WITHDRAWAL);

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

function columnList(columns: Readonly<Record<string, string>>): Sql {
  return raw(
    Object.entries(columns)
      .map(([name, expression]) => `${expression} AS ${name}`)
      .join(", "),
  );
}

function jsonObject(columns: Readonly<Record<string, string>>): Sql {
  return raw(
    `json_object(${Object.entries(columns)
      .map(([name, expression]) => `'${name}', ${expression}`)
      .join(", ")})`,
  );
}
