/** Approving and cancelling: a guarded change with its audit row and events, or a rejection. */
import { audited, auditRow, recordOf } from "../audit/audit.ts";
import type { Actor } from "../platform/actor.ts";
import { type Group, NOW } from "../platform/commit.ts";
import type { Operation } from "../platform/operation.ts";
import { guardOf, type Precondition, questionOf } from "../platform/preconditions.ts";
import { problem } from "../platform/problem.ts";
import { type Columns, type Expr, expr, select, type Sql, sql, uuid } from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { eventsToPush, type StreamEvent } from "../streams/event-log.ts";
import { announceWithdrawals } from "./custody-events.ts";
import { WITHDRAWAL, type WithdrawalRow } from "./payment-records.ts";

/** Events are for `notifyStreams`. There are none if the change was made before. */
export type Changed = { readonly row: WithdrawalRow; readonly events: readonly StreamEvent[] };

/** A change of one withdrawal of the actor. SQL is over `withdrawals w`. */
type Change<Facts, Own extends keyof Facts & string> = {
  readonly actor: Actor;
  readonly withdrawalId: string;
  readonly ip: string | undefined;
  readonly kind: "withdrawal_approved" | "withdrawal_cancelled";
  /** What the UPDATE sets beside `updated_at` and `changed_group`. */
  readonly set: (group: Group) => Sql;
  /** Further statements of the batch, after the UPDATE. */
  readonly also?: (group: Group) => readonly Sql[];
  readonly preconditions: (at: Expr) => readonly Precondition<Facts, Changed>[];
  /** Values of the withdrawal that the rejections report, and those of the credential. */
  readonly facts: Columns<Own>;
  readonly apart: Columns<Exclude<keyof Facts & string, Own>>;
};

export function changeWithdrawal<Facts, Own extends keyof Facts & string>(
  change: Change<Facts, Own>,
): Operation<Changed> {
  const { actor, withdrawalId, ip, preconditions } = change;
  const mine = sql`w.withdrawal_id = ${uuid(withdrawalId)} AND w.user_id = ${uuid(actor.userId)}`;
  const auditId = uuidv7();
  const changed = (group: Group) =>
    sql`FROM withdrawals w WHERE ${mine} AND w.changed_group = ${group.seq}`;
  return {
    statements: (group) => [
      sql`UPDATE withdrawals AS w SET ${change.set(group)}, updated_at = ${group.at},
          changed_group = ${group.seq}
        WHERE ${mine} AND ${guardOf(preconditions(group.at))}`,
      ...(change.also?.(group) ?? []),
      auditRow(
        recordOf(actor, change.kind, { ip, subjectId: withdrawalId }),
        group.at,
        expr`EXISTS (SELECT 1 ${changed(group)})`,
        auditId,
      ),
      ...announceWithdrawals(group),
    ],
    // By the audit row: if D1's response was lost, the payer may have changed the withdrawal since.
    report: (group) => [
      sql`SELECT ${select(WITHDRAWAL)} FROM withdrawals w WHERE ${mine} AND ${audited(auditId)}`,
      eventsToPush(group),
    ],
    result: readChanged,
    rejection: () =>
      questionOf({
        preconditions: preconditions(NOW),
        facts: change.facts,
        apart: change.apart,
        from: sql`FROM withdrawals w WHERE ${mine}`,
        missing: (): never => {
          throw problem("withdrawal_unknown", "You have no such withdrawal.");
        },
      }),
  };
}

/** Safe casts: a report selects a withdrawal, then `eventsToPush`. */
export function readChanged([rows, events]: readonly (readonly unknown[])[]): Changed | undefined {
  const [row] = (rows ?? []) as WithdrawalRow[];
  return row && { row, events: (events ?? []) as StreamEvent[] };
}
