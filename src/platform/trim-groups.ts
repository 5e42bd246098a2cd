import { NOW } from "./commit.ts";
import { sql } from "./sql.ts";
import { trimUntilDone } from "./trim.ts";

/**
 * Keeps the latest group, because `NOW` must not go below its instant. Looks only at the oldest
 * groups, because instants never decrease.
 */
export async function trimGroups(db: D1Database, keepMs: number): Promise<void> {
  await trimUntilDone(
    db,
    (rows) => sql`DELETE FROM commit_groups WHERE seq IN (
    SELECT seq FROM (SELECT seq, at FROM commit_groups ORDER BY seq LIMIT ${rows})
    WHERE at < ${NOW} - ${keepMs} AND seq < (SELECT max(seq) FROM commit_groups))
    RETURNING 1`,
  );
}
