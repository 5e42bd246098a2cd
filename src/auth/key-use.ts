/** Stores `last_used_at`, at most once a minute per key and isolate, to limit writes to D1. */
import { all, sql, uuid } from "../platform/sql.ts";
import { errorFields, log } from "../platform/log.ts";
import { Until } from "../platform/until.ts";
import type { RequestContext } from "../http/request-context.ts";

const MIN_INTERVAL_MS = 60_000;
const recorded = new Until();

export function recordKeyUse(
  incoming: { env: Cloudflare.Env; context: RequestContext },
  apiKeyId: string,
  now: number,
): void {
  if (recorded.holds(apiKeyId, now)) return;
  recorded.set(apiKeyId, now + MIN_INTERVAL_MS);
  const write = all(
    incoming.env.DB,
    sql`UPDATE api_keys SET last_used_at = ${now}
      WHERE api_key_id = ${uuid(apiKeyId)}
        AND coalesce(last_used_at, 0) < ${now - MIN_INTERVAL_MS}`,
  );
  incoming.context.waitUntil(
    write.catch((error: unknown) => log("warn", "key_use.not_recorded", errorFields(error))),
  );
}
