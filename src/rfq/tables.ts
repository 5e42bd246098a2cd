import { sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { bytes } from "../platform/columns.ts";

/**
 * Columns shared by every state machine: `*_by` is the operation that made the transition, `*_in` the commit group's number.
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
    state: text("state").notNull(),
    openedAt: integer("opened_at").notNull(),
    expiresAt: integer("expires_at").notNull(),
    openedIn: integer("opened_in").notNull(),
    endedBy: bytes("ended_by"),
    endedIn: integer("ended_in"),
  },
  (t) => [
    index("requests_open_asset")
      .on(t.asset, t.openedAt, t.requestId)
      .where(sql`state = 'open'`),
    index("requests_open_at")
      .on(t.openedAt, t.requestId)
      .where(sql`state = 'open'`),
    index("requests_open_user")
      .on(t.requesterId, t.openedAt, t.requestId)
      .where(sql`state = 'open'`),
    index("requests_due")
      .on(t.asset, t.expiresAt)
      .where(sql`state = 'open'`),
    index("requests_opened_in").on(t.openedIn),
    index("requests_ended_in")
      .on(t.endedIn)
      .where(sql`ended_in IS NOT NULL`),
    index("requests_ended_by")
      .on(t.endedBy)
      .where(sql`ended_by IS NOT NULL`),
    check("requests_state", sql`state IN ('open', 'matched', 'cancelled', 'expired')`),
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
    state: text("state").notNull(),
    openedAt: integer("opened_at").notNull(),
    expiresAt: integer("expires_at").notNull(),
    openedIn: integer("opened_in").notNull(),
    endedBy: bytes("ended_by"),
    endedIn: integer("ended_in"),
  },
  (t) => [
    index("quotes_request").on(t.requestId, t.price, t.openedAt, t.quoteId),
    index("quotes_maker").on(t.makerId, t.openedAt, t.quoteId),
    index("quotes_maker_state").on(t.makerId, t.state, t.openedAt, t.quoteId),
    index("quotes_request_state").on(t.requestId, t.state, t.price, t.openedAt, t.quoteId),
    index("quotes_open_maker")
      .on(t.makerId, t.expiresAt)
      .where(sql`state = 'open'`),
    index("quotes_open_request")
      .on(t.requestId, t.makerId)
      .where(sql`state = 'open'`),
    index("quotes_due")
      .on(t.asset, t.expiresAt)
      .where(sql`state = 'open'`),
    index("quotes_opened_in").on(t.openedIn),
    index("quotes_ended_in")
      .on(t.endedIn)
      .where(sql`ended_in IS NOT NULL`),
    index("quotes_ended_by")
      .on(t.endedBy)
      .where(sql`ended_by IS NOT NULL`),
    check("quotes_state", sql`state IN ('open', 'accepted', 'cancelled', 'expired', 'rejected')`),
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
    matchedIn: integer("matched_in").notNull(),
  },
  (t) => [
    index("matches_requester").on(t.requesterId, t.at, t.matchId),
    index("matches_maker").on(t.makerId, t.at, t.matchId),
    index("matches_in").on(t.matchedIn),
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
