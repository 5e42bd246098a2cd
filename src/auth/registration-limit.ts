/** Limits the accounts that one network registers, where registration is open. */
import { blockOf, networkOf } from "../http/ip-range.ts";
import { NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { dailyLimitReached } from "../platform/daily-limit.ts";
import { Problem } from "../platform/problem.ts";
import { first, sql } from "../platform/sql.ts";

const DAY_MS = 86_400_000;

/**
 * Throws `daily_limit` if the IPv4 address or IPv6 /48 has registered its accounts of 24 hours. The
 * caller holds the turn for hashing, so an isolate registers one account at a time.
 */
export async function checkRegistrations(
  db: D1Database,
  { AUTH_DAILY_REGISTRATIONS: maximum }: Pick<Config, "AUTH_DAILY_REGISTRATIONS">,
  clientIp: string | undefined,
): Promise<void> {
  const network = blockOf(clientIp) ?? networkOf(clientIp);
  // The text of a network in the block begins with that of the block. `g` sorts after all digits.
  const registered = await first<{ count: number; oldest: number; now: number }>(
    db,
    sql`SELECT count(*) AS count, min(u.created_at) AS oldest, ${NOW} AS now
      FROM login_networks n JOIN users u ON u.user_id = n.user_id
      WHERE n.network >= ${network} AND n.network < ${`${network}g`}
        AND n.at > ${NOW} - ${DAY_MS} AND u.created_at > ${NOW} - ${DAY_MS}`,
  );
  if (registered === undefined || registered.count < maximum) return;
  throw new Problem(
    dailyLimitReached({
      limit: "registrations_per_network_per_day",
      maximum,
      detail: `You have reached the limit of ${maximum} registrations from one network in 24 hours.`,
      resetSecs: Math.ceil((registered.oldest + DAY_MS - registered.now) / 1_000),
    }),
  );
}
