/** Tables of RFQ. migrations/ explains them; a test compares the two. */
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
import { REQUEST_SIDES, SIDES } from "../assets/asset-fields.ts";
import { amount, decimal, hex, oneOf, uuid } from "../platform/columns.ts";

export const REQUEST_STATUSES = ["open", "matched", "cancelled", "expired"] as const;
export type RequestStatus = (typeof REQUEST_STATUSES)[number];
export const QUOTE_STATUSES = ["open", "accepted", "cancelled", "expired", "rejected"] as const;
export type QuoteStatus = (typeof QUOTE_STATUSES)[number];
/** Why a quote was cancelled that its maker did not cancel. */
export const CANCEL_REASONS = [
  "replaced",
  "timeout",
  "protection",
  "disconnect",
  "outbid",
] as const;
export type CancelReason = (typeof CANCEL_REASONS)[number];
/** Why a quote ended: its status, or for a cancelled one the reason. */
export const CLOSE_REASONS = [
  "accepted",
  "rejected",
  "cancelled",
  "expired",
  ...CANCEL_REASONS,
] as const;
export type CloseReason = (typeof CLOSE_REASONS)[number];

export const requests = sqliteTable(
  "requests",
  {
    requestId: uuid("request_id").primaryKey(),
    requesterId: uuid("requester_id").notNull(),
    asset: text("asset").notNull(),
    amount: decimal("amount"),
    usdcAmount: amount("usdc_amount"),
    side: text("side", { enum: REQUEST_SIDES }).notNull(),
    disclosed: integer("disclosed", { mode: "boolean" }).notNull(),
    status: text("status", { enum: REQUEST_STATUSES }).notNull(),
    openedAt: integer("opened_at").notNull(),
    expiresAt: integer("expires_at").notNull(),
    openedGroup: integer("opened_group").notNull(),
    label: text("label"),
    keyHash: hex("key_hash"),
    termsHash: hex("terms_hash"),
    endedBy: uuid("ended_by"),
    endedGroup: integer("ended_group"),
    stuckAt: integer("stuck_at"),
  },
  (t) => [
    index("requests_open_asset")
      .on(t.asset, t.openedAt, t.requestId)
      .where(sql`status = 'open'`),
    index("requests_open_at")
      .on(t.openedAt, t.requestId)
      .where(sql`status = 'open'`),
    index("requests_user_status").on(t.requesterId, t.status, t.openedAt, t.requestId),
    index("requests_label")
      .on(t.requesterId, t.label, t.openedAt, t.requestId)
      .where(sql`label IS NOT NULL`),
    index("requests_key")
      .on(t.keyHash)
      .where(sql`key_hash IS NOT NULL`),
    index("requests_due")
      .on(t.asset, t.expiresAt)
      .where(sql`status = 'open' AND stuck_at IS NULL`),
    index("requests_opened_group").on(t.openedGroup),
    index("requests_ended_group")
      .on(t.endedGroup, t.endedBy)
      .where(sql`ended_group IS NOT NULL`),
    check("requests_status", oneOf("status", REQUEST_STATUSES)),
    check("requests_side", oneOf("side", REQUEST_SIDES)),
    check("requests_size", sql`(amount IS NULL) <> (usdc_amount IS NULL)`),
    check("requests_usdc_amount", sql`usdc_amount BETWEEN 1 AND 4611686018427387904`),
  ],
);

