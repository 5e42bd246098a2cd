/** Ends open quotes by a condition. A quote that prevents the others is set aside. */
import { type Group, newGroup, NOW } from "../platform/commit.ts";
import { errorFields, log } from "../platform/log.ts";
import { unavailable } from "../platform/problem.ts";
import { queriesLeft } from "../platform/query-limit.ts";
import { type Expr, expr, raw, scalar, type Sql, sql, uuid, uuids } from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { commitAndPush, type Pusher } from "../streams/event-log.ts";
import { pusherOf } from "../streams/notify.ts";
import { announceRfq } from "./announce-rfq.ts";
import { readIds } from "./expire.ts";
import { ENDABLE, endedAs } from "./ended.ts";
import { findCulprits, type Records, setAside } from "./set-aside.ts";
import type { CancelReason } from "./statuses.ts";

type Closing = {
  /** A condition over `quotes`. */
  readonly which: (at: Expr) => Sql;
  readonly as?: "cancelled" | "rejected";
  /** Why, if their maker did not cancel them. */
  readonly reason?: CancelReason;
};

const MAX_TRIES = 3;
/** Queries after which one call of `closeQuotes` has ended, unless a quote must be set aside. */
const QUERIES_PER_CLOSING = 60;
/** Quotes that are ended one by one if they cannot be ended together. */
const MAX_QUOTES = 10_000;

export function closeStatement(
  group: Group,
  { which, as = "cancelled", reason }: Closing,
  operation: string = uuidv7(),
): Sql {
  return sql`UPDATE quotes SET status = ${endedAs(as, group)},
      cancel_reason = iif(expires_at <= ${group.at}, NULL, ${reason ?? null}),
      ended_by = ${uuid(operation)}, ended_group = ${group.seq}
    WHERE ${ENDABLE} AND ${which(group.at)}`;
}

type Closed = {
  /** All groups that the call began. */
  readonly groups: readonly Group[];
  /** The rows of `alongside`. Null if D1's response was lost. */
  readonly rows: readonly (readonly unknown[])[] | null;
};

/** Ends the quotes in a batch with `alongside`, whose statements come after it. */
export async function closeQuotes(
  env: Env,
  closing: Closing,
  alongside: (group: Group) => readonly Sql[] = () => [],
): Promise<Closed> {
  const to = pusherOf(env);
  const groups: Group[] = [];
  let someClosed = false;
  for (let attempt = 0; attempt < MAX_TRIES; attempt++) {
    const group = newGroup();
    groups.push(group);
    const closes = [closeStatement(group, closing), ...announceRfq(group)];
    const outcome = await commitAndPush(to, group, [...closes, ...alongside(group)]);
    if (outcome.committed) return { groups, rows: outcome.rows?.slice(closes.length, -1) ?? null };
    if (outcome.reason === "lost") continue;
    groups.push(...(await closeEach(to, closing)));
    someClosed = true;
  }
  throw unavailable(someClosed ? "unknown" : "none");
}

/** Ends the quotes that can be ended, and sets aside the others. Returns the groups that it began. */
export async function closeEach(to: Pusher, closing: Closing): Promise<readonly Group[]> {
  const { which } = closing;
  const groups: Group[] = [];
  const open = sql`SELECT quote_id FROM quotes WHERE ${ENDABLE} AND ${which(NOW)}
    LIMIT ${MAX_QUOTES}`;
  const culprits = await findCulprits(await readIds(to.db, open, "quote_id"), (ids) => {
    const group = newGroup();
    groups.push(group);
    const some = (at: Expr) => sql`quote_id IN (${uuids(ids)}) AND ${which(at)}`;
    return commitEnds(to, group, [closeStatement(group, { ...closing, which: some })]);
  });
  await setAside(to.db, { table: "quotes", ids: culprits });
  return groups;
}

/**
 * Cron: closes one after the other, as far as the queries of the invocation go. A failure stops no
 * other and is logged as `failed`. Throws if all failed. Returns whether some are left.
 */
export async function closeInTurn<Item>(
  env: Env,
  items: readonly Item[],
  close: (item: Item) => Promise<unknown>,
  failed: (item: Item) => readonly [event: string, fields: Readonly<Record<string, string>>],
): Promise<boolean> {
  const errors: unknown[] = [];
  for (const item of items) {
    if (queriesLeft(env.DB) < QUERIES_PER_CLOSING) return true;
    await close(item).catch((error: unknown) => {
      errors.push(error);
      const [event, fields] = failed(item);
      log("error", event, { ...fields, ...errorFields(error) });
    });
  }
  if (errors.length > 0 && errors.length === items.length) throw errors[0];
  return false;
}

/** Commits what ends records. Returns false if a constraint refused it, so that nothing changed. */
export async function commitEnds(
  to: Pusher,
  group: Group,
  statements: readonly Sql[],
): Promise<boolean> {
  const outcome = await commitAndPush(to, group, [...statements, ...announceRfq(group)]);
  // Earlier groups of the same call have taken effect.
  if (!outcome.committed && outcome.reason === "lost") throw unavailable("unknown");
  return outcome.committed;
}

/** How many records the groups ended, those that have committed. */
export async function countEnded(
  db: D1Database,
  table: Records["table"],
  groups: readonly Group[],
): Promise<number> {
  const ids = uuids(groups.map(({ id }) => id));
  return scalar(
    db,
    expr`SELECT count(*) FROM ${raw(table)}
      WHERE ended_group IN (SELECT seq FROM commit_groups WHERE group_id IN (${ids}))`,
  );
}
