/** `last_used_at`, coarse on purpose: at most one write a minute for each key and isolate, after the answer. */
import { all, sql, uuid } from "../platform/sql.ts";
import { errorFields, log } from "../platform/log.ts";
import type { RequestContext } from "../http/request-context.ts";

const MIN_INTERVAL_MS = 60_000;
const MAX_ENTRIES = 20_000;
const noted = new Map<string, number>();

export function noteKeyUse(
  incoming: { env: Cloudflare.Env; context: RequestContext },
  apiKeyId: string,
  now: number,
): void {
  const before = noted.get(apiKeyId);
  if (before !== undefined && now - before < MIN_INTERVAL_MS) return;
  if (noted.size >= MAX_ENTRIES) noted.clear();
  noted.set(apiKeyId, now);
  const write = all(
    incoming.env.DB,
    sql`UPDATE api_keys SET last_used_at = ${now} WHERE api_key_id = ${uuid(apiKeyId)} AND coalesce(last_used_at, 0) < ${now - MIN_INTERVAL_MS}`,
  );
  incoming.context.waitUntil(
    write.catch((error: unknown) => log("warn", "last_used_at not written", errorFields(error))),
  );
}
