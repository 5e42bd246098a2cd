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
 * One row per owner, asset and kind. `owner` is a user id, or the bytes of a house account's name
 * (`external:<chain>`, `fees`). `asset` is `usdc` or `<venue>:<asset_id>`.
 */
export const accounts = sqliteTable(
  "accounts",
  {
    accountId: integer("account_id").primaryKey(),
    owner: bytes("owner").notNull(),
    asset: text("asset").notNull(),
    kind: text("kind").notNull(),
    balance: integer("balance").notNull(),
  },
  (t) => [
    uniqueIndex("accounts_owner").on(t.owner, t.asset, t.kind),
    check("accounts_kind", sql`kind IN ('available', 'pending', 'external', 'fees')`),
    check(
      "accounts_balance",
      sql`balance BETWEEN iif(kind = 'external', -4611686018427387904, 0) AND 4611686018427387904`,
    ),
  ],
);

/**
 * The journal. A row moves one amount from one account to another. Each side of it is one entry of
 * the public ledger.
 */
export const transfers = sqliteTable(
  "transfers",
  {
    /** AUTOINCREMENT, so that a restore can advance the sequence past every number ever used. */
    transferId: integer("transfer_id").primaryKey({ autoIncrement: true }),
    fromAccount: integer("from_account").notNull(),
    toAccount: integer("to_account").notNull(),
    amount: integer("amount").notNull(),
    /** A code of codes.ts, like `step`. */
    reason: integer("reason").notNull(),
    ref: bytes("ref").notNull(),
    step: integer("step").notNull(),
    line: integer("line").notNull(),
    at: integer("at").notNull(),
    fromBalance: integer("from_balance"),
    toBalance: integer("to_balance"),
  },
  (t) => [
    uniqueIndex("transfers_once").on(t.ref, t.step, t.line),
    // SQLite appends transfer_id, the rowid. So each contains runs in order (entry-queries.ts).
    index("transfers_from").on(t.fromAccount, t.reason),
    index("transfers_to").on(t.toAccount, t.reason),
    check("transfers_amount", sql`amount > 0 AND amount <= 4611686018427387904`),
    check("transfers_accounts", sql`from_account <> to_account`),
    // The same runs by amount. Other credits than a counterparty's are found via their debits.
    index("transfers_from_amount").on(t.fromAccount, t.reason, t.amount),
    index("transfers_to_amount")
      .on(t.toAccount, t.reason, t.amount)
      .where(sql`reason IN (1, 6)`),
    check("transfers_reason", sql`reason BETWEEN 1 AND 7`),
    check("transfers_step", sql`step BETWEEN 1 AND 5`),
  ],
);

/**
 * How far each scan of the reconciliation has come: a number (transfer, group, account) or a text
 * (asset).
 */
export const ledgerCheckpoints = sqliteTable("ledger_checkpoints", {
  scan: text("scan").primaryKey(),
  position: integer("position").notNull(),
  mark: text("mark").notNull(),
});

/** Each account's balance at the checkpoint of the scan of transfers. */
export const checkedBalances = sqliteTable("checked_balances", {
  accountId: integer("account_id").primaryKey(),
  balance: integer("balance").notNull(),
});

/** Assets that a chain held too little of, and the first block that showed it. */
export const shortfalls = sqliteTable(
  "shortfalls",
  {
    chain: text("chain").notNull(),
    asset: text("asset").notNull(),
    block: integer("block").notNull(),
    missing: text("missing").notNull(),
  },
  (t) => [primaryKey({ columns: [t.chain, t.asset] })],
);
