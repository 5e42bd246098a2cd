import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const alerts = sqliteTable("alerts", {
  alertId: integer("alert_id").notNull(),
  kind: text("kind").notNull(),
  subject: text("subject").notNull(),
  detail: text("detail").notNull(),
  at: integer("at").notNull(),
  resolvedAt: integer("resolved_at"),
});
