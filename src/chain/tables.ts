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
import { bytes } from "../platform/columns.ts";

/**
 * How far each chain has been read: to the head for detection, to the confirmed height for money.
 */
export const chainCursors = sqliteTable("chain_cursors", {
  chain: text("chain").primaryKey(),
  confirmedNumber: integer("confirmed_number").notNull(),
  confirmedHash: bytes("confirmed_hash").notNull(),
  scannedNumber: integer("scanned_number").notNull(),
  scannedHash: bytes("scanned_hash").notNull(),
  headNumber: integer("head_number").notNull(),
  /** The group that last moved the cursor. Other statements of a batch depend on this stamp. */
  movedGroup: integer("moved_group").notNull(),
  movedAt: integer("moved_at").notNull(),
  haltedAt: integer("halted_at"),
  haltReason: text("halt_reason"),
});

/**
 * Hashes of the blocks between the confirmed height and the head. They show where a reorg began.
 */
export const chainBlocks = sqliteTable(
  "chain_blocks",
  {
    chain: text("chain").notNull(),
    number: integer("number").notNull(),
    hash: bytes("hash").notNull(),
  },
  (t) => [primaryKey({ columns: [t.chain, t.number] })],
);

/** Factories whose code and address computation have been verified on the chain. */
export const chainFactories = sqliteTable(
  "chain_factories",
  {
    chain: text("chain").notNull(),
    factory: bytes("factory").notNull(),
    verifiedAt: integer("verified_at").notNull(),
  },
  (t) => [primaryKey({ columns: [t.chain, t.factory] })],
);

/** Events of the vault about payments, in blocks up to the confirmed height. */
export const vaultEvents = sqliteTable(
  "vault_events",
  {
    chain: text("chain").notNull(),
    transactionHash: bytes("transaction_hash").notNull(),
    /** Ordinal among the vault's logs in the transaction. */
    ordinal: integer("ordinal").notNull(),
    kind: text("kind").notNull(),
    paymentId: bytes("payment_id").notNull(),
    batchNo: integer("batch_no"),
    skipReason: integer("skip_reason"),
    amount: text("amount"),
    toAddress: bytes("to_address"),
    blockNumber: integer("block_number").notNull(),
    blockHash: bytes("block_hash").notNull(),
    recordedGroup: integer("recorded_group").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.chain, t.transactionHash, t.ordinal] }),
    index("vault_events_payment").on(t.paymentId),
    index("vault_events_recorded_group").on(t.recordedGroup),
    check("vault_events_kind", sql`kind IN ('Paid', 'Failed', 'Skipped', 'Voided')`),
  ],
);

/** Deposit addresses with credited funds. A sweep reads their balances on chain before it acts. */
export const sweepable = sqliteTable(
  "sweepable",
  {
    chain: text("chain").notNull(),
    asset: text("asset").notNull(),
    address: bytes("address").notNull(),
    amount: integer("amount").notNull(),
    blockNumber: integer("block_number").notNull(),
    /** Earliest next sweep, set after a sweep of this address failed. */
    notBefore: integer("not_before"),
  },
  (t) => [
    primaryKey({ columns: [t.chain, t.asset, t.address] }),
    index("sweepable_largest").on(t.chain, t.asset, t.amount),
  ],
);

/**
 * The payer that may allocate nonces. A newer one replaces the token, which closes older guards.
 */
export const payerLeases = sqliteTable("payer_leases", {
  chain: text("chain").primaryKey(),
  token: bytes("token").notNull(),
  takenAt: integer("taken_at").notNull(),
  haltedAt: integer("halted_at"),
  haltReason: text("halt_reason"),
  /** Set by a restore. Batch numbers below it were used by payments that the database has lost. */
  batchFloor: integer("batch_floor"),
});

/** One row per nonce of the operator account. Attempts with other fees belong to the same row. */
export const chainTransactions = sqliteTable(
  "chain_transactions",
  {
    transactionId: bytes("transaction_id").primaryKey(),
    chain: text("chain").notNull(),
    sender: bytes("sender").notNull(),
    nonce: integer("nonce").notNull(),
    kind: text("kind").notNull(),
    batchNo: integer("batch_no"),
    toAddress: bytes("to_address").notNull(),
    data: bytes("data").notNull(),
    gasLimit: integer("gas_limit").notNull(),
    /**
     * `open` until the nonce is used at the confirmed height, then `done`. `unused` instead if the
     * vault did not count the batch number.
     */
    status: text("status").notNull(),
    madeGroup: integer("made_group").notNull(),
    madeAt: integer("made_at").notNull(),
    endedGroup: integer("ended_group"),
  },
  (t) => [
    uniqueIndex("chain_transactions_nonce").on(t.chain, t.sender, t.nonce),
    uniqueIndex("chain_transactions_batch")
      .on(t.chain, t.batchNo)
      .where(sql`batch_no IS NOT NULL AND status <> 'unused'`),
    index("chain_transactions_open")
      .on(t.chain, t.nonce)
      .where(sql`status = 'open'`),
    index("chain_transactions_made_group").on(t.madeGroup),
    check("chain_transactions_status", sql`status IN ('open', 'done', 'unused')`),
    check("chain_transactions_kind", sql`kind IN ('pay', 'sweep', 'void', 'cancel')`),
  ],
);

/** Signed bytes, stored before they are sent. Attempts of one transaction differ only in fees. */
export const transactionAttempts = sqliteTable(
  "transaction_attempts",
  {
    transactionId: bytes("transaction_id").notNull(),
    attempt: integer("attempt").notNull(),
    hash: bytes("hash").notNull().unique(),
    signed: bytes("signed").notNull(),
    maxFee: integer("max_fee").notNull(),
    priorityFee: integer("priority_fee").notNull(),
    signedGroup: integer("signed_group").notNull(),
    signedAt: integer("signed_at").notNull(),
  },
  (t) => [primaryKey({ columns: [t.transactionId, t.attempt] })],
);

/** The withdrawals in a payment or void. A withdrawal is in at most one live payment. */
export const batchMembers = sqliteTable(
  "batch_members",
  {
    transactionId: bytes("transaction_id").notNull(),
    withdrawalId: bytes("withdrawal_id").notNull(),
    purpose: text("purpose").notNull(),
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
    check("batch_members_purpose", sql`purpose IN ('pay', 'void')`),
  ],
);

/** Commands of operators. Payer and watcher carry them out, so nobody updates records by hand. */
export const chainCommands = sqliteTable(
  "chain_commands",
  {
    commandId: integer("command_id").primaryKey(),
    chain: text("chain").notNull(),
    kind: text("kind").notNull(),
    /** The withdrawal that `fail` and `retry` refer to. */
    withdrawalId: bytes("withdrawal_id"),
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
    check("chain_commands_kind", sql`kind IN ('fail', 'retry', 'resume_chain', 'resume_payer')`),
  ],
);
