/**
 * `account.notice`: an operator's action that concerns a user, on their account stream. It is
 * written in the batch of the action.
 */
import { commitOrThrow, type Group, newGroup } from "../platform/commit.ts";
import { all, type Sql, sql, uuid } from "../platform/sql.ts";
import { accountStreamOf, announce, eventsToPush, type StreamEvent } from "./event-log.ts";
import { notifyStreams } from "./notify.ts";
import type { EventViews } from "./render.ts";

export const NOTICE_EVENTS: EventViews = {
  "account.notice": (body) => JSON.parse(body),
};

export function announceNotice(
  group: Group,
  notice: { userId: string; kind: string; subjectId: string | null; when: Sql },
): Sql[] {
  return announce(
    group,
    sql`SELECT ${accountStreamOf("n.user_id")} AS stream, 'account.notice' AS type,
      json_object('kind', ${notice.kind}, 'subject_id', ${notice.subjectId}) AS body, 0 AS ord
      FROM (SELECT ${uuid(notice.userId)} AS user_id) n WHERE ${notice.when}`,
  );
}

/** A notice in its own batch, for a command that is carried out later. */
export async function sendNotice(
  env: Env,
  notice: { userId: string; kind: string; subjectId: string | null },
): Promise<void> {
  const group = newGroup();
  await commitOrThrow(env.DB, group, announceNotice(group, { ...notice, when: sql`1` }));
  await notifyStreams(env, await all<StreamEvent>(env.DB, eventsToPush(group)));
}
