/** Ends all sessions of a user by raising the epoch, the number that their tokens contain. */
import type { SessionActor } from "../platform/actor.ts";
import { type Alongside, detailed, recordOf } from "../audit/audit.ts";
import { type Expr, expr, scalar, type Sql, sql, uuid } from "../platform/sql.ts";
import type { MacKeys } from "../audit/event-mac.ts";
import { commitOwnChange } from "./own-change.ts";
import { revokeKeys } from "./revoke-key.ts";

export async function endSessions(
  db: D1Database,
  settings: MacKeys,
  request: { actor: SessionActor; revokeKeys: boolean; ip: string | undefined },
  alongside?: Alongside,
): Promise<void> {
  const { actor, ip } = request;
  const { userId } = actor;
  const record = recordOf(actor, "sessions_ended", { ip, subjectId: userId });
  await commitOwnChange(db, actor, {
    record: detailed(settings, record, {}),
    statements: (when) => [
      raiseEpoch(userId, when.applied),
      ...(request.revokeKeys ? revokeKeys({ userId, which: "all" }, record, when) : []),
    ],
    alongside,
  });
}

/** How many audit events ended all sessions of the user, whose id is SQL text. */
export function sessionsEnded(userId: Expr): Expr {
  return expr`(SELECT count(*) FROM audit_events INDEXED BY audit_events_rights
    WHERE subject_id = ${userId} AND kind = 'sessions_ended' AND details IS NOT NULL)`;
}

/**
 * Raises the epoch, after the event `sessions_ended` of the same batch. An epoch that SQL has
 * lowered is raised above the tokens that were ended before.
 */
export function raiseEpoch(userId: string, applied: Sql): Sql {
  return sql`UPDATE users SET
      session_epoch = max(session_epoch + 1, ${sessionsEnded(expr`${userId}`)})
    WHERE user_id = ${uuid(userId)} AND ${applied}`;
}

/** The next epoch. A guard that compares it holds only if no session was ended meanwhile. */
export async function nextSessionEpoch(
  db: D1Database,
  { userId, epoch }: { userId: string; epoch: number },
): Promise<number> {
  return Math.max(epoch, await scalar<number>(db, sessionsEnded(expr`${userId}`))) + 1;
}
