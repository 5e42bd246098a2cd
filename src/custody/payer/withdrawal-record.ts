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

/** Reads the records of one payment, at most MAX_PAYMENTS. */
export async function readRecords(
  db: D1Database,
  withdrawalIds: readonly string[],
): Promise<WithdrawalRecord[]> {
  const rows = await all<WithdrawalRecord>(
    db,
    sql`SELECT '0x' || lower(hex(w.payment_id)) AS paymentId, hex(w.withdrawal_id) AS withdrawalId,
        hex(w.job_id) AS jobId, hex(w.user_id) AS userId,
        w.client_withdrawal_id AS clientWithdrawalId, w.asset, CAST(w.amount AS TEXT) AS amount,
        lower(hex(w.to_address)) AS "to", w.created_at AS createdAt
      FROM json_each(${JSON.stringify(withdrawalIds)}) j
      JOIN withdrawals w ON w.withdrawal_id = unhex(j.value, '-')`,
  );
  return rows.map((row) => ({
    ...row,
    withdrawalId: readUuid(row.withdrawalId),
    jobId: readUuid(row.jobId),
    userId: readUuid(row.userId),
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
      WHERE w.status IN ('settled', 'failed', 'cancelled') AND w.updated_at < ${NOW} - ${RETENTION_MS}`,
  );
  return rows.map(({ key }) => key);
}
