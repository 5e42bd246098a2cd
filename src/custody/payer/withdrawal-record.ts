/**
 * The recovery record of a withdrawal: everything that a restore needs to rebuild it. The payer
 * saves it outside the database before it signs the payment.
 */
import { inArray } from "drizzle-orm";
import { NOW } from "../../platform/commit.ts";
import { all, sql } from "../../platform/sql.ts";
import { RETENTION_MS } from "../recovery-records.ts";
import { withdrawals } from "../tables.ts";
import { read } from "../../platform/read.ts";

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
  const rows = await read(db, ({ select }) =>
    select()
      .from(withdrawals)
      .where(inArray(withdrawals.withdrawalId, [...withdrawalIds])),
  );
  return rows.map((row) => ({
    paymentId: row.paymentId,
    withdrawalId: row.withdrawalId,
    jobId: row.jobId,
    userId: row.userId,
    clientWithdrawalId: row.clientWithdrawalId,
    asset: row.asset,
    amount: row.amount.toString(),
    to: row.toAddress.slice(2),
    createdAt: row.createdAt,
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
