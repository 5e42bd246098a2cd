/** `account.notice`: an operator's action that concerns the user, on their account stream, in the batch of the action. */
import type { Group } from "../platform/commit.ts";
import { type Sql, sql, uuid } from "../platform/sql.ts";
import { accountStreamOf, announce } from "./event-log.ts";

export function noticeTo(group: Group, notice: { userId: string; kind: string; subjectId: string | null; when: Sql }): Sql[] {
  return announce(
    group,
    sql`SELECT ${accountStreamOf("n.user_id")} AS stream, 'account.notice' AS type,
      json_object('kind', ${notice.kind}, 'subject_id', ${notice.subjectId}) AS body, 0 AS ord
      FROM (SELECT ${uuid(notice.userId)} AS user_id) n WHERE ${notice.when}`,
  );
}
