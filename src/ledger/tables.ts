/** Tables of the journal. migrations/ explains them; a test compares the two. */
import { sql } from "drizzle-orm";
import {
  check,
  customType,
  index,
  integer,
  sqliteTable,
  text,
  uniqueIndex,
} from "drizzle-orm/sqlite-core";
import { amount, oneOf, uuid } from "../platform/columns.ts";

export const ACCOUNT_KINDS = ["available", "pending", "external", "fees"] as const;
export type AccountKind = (typeof ACCOUNT_KINDS)[number];

/** A user id of 16 bytes, or the name of a house account. Statements alone write and read it. */
const owner = customType<{ data: never; driverData: never }>({ dataType: () => "blob" });

export const accounts = sqliteTable(
  "accounts",
  {
    accountId: integer("account_id").primaryKey(),
    owner: owner("owner").notNull(),
    asset: text("asset").notNull(),
    kind: text("kind", { enum: ACCOUNT_KINDS }).notNull(),
    balance: amount("balance").notNull(),
    promised: amount("promised").notNull().default(0n),
    subAccount: integer("sub_account"),
    traded: amount("traded").notNull().default(0n),
    tradedUsdc: amount("traded_usdc").notNull().default(0n),
  },
  (t) => [
    uniqueIndex("accounts_owner").on(t.owner, t.asset, t.kind),
    check("accounts_kind", oneOf("kind", ACCOUNT_KINDS)),
    check(
      "accounts_balance",
      sql`balance BETWEEN iif(kind = 'external', -4611686018427387904, 0) AND 4611686018427387904`,
    ),
    check(
      "accounts_promised",
      sql`promised = 0 OR kind = 'available' AND promised BETWEEN 1 AND balance`,
    ),
    check(
      "accounts_traded",
      sql`traded = 0 AND traded_usdc = 0 OR kind IN ('available', 'pending') AND asset <> 'usdc' AND traded BETWEEN 1 AND 4611686018427387904 AND traded_usdc BETWEEN 0 AND 4611686018427387904`,
    ),
  ],
);

export const transfers = sqliteTable(
  "transfers",
  {
    transferId: integer("transfer_id").primaryKey({ autoIncrement: true }),
    fromAccount: integer("from_account").notNull(),
    toAccount: integer("to_account").notNull(),
    amount: amount("amount").notNull(),
    reason: integer("reason").notNull(),
    ref: uuid("ref").notNull(),
    step: integer("step").notNull(),
    line: integer("line").notNull(),
    at: integer("at").notNull(),
    fromBalance: amount("from_balance"),
    toBalance: amount("to_balance"),
    fromSubAccount: integer("from_sub_account"),
    toSubAccount: integer("to_sub_account"),
  },
  (t) => [
    uniqueIndex("transfers_once").on(t.ref, t.step, t.line),
    index("transfers_from_sub_account")
      .on(t.fromSubAccount, t.reason)
      .where(sql`from_sub_account IS NOT NULL`),
    index("transfers_to_sub_account")
      .on(t.toSubAccount, t.reason)
      .where(sql`to_sub_account IS NOT NULL`),
    index("transfers_from").on(t.fromAccount, t.reason),
    index("transfers_to")
      .on(t.toAccount, t.reason)
      .where(sql`reason NOT BETWEEN 3 AND 5`),
    check("transfers_amount", sql`amount > 0 AND amount <= 4611686018427387904`),
    check("transfers_accounts", sql`from_account <> to_account`),
    check("transfers_reason", sql`reason BETWEEN 1 AND 7`),
    check("transfers_step", sql`step BETWEEN 1 AND 5`),
  ],
);

export const statementLeases = sqliteTable("statement_leases", {
  userId: uuid("user_id").primaryKey(),
  token: text("token").notNull(),
  expiresAt: integer("expires_at").notNull(),
});
