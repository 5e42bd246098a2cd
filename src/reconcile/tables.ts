import { sqliteTable, text } from "drizzle-orm/sqlite-core";

export const ledgerCheckpoints = sqliteTable("ledger_checkpoints", {
  scan: text("scan").notNull(),
  mark: text("mark").notNull(),
});
