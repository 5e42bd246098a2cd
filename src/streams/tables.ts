/** Tables of the streams. migrations/ explains them; a test compares the two. */
import { sql } from "drizzle-orm";
import {
  blob,
  check,
  index,
  integer,
  sqliteTable,
  text,
  uniqueIndex,
} from "drizzle-orm/sqlite-core";
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
  (t) => [index("streams_idle").on(t.activeAt)],
);

export const removedStreams = sqliteTable(
  "removed_streams",
  {
    only: integer("only").primaryKey(),
    lastSeq: integer("last_seq").notNull(),
  },
  () => [check("removed_streams_only", sql`only = 1`)],
);

export const eventRuns = sqliteTable(
  "event_runs",
  {
    runId: integer("run_id").primaryKey(),
    streamId: integer("stream_id").notNull(),
    lastSeq: integer("last_seq").notNull(),
    firstSeq: integer("first_seq").notNull(),
    at: integer("at").notNull(),
    ids: blob("ids").notNull(),
    events: text("events").notNull(),
  },
  (t) => [uniqueIndex("event_runs_stream").on(t.streamId, t.lastSeq)],
);

export const eventCommands = sqliteTable("event_commands", {
  stream: text("stream").notNull(),
  n: integer("n").notNull(),
  writtenGroup: integer("written_group").notNull(),
  at: integer("at").notNull(),
  ids: blob("ids").notNull(),
  events: text("events").notNull(),
});

export const streamSubscribers = sqliteTable("stream_subscribers", {
  name: text("name").primaryKey(),
  token: text("token").notNull(),
  since: integer("since").notNull(),
});
