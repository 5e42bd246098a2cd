/** The context of the watcher's steps, and how a step commits its move of the cursor. */
import { type Cursor, readCursor } from "../../chain/chain-cursor.ts";
import type { Group } from "../../platform/commit.ts";
import type { ScanPace } from "../../chain/scan-pace.ts";
import type { ChainContext } from "../chain-object.ts";
import type { Sql } from "../../platform/sql.ts";
import { pushOrThrow } from "../../streams/event-log.ts";

export type WatcherContext = ChainContext & {
  /** Without it ranges have the chain's `scan_range`. */
  readonly pace?: ScanPace;
};

export function rangeLimit({ chain, pace }: WatcherContext): number {
  return pace?.limit(chain.scan_range) ?? chain.scan_range;
}

/** Commits the statements in one group, pushes the group's events and returns the cursor. */
export async function commitMove(
  context: WatcherContext,
  group: Group,
  statements: readonly Sql[],
): Promise<Cursor> {
  await pushOrThrow(context, group, statements);
  const cursor = await readCursor(context.db, context.chain.chain);
  if (cursor === undefined) throw new Error(`${context.chain.chain} has no cursor`);
  return cursor;
}
