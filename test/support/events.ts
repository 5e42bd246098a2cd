/** Events for tests of streams, which do not look at what an event says. */
import { env } from "cloudflare:workers";
import { NOTICE_GIVEN } from "../../src/audit/audit.ts";
import { commitOrThrow, newGroup } from "../../src/platform/commit.ts";
import { storedEvent } from "../../src/platform/event-forms.ts";
import { all, atom, sql } from "../../src/platform/sql.ts";
import { reconcile } from "../../src/reconcile/reconcile.ts";
import { announce } from "../../src/platform/announce.ts";
import { accountStream } from "../../src/streams/event-log.ts";
import { settings } from "./http.ts";
import { tamper } from "./ledger.ts";

const DAY_MS = 86_400_000;
const NULL = atom("NULL");

/** Columns of an event's source: `account.notice` without any value. */
export const emptyNotice = storedEvent(NOTICE_GIVEN, "account.notice", {
  kind: NULL,
  subject_id: NULL,
  api_key_id: NULL,
  ip: NULL,
});

/** Writes `count` notices to the user's account stream. */
export function writeNotices({ userId }: { userId: string }, count = 1): Promise<void> {
  return writeEmptyEvents(accountStream(userId), count);
}

/** Writes `count` events to a stream that say nothing. */
export async function writeEmptyEvents(stream: string, count: number): Promise<void> {
  const group = newGroup();
  const notices = JSON.stringify(Array.from({ length: count }, (_, index) => index));
  await commitOrThrow(
    env.DB,
    group,
    announce(
      group,
      sql`SELECT ${stream} AS stream, ${emptyNotice}, j.value AS ord
        FROM json_each(${notices}) j`,
    ),
  );
}

/** Makes streams look as if their last event was two days ago. */
export async function ageStreams(...streams: string[]): Promise<void> {
  await all(
    env.DB,
    sql`UPDATE streams SET active_at = active_at - ${2 * DAY_MS}
      WHERE name IN (SELECT value FROM json_each(${JSON.stringify(streams)}))`,
  );
}

/**
 * Makes all events look as if they were written days ago, and has the reconciliation compare them.
 */
export async function ageEvents(): Promise<void> {
  await reconcile(env.DB, { macKeys: settings(), chains: [] });
  await tamper("event_runs_update", sql`UPDATE event_runs SET at = at - ${2 * DAY_MS}`);
}
