/** What `chain status` shows about the whole service: switches, reconciliation and storage. */
import { lastFinished } from "../reconcile/reconcile.ts";
import { databaseBytes, limitBytes } from "../platform/storage.ts";
import { all, sql } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import type { OperatorContext } from "./context.ts";
import { openSettings } from "./doctor.ts";

/** Reads a few rows only, so that a page may poll it. `storage` reads all rows. */
export async function serviceStatus({ env, settings }: OperatorContext) {
  const switches = await all<{ name: string; reason: string; since: number }>(
    env.DB,
    sql`SELECT name, reason, since FROM kill_switches ORDER BY name`,
  );
  return {
    switches: switches.map(({ since, ...row }) => ({ ...row, since: toWireTime(since) })),
    reconciled: await lastFinished(env.DB),
    // `doctor` says what each one costs.
    fails_open: openSettings(settings).map(({ setting }) => setting),
    storage: { bytes: await databaseBytes(env.DB), limit_bytes: limitBytes(settings) },
  };
}
