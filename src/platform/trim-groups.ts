import { NOW } from "./commit.ts";
import { all, sql } from "./sql.ts";

/** A batch lives 30 s at most, so a group's id has done its work as a fence long before. */
const KEEP_GROUPS_MS = 24 * 3_600_000;
const ROWS_PER_RUN = 5_000;

/** The latest group is the clock and always stays. */
export async function trimGroups(db: D1Database): Promise<void> {
  await all(
    db,
    sql`DELETE FROM commit_groups WHERE seq IN (SELECT seq FROM commit_groups WHERE at < ${NOW} - ${KEEP_GROUPS_MS}
      AND seq < (SELECT max(seq) FROM commit_groups) ORDER BY seq LIMIT ${ROWS_PER_RUN})`,
  );
}
