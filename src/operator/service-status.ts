/** What `chain status` shows about the whole service: switches, reconciliation and storage. */
import { databaseBytes, limitBytes } from "../platform/storage.ts";
import { all, sql } from "../platform/sql.ts";
import { toWireTime, toWireTimeOrNull } from "../platform/time.ts";
import type { OperatorContext } from "./context.ts";

/** Reads a few rows only, so that a page may poll it. `storage` reads all rows. */
export async function serviceStatus({ env, settings }: OperatorContext) {
  const switches = await all<{ name: string; reason: string; since: number }>(
    env.DB,
    sql`SELECT name, reason, since FROM kill_switches ORDER BY name`,
  );
  const scans = await all<{ scan: string; finished_at: number | null }>(
    env.DB,
    sql`SELECT scan, finished_at FROM ledger_checkpoints ORDER BY scan`,
  );
  return {
    switches: switches.map(({ since, ...row }) => ({ ...row, since: toWireTime(since) })),
    reconciled: scans.map(({ scan, finished_at }) => ({
      scan,
      finished_at: toWireTimeOrNull(finished_at),
    })),
    storage: { bytes: await databaseBytes(env.DB), limit_bytes: limitBytes(settings) },
  };
}
