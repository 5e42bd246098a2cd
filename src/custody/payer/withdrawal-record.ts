/** What a restore needs of a withdrawal, saved outside the database before it is signed. */
import { uuidTextOf } from "../../audit/audit.ts";
import { NOW } from "../../platform/commit.ts";
import { all, type RowOf, select, sql, typed } from "../../platform/sql.ts";
import { RETENTION_MS } from "../recovery-records.ts";

/** Columns over `withdrawals w`. Stored records have these names for a month. */
const RECORD = {
  /** The vault's id, `0x` hex. */
  paymentId: typed<string>("'0x' || lower(hex(w.payment_id))"),
  withdrawalId: uuidTextOf("w.withdrawal_id"),
  jobId: uuidTextOf("w.job_id"),
  userId: uuidTextOf("w.user_id"),
  clientWithdrawalId: typed<string>("w.client_withdrawal_id"),
  asset: typed<string>("w.asset"),
  /** Decimal native units. */
  amount: typed<string>("CAST(w.amount AS TEXT)"),
  /** Hex without `0x`, lower case. */
  to: typed<string>("lower(hex(w.to_address))"),
  createdAt: typed<number>("w.created_at"),
};
export type WithdrawalRecord = RowOf<typeof RECORD>;

/** Reads the records of one payment, at most MAX_PAYMENTS. */
export function readRecords(
  db: D1Database,
  withdrawalIds: readonly string[],
): Promise<WithdrawalRecord[]> {
  return all<WithdrawalRecord>(
    db,
    sql`SELECT ${select(RECORD)} FROM json_each(${JSON.stringify(withdrawalIds)}) j
      JOIN withdrawals w ON w.withdrawal_id = unhex(j.value, '-')`,
  );
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
