/** Tables of the archive. migrations/ explains them; a test compares the two. */
import { sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { amount, hex } from "../platform/columns.ts";

export const journalSeals = sqliteTable(
  "journal_seals",
  {
    number: integer("number").primaryKey(),
    epoch: integer("epoch").notNull(),
    after: integer("after_transfer").notNull(),
    upTo: integer("up_to_transfer").notNull(),
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
    matchesReleasedAt: integer("matches_released_at"),
  },
  (t) => [
    index("journal_seals_delivered")
      .on(t.number)
      .where(sql`delivered_at IS NOT NULL`),
    index("journal_seals_unreleased")
      .on(t.number)
      .where(sql`held IS NULL`),
    index("journal_seals_released")
      .on(t.number)
      .where(sql`released_at IS NOT NULL`),
    index("journal_seals_matches_released")
      .on(t.number)
      .where(sql`matches_released_at IS NOT NULL`),
    index("journal_seals_matches_unreleased")
      .on(t.number)
      .where(sql`matches_released_at IS NULL AND held IS NOT NULL AND matches > 0`),
    index("journal_seals_up_to").on(t.upTo, t.number),
    index("journal_seals_up_to_group").on(t.upToGroup, t.number),
    index("journal_seals_last_at").on(t.lastAt, t.number),
  ],
);

export const sealedBalances = sqliteTable("sealed_balances", {
  accountId: integer("account_id").primaryKey(),
  balance: amount("balance").notNull(),
  traded: amount("traded").notNull().default(0n),
  tradedUsdc: amount("traded_usdc").notNull().default(0n),
});

export const sealedOwners = sqliteTable("sealed_owners", {
  owner: hex("owner").primaryKey(),
  firstSeal: integer("first_seal").notNull(),
  lastSeal: integer("last_seal").notNull(),
  lastRequestAt: integer("last_request_at"),
  lastQuoteAt: integer("last_quote_at"),
  lastMatchAt: integer("last_match_at"),
});

export const ownerMends = sqliteTable("owner_mends", { one: integer("one").primaryKey() }, () => [
  check("owner_mends_one", sql`one = 1`),
]);

export const venueDays = sqliteTable(
  "venue_days",
  {
    day: integer("day").notNull(),
    venue: text("venue").notNull(),
    trades: integer("trades").notNull(),
    usdcAmount: amount("usdc_amount").notNull(),
    takerFee: amount("taker_fee").notNull(),
    makerFee: amount("maker_fee").notNull(),
  },
  (t) => [primaryKey({ columns: [t.day, t.venue] })],
);

export const candles = sqliteTable(
  "candles",
  {
    asset: text("asset").notNull(),
    step: integer("step").notNull(),
    start: integer("start").notNull(),
    open: integer("open").notNull(),
    high: integer("high").notNull(),
    low: integer("low").notNull(),
    close: integer("close").notNull(),
    amount: amount("amount").notNull(),
    usdcAmount: amount("usdc_amount").notNull(),
    trades: integer("trades").notNull(),
    lastAt: integer("last_at").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.asset, t.step, t.start] }),
    index("candles_start")
      .on(t.step, t.start)
      .where(sql`step < 1440`),
  ],
);

export const candleCursor = sqliteTable(
  "candle_cursor",
  {
    one: integer("one").primaryKey(),
    minute: integer("minute").notNull(),
    movedGroup: integer("moved_group").notNull(),
  },
  () => [check("candle_cursor_one", sql`one = 1`)],
);
