/** The context of the watcher's steps, and how a step commits its move of the cursor. */
import { type Cursor, readCursor } from "../../chain/chain-cursor.ts";
import { commit, type Group } from "../../platform/commit.ts";
import type { ScanPace } from "../../chain/scan-pace.ts";
import type { ChainConfig, Config } from "../../platform/config.ts";
import type { Failpoint } from "../../platform/failpoint.ts";
import type { Sql } from "../../platform/sql.ts";
import { committedEvents, eventsToPush, type StreamEvent } from "../../streams/event-log.ts";
import type { AddressFilter } from "./address-filter.ts";

export type WatcherContext = {
  readonly db: D1Database;
  readonly settings: Config;
  readonly chain: ChainConfig;
  /** Without it D1 is asked about every receiver: so for blocks that are read again. */
  readonly addresses?: AddressFilter;
  /** Without it ranges have the chain's `scan_range`. */
  readonly pace?: ScanPace;
  /** Index of the RPC endpoint that the head is read from. Another one in each round. */
  readonly firstEndpoint?: number;
  readonly push: (events: readonly StreamEvent[]) => Promise<void>;
  /** Set only by tests, which end the process there. */
  readonly failpoint?: Failpoint;
};

/** Blocks that one range may have. */
export function rangeLimit({ chain, pace }: WatcherContext): number {
  return pace?.limit(chain.scan_range) ?? chain.scan_range;
}

/** Commits the statements in one group, pushes the group's events and returns the cursor. */
export async function commitMove(
  context: WatcherContext,
  group: Group,
  statements: readonly Sql[],
): Promise<Cursor> {
  const result = await commit(context.db, group, [...statements, eventsToPush(group)]);
  if (!result.committed)
    throw new Error(`a group of the watcher of ${context.chain.chain} was not committed`, {
      cause: result.cause,
    });
  const events = await committedEvents(context.db, group, result);
  if (events.length > 0) await context.push(events);
  const cursor = await readCursor(context.db, context.chain.chain);
  if (cursor === undefined) throw new Error(`${context.chain.chain} has no cursor`);
  return cursor;
}
