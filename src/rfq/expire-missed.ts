/** Cron: expires what a book's alarm has missed. */
import { NOW } from "../platform/commit.ts";
import { errorFields, log } from "../platform/log.ts";
import { all, sql } from "../platform/sql.ts";
import { bookObject } from "../streams/notify.ts";

/** Cron leaves an alarm this much time before it acts instead. */
const ALARM_GRACE_MS = 5_000;
const MAX_BOOKS = 200;

/** Wakes the books in which something is overdue. */
export async function expireMissed(env: Env): Promise<void> {
  const books = await all<{ asset: string }>(
    env.DB,
    sql`SELECT r.asset FROM requests r CROSS JOIN quotes q INDEXED BY quotes_request_status
        ON q.request_id = r.request_id AND q.status = 'open' AND q.stuck_at IS NULL
        WHERE r.status = 'open' AND q.expires_at <= ${NOW} - ${ALARM_GRACE_MS}
      UNION SELECT asset FROM requests WHERE status = 'open' AND stuck_at IS NULL
        AND expires_at <= ${NOW} - ${ALARM_GRACE_MS} LIMIT ${MAX_BOOKS}`,
  );
  await Promise.all(
    books.map(async ({ asset }) => {
      try {
        await bookObject(env, asset).expireDue();
      } catch (error) {
        log("error", "rfq.expire_failed", { asset, ...errorFields(error) });
      }
    }),
  );
}
