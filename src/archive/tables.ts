import { integer, sqliteTable } from "drizzle-orm/sqlite-core";
import { hex } from "../platform/columns.ts";

/** What a seal states of itself, and where it is. */
export const journalSeals = sqliteTable("journal_seals", {
  number: integer("number").notNull(),
  epoch: integer("epoch").notNull(),
  after: integer("after_transfer").notNull(),
  upTo: integer("up_to_transfer").notNull(),
  afterGroup: integer("after_group").notNull(),
  upToGroup: integer("up_to_group").notNull(),
  transfers: integer("transfers").notNull(),
  requests: integer("requests").notNull(),
  quotes: integer("quotes").notNull(),
  matches: integer("matches").notNull(),
  bytes: integer("bytes").notNull(),
  previous: hex("previous").notNull(),
  sha256: hex("sha256").notNull(),
  sealedAt: integer("sealed_at").notNull(),
});
