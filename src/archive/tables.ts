/** Tables of the archive. migrations/0001_schema.sql explains them; a test compares the two. */
import { sql } from "drizzle-orm";
import { index, integer, sqliteTable } from "drizzle-orm/sqlite-core";
import { amount, hex } from "../platform/columns.ts";

export const journalSeals = sqliteTable(
  "journal_seals",
  {
    number: integer("number").primaryKey(),
    epoch: integer("epoch").notNull(),
    afterTransfer: integer("after_transfer").notNull(),
    upToTransfer: integer("up_to_transfer").notNull(),
    afterGroup: integer("after_group").notNull(),
    upToGroup: integer("up_to_group").notNull(),
    transfers: integer("transfers").notNull(),
    requests: integer("requests").notNull(),
    quotes: integer("quotes").notNull(),
    matches: integer("matches").notNull(),
    lastAt: integer("last_at").notNull(),
    bytes: integer("bytes").notNull(),
    previous: hex("previous").notNull(),
    sha256: hex("sha256").notNull(),
    sealedAt: integer("sealed_at").notNull(),
    deliveredAt: integer("delivered_at"),
    releasedAt: integer("released_at"),
    held: integer("held"),
  },
  (t) => [
    index("journal_seals_delivered")
      .on(t.number)
      .where(sql`delivered_at IS NOT NULL`),
    index("journal_seals_unreleased")
      .on(t.number)
      .where(sql`released_at IS NULL`),
    index("journal_seals_up_to").on(t.upToTransfer, t.number),
  ],
);

export const sealedBalances = sqliteTable("sealed_balances", {
  accountId: integer("account_id").primaryKey(),
  balance: amount("balance").notNull(),
  firstSeal: integer("first_seal").notNull(),
  lastSeal: integer("last_seal").notNull(),
});