export const quotes = sqliteTable(
  "quotes",
  {
    quoteId: uuid("quote_id").primaryKey(),
    requestId: uuid("request_id").notNull(),
    makerId: uuid("maker_id").notNull(),
    credential: uuid("credential").notNull(),
    asset: text("asset").notNull(),
    amount: decimal("amount").notNull(),
    side: text("side", { enum: SIDES }).notNull(),
    price: integer("price").notNull(),
    usdcAmount: amount("usdc_amount").notNull(),
    takerFee: amount("taker_fee").notNull(),
    makerFee: amount("maker_fee").notNull(),
    reserveAsset: text("reserve_asset")
      .notNull()
      .generatedAlwaysAs(sql`iif(side = 'Bid', asset, 'usdc')`, { mode: "virtual" }),
    reserve: amount("reserve").notNull(),
    status: text("status", { enum: QUOTE_STATUSES }).notNull(),
    openedAt: integer("opened_at").notNull(),
    expiresAt: integer("expires_at").notNull(),
    openedGroup: integer("opened_group").notNull(),
    label: text("label"),
    keyHash: hex("key_hash"),
    termsHash: hex("terms_hash"),
    makerOpen: integer("maker_open").notNull(),
    cancelReason: text("cancel_reason", { enum: CANCEL_REASONS }),
    replacedBy: uuid("replaced_by"),
    endedBy: uuid("ended_by"),
    endedGroup: integer("ended_group"),
    stuckAt: integer("stuck_at"),
    closeReason: text("close_reason", { enum: CLOSE_REASONS }).generatedAlwaysAs(
      sql`coalesce(cancel_reason, nullif(status, 'open'))`,
      { mode: "virtual" },
    ),
  },
  (t) => [
    index("quotes_maker").on(t.makerId, t.openedAt, t.quoteId, t.makerOpen),
    index("quotes_request_status").on(
      t.requestId,
      t.status,
      t.price,
      t.openedAt,
      t.quoteId,
      t.makerId,
      t.side,
      t.stuckAt,
    ),
    index("quotes_label")
      .on(t.makerId, t.label, t.openedAt, t.quoteId)
      .where(sql`label IS NOT NULL`),
    index("quotes_key")
      .on(t.keyHash)
      .where(sql`key_hash IS NOT NULL`),
    index("quotes_open_maker")
      .on(t.makerId, t.expiresAt)
      .where(sql`status = 'open'`),
    index("quotes_ended_group")
      .on(t.endedGroup, t.endedBy)
      .where(sql`ended_group IS NOT NULL`),
    check("quotes_status", sql`status = 'open' OR ${oneOf("status", QUOTE_STATUSES.slice(1))}`),
    check("quotes_price", sql`price BETWEEN 1 AND 1000000`),
    check("quotes_reserve", sql`reserve > 0`),
    check(
      "quotes_cancel_reason",
      sql`cancel_reason IS NULL OR status = 'cancelled' AND ${oneOf("cancel_reason", CANCEL_REASONS)}`,
    ),
    check("quotes_replaced_by", sql`(replaced_by IS NULL) = (cancel_reason IS NOT 'replaced')`),
  ],
);

export const quoteCommands = sqliteTable("quote_commands", {
  quoteId: uuid("quote_id").notNull(),
  requestId: uuid("request_id").notNull(),
  makerId: uuid("maker_id").notNull(),
  apiKeyId: uuid("api_key_id"),
  sessionEpoch: integer("session_epoch"),
  sessionExpiresAt: integer("session_expires_at"),
  price: integer("price").notNull(),
  amount: decimal("amount").notNull(),
  side: text("side", { enum: SIDES }),
  usdcAmount: amount("usdc_amount").notNull(),
  takerFee: amount("taker_fee").notNull(),
  makerFee: amount("maker_fee").notNull(),
  reserveAsset: text("reserve_asset").notNull(),
  reserve: amount("reserve").notNull(),
  receivedAt: integer("received_at").notNull(),
  lifeMs: integer("life_ms").notNull(),
  commitBefore: integer("commit_before").notNull(),
  notAfter: integer("not_after"),
  label: text("label"),
  replaces: uuid("replaces"),
  maxOpenQuotes: integer("max_open_quotes").notNull(),
  socketId: uuid("socket_id"),
  keyHash: hex("key_hash"),
  termsHash: hex("terms_hash"),
  at: integer("at").notNull(),
  placedGroup: integer("placed_group").notNull(),
});

export const expiryCommands = sqliteTable("expiry_commands", {
  asset: text("asset").notNull(),
  userIds: text("user_ids").notNull(),
  quoteIds: text("quote_ids"),
  operation: uuid("operation").notNull(),
  at: integer("at").notNull(),
  expiredGroup: integer("expired_group").notNull(),
});

export const matches = sqliteTable(
  "matches",
  {
    matchId: uuid("match_id").primaryKey(),
    requestId: uuid("request_id").notNull().unique(),
    quoteId: uuid("quote_id").notNull().unique(),
    requesterId: uuid("requester_id").notNull(),
    makerId: uuid("maker_id").notNull(),
    asset: text("asset").notNull(),
    side: text("side", { enum: SIDES }).notNull(),
    amount: amount("amount").notNull(),
    price: integer("price").notNull(),
    usdcAmount: amount("usdc_amount").notNull(),
    takerFee: amount("taker_fee").notNull(),
    makerFee: amount("maker_fee").notNull(),
    at: integer("at").notNull(),
    matchedGroup: integer("matched_group").notNull(),
    requesterLabel: text("requester_label"),
    makerLabel: text("maker_label"),
  },
  (t) => [
    index("matches_requester").on(t.requesterId, t.at, t.matchId),
    index("matches_maker").on(t.makerId, t.at, t.matchId),
    index("matches_requester_label")
      .on(t.requesterId, t.requesterLabel, t.at, t.matchId)
      .where(sql`requester_label IS NOT NULL`),
    index("matches_maker_label")
      .on(t.makerId, t.makerLabel, t.at, t.matchId)
      .where(sql`maker_label IS NOT NULL`),
    index("matches_at").on(t.at, t.matchId),
    index("matches_asset").on(sql`substr(asset, -16)`, t.at, t.matchId),
    index("matches_venue").on(sql`substr(asset, 1, instr(asset, ':') - 1)`, t.at, t.matchId),
    index("matches_matched_group").on(t.matchedGroup),
  ],
);

