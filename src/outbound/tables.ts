/** Tables of what leaves the service. migrations/ explains them; a test compares the two. */
import { check, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { oneOf } from "../platform/columns.ts";

/** The logs that are delivered to receivers of the operator. */
export const DELIVERED_LOGS = ["alerts", "notices"] as const;

export const deliveryCursors = sqliteTable(
  "delivery_cursors",
  {
    name: text("name", { enum: DELIVERED_LOGS }).primaryKey(),
    position: integer("position").notNull(),
    failingSince: integer("failing_since"),
  },
  () => [check("delivery_cursors_name", oneOf("name", DELIVERED_LOGS))],
);
