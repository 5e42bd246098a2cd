/** Tables of custody. migrations/ explains them; a test compares the two. */
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
import { amount, decimal, hex, oneOf, uuid } from "../platform/columns.ts";

export const DEPOSIT_STATUSES = ["confirming", "credited", "orphaned", "quarantined"] as const;
/** The table `small_deposits` contains the deposits below the minimum. */
export const LISTED_DEPOSIT_STATUSES = [...DEPOSIT_STATUSES, "below_minimum"] as const;
export type ListedDepositStatus = (typeof LISTED_DEPOSIT_STATUSES)[number];
export const WITHDRAWAL_STATUSES = [
  "awaiting_approval",
  "queued",
  "submitted",
  "settled",
  "failed",
  "cancelled",
] as const;
export type WithdrawalStatus = (typeof WITHDRAWAL_STATUSES)[number];
export const FAILURE_CODES = ["payment_reverted", "operator_failed", "approval_expired"] as const;
export type FailureCode = (typeof FAILURE_CODES)[number];

/** What an operator can accept a payment as. */
export const ACCEPTED_AS = ["loss", "rescue"] as const;
/** `withdrawal`: `restore` has debited the user whose lost withdrawal it was. */
const ACCEPTANCE_KINDS = [...ACCEPTED_AS, "withdrawal"] as const;

export const depositAddresses = sqliteTable(
  "deposit_addresses",
  {
    chain: text("chain").notNull(),
    address: hex("address").notNull(),
    userId: uuid("user_id").notNull(),
    nonce: integer("nonce").notNull(),
    salt: hex("salt").notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.chain, t.address] }),
    uniqueIndex("deposit_addresses_nonce").on(t.userId, t.chain, t.nonce),
  ],
);

export const deposits = sqliteTable(
  "deposits",
  {
    depositId: uuid("deposit_id").primaryKey(),
    chain: text("chain").notNull(),
    transactionHash: hex("transaction_hash").notNull(),
    token: hex("token").notNull(),
    ordinal: integer("ordinal").notNull(),
    position: integer("position").notNull(),
    blockNumber: integer("block_number").notNull(),
    blockHash: hex("block_hash"),
    address: hex("address").notNull(),
    userId: uuid("user_id").notNull(),
    asset: text("asset").notNull(),
    amount: decimal("amount").notNull(),
    requiredConfirmations: integer("required_confirmations").notNull(),
    status: text("status", { enum: DEPOSIT_STATUSES }).notNull(),
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
    index("deposits_orphaned")
      .on(t.chain, t.detectedAt)
      .where(sql`status = 'orphaned'`),
    index("deposits_hash").on(t.userId, t.transactionHash),
    index("deposits_detected_group").on(t.detectedGroup),
    index("deposits_ended_group")
      .on(t.endedGroup)
      .where(sql`ended_group IS NOT NULL`),
    check("deposits_status", oneOf("status", DEPOSIT_STATUSES)),
  ],
);

export const smallDeposits = sqliteTable(
  "small_deposits",
  {
    smallId: integer("small_id").primaryKey(),
    key: hex("key").notNull(),
    depositId: uuid("deposit_id").notNull(),
    userId: uuid("user_id").notNull(),
    chain: text("chain").notNull(),
    nonce: integer("nonce").notNull(),
    transactionHash: hex("transaction_hash").notNull(),
    token: hex("token").notNull(),
    ordinal: integer("ordinal").notNull(),
    position: integer("position").notNull(),
    blockNumber: integer("block_number").notNull(),
    venue: text("venue"),
    assetId: hex("asset_id"),
    amount: amount("amount").notNull(),
    requiredConfirmations: integer("required_confirmations").notNull(),
    detectedAt: integer("detected_at").notNull(),
    due: integer("due", { mode: "boolean" }).notNull(),
  },
  (t) => [
    uniqueIndex("small_deposits_key").on(t.key),
    index("small_deposits_user").on(t.userId, t.detectedAt, t.depositId),
    index("small_deposits_due_on")
      .on(t.chain)
      .where(sql`due = 1`),
    check("small_deposits_due", sql`due IN (0, 1)`),
  ],
);

