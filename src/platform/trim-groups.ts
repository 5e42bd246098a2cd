import { NOW } from "./commit.ts";
import { sql } from "./sql.ts";
import { trimUntilDone } from "./trim.ts";

/** A batch lives 30 s at most, so a group's id has done its work as a fence long before. */
const KEEP_GROUPS_MS = 3_600_000;

/** The latest group is the clock and always stays. Only the oldest are looked at: groups are in order of their instants. */
export async function trimGroups(db: D1Database): Promise<void> {
  await trimUntilDone(
    db,
    (rows) => sql`DELETE FROM commit_groups WHERE seq IN (
    SELECT seq FROM (SELECT seq, at FROM commit_groups ORDER BY seq LIMIT ${rows})
    WHERE at < ${NOW} - ${KEEP_GROUPS_MS} AND seq < (SELECT max(seq) FROM commit_groups)) RETURNING 1`,
  );
}
