/** Cron tasks of the archive: wake the sealer, and find that it is behind even if it never runs. */
import { alertWhile } from "../platform/alert.ts";
import { NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { near } from "../platform/near.ts";
import { first, sql } from "../platform/sql.ts";
import { windowsOf } from "../platform/windows.ts";

/** The name of the only sealer, and the subject of its alerts. */
export const SEALER_NAME = "journal";
/** Delay beyond the settings that is tolerated: cron, the reconciliation's scan, slow rounds. */
const BEHIND_MS = 15 * 60_000;

export function sealerOf(env: Env) {
  return near(env, env.SEALER, SEALER_NAME);
}

export async function wakeSealer(env: Env): Promise<void> {
  await sealerOf(env).wake();
}

/** Selects the oldest transfer that is not sealed, with its age in milliseconds. */
export const OLDEST_UNSEALED = sql`SELECT transfer_id AS id, ${NOW} - at AS age FROM transfers
  WHERE transfer_id > coalesce(
    (SELECT up_to_transfer FROM journal_seals ORDER BY number DESC LIMIT 1), 0)
  ORDER BY transfer_id LIMIT 1`;

export async function watchSealer(
  db: D1Database,
  settings: Pick<Config, "HOT_WINDOWS_DIVISOR">,
): Promise<void> {
  const { id, age } = (await first<{ id: number; age: number }>(db, OLDEST_UNSEALED)) ?? { age: 0 };
  const { ended, sealEvery } = windowsOf(settings);
  const detail = `transfer ${id} is ${Math.round(age / 60_000)} minutes old and not sealed`;
  const isBehind = age > ended + sealEvery + BEHIND_MS;
  await alertWhile(db, "sealer_behind", SEALER_NAME, isBehind ? detail : undefined);
}
