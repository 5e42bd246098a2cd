/** The context of every step of the watcher, and how a step commits. */
import { type Cursor, readCursor } from "../../chain/cursor.ts";
import { commit, type Group } from "../../platform/commit.ts";
import type { ChainConfig, Config } from "../../platform/config.ts";
import type { Failpoint } from "../../platform/failpoint.ts";
import type { Sql } from "../../platform/sql.ts";
import { eventsToPush, type StreamEvent } from "../../streams/event-log.ts";

export type WatcherContext = {
  readonly db: D1Database;
  readonly settings: Config;
  readonly chain: ChainConfig;
  readonly push: (events: readonly StreamEvent[]) => Promise<void>;
  /** Set only by tests, which end the process there. */
  readonly failpoint?: Failpoint;
};

/** Commits a group of statements that end in `eventsToPush`, hands the events on, and reads the cursor again. */
export async function commitMove(
  context: WatcherContext,
  group: Group,
  statements: readonly Sql[],
): Promise<Cursor> {
  const result = await commit(context.db, group, [...statements, eventsToPush(group)]);
  if (!result.committed)
    throw new Error(`chain ${context.chain.chain}: a group was not committed`, {
      cause: result.cause,
    });
  // After a lost answer the rows are in the table all the same, and cron hints them again.
  const events = (result.rows?.at(-1) ?? []).map((row) => row as StreamEvent);
  if (events.length > 0) await context.push(events);
  const cursor = await readCursor(context.db, context.chain.chain);
  if (cursor === undefined) throw new Error("a cursor is never removed");
  return cursor;
}
