/**
 * Notices batches that the vault carried out but the payer has not signed. Batch numbers alone do
 * not show them: a thief who uses the number of our own open transaction makes that one revert, and
 * vault and database then count the same.
 */
import type { Group } from "../../platform/commit.ts";
import { expr, type Sql, sql } from "../../platform/sql.ts";
import { haltRows } from "../payer/payer-lease.ts";

/**
 * Halts the payer if this group recorded an event of such a batch. An older database that was put
 * back halts too, because it lacks what was signed since.
 */
export function haltOnForeignBatch(group: Group, chain: string): Sql[] {
  // A hash covers sender, nonce and payments, so a stored one is our own batch.
  const foreign = sql`FROM vault_events e
    WHERE e.recorded_group = ${group.seq} AND e.batch_no IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM transaction_attempts a WHERE a.hash = e.transaction_hash)`;
  const reason = expr`SELECT 'batch ' || e.batch_no || ' of the vault is 0x'
    || lower(hex(e.transaction_hash)) || ', which the payer has not signed: pause the vault and '
    || 'revoke the key, then restore' ${foreign} ORDER BY e.batch_no LIMIT 1`;
  return haltRows(group, chain, { reason, when: sql`EXISTS (SELECT 1 ${foreign})` });
}
