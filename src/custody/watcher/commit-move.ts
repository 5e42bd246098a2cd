/** The context of every step of the watcher, and how a step commits. */
import { type Cursor, readCursor } from "../../chain/cursor.ts";
import { commit, type Group } from "../../platform/commit.ts";
import type { ChainConfig, Config } from "../../platform/config.ts";
import type { Sql } from "../../platform/sql.ts";
import { eventsToPush, type LoggedEvent } from "../../streams/event-log.ts";

export type ChainDesk = {
  readonly db: D1Database;
  readonly settings: Config;
  readonly chain: ChainConfig;
  readonly push: (events: readonly LoggedEvent[]) => Promise<void>;
  /** Exists in tests only: asked where a process may end. */
  readonly cut?: (point: string) => Promise<void>;
};

/** Commits a group of statements that end in `eventsToPush`, hands the events on, and reads the cursor again. */
export async function commitMove(
  desk: ChainDesk,
  group: Group,
  statements: readonly Sql[],
): Promise<Cursor> {
  const result = await commit(desk.db, group, [...statements, eventsToPush(group)]);
  if (!result.committed)
    throw new Error(`chain ${desk.chain.chain}: a group was not committed`, {
      cause: result.cause,
    });
  // After a lost answer the rows are in the table all the same, and cron hints them again.
  const events = (result.rows?.at(-1) ?? []).map((row) => row as LoggedEvent);
  if (events.length > 0) await desk.push(events);
  const cursor = await readCursor(desk.db, desk.chain.chain);
  if (cursor === undefined) throw new Error("a cursor is never removed");
  return cursor;
}
