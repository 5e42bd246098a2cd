/** Tables of the platform. migrations/ explains them; a test compares the two. */
import { sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { oneOf, uuid } from "./columns.ts";

export const commitGroups = sqliteTable(
  "commit_groups",
  {
    seq: integer("seq").primaryKey(),
    groupId: uuid("group_id").notNull().unique(),
    at: integer("at").notNull(),
    voided: integer("voided", { mode: "boolean" }).notNull(),
  },
  () => [check("commit_groups_voided", sql`voided IN (0, 1)`)],
);

export const killSwitches = sqliteTable("kill_switches", {
  name: text("name", { enum: ["withdrawals_paused", "storage_full"] }).primaryKey(),
  reason: text("reason").notNull(),
  since: integer("since").notNull(),
});

const DAILY_KINDS = ["requests", "tickets", "api_keys", "deposit_addresses"] as const;

export const dailyCounts = sqliteTable(
  "daily_counts",
  {
    day: integer("day").notNull(),
    userId: uuid("user_id").notNull(),
    kind: text("kind", { enum: DAILY_KINDS }).notNull(),
    count: integer("count").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.day, t.userId, t.kind] }),
    check("daily_counts_kind", oneOf("kind", DAILY_KINDS)),
  ],
);

export const storageSamples = sqliteTable("storage_samples", {
  day: integer("day").primaryKey(),
  at: integer("at").notNull(),
  bytes: integer("bytes").notNull(),
});

export const serviceLevels = sqliteTable(
  "service_levels",
  {
    id: integer("id").primaryKey(),
    at: integer("at").notNull(),
    body: text("body").notNull(),
  },
  () => [check("service_levels_id", sql`id = 1`)],
);

export const alertEvents = sqliteTable(
  "alert_events",
  {
    eventId: integer("event_id").primaryKey(),
    alertId: integer("alert_id").notNull(),
    resolved: integer("resolved", { mode: "boolean" }).notNull(),
  },
  () => [check("alert_events_resolved", sql`resolved IN (0, 1)`)],
);

export const alerts = sqliteTable(
  "alerts",
  {
    alertId: integer("alert_id").primaryKey(),
    kind: text("kind").notNull(),
    subject: text("subject").notNull(),
    detail: text("detail").notNull(),
    at: integer("at").notNull(),
    resolvedAt: integer("resolved_at"),
  },
  (t) => [
    index("alerts_open")
      .on(t.kind, t.subject)
      .where(sql`resolved_at IS NULL`),
  ],
);
