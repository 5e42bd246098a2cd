/** Tables of the chains. migrations/ explains them; a test compares the two. */
import { sql } from "drizzle-orm";
import {
  check,
  index,
  integer,
  primaryKey,
  sqliteTable,
  text,
  uniqueIndex,
} from "drizzle-orm/sqlite-core";
import { amount, decimal, hex, oneOf, uuid } from "../platform/columns.ts";

const VAULT_EVENT_KINDS = ["Paid", "Failed", "Skipped", "Voided", "AlreadyDone"] as const;
const TRANSACTION_KINDS = ["pay", "sweep", "void", "cancel"] as const;
const TRANSACTION_STATUSES = ["open", "done", "unused"] as const;
const BATCH_PURPOSES = ["pay", "void"] as const;
const COMMAND_KINDS = ["fail", "retry", "resume_chain", "resume_payer", "rescan"] as const;

export const chainCursors = sqliteTable("chain_cursors", {
  chain: text("chain").primaryKey(),
  confirmedNumber: integer("confirmed_number").notNull(),
  confirmedHash: hex("confirmed_hash").notNull(),
  scannedNumber: integer("scanned_number").notNull(),
  scannedHash: hex("scanned_hash").notNull(),
  headNumber: integer("head_number").notNull(),
  movedGroup: integer("moved_group").notNull(),
  movedAt: integer("moved_at").notNull(),
  haltedAt: integer("halted_at"),
  haltReason: text("halt_reason"),
  recheckedNumber: integer("rechecked_number"),
  finalizedNumber: integer("finalized_number"),
  finalizedAt: integer("finalized_at"),
  floors: text("floors"),
  floorsAfter: integer("floors_after"),
});

export const chainBlocks = sqliteTable(
  "chain_blocks",
  {
    chain: text("chain").notNull(),
    number: integer("number").notNull(),
    hash: hex("hash").notNull(),
  },
  (t) => [primaryKey({ columns: [t.chain, t.number] })],
);

export const chainFactories = sqliteTable(
  "chain_factories",
  {
    chain: text("chain").notNull(),
    factory: hex("factory").notNull(),
    verifiedAt: integer("verified_at").notNull(),
  },
  (t) => [primaryKey({ columns: [t.chain, t.factory] })],
);

export const vaultEvents = sqliteTable(
  "vault_events",
  {
    chain: text("chain").notNull(),
    transactionHash: hex("transaction_hash").notNull(),
    ordinal: integer("ordinal").notNull(),
    kind: text("kind", { enum: VAULT_EVENT_KINDS }).notNull(),
    paymentId: hex("payment_id").notNull(),
    vault: hex("vault").notNull(),
    batchNo: integer("batch_no"),
    skipReason: integer("skip_reason"),
    token: hex("token"),
    tokenId: text("token_id"),
    asset: text("asset"),
    amount: decimal("amount"),
    toAddress: hex("to_address"),
    blockNumber: integer("block_number").notNull(),
    blockHash: hex("block_hash").notNull(),
    recordedGroup: integer("recorded_group").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.chain, t.transactionHash, t.ordinal] }),
    index("vault_events_payment").on(t.paymentId),
    index("vault_events_recorded_group").on(t.recordedGroup),
    check("vault_events_kind", oneOf("kind", VAULT_EVENT_KINDS)),
  ],
);

export const sweepable = sqliteTable(
  "sweepable",
  {
    chain: text("chain").notNull(),
    asset: text("asset").notNull(),
    address: hex("address").notNull(),
    amount: amount("amount").notNull(),
    blockNumber: integer("block_number").notNull(),
    notBefore: integer("not_before"),
  },
  (t) => [
    primaryKey({ columns: [t.chain, t.asset, t.address] }),
    index("sweepable_largest").on(t.chain, t.asset, t.amount),
  ],
);

export const payerLeases = sqliteTable("payer_leases", {
  chain: text("chain").primaryKey(),
  token: uuid("token").notNull(),
  takenAt: integer("taken_at").notNull(),
  haltedAt: integer("halted_at"),
  haltReason: text("halt_reason"),
  batchFloor: integer("batch_floor"),
  floorVault: hex("floor_vault"),
  sequencesAdvancedAt: integer("sequences_advanced_at"),
});

