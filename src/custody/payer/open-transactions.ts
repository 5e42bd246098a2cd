/** Reads the operator accounts' transactions that are not confirmed, and the next free numbers. */
import { uuidTextOf } from "../../audit/audit.ts";
import { NOW } from "../../platform/commit.ts";
import type { Hex } from "../../chain/rpc.ts";
import type { Fees } from "../../chain/fees.ts";
import type { ChainConfig } from "../../platform/config.ts";
import { all, blob, first, type RowOf, select, sql, typed, uuid } from "../../platform/sql.ts";

/** Columns over `chain_transactions t` and its latest attempt `a`. */
const OPEN = {
  id: uuidTextOf("t.transaction_id"),
  kind: typed<"pay" | "sweep" | "void" | "cancel">("t.kind"),
  /** The account that signed it, which may have been replaced since (reopen-transactions.ts). */
  sender: typed<Hex>("'0x' || lower(hex(t.sender))"),
  nonce: typed<number>("t.nonce"),
  batchNo: typed<number | null>("t.batch_no"),
  toAddress: typed<Hex>("'0x' || lower(hex(t.to_address))"),
  data: typed<Hex>("'0x' || lower(hex(t.data))"),
  gasLimit: typed<string>("CAST(t.gas_limit AS TEXT)"),
  attempt: typed<number>("a.attempt"),
  raw: typed<Hex>("'0x' || lower(hex(a.signed))"),
  maxFee: typed<string>("CAST(a.max_fee AS TEXT)"),
  priorityFee: typed<string>("CAST(a.priority_fee AS TEXT)"),
  /** Age of the latest attempt in milliseconds, by D1's clock. */
  ageMs: typed<number>(`${NOW.text} - a.signed_at`),
  /** The head when the latest attempt was signed. */
  headNumber: typed<number>("a.head_number"),
  /** Whether it is a `cancel` whose latest attempt is still the payment that must not be sent. */
  unsent: typed<number | null>("t.kind = 'cancel' AND a.signed_group < t.reopened_group"),
};

/** Open transactions by nonce, each with its latest attempt. */
export async function readOpenTransactions(db: D1Database, chain: string) {
  const rows = await all<RowOf<typeof OPEN>>(
    db,
    sql`SELECT ${select(OPEN)} FROM chain_transactions t
      JOIN transaction_attempts a ON a.transaction_id = t.transaction_id
      WHERE t.chain = ${chain} AND t.status = 'open' AND a.attempt = (
        SELECT max(attempt) FROM transaction_attempts WHERE transaction_id = t.transaction_id)
      ORDER BY t.nonce`,
  );
  return rows.map(({ toAddress, gasLimit, maxFee, priorityFee, unsent, ...row }) => ({
    ...row,
    to: toAddress,
    gasLimit: BigInt(gasLimit),
    fees: { maxFee: BigInt(maxFee), priorityFee: BigInt(priorityFee) } satisfies Fees,
    unsent: unsent === 1,
  }));
}

export type OpenTransaction = Awaited<ReturnType<typeof readOpenTransactions>>[number];

/** Payment ids of a transaction's members that have no outcome and no recorded vault event. */
export async function liveMembers(db: D1Database, transactionId: string): Promise<Hex[]> {
  const rows = await all<{ id: string }>(
    db,
    sql`SELECT lower(hex(w.payment_id)) AS id
      FROM batch_members m JOIN withdrawals w ON w.withdrawal_id = m.withdrawal_id
      WHERE m.transaction_id = ${uuid(transactionId)} AND m.ended_group IS NULL
        AND NOT EXISTS (SELECT 1 FROM vault_events e
          WHERE e.payment_id = w.payment_id AND e.chain = w.chain
            AND e.kind IN ('Paid', 'Failed', 'Voided'))`,
  );
  return rows.map(({ id }) => `0x${id}` as const);
}

/** The next nonce and batch number by this database. The chain may be ahead or behind. */
export async function readNextNumbers(
  db: D1Database,
  { chain, vault }: ChainConfig,
  sender: Hex,
): Promise<{ readonly nextNonce: number; readonly nextBatchNo: number }> {
  const row = await first<{ nonce: number; batch: number }>(
    db,
    sql`SELECT
      coalesce((SELECT max(nonce) + 1 FROM chain_transactions
        WHERE chain = ${chain} AND sender = ${blob(sender)}), 0) AS nonce,
      max(
        coalesce((SELECT max(batch_no) + 1 FROM chain_transactions
          WHERE chain = ${chain} AND to_address = ${blob(vault)} AND batch_no IS NOT NULL
            AND status <> 'unused'), 1),
        coalesce((SELECT batch_floor FROM payer_leases
          WHERE chain = ${chain} AND floor_vault = ${blob(vault)}), 1)) AS batch`,
  );
  return { nextNonce: row?.nonce ?? 0, nextBatchNo: row?.batch ?? 1 };
}
