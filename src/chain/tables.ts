/** What the query builder reads of the chains' tables. A test compares it with migrations/. */
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { amount, hex, uuid } from "../platform/columns.ts";

export const chainCursors = sqliteTable("chain_cursors", {
  chain: text("chain").primaryKey(),
  confirmedNumber: integer("confirmed_number").notNull(),
  confirmedHash: hex("confirmed_hash").notNull(),
  scannedNumber: integer("scanned_number").notNull(),
  scannedHash: hex("scanned_hash").notNull(),
  headNumber: integer("head_number").notNull(),
  movedAt: integer("moved_at").notNull(),
  haltedAt: integer("halted_at"),
  haltReason: text("halt_reason"),
});

export const chainBlocks = sqliteTable("chain_blocks", {
  chain: text("chain").notNull(),
  number: integer("number").notNull(),
  hash: hex("hash").notNull(),
});

export const sweepable = sqliteTable("sweepable", {
  chain: text("chain").notNull(),
  asset: text("asset").notNull(),
  address: hex("address").notNull(),
  amount: amount("amount").notNull(),
  notBefore: integer("not_before"),
});

export const payerLeases = sqliteTable("payer_leases", {
  chain: text("chain").primaryKey(),
  token: uuid("token").notNull(),
  haltedAt: integer("halted_at"),
  haltReason: text("halt_reason"),
});

export const chainTransactions = sqliteTable("chain_transactions", {
  transactionId: uuid("transaction_id").primaryKey(),
  chain: text("chain").notNull(),
  sender: hex("sender").notNull(),
  nonce: integer("nonce").notNull(),
  kind: text("kind", { enum: ["pay", "sweep", "void", "cancel"] }).notNull(),
  batchNo: integer("batch_no"),
  toAddress: hex("to_address").notNull(),
  data: hex("data").notNull(),
  gasLimit: amount("gas_limit").notNull(),
});

export const transactionAttempts = sqliteTable("transaction_attempts", {
  transactionId: uuid("transaction_id").notNull(),
  attempt: integer("attempt").notNull(),
  signed: hex("signed").notNull(),
  maxFee: amount("max_fee").notNull(),
  priorityFee: amount("priority_fee").notNull(),
  signedAt: integer("signed_at").notNull(),
  /** The chain's head when it was signed. */
  headNumber: integer("head_number").notNull(),
});
