/**
 * How long rows stay in the database, and what reads them there. Rows that leave too early would
 * make a guard or a promise wrong, so a test compares both.
 */
import { PLATFORM } from "./platform-limits.ts";

const SECOND = 1_000;
const HOUR = 3_600 * SECOND;
const DAY = 24 * HOUR;

/** For how many milliseconds rows stay. */
export const KEPT = {
  /** Transfers, and requests and quotes after they ended. Then they are sealed and deleted. */
  ended: HOUR,
  /** Matches. They are sealed with their transfers and deleted later than these. */
  matches: DAY,
  /** Redemptions, whose transfers must be in the archive, too. */
  redemptions: DAY,
  /** Numbers and instants of commit groups. */
  commitGroups: HOUR,
  /** `event_life_secs`: events, also after their record was deleted. */
  events: 2 * HOUR,
  /** Hourly sums of what users and credentials gave. */
  tradedHours: DAY,
  /** Matches that a maker's protection has counted. */
  protectionCounts: HOUR,
} as const;
type Window = keyof typeof KEPT;

/** The age of the oldest row that a guard or a promise reads. */
export const OLDEST_READ = {
  /** `hot_window_secs`: requests and quotes are listed so long after they ended. */
  endedRecords: { of: "ended", ms: HOUR },
  tape: { of: "matches", ms: DAY },
  /** The reconciliation compares an ended request with its match. */
  matchOfRequest: { of: "matches", ms: HOUR },
  /** The sealer looks up which groups are cold. */
  coldGroup: { of: "commitGroups", ms: HOUR },
  /** D1 ends a batch after 30 s. Until then its fence needs the group. */
  batchFence: { of: "commitGroups", ms: PLATFORM.batchMs },
  /** The reconciliation compares the events of each group that it knows. */
  eventsOfGroups: { of: "events", ms: HOUR },
  replayByKey: { of: "ended", ms: HOUR },
  redemptionByKey: { of: "redemptions", ms: HOUR },
  /** The limits of a key and of an account for a day. */
  dayLimits: { of: "tradedHours", ms: DAY },
  /** The longest window that a maker may set. */
  protection: { of: "protectionCounts", ms: HOUR },
} as const satisfies Readonly<Record<string, { readonly of: Window; readonly ms: number }>>;

/**
 * When an idempotency key is free again: `READ.replayByKey` after the commit of its record. The id
 * was made before, by at most RFQ_COMMAND_MAX_WAIT_MS and MAX_CLOCK_LEAD_MS.
 */
export const KEY_LIFE_MS = OLDEST_READ.replayByKey.ms + 120 * SECOND;

/** The windows of the archive. Tests and simulations shorten them by one divisor. */
export type Windows = ReturnType<typeof windowsOf>;

export function windowsOf({ HOT_WINDOWS_DIVISOR: divisor }: { HOT_WINDOWS_DIVISOR: number }) {
  return {
    ended: KEPT.ended / divisor,
    matches: KEPT.matches / divisor,
    tape: OLDEST_READ.tape.ms / divisor,
    // No batch lasts longer, and events are kept longer than the groups that wrote them.
    commitGroups: Math.max(KEPT.commitGroups / divisor, 40 * SECOND),
    events: Math.max(KEPT.events / divisor, 60 * SECOND),
    /** A range that is smaller than a full seal waits so long after the last one. */
    sealEvery: (600 * SECOND) / divisor,
    /** From delivery to release: longer than any request reads the ledger, also in a simulation. */
    releaseLag: Math.max((120 * SECOND) / divisor, 5 * SECOND),
    /** The sealer looks so often whether a range is due. */
    sealerPoll: Math.max((60 * SECOND) / divisor, SECOND),
  } as const;
}
