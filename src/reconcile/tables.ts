/** The scans as drizzle reads them. migrations/ explains the table; a test compares the two. */
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const ledgerCheckpoints = sqliteTable("ledger_checkpoints", {
  scan: text("scan").primaryKey(),
  position: integer("position").notNull(),
  mark: text("mark").notNull(),
  finishedAt: integer("finished_at"),
});