export const withdrawals = sqliteTable(
  "withdrawals",
  {
    withdrawalId: uuid("withdrawal_id").primaryKey(),
    jobId: uuid("job_id").notNull().unique(),
    userId: uuid("user_id").notNull(),
    clientWithdrawalId: text("client_withdrawal_id").notNull(),
    paymentId: hex("payment_id").notNull().unique(),
    chain: text("chain").notNull(),
    asset: text("asset").notNull(),
    amount: amount("amount").notNull(),
    toAddress: hex("to_address").notNull(),
    status: text("status", { enum: WITHDRAWAL_STATUSES }).notNull(),
    approvalExpiresAt: integer("approval_expires_at"),
    approvedAt: integer("approved_at"),
    transactionHash: hex("transaction_hash"),
    failureCode: text("failure_code", { enum: FAILURE_CODES }),
    failureMessage: text("failure_message"),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
    notBefore: integer("not_before"),
    queuedGroup: integer("queued_group").notNull(),
    changedGroup: integer("changed_group").notNull(),
    endedBy: uuid("ended_by"),
    termsMac: text("terms_mac"),
    approvalMac: text("approval_mac"),
  },
  (t) => [
    uniqueIndex("withdrawals_client_id").on(t.userId, t.clientWithdrawalId),
    index("withdrawals_user").on(t.userId, t.createdAt, t.withdrawalId),
    index("withdrawals_user_status").on(t.userId, t.status, t.createdAt, t.withdrawalId),
    index("withdrawals_open")
      .on(t.chain, t.createdAt, t.withdrawalId)
      .where(sql`status IN ('queued', 'submitted')`),
    index("withdrawals_awaiting")
      .on(t.approvalExpiresAt)
      .where(sql`status = 'awaiting_approval'`),
    index("withdrawals_reverted")
      .on(t.userId, t.toAddress)
      .where(sql`failure_code = 'payment_reverted'`),
    index("withdrawals_changed_group").on(t.changedGroup),
    index("withdrawals_ended_by")
      .on(t.endedBy)
      .where(sql`ended_by IS NOT NULL`),
    check("withdrawals_status", oneOf("status", WITHDRAWAL_STATUSES)),
    check("withdrawals_amount", sql`amount > 0`),
  ],
);

export const withdrawalAddresses = sqliteTable(
  "withdrawal_addresses",
  {
    addressId: uuid("address_id").primaryKey(),
    userId: uuid("user_id").notNull(),
    chain: text("chain").notNull(),
    address: hex("address").notNull(),
    label: text("label").notNull(),
    createdAt: integer("created_at").notNull(),
    activeFrom: integer("active_from").notNull(),
  },
  (t) => [
    uniqueIndex("withdrawal_addresses_address").on(t.userId, t.chain, t.address),
    index("withdrawal_addresses_user").on(t.userId, t.createdAt, t.addressId),
  ],
);

export const acceptedPayments = sqliteTable(
  "accepted_payments",
  {
    acceptanceId: uuid("acceptance_id").primaryKey(),
    chain: text("chain").notNull(),
    paymentId: hex("payment_id").notNull(),
    kind: text("kind", { enum: ACCEPTANCE_KINDS }).notNull(),
    userId: uuid("user_id"),
    asset: text("asset"),
    amount: amount("amount"),
    reason: text("reason").notNull(),
    actor: text("actor").notNull(),
    at: integer("at").notNull(),
    acceptedGroup: integer("accepted_group").notNull(),
  },
  (t) => [
    uniqueIndex("accepted_payments_payment").on(t.chain, t.paymentId),
    index("accepted_payments_group").on(t.acceptedGroup),
    check("accepted_payments_kind", oneOf("kind", ACCEPTANCE_KINDS)),
    check(
      "accepted_payments_posted",
      sql`(kind <> 'rescue') = (asset IS NOT NULL AND amount IS NOT NULL)`,
    ),
    check("accepted_payments_user", sql`(kind = 'withdrawal') = (user_id IS NOT NULL)`),
  ],
);
