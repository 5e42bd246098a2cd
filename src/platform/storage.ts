/**
 * D1 limits a database to 10 GB. New requests and quotes stop before that, so that accepts,
 * releases, deposits and withdrawals can continue.
 */
import { NOW } from "./commit.ts";
import { log } from "./log.ts";
import { all, type Expr, expr, prepare, sql } from "./sql.ts";

const LIMIT_BYTES = 10 * 1_000_000_000;
const ALERT_SHARE = 0.7;
const STOP_SHARE = 0.8;

/** Guard condition of commands that store new requests and quotes. */
export const STORAGE_LEFT: Expr = expr`NOT EXISTS (
  SELECT 1 FROM kill_switches WHERE name = 'storage_full')`;

/** Cron task: compares the size that D1 reports with the limit and sets or clears the switch. */
export async function watchStorage(db: D1Database): Promise<void> {
  const { meta } = await prepare(db, sql`SELECT 1`).run();
  const share = meta.size_after / LIMIT_BYTES;
  if (share >= ALERT_SHARE) log("error", "storage.filling", { bytes: meta.size_after, share });
  if (share >= STOP_SHARE) {
    await all(
      db,
      sql`INSERT INTO kill_switches (name, reason, since)
      SELECT 'storage_full', ${`${meta.size_after} bytes`}, ${NOW}
      WHERE NOT EXISTS (SELECT 1 FROM kill_switches WHERE name = 'storage_full')`,
    );
  } else {
    await all(db, sql`DELETE FROM kill_switches WHERE name = 'storage_full'`);
  }
}
