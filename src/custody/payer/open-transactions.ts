/** Reads the operator accounts' transactions that are not confirmed, and the next free numbers. */
import { and, eq } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { NOW } from "../../platform/commit.ts";
import type { Hex } from "../../chain/rpc.ts";
import type { Fees } from "../../chain/fees.ts";
import type { ChainConfig } from "../../platform/config.ts";
import { all, blob, first, sql, uuid } from "../../platform/sql.ts";
import { chainTransactions, transactionAttempts } from "../../chain/tables.ts";
import { fragment, read } from "../../platform/read.ts";

export type OpenTransaction = {
  readonly id: string;
  readonly kind: "pay" | "sweep" | "void" | "cancel";
  /** The account that signed it, which may have been replaced since (former-accounts.ts). */
  readonly sender: Hex;
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
  /** Whether it is a `cancel` whose latest attempt is still the payment that must not be sent. */
  readonly unsent: boolean;
};

const t = alias(chainTransactions, "t");
const a = alias(transactionAttempts, "a");
/** Literal, because SQLite uses the index of open transactions for no other condition. */
const OPEN = fragment(sql`t.status = 'open'`);
const LATEST = fragment(sql`a.attempt = (SELECT max(attempt) FROM transaction_attempts
  WHERE transaction_id = t.transaction_id)`);

/** Open transactions by nonce, each with its latest attempt. */
export async function readOpenTransactions(
  db: D1Database,
  chain: string,
): Promise<OpenTransaction[]> {
  const rows = await read(db, ({ select }) =>
    select({
      id: t.transactionId,
      kind: t.kind,
      sender: t.sender,
      nonce: t.nonce,
      batchNo: t.batchNo,
      to: t.toAddress,
      data: t.data,
      gasLimit: t.gasLimit,
      attempt: a.attempt,
      raw: a.signed,
      fees: { maxFee: a.maxFee, priorityFee: a.priorityFee },
      unsent: fragment(sql`t.kind = 'cancel' AND a.signed_group < t.reopened_group`).mapWith(
        Boolean,
      ),
      signedAt: a.signedAt,
      headNumber: a.headNumber,
      now: fragment(NOW).mapWith(Number),
    })
      .from(t)
      .innerJoin(a, eq(a.transactionId, t.transactionId))
      .where(and(eq(t.chain, chain), OPEN, LATEST))
      .orderBy(t.nonce),
  );
  return rows.map(({ signedAt, now, ...row }) => ({ ...row, ageMs: now - signedAt }));
}

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

export type NextNumbers = { readonly nextNonce: number; readonly nextBatchNo: number };

/**
 * The account's next nonce and the vault's next batch number according to this database. The chain
 * may be ahead or behind.
 */
export async function readNextNumbers(
  db: D1Database,
  { chain, vault }: ChainConfig,
  sender: Hex,
): Promise<NextNumbers> {
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
