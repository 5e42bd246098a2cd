/** Tables of the streams. migrations/0001_schema.sql explains them; a test compares the two. */
import { sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
export const streams = sqliteTable(
  "streams",
  {
    streamId: integer("stream_id").primaryKey(),
    name: text("name").notNull().unique(),
    lastSeq: integer("last_seq").notNull(),
    pushedSeq: integer("pushed_seq").notNull(),
    firstSeq: integer("first_seq").notNull(),
    activeAt: integer("active_at").notNull(),
  },
  (t) => [
    index("streams_long")
      .on(t.streamId)
      .where(sql`last_seq - first_seq >= 1000`),
    index("streams_idle").on(t.activeAt),
  ],
);

export const removedStreams = sqliteTable(
  "removed_streams",
  {
    only: integer("only").primaryKey(),
    lastSeq: integer("last_seq").notNull(),
  },
  () => [check("removed_streams_only", sql`only = 1`)],
);

export const streamEvents = sqliteTable(
  "stream_events",
  {
    streamId: integer("stream_id").notNull(),
    seq: integer("seq").notNull(),
    writtenGroup: integer("written_group").notNull(),
    run: integer("run"),
    at: integer("at").notNull(),
    type: text("type").notNull(),
    body: text("body").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.streamId, t.seq] }),
    index("stream_events_written_group")
      .on(t.writtenGroup)
      .where(sql`run IS NOT NULL`),
  ],
);

export const eventCommands = sqliteTable("event_commands", {
  stream: text("stream").notNull(),
  n: integer("n").notNull(),
  run: integer("run").notNull(),
  writtenGroup: integer("written_group").notNull(),
  at: integer("at").notNull(),
  type: text("type").notNull(),
  body: text("body").notNull(),
});

export const streamSubscribers = sqliteTable("stream_subscribers", {
  name: text("name").primaryKey(),
  token: text("token").notNull(),
  since: integer("since").notNull(),
});
