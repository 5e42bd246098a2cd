import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const markets = sqliteTable("markets", {
  asset: text("asset").notNull(),
  title: text("title").notNull(),
  outcome: text("outcome").notNull(),
  /** Title and outcome as texts are compared. */
  folded: text("folded").notNull(),
  url: text("url"),
  eventId: text("event_id"),
  category: text("category"),
  description: text("description"),
  rulesUrl: text("rules_url"),
  /** Unix milliseconds. */
  closesAt: integer("closes_at"),
  closedAt: integer("closed_at"),
  /** For trials of the operator: left out of lists, tape and candles. */
  test: integer("test", { mode: "boolean" }).notNull(),
  changedGroup: integer("changed_group").notNull(),
  result: integer("result"),
  complement: text("complement"),
  condition: text("condition"),
  slot: integer("slot"),
  settlesAt: integer("settles_at"),
  readAt: integer("read_at"),
});
