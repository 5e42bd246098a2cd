/** Chooses the next seal's range. It ends between two instants, so never inside a commit group. */
import { firstTransferSince } from "../ledger/entry-queries.ts";
import { NOW } from "../platform/commit.ts";
import { type Expr, expr, first, scalar, sql } from "../platform/sql.ts";

/**
 * Transfers with `after < id <= upTo`, with their matches, and requests and quotes that ended in
 * groups with `afterGroup < seq <= upToGroup`.
 */
export type GroupRange = {
  readonly after: number;
  readonly upTo: number;
  readonly afterGroup: number;
  readonly upToGroup: number;
};

export type ChoiceOptions = {
  /** Transfers and records stay this long before they are sealed. */
  readonly hotMs: number;
  /** Of transfers, and of records that ended. Exceeded only by one instant that has more. */
  readonly limit: number;
};

export type RangeChoice = {
  readonly range: GroupRange;
  /** The range reached the limit, so the next one may follow at once. */
  readonly full: boolean;
};

/** What a full seal contains. It takes some 300 KB and a second. */
export const TRANSFERS_PER_SEAL = 10_000;

/** The range after the last seal, of what is older than `hotMs` and scanned. Undefined: empty. */
export async function chooseRange(
  db: D1Database,
  last: Pick<GroupRange, "upTo" | "upToGroup">,
  { hotMs, limit }: ChoiceOptions,
): Promise<RangeChoice | undefined> {
  const { cold, unchecked } = await bounds(db, hotMs);
  const before = Math.min(cold, unchecked ?? cold);
  const transfers = await chooseTransfers(db, last.upTo, { before, limit });
  const groups = await chooseGroups(db, last.upToGroup, { before, limit });
  if (transfers.upTo === last.upTo && !groups.records) return undefined;
  const range = {
    after: last.upTo,
    upTo: transfers.upTo,
    afterGroup: last.upToGroup,
    upToGroup: groups.upTo,
  };
  return { range, full: transfers.full || groups.full };
}

/** Whether something is cold that the reconciliation has not scanned. */
export async function isScanBehind(db: D1Database, hotMs: number): Promise<boolean> {
  const { cold, unchecked } = await bounds(db, hotMs);
  return unchecked !== null && unchecked < cold;
}

async function bounds(
  db: D1Database,
  hotMs: number,
): Promise<{ readonly cold: number; readonly unchecked: number | null }> {
  const row = await first<{ cold: number; unchecked: number | null }>(
    db,
    sql`SELECT ${NOW} - ${hotMs} AS cold, (SELECT at FROM transfers
      WHERE transfer_id > ${checkedBy("transfers")} ORDER BY transfer_id LIMIT 1) AS unchecked`,
  );
  return row ?? { cold: 0, unchecked: null };
}

async function chooseTransfers(
  db: D1Database,
  after: number,
  { before, limit }: { before: number; limit: number },
): Promise<{ upTo: number; full: boolean }> {
  const end = await lastTransferBefore(db, before);
  const next = await scalar<number | null>(
    db,
    expr`SELECT at FROM transfers WHERE transfer_id > ${after} AND transfer_id <= ${end}
      ORDER BY transfer_id LIMIT 1 OFFSET ${limit}`,
  );
  if (next === null) return { upTo: Math.max(after, end), full: false };
  const upTo = await lastTransferBefore(db, next);
  if (upTo > after) return { upTo, full: true };
  // One instant with more transfers than the limit, such as a freeze, is sealed as a whole.
  return { upTo: await lastTransferBefore(db, next + 1), full: true };
}

/** The last transfer before an instant, or 0. */
async function lastTransferBefore(db: D1Database, instant: number): Promise<number> {
  return ((await first<{ first: number }>(db, firstTransferSince(instant)))?.first ?? 1) - 1;
}

async function chooseGroups(
  db: D1Database,
  after: number,
  { before, limit }: { before: number; limit: number },
): Promise<{ upTo: number; records: boolean; full: boolean }> {
  const end = await lastGroupBefore(db, after, before);
  const inRange = sql`ended_group > ${after} AND ended_group <= ${end}`;
  const ended = (place: number) => sql`(SELECT seq FROM (
      SELECT ended_group AS seq FROM requests WHERE ${inRange}
      UNION ALL SELECT ended_group FROM quotes WHERE ${inRange})
    ORDER BY seq LIMIT 1 OFFSET ${place})`;
  const { oldest = null, next = null } =
    (await first<{ oldest: number | null; next: number | null }>(
      db,
      sql`SELECT ${ended(0)} AS oldest, ${ended(limit)} AS next`,
    )) ?? {};
  if (oldest === null || next === null) return { upTo: end, records: oldest !== null, full: false };
  // One group with more records than the limit, such as a freeze, is sealed as a whole.
  return { upTo: oldest < next ? next - 1 : next, records: true, full: true };
}

/** The last group before an instant that the reconciliation has scanned; at least `after`. */
async function lastGroupBefore(db: D1Database, after: number, before: number): Promise<number> {
  // Groups are deleted by age, the oldest first, so the scan ends soon.
  const last = expr`min(coalesce(
    (SELECT seq - 1 FROM commit_groups WHERE at >= ${before} ORDER BY seq LIMIT 1),
    (SELECT max(seq) FROM commit_groups), 0), ${checkedBy("groups")})`;
  return Math.max(after, await scalar<number>(db, last));
}

/** Scalar: the last row that a scan of the reconciliation has checked. */
function checkedBy(scan: "transfers" | "groups"): Expr {
  return expr`coalesce((SELECT position FROM ledger_checkpoints WHERE scan = ${scan}), 0)`;
}
