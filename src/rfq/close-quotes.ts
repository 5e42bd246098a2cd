/** Cancels quotes that their maker did not name: a timer ran out, or a socket ended. */
import { commit, type Group, newGroup, NOW } from "../platform/commit.ts";
import { unavailable } from "../platform/problem.ts";
import { type Expr, type Sql, sql, uuid } from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { committedEvents, eventsToPush } from "../streams/event-log.ts";
import { notifyStreams } from "../streams/notify.ts";
import { announceRfq, NOTHING_MADE } from "./announce-rfq.ts";
import { readIds } from "./expire.ts";
import { endedAs } from "./ended.ts";
import { findCulprits, setAside } from "./set-aside.ts";
import type { CancelReason } from "./statuses.ts";

export type Closing = {
  readonly reason: CancelReason;
  /** Which quotes, as a condition over `quotes`. */
  readonly which: (at: Expr) => Sql;
};

const MAX_TRIES = 3;
/** Queries after which one call of `closeQuotes` has ended, unless a quote must be set aside. */
export const QUERIES_PER_CLOSING = 60;
/** Quotes that are cancelled one by one if they cannot be cancelled together. */
const MAX_QUOTES = 10_000;

/** Cancels the quotes and announces it. */
function closeStatements(group: Group, { reason, which }: Closing): Sql[] {
  const operation = uuidv7();
  return [
    sql`UPDATE quotes SET status = ${endedAs("cancelled", group)},
        cancel_reason = iif(expires_at <= ${group.at}, NULL, ${reason}),
        ended_by = ${uuid(operation)}, ended_group = ${group.seq}
      WHERE status = 'open' AND stuck_at IS NULL AND ${which(group.at)}`,
    ...announceRfq(group, NOTHING_MADE),
  ];
}

/**
 * Cancels the quotes in a batch with `alongside`. A quote that prevents the others is set aside.
 * Returns the rows of `alongside`, or null if D1's response was lost.
 */
export async function closeQuotes(
  env: Env,
  closing: Closing,
  alongside: (group: Group) => readonly Sql[],
): Promise<readonly (readonly unknown[])[] | null> {
  for (let attempt = 0; attempt < MAX_TRIES; attempt++) {
    const group = newGroup();
    const statements = closeStatements(group, closing);
    const more = alongside(group);
    const outcome = await commit(env.DB, group, [...statements, ...more, eventsToPush(group)]);
    if (outcome.committed) {
      await notifyStreams(env, await committedEvents(env.DB, group, outcome));
      return outcome.rows?.slice(statements.length, -1) ?? null;
    }
    if (outcome.reason === "constraint") await setAsideCulprits(env, closing);
  }
  throw unavailable("none");
}

async function setAsideCulprits(env: Env, { reason, which }: Closing): Promise<void> {
  const open = sql`SELECT quote_id FROM quotes
    WHERE status = 'open' AND stuck_at IS NULL AND ${which(NOW)} LIMIT ${MAX_QUOTES}`;
  const culprits = await findCulprits(await readIds(env.DB, open, "quote_id"), async (ids) => {
    const group = newGroup();
    const named = sql`SELECT unhex(value, '-') FROM json_each(${JSON.stringify(ids)})`;
    const some = { reason, which: (at: Expr) => sql`quote_id IN (${named}) AND ${which(at)}` };
    const outcome = await commit(env.DB, group, [
      ...closeStatements(group, some),
      eventsToPush(group),
    ]);
    if (outcome.committed) await notifyStreams(env, await committedEvents(env.DB, group, outcome));
    else if (outcome.reason === "lost") throw unavailable("unknown");
    return outcome.committed;
  });
  await setAside(env.DB, { table: "quotes", ids: culprits });
}
