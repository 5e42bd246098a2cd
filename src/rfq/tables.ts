import { sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { bytes } from "../platform/columns.ts";

/**
 * Columns shared by every status machine: `*_by` is the operation that made the transition, `*_in` the commit group's number.
 * Amounts asked for are decimal text, since the wire carries any U256; amounts that move money are integers.
 */
export const requests = sqliteTable(
  "requests",
  {
    requestId: bytes("request_id").primaryKey(),
    requesterId: bytes("requester_id").notNull(),
    asset: text("asset").notNull(),
    amount: text("amount").notNull(),
    side: text("side").notNull(),
    disclosed: integer("disclosed").notNull(),
    status: text("status").notNull(),
    openedAt: integer("opened_at").notNull(),
    expiresAt: integer("expires_at").notNull(),
    openedGroup: integer("opened_group").notNull(),
    endedBy: bytes("ended_by"),
    endedGroup: integer("ended_group"),
  },
  (t) => [
    index("requests_open_asset")
      .on(t.asset, t.openedAt, t.requestId)
      .where(sql`status = 'open'`),
    index("requests_open_at")
      .on(t.openedAt, t.requestId)
      .where(sql`status = 'open'`),
    index("requests_open_user")
      .on(t.requesterId, t.openedAt, t.requestId)
      .where(sql`status = 'open'`),
    index("requests_due")
      .on(t.asset, t.expiresAt)
      .where(sql`status = 'open'`),
    index("requests_opened_group").on(t.openedGroup),
    index("requests_ended_group")
      .on(t.endedGroup)
      .where(sql`ended_group IS NOT NULL`),
    index("requests_ended_by")
      .on(t.endedBy)
      .where(sql`ended_by IS NOT NULL`),
    check("requests_status", sql`status IN ('open', 'matched', 'cancelled', 'expired')`),
    check("requests_side", sql`side IN ('Bid', 'Ask')`),
  ],
);

export const quotes = sqliteTable(
  "quotes",
  {
    quoteId: bytes("quote_id").primaryKey(),
    requestId: bytes("request_id").notNull(),
    makerId: bytes("maker_id").notNull(),
    asset: text("asset").notNull(),
    amount: text("amount").notNull(),
    side: text("side").notNull(),
    price: integer("price").notNull(),
    usdcAmount: integer("usdc_amount").notNull(),
    takerFee: integer("taker_fee").notNull(),
    makerFee: integer("maker_fee").notNull(),
    reserveAsset: text("reserve_asset").notNull(),
    reserve: integer("reserve").notNull(),
    status: text("status").notNull(),
    openedAt: integer("opened_at").notNull(),
    expiresAt: integer("expires_at").notNull(),
    openedGroup: integer("opened_group").notNull(),
    endedBy: bytes("ended_by"),
    endedGroup: integer("ended_group"),
  },
  (t) => [
    index("quotes_request").on(t.requestId, t.price, t.openedAt, t.quoteId),
    index("quotes_maker").on(t.makerId, t.openedAt, t.quoteId),
    index("quotes_maker_status").on(t.makerId, t.status, t.openedAt, t.quoteId),
    index("quotes_request_status").on(t.requestId, t.status, t.price, t.openedAt, t.quoteId),
    index("quotes_open_maker")
      .on(t.makerId, t.expiresAt)
      .where(sql`status = 'open'`),
    index("quotes_open_request")
      .on(t.requestId, t.makerId)
      .where(sql`status = 'open'`),
    index("quotes_due")
      .on(t.asset, t.expiresAt)
      .where(sql`status = 'open'`),
    index("quotes_opened_group").on(t.openedGroup),
    index("quotes_ended_group")
      .on(t.endedGroup)
      .where(sql`ended_group IS NOT NULL`),
    index("quotes_ended_by")
      .on(t.endedBy)
      .where(sql`ended_by IS NOT NULL`),
    check("quotes_status", sql`status IN ('open', 'accepted', 'cancelled', 'expired', 'rejected')`),
    check("quotes_price", sql`price BETWEEN 1 AND 1000000`),
    check("quotes_reserve", sql`reserve > 0`),
  ],
);

export const matches = sqliteTable(
  "matches",
  {
    matchId: bytes("match_id").primaryKey(),
    requestId: bytes("request_id").notNull().unique(),
    quoteId: bytes("quote_id").notNull().unique(),
    requesterId: bytes("requester_id").notNull(),
    makerId: bytes("maker_id").notNull(),
    asset: text("asset").notNull(),
    side: text("side").notNull(),
    amount: integer("amount").notNull(),
    price: integer("price").notNull(),
    usdcAmount: integer("usdc_amount").notNull(),
    takerFee: integer("taker_fee").notNull(),
    makerFee: integer("maker_fee").notNull(),
    at: integer("at").notNull(),
    matchedGroup: integer("matched_group").notNull(),
  },
  (t) => [
    index("matches_requester").on(t.requesterId, t.at, t.matchId),
    index("matches_maker").on(t.makerId, t.at, t.matchId),
    index("matches_matched_group").on(t.matchedGroup),
  ],
);

/** A client's own key for one command: its terms and its result, written in the batch of the effect. */
export const idempotencyKeys = sqliteTable(
  "idempotency_keys",
  {
    userId: bytes("user_id").notNull(),
    route: text("route").notNull(),
    key: text("key").notNull(),
    terms: text("terms").notNull(),
    result: text("result").notNull(),
    at: integer("at").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.userId, t.route, t.key] }),
    index("idempotency_keys_age").on(t.at),
  ],
);

/** The cases a venue is closed for new business. */
export const pausedVenues = sqliteTable("paused_venues", {
  venue: text("venue").primaryKey(),
  since: integer("since").notNull(),
});
