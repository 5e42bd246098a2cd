import { sql } from "drizzle-orm";
import {
  check,
  index,
  integer,
  sqliteTable,
  text,
  uniqueIndex,
  primaryKey,
} from "drizzle-orm/sqlite-core";
import { bytes } from "../platform/columns.ts";

export const depositAddresses = sqliteTable(
  "deposit_addresses",
  {
    chain: text("chain").notNull(),
    address: bytes("address").notNull(),
    userId: bytes("user_id").notNull(),
    nonce: integer("nonce").notNull(),
    salt: bytes("salt").notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.chain, t.address] }),
    uniqueIndex("deposit_addresses_nonce").on(t.userId, t.chain, t.nonce),
  ],
);

/** One row per observed transfer to a deposit address; `amount` is text, since a chain can carry any U256. */
export const deposits = sqliteTable(
  "deposits",
  {
    depositId: bytes("deposit_id").primaryKey(),
    chain: text("chain").notNull(),
    transactionHash: bytes("transaction_hash").notNull(),
    /** The contract that logged it. */
    token: bytes("token").notNull(),
    /** Ordinal among this contract's transfers in the transaction (a new venue must not shift it), and position within an ERC-1155 batch. */
    ordinal: integer("ordinal").notNull(),
    position: integer("position").notNull(),
    blockNumber: integer("block_number").notNull(),
    blockHash: bytes("block_hash").notNull(),
    address: bytes("address").notNull(),
    userId: bytes("user_id").notNull(),
    asset: text("asset").notNull(),
    amount: text("amount").notNull(),
    requiredConfirmations: integer("required_confirmations").notNull(),
    status: text("status").notNull(),
    /** The group that last found it in the chain; the one that found it again below the confirmations. */
    seenGroup: integer("seen_group").notNull(),
    confirmedGroup: integer("confirmed_group"),
    detectedAt: integer("detected_at").notNull(),
    detectedGroup: integer("detected_group").notNull(),
    creditedAt: integer("credited_at"),
    endedGroup: integer("ended_group"),
  },
  (t) => [
    uniqueIndex("deposits_identity").on(
      t.chain,
      t.transactionHash,
      t.token,
      t.ordinal,
      t.position,
      t.address,
    ),
    index("deposits_user").on(t.userId, t.detectedAt, t.depositId),
    index("deposits_user_status").on(t.userId, t.status, t.detectedAt, t.depositId),
    index("deposits_open")
      .on(t.chain, t.blockNumber)
      .where(sql`status = 'confirming'`),
    index("deposits_hash").on(t.userId, t.transactionHash),
    index("deposits_detected_group").on(t.detectedGroup),
    index("deposits_ended_group")
      .on(t.endedGroup)
      .where(sql`ended_group IS NOT NULL`),
    check("deposits_status", sql`status IN ('confirming', 'credited', 'orphaned', 'quarantined')`),
  ],
);

export const withdrawals = sqliteTable(
  "withdrawals",
  {
    withdrawalId: bytes("withdrawal_id").primaryKey(),
    jobId: bytes("job_id").notNull().unique(),
    userId: bytes("user_id").notNull(),
    clientWithdrawalId: text("client_withdrawal_id").notNull(),
    /** keccak256(user, client_withdrawal_id): the once-only id that the vault enforces. */
    paymentId: bytes("payment_id").notNull().unique(),
    chain: text("chain").notNull(),
    asset: text("asset").notNull(),
    amount: integer("amount").notNull(),
    toAddress: bytes("to_address").notNull(),
    status: text("status").notNull(),
    transactionHash: bytes("transaction_hash"),
    failureCode: text("failure_code"),
    failureMessage: text("failure_message"),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
    /** The payer leaves it until then, after the vault skipped it. */
    notBefore: integer("not_before"),
    queuedGroup: integer("queued_group").notNull(),
    changedGroup: integer("changed_group").notNull(),
    endedBy: bytes("ended_by"),
  },
  (t) => [
    uniqueIndex("withdrawals_client_id").on(t.userId, t.clientWithdrawalId),
    index("withdrawals_user").on(t.userId, t.createdAt, t.withdrawalId),
    index("withdrawals_user_status").on(t.userId, t.status, t.createdAt, t.withdrawalId),
    index("withdrawals_open")
      .on(t.chain, t.createdAt, t.withdrawalId)
      .where(sql`status IN ('queued', 'submitted')`),
    index("withdrawals_reverted")
      .on(t.userId, t.toAddress)
      .where(sql`failure_code = 'payment_reverted'`),
    index("withdrawals_changed_group").on(t.changedGroup),
    index("withdrawals_ended_by")
      .on(t.endedBy)
      .where(sql`ended_by IS NOT NULL`),
    check("withdrawals_status", sql`status IN ('queued', 'submitted', 'settled', 'failed')`),
    check("withdrawals_amount", sql`amount > 0`),
  ],
);
