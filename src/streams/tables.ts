import { sql } from "drizzle-orm";
import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** `book:<venue>:<asset_id>`, `venue:<venue>` or `account:<user_id>`; `pushed_seq` is the last number its object has sent. */
export const streams = sqliteTable(
  "streams",
  {
    streamId: integer("stream_id").primaryKey(),
    name: text("name").notNull().unique(),
    lastSeq: integer("last_seq").notNull(),
    pushedSeq: integer("pushed_seq").notNull(),
    /** The oldest number still kept. */
    firstSeq: integer("first_seq").notNull(),
  },
  (t) => [
    index("streams_long")
      .on(t.streamId)
      .where(sql`last_seq - first_seq >= 1000`),
  ],
);

/** An event exists exactly when its change does: written in the same batch, numbered by the trigger on this table. */
export const streamEvents = sqliteTable(
  "stream_events",
  {
    streamId: integer("stream_id").notNull(),
    seq: integer("seq").notNull(),
    writtenGroup: integer("written_group").notNull(),
    at: integer("at").notNull(),
    type: text("type").notNull(),
    body: text("body").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.streamId, t.seq] }),
    index("stream_events_written_group").on(t.writtenGroup),
  ],
);

/** Streams that some object has sockets for. A stream without a row here wakes nobody. */
export const streamSubscribers = sqliteTable("stream_subscribers", {
  name: text("name").primaryKey(),
  since: integer("since").notNull(),
});
