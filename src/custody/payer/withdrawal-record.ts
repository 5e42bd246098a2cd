/**
 * The recovery record of a withdrawal: everything that a restore needs to rebuild it. The payer
 * saves it outside the database before it signs the payment.
 */
import { NOW } from "../../platform/commit.ts";
import { all, readUuid, sql } from "../../platform/sql.ts";
import { RETENTION_MS } from "../recovery-records.ts";

export type WithdrawalRecord = {
  /** The vault's id, `0x` hex. */
  readonly paymentId: string;
  readonly withdrawalId: string;
  readonly jobId: string;
  readonly userId: string;
  readonly clientWithdrawalId: string;
  readonly asset: string;
  /** Decimal native units. */
  readonly amount: string;
  /** Hex without `0x`, lower case. */
  readonly to: string;
  readonly createdAt: number;
};

type Row = {
  payment_id: string;
  withdrawal_id: string;
  job_id: string;
  user_id: string;
  client_withdrawal_id: string;
  asset: string;
  amount: string;
  to_address: string;
  created_at: number;
};

export async function readRecords(
  db: D1Database,
  withdrawalIds: readonly string[],
): Promise<WithdrawalRecord[]> {
  const rows = await all<Row>(
    db,
    sql`SELECT lower(hex(w.payment_id)) AS payment_id, hex(w.withdrawal_id) AS withdrawal_id,
        hex(w.job_id) AS job_id, hex(w.user_id) AS user_id, w.client_withdrawal_id, w.asset,
        CAST(w.amount AS TEXT) AS amount, lower(hex(w.to_address)) AS to_address, w.created_at
      FROM json_each(${JSON.stringify(withdrawalIds)}) j
      JOIN withdrawals w ON w.withdrawal_id = unhex(j.value, '-')`,
  );
  return rows.map((row) => ({
    paymentId: `0x${row.payment_id}`,
    withdrawalId: readUuid(row.withdrawal_id),
    jobId: readUuid(row.job_id),
    userId: readUuid(row.user_id),
    clientWithdrawalId: row.client_withdrawal_id,
    asset: row.asset,
    amount: row.amount,
    to: row.to_address,
    createdAt: row.created_at,
  }));
}

/** Keys of the records whose withdrawal ended before the earliest database that can be restored. */
export async function pastRetention(
  db: D1Database,
  records: ReadonlyMap<string, WithdrawalRecord>,
): Promise<string[]> {
  const ids = JSON.stringify(
    [...records].map(([key, { withdrawalId }]) => ({ key, withdrawalId })),
  );
  const rows = await all<{ key: string }>(
    db,
    sql`SELECT j.value ->> 'key' AS key FROM json_each(${ids}) j
      JOIN withdrawals w ON w.withdrawal_id = unhex(j.value ->> 'withdrawalId', '-')
      WHERE w.status IN ('settled', 'failed') AND w.updated_at < ${NOW} - ${RETENTION_MS}`,
  );
  return rows.map(({ key }) => key);
}
