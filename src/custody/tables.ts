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
    state: text("state").notNull(),
    /** The group that last found it in the chain; the one that found it again below the confirmations. */
    seenIn: integer("seen_in").notNull(),
    confirmedIn: integer("confirmed_in"),
    detectedAt: integer("detected_at").notNull(),
    detectedIn: integer("detected_in").notNull(),
    creditedAt: integer("credited_at"),
    endedIn: integer("ended_in"),
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
    index("deposits_user_state").on(t.userId, t.state, t.detectedAt, t.depositId),
    index("deposits_open")
      .on(t.chain, t.blockNumber)
      .where(sql`state = 'confirming'`),
    index("deposits_hash").on(t.userId, t.transactionHash),
    index("deposits_detected_in").on(t.detectedIn),
    index("deposits_ended_in")
      .on(t.endedIn)
      .where(sql`ended_in IS NOT NULL`),
    check("deposits_state", sql`state IN ('confirming', 'credited', 'orphaned', 'quarantined')`),
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
    state: text("state").notNull(),
    transactionHash: bytes("transaction_hash"),
    failureCode: text("failure_code"),
    failureMessage: text("failure_message"),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
    /** The payer leaves it until then, after the vault skipped it. */
    notBefore: integer("not_before"),
    queuedIn: integer("queued_in").notNull(),
    changedIn: integer("changed_in").notNull(),
    endedBy: bytes("ended_by"),
  },
  (t) => [
    uniqueIndex("withdrawals_client_id").on(t.userId, t.clientWithdrawalId),
    index("withdrawals_user").on(t.userId, t.createdAt, t.withdrawalId),
    index("withdrawals_user_state").on(t.userId, t.state, t.createdAt, t.withdrawalId),
    index("withdrawals_open")
      .on(t.chain, t.createdAt, t.withdrawalId)
      .where(sql`state IN ('queued', 'submitted')`),
    index("withdrawals_reverted")
      .on(t.userId, t.toAddress)
      .where(sql`failure_code = 'payment_reverted'`),
    index("withdrawals_changed_in").on(t.changedIn),
    index("withdrawals_ended_by")
      .on(t.endedBy)
      .where(sql`ended_by IS NOT NULL`),
    check("withdrawals_state", sql`state IN ('queued', 'submitted', 'settled', 'failed')`),
    check("withdrawals_amount", sql`amount > 0`),
  ],
);
