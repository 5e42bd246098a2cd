/** What the query builder reads of the streams' table. migrations/ has the table itself. */
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const streams = sqliteTable("streams", {
  name: text("name").notNull(),
  lastSeq: integer("last_seq").notNull(),
  pushedSeq: integer("pushed_seq").notNull(),
});