export const cancelTimers = sqliteTable(
  "cancel_timers",
  {
    credential: uuid("credential").primaryKey(),
    userId: uuid("user_id").notNull(),
    cancelAt: integer("cancel_at").notNull(),
    closed: integer("closed", { mode: "boolean" }).notNull(),
  },
  (t) => [
    index("cancel_timers_running")
      .on(t.userId)
      .where(sql`closed = 0`),
  ],
);

export const armedSockets = sqliteTable(
  "armed_sockets",
  {
    armedId: integer("armed_id").primaryKey(),
    socketId: uuid("socket_id").notNull(),
    userId: uuid("user_id").notNull(),
    apiKeyId: uuid("api_key_id").notNull(),
    stream: text("stream").notNull(),
    askedAt: integer("asked_at").notNull(),
    takenOverAt: integer("taken_over_at"),
  },
  (t) => [
    uniqueIndex("armed_sockets_id").on(t.socketId),
    index("armed_sockets_key").on(t.apiKeyId, t.stream),
  ],
);

export const protections = sqliteTable(
  "protections",
  {
    userId: uuid("user_id").primaryKey(),
    windowSecs: integer("window_secs").notNull(),
    maxMatches: integer("max_matches"),
    maxUsdc: amount("max_usdc"),
    cooldownSecs: integer("cooldown_secs"),
    period: integer("period").notNull(),
    matches: integer("matches").notNull(),
    usdc: amount("usdc").notNull(),
    trippedAt: integer("tripped_at"),
    blockedUntil: integer("blocked_until"),
    trippedBy: uuid("tripped_by"),
    changedGroup: integer("changed_group").notNull(),
  },
  () => [
    check("protections_window", sql`window_secs > 0`),
    check("protections_max_matches", sql`max_matches > 0`),
    check("protections_max_usdc", sql`max_usdc > 0`),
    check("protections_cooldown", sql`cooldown_secs > 0`),
  ],
);

export const protectionCounts = sqliteTable(
  "protection_counts",
  {
    userId: uuid("user_id").notNull(),
    period: integer("period").notNull(),
    at: integer("at").notNull(),
    matchesBefore: integer("matches_before").notNull(),
    usdcBefore: amount("usdc_before").notNull(),
  },
  (t) => [primaryKey({ columns: [t.userId, t.period, t.at, t.matchesBefore] })],
);

export const tradedHours = sqliteTable(
  "traded_hours",
  {
    subject: uuid("subject").notNull(),
    hour: integer("hour").notNull(),
    usdc: amount("usdc").notNull(),
  },
  (t) => [primaryKey({ columns: [t.subject, t.hour] }), index("traded_hours_age").on(t.hour)],
);

export const pausedVenues = sqliteTable("paused_venues", {
  venue: text("venue").primaryKey(),
  since: integer("since").notNull(),
});

export const markets = sqliteTable(
  "markets",
  {
    asset: text("asset").primaryKey(),
    title: text("title").notNull(),
    outcome: text("outcome").notNull(),
    url: text("url"),
    closesAt: integer("closes_at"),
    closedAt: integer("closed_at"),
    /** For trials of the operator: left out of lists, tape and candles. */
    test: integer("test", { mode: "boolean" }).notNull().default(false),
    changedGroup: integer("changed_group").notNull(),
    result: integer("result"),
  },
  (t) => [
    index("markets_changed_group").on(t.changedGroup, t.asset),
    check("markets_result", sql`result IS NULL OR closed_at IS NOT NULL`),
  ],
);

export const marketResults = sqliteTable(
  "market_results",
  {
    resultId: integer("result_id").primaryKey({ autoIncrement: true }),
    asset: text("asset").notNull(),
    result: integer("result").notNull(),
    previous: integer("previous"),
    at: integer("at").notNull(),
    setGroup: integer("set_group").notNull(),
    toldUpTo: integer("told_up_to").notNull().default(0),
    toldGroup: integer("told_group"),
    toldAt: integer("told_at"),
  },
  (t) => [
    index("market_results_untold")
      .on(t.resultId)
      .where(sql`told_at IS NULL`),
    check("market_results_result", sql`result BETWEEN 0 AND 1000000`),
  ],
);
