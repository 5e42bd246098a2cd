/** Tables of the reconciliation. migrations/ explains them; a test compares the two. */
import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { amount, decimal } from "../platform/columns.ts";

export const ledgerCheckpoints = sqliteTable("ledger_checkpoints", {
  scan: text("scan").primaryKey(),
  position: integer("position").notNull(),
  mark: text("mark").notNull(),
  finishedAt: integer("finished_at"),
});

export const checkedBalances = sqliteTable(
  "checked_balances",
  {
    scan: text("scan").notNull(),
    accountId: integer("account_id").notNull(),
    balance: amount("balance").notNull(),
    traded: amount("traded").notNull().default(0n),
    tradedUsdc: amount("traded_usdc").notNull().default(0n),
  },
  (t) => [primaryKey({ columns: [t.scan, t.accountId] })],
);

export const shortfalls = sqliteTable(
  "shortfalls",
  {
    chain: text("chain").notNull(),
    asset: text("asset").notNull(),
    block: integer("block").notNull(),
    missing: decimal("missing").notNull(),
  },
  (t) => [primaryKey({ columns: [t.chain, t.asset] })],
);
