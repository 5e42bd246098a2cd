/** Reads the operator account's transactions that are not confirmed, and the next free numbers. */
import type { Hex } from "../../chain/rpc.ts";
import type { Fees } from "../../chain/fees.ts";
import { all, blob, first, readUuid, sql, uuid } from "../../platform/sql.ts";

export type OpenTransaction = {
  readonly id: string;
  readonly kind: "pay" | "sweep" | "void" | "cancel";
  readonly nonce: number;
  readonly batchNo: number | null;
  readonly to: Hex;
  readonly data: Hex;
  readonly gasLimit: bigint;
  readonly attempt: number;
  readonly raw: Hex;
  readonly fees: Fees;
  /** Age of the latest attempt in milliseconds, by D1's clock. */
  readonly ageMs: number;
  /** The head when the latest attempt was signed. */
  readonly headNumber: number;
};

type Row = {
  id: string;
  kind: OpenTransaction["kind"];
  nonce: number;
  batch_no: number | null;
  to_address: string;
  data: string;
  gas_limit: string;
  attempt: number;
  signed: string;
  max_fee: string;
  priority_fee: string;
  age: number;
  head_number: number;
};

/** Open transactions by nonce, each with its latest attempt. */
export async function readOpenTransactions(
  db: D1Database,
  chain: string,
): Promise<OpenTransaction[]> {
  const rows = await all<Row>(
    db,
    sql`SELECT hex(t.transaction_id) AS id, t.kind, t.nonce, t.batch_no,
        hex(t.to_address) AS to_address, hex(t.data) AS data,
        CAST(t.gas_limit AS TEXT) AS gas_limit, a.attempt, hex(a.signed) AS signed,
        CAST(a.max_fee AS TEXT) AS max_fee, CAST(a.priority_fee AS TEXT) AS priority_fee,
        CAST(round(unixepoch('subsec') * 1000) AS INTEGER) - a.signed_at AS age, a.head_number
      FROM chain_transactions t JOIN transaction_attempts a ON a.transaction_id = t.transaction_id
      WHERE t.chain = ${chain} AND t.status = 'open' AND a.attempt = (
        SELECT max(attempt) FROM transaction_attempts WHERE transaction_id = t.transaction_id)
      ORDER BY t.nonce`,
  );
  return rows.map((row) => ({
    id: readUuid(row.id),
    kind: row.kind,
    nonce: row.nonce,
    batchNo: row.batch_no,
    to: hexOf(row.to_address),
    data: hexOf(row.data),
    gasLimit: BigInt(row.gas_limit),
    attempt: row.attempt,
    raw: hexOf(row.signed),
    fees: { maxFee: BigInt(row.max_fee), priorityFee: BigInt(row.priority_fee) },
    ageMs: row.age,
    headNumber: row.head_number,
  }));
}

/** Payment ids of a transaction's members that have no outcome yet. */
export async function liveMembers(db: D1Database, transactionId: string): Promise<Hex[]> {
  const rows = await all<{ id: string }>(
    db,
    sql`SELECT hex(w.payment_id) AS id FROM batch_members m
      JOIN withdrawals w ON w.withdrawal_id = m.withdrawal_id
      WHERE m.transaction_id = ${uuid(transactionId)} AND m.ended_group IS NULL`,
  );
  return rows.map(({ id }) => hexOf(id));
}

export type NextNumbers = { readonly nextNonce: number; readonly nextBatchNo: number };

/** The next nonce and batch number according to this database. The chain may be ahead or behind. */
export async function readNextNumbers(
  db: D1Database,
  chain: string,
  sender: Hex,
): Promise<NextNumbers> {
  const row = await first<{ nonce: number; batch: number }>(
    db,
    sql`SELECT
      coalesce((SELECT max(nonce) + 1 FROM chain_transactions
        WHERE chain = ${chain} AND sender = ${blob(sender)}), 0) AS nonce,
      max(
        coalesce((SELECT max(batch_no) + 1 FROM chain_transactions
          WHERE chain = ${chain} AND batch_no IS NOT NULL AND status <> 'unused'), 1),
        coalesce((SELECT batch_floor FROM payer_leases WHERE chain = ${chain}), 1)) AS batch`,
  );
  return { nextNonce: row?.nonce ?? 0, nextBatchNo: row?.batch ?? 1 };
}

function hexOf(text: string): Hex {
  return `0x${text.toLowerCase()}`;
}
