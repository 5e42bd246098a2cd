import { sql } from "drizzle-orm";
import { check, index, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { bytes } from "./columns.ts";

/** One row per commit group: its fence and its instant (commit.ts). */
export const commitGroups = sqliteTable(
  "commit_groups",
  {
    seq: integer("seq").primaryKey(),
    groupId: bytes("group_id").notNull().unique(),
    at: integer("at").notNull(),
    voided: integer("voided").notNull(),
  },
  () => [check("commit_groups_voided", sql`voided IN (0, 1)`)],
);

/** Kill switches that the operator or a safety check sets. A row means that the switch is on. */
export const killSwitches = sqliteTable("kill_switches", {
  name: text("name").primaryKey(),
  reason: text("reason").notNull(),
  since: integer("since").notNull(),
});

/** Conditions that need an operator. Raising one also logs it at level `error`. */
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