export const chainTransactions = sqliteTable(
  "chain_transactions",
  {
    transactionId: uuid("transaction_id").primaryKey(),
    chain: text("chain").notNull(),
    sender: hex("sender").notNull(),
    nonce: integer("nonce").notNull(),
    kind: text("kind", { enum: TRANSACTION_KINDS }).notNull(),
    batchNo: integer("batch_no"),
    toAddress: hex("to_address").notNull(),
    data: hex("data").notNull(),
    gasLimit: amount("gas_limit").notNull(),
    status: text("status", { enum: TRANSACTION_STATUSES }).notNull(),
    madeGroup: integer("made_group").notNull(),
    madeAt: integer("made_at").notNull(),
    endedGroup: integer("ended_group"),
    reopenedGroup: integer("reopened_group"),
  },
  (t) => [
    uniqueIndex("chain_transactions_nonce").on(t.chain, t.sender, t.nonce),
    uniqueIndex("chain_transactions_batch")
      .on(t.chain, t.toAddress, t.batchNo)
      .where(sql`batch_no IS NOT NULL AND status <> 'unused' AND kind <> 'cancel'`),
    index("chain_transactions_open")
      .on(t.chain, t.nonce)
      .where(sql`status = 'open'`),
    index("chain_transactions_made_group").on(t.madeGroup),
    check("chain_transactions_status", oneOf("status", TRANSACTION_STATUSES)),
    check("chain_transactions_kind", oneOf("kind", TRANSACTION_KINDS)),
  ],
);

export const transactionAttempts = sqliteTable(
  "transaction_attempts",
  {
    transactionId: uuid("transaction_id").notNull(),
    attempt: integer("attempt").notNull(),
    hash: hex("hash").notNull().unique(),
    signed: hex("signed").notNull(),
    maxFee: amount("max_fee").notNull(),
    priorityFee: amount("priority_fee").notNull(),
    signedGroup: integer("signed_group").notNull(),
    signedAt: integer("signed_at").notNull(),
    /** The chain's head when it was signed. */
    headNumber: integer("head_number").notNull(),
  },
  (t) => [primaryKey({ columns: [t.transactionId, t.attempt] })],
);

export const batchMembers = sqliteTable(
  "batch_members",
  {
    transactionId: uuid("transaction_id").notNull(),
    withdrawalId: uuid("withdrawal_id").notNull(),
    purpose: text("purpose", { enum: BATCH_PURPOSES }).notNull(),
    endedGroup: integer("ended_group"),
    outcome: text("outcome"),
  },
  (t) => [
    primaryKey({ columns: [t.transactionId, t.withdrawalId] }),
    uniqueIndex("batch_members_live")
      .on(t.withdrawalId, t.purpose)
      .where(sql`ended_group IS NULL`),
    index("batch_members_withdrawal").on(t.withdrawalId),
    index("batch_members_ended_group")
      .on(t.endedGroup)
      .where(sql`ended_group IS NOT NULL`),
    check("batch_members_purpose", oneOf("purpose", BATCH_PURPOSES)),
  ],
);

export const chainCommands = sqliteTable(
  "chain_commands",
  {
    commandId: integer("command_id").primaryKey(),
    chain: text("chain").notNull(),
    kind: text("kind", { enum: COMMAND_KINDS }).notNull(),
    withdrawalId: uuid("withdrawal_id"),
    fromBlock: integer("from_block"),
    toBlock: integer("to_block"),
    actor: text("actor").notNull(),
    at: integer("at").notNull(),
    doneGroup: integer("done_group"),
    result: text("result"),
  },
  (t) => [
    index("chain_commands_open")
      .on(t.chain, t.commandId)
      .where(sql`done_group IS NULL`),
    index("chain_commands_withdrawal")
      .on(t.withdrawalId)
      .where(sql`done_group IS NULL`),
    check("chain_commands_kind", oneOf("kind", COMMAND_KINDS)),
  ],
);
