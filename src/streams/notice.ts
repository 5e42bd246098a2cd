/** `account.notice` of operators' actions. audit/audit.ts writes those of audit events. */
import { type Group, newGroup } from "../platform/commit.ts";
import { NOTICE_GIVEN } from "../audit/audit.ts";
import { storedEvent } from "../platform/event-forms.ts";
import { all, atom, expr, type Sql, sql, uuid } from "../platform/sql.ts";
import { announce } from "../platform/announce.ts";
import { accountStream, pushOrThrow } from "./event-log.ts";
import { catchUpStreams, pusherOf } from "./notify.ts";
import type { EventTable } from "./render.ts";

export const NOTICE_EVENTS: EventTable = {
  forms: [NOTICE_GIVEN],
  views: { "account.notice": (row) => row },
};

type Notice = { userId: string; kind: string; subjectId: string | null };

export function announceNotice(group: Group, notice: Notice): Sql[] {
  return announce(
    group,
    sql`SELECT n.user_id AS stream,
        ${storedEvent(NOTICE_GIVEN, "account.notice", {
          kind: expr`${notice.kind}`,
          subject_id: expr`${notice.subjectId}`,
          api_key_id: atom("NULL"),
          ip: atom("NULL"),
        })}, 0 AS ord
      FROM (SELECT ${uuid(notice.userId)} AS user_id) n`,
  );
}

/** A notice in its own batch, for a command that is carried out later. */
export async function sendNotice(env: Env, notice: Notice): Promise<void> {
  const group = newGroup();
  await pushOrThrow(pusherOf(env), group, announceNotice(group, notice));
}

/** Sends a user's new notices to their open sockets. Never throws, because cron repeats it. */
export async function pushNotices(env: Env, userId: string): Promise<void> {
  const name = accountStream(userId);
  const behind = await all(
    env.DB,
    sql`SELECT 1 FROM stream_subscribers r JOIN streams s ON s.name = r.name
      WHERE r.name = ${name} AND s.pushed_seq < s.last_seq`,
  ).catch(() => []);
  if (behind.length > 0) await catchUpStreams(env, [name]);
}
