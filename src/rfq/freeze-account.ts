/**
 * Freezes a user and cancels their open requests and quotes in the same commit group. If that group
 * fails, the freeze takes effect alone, and what is open is ended after it.
 */
import type { Alongside } from "../auth/freeze-user.ts";
import { openedStreams } from "../auth/ws-ticket.ts";
import type { Group } from "../platform/commit.ts";
import { errorFields, log } from "../platform/log.ts";
import { Problem } from "../platform/problem.ts";
import { all } from "../platform/sql.ts";
import { eventsToPush, type StreamEvent } from "../streams/event-log.ts";
import { pushNotices } from "../streams/notice.ts";
import { closeSockets, notifyStreams } from "../streams/notify.ts";
import { closeAllOf, closeEachOf } from "./close-books.ts";

/** Commits the freeze with these statements. Returns false if it changed nothing. */
type Freeze = (alongside?: Alongside) => Promise<boolean>;

/** Returns false if the freeze changed nothing. What is open is ended even then. */
export async function freezeAccount(env: Env, userId: string, freeze: Freeze): Promise<boolean> {
  const changed = await freezeAndClose(env, userId, freeze);
  await closeSockets(env, await openedStreams(env.DB, userId, { kind: "all" }), { userId });
  await closeEachOf(env, userId);
  return changed;
}

async function freezeAndClose(env: Env, userId: string, freeze: Freeze): Promise<boolean> {
  let commitGroup: Group | undefined;
  try {
    const changed = await freeze((group, applied) => {
      commitGroup = group;
      return closeAllOf(group, userId, applied);
    });
    if (commitGroup !== undefined)
      await notifyStreams(env, await all<StreamEvent>(env.DB, eventsToPush(commitGroup)));
    return changed;
  } catch (error) {
    if (error instanceof Problem) throw error;
    log("error", "freeze.close_failed", errorFields(error));
    const changed = await freeze();
    await pushNotices(env, userId);
    return changed;
  }
}
