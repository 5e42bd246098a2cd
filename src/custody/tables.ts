/** Values of custody's columns, and what the query builder reads of its tables (migrations/). */
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { hex, uuid } from "../platform/columns.ts";

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
export const depositAddresses = sqliteTable("deposit_addresses", {
  chain: text("chain").notNull(),
  address: hex("address").notNull(),
  userId: uuid("user_id").notNull(),
  nonce: integer("nonce").notNull(),
  salt: hex("salt").notNull(),
  createdAt: integer("created_at").notNull(),
});

export const withdrawalAddresses = sqliteTable("withdrawal_addresses", {
  addressId: uuid("address_id").primaryKey(),
  userId: uuid("user_id").notNull(),
  chain: text("chain").notNull(),
  address: hex("address").notNull(),
  label: text("label").notNull(),
  createdAt: integer("created_at").notNull(),
  activeFrom: integer("active_from").notNull(),
});
