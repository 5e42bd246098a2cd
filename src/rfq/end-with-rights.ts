/**
 * Ends open requests and quotes in the commit that takes the rights of those who placed them: a
 * freeze ends all that the user has open, a revocation the quotes of the revoked keys. If that
 * commit fails because of one of them, the rights end alone, and what is open ends after it.
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

/** Ends the open quotes of the keys that `revoke` revokes. Returns its result. */
export async function revokingKeys<Result>(
  env: Env,
  userId: string,
  revoke: (alongside: Alongside) => Promise<Result>,
): Promise<Result> {
  const ending = { userId, of: "revoked_keys" } as const;
  const result = await ends(env, ending, revoke);
  // The keys are revoked, which the caller must learn.
  const failed = logged("error", "rfq.quotes_not_closed", { user_id: userId });
  await closeEachOf(env, ending).catch(failed);
  return result;
}

async function ends<Result>(
  env: Env,
  ending: Ending,
  change: (alongside: Alongside) => Promise<Result>,
): Promise<Result> {
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
