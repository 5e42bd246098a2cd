/**
 * Ends open requests and quotes in the commit that takes the rights of those who placed them: a
 * freeze ends all that the user has open, other changes the quotes of the credentials that end or
 * may not trade any more. If that commit fails because of one of them, the rights end alone, and
 * what is open ends after it.
 */
import type { Alongside } from "../audit/audit.ts";
import type { Group } from "../platform/commit.ts";
import { logged } from "../platform/log.ts";
import { committedEvents } from "../streams/event-log.ts";
import { rightsChanged } from "../streams/close-ended.ts";
import { notifyStreams } from "../streams/notify.ts";
import { closeAllOf, closeEachOf, type Ending } from "./close-books.ts";

/** Returns false if the freeze changed nothing. What is open is ended even then. */
export async function freezeAccount(
  env: Env,
  userId: string,
  freeze: (alongside: Alongside) => Promise<boolean>,
): Promise<boolean> {
  const ending = { userId, of: "user" } as const;
  const changed = await ends(env, ending, freeze);
  await rightsChanged(env, userId, "ended");
  await closeEachOf(env, ending);
  return changed;
}

type Change<Result> = (alongside: Alongside) => Promise<Result>;

/** Ends the open quotes of revoked keys, and of sessions that may not trade, with the change. */
export function narrowingRights<Result>(
  env: Env,
  userId: string,
  change: Change<Result>,
): Promise<Result> {
  return endsQuotes(env, { userId, of: "lost_rights" }, change);
}

/** As `narrowingRights`, for a change that ends all sessions. */
export function endingSessions<Result>(
  env: Env,
  userId: string,
  change: Change<Result>,
): Promise<Result> {
  return endsQuotes(env, { userId, of: "sessions" }, change);
}

async function endsQuotes<Result>(
  env: Env,
  ending: Ending,
  change: Change<Result>,
): Promise<Result> {
  const { userId } = ending;
  const result = await ends(env, ending, change);
  // The rights have ended, which the caller must learn.
  const failed = logged("error", "rfq.quotes_not_closed", { user_id: userId });
  await closeEachOf(env, ending).catch(failed);
  return result;
}

async function ends<Result>(env: Env, ending: Ending, change: Change<Result>): Promise<Result> {
  let commitGroup: Group | undefined;
  const result = await change((group, applied) => {
    commitGroup = group;
    return closeAllOf(group, ending, applied);
  });
  if (commitGroup !== undefined)
    await committedEvents(env.DB, commitGroup, { rows: null })
      .then((events) => notifyStreams(env, events))
      // The change is committed, and cron notifies the streams again.
      .catch(logged("warn", "rfq.not_notified", { user_id: ending.userId }));
  return result;
}
