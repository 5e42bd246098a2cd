/**
 * POST /custody/approve-withdrawal: a session with a fresh one-time code approves a withdrawal that
 * a key has asked for. Two keys of one thief do not suffice, nor does a session alone.
 */
import { auditRow, recordOf } from "../auth/audit.ts";
import { type ActorFacts, actorFacts, actorPrecondition } from "../auth/may-write.ts";
import { stepUp, type StepUpFields } from "../auth/step-up.ts";
import type { SessionActor } from "../platform/actor.ts";
import { type Group, NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { type Operation, runOperation } from "../platform/operation.ts";
import { guardOf, type Precondition, questionOf } from "../platform/preconditions.ts";
import { problem } from "../platform/problem.ts";
import { atom, type Expr, expr, select, sql, uuid } from "../platform/sql.ts";
import { eventsToPush, type StreamEvent } from "../streams/event-log.ts";
import { announceWithdrawals } from "./announce.ts";
import { WITHDRAWAL, type WithdrawalRow } from "./records.ts";
import type { WithdrawalStatus } from "./tables.ts";
import {
  addressAllowed,
  addressFacts,
  type AddressFacts,
  addressNotListed,
} from "./withdrawal-addresses.ts";

type Approval = {
  readonly actor: SessionActor;
  readonly withdrawalId: string;
  readonly ip: string | undefined;
};
type Approved = { readonly row: WithdrawalRow; readonly events: readonly StreamEvent[] };

/** Throws `STEP_UP_PROBLEMS`, `totp_not_enabled` and what the preconditions below say. */
export async function approveWithdrawal(
  db: D1Database,
  settings: Config,
  { fields, ...approval }: Approval & { readonly fields: StepUpFields },
): Promise<Approved> {
  const { actor, ip: clientIp } = approval;
  const { secondFactor } = await stepUp(db, settings, { actor, fields, clientIp });
  if (secondFactor === "off")
    throw problem("totp_not_enabled", "An approval needs a one-time code. Turn TOTP on first.");
  return approveAfterStepUp(db, approval);
}

/** The approval itself. Only `approveWithdrawal` may be called for a request. */
export function approveAfterStepUp(db: D1Database, approval: Approval): Promise<Approved> {
  return runOperation(db, approve(approval));
}

function approve({ actor, withdrawalId, ip }: Approval): Operation<Approved> {
  const mine = sql`w.withdrawal_id = ${uuid(withdrawalId)} AND w.user_id = ${uuid(actor.userId)}`;
  const approved = (group: Group) =>
    sql`FROM withdrawals w WHERE ${mine} AND w.changed_group = ${group.seq}`;
  return {
    statements: (group) => [
      sql`UPDATE withdrawals AS w SET status = 'queued', approved_at = ${group.at},
          updated_at = ${group.at}, changed_group = ${group.seq}
        WHERE ${mine} AND ${guardOf(preconditions(actor, group.at))}`,
      auditRow(
        recordOf(actor, "withdrawal_approved", { ip, subjectId: withdrawalId }),
        group.at,
        expr`EXISTS (SELECT 1 ${approved(group)})`,
      ),
      ...announceWithdrawals(group),
    ],
    report: (group) => [sql`SELECT ${select(WITHDRAWAL)} ${approved(group)}`, eventsToPush(group)],
    result: ([rows, events]) => {
      // Safe casts: the report above selects the columns of the row types.
      const [row] = (rows ?? []) as WithdrawalRow[];
      return row && { row, events: (events ?? []) as StreamEvent[] };
    },
    rejection: () =>
      questionOf({
        preconditions: preconditions(actor, NOW),
        facts: {
          status: atom("w.status"),
          expired: expr`ifnull(w.approval_expires_at <= ${NOW}, 0)`,
          ...addressFacts(targetOf(actor)),
        },
        apart: actorFacts(actor),
        from: sql`FROM withdrawals w WHERE ${mine}`,
        missing: (): never => {
          throw problem("withdrawal_unknown", "You have no such withdrawal.");
        },
      }),
  };
}

type Facts = ActorFacts &
  AddressFacts & { readonly status: WithdrawalStatus; readonly expired: number };

/** Over `withdrawals w`. */
function targetOf({ userId }: SessionActor) {
  return { userId, chain: atom("w.chain"), address: atom("w.to_address") };
}

/** Over `withdrawals w`. */
function preconditions(actor: SessionActor, at: Expr): readonly Precondition<Facts, Approved>[] {
  return [
    actorPrecondition(actor, at),
    {
      expr: expr`w.status = 'awaiting_approval' AND w.approval_expires_at > ${at}`,
      reject: ({ status, expired }) => {
        throw problem(
          "withdrawal_not_approvable",
          expired === 1 && status === "awaiting_approval"
            ? "The time to approve the withdrawal has passed."
            : `The withdrawal is ${status}, so it needs no approval.`,
          { withdrawal_status: status },
        );
      },
    },
    {
      expr: expr`NOT EXISTS (SELECT 1 FROM kill_switches WHERE name = 'withdrawals_paused')
        AND NOT EXISTS (SELECT 1 FROM payer_leases l
          WHERE l.chain = w.chain AND l.halted_at IS NOT NULL)`,
      reject: () => {
        throw problem("withdrawals_paused", "Withdrawals are paused. Approve it later.");
      },
    },
    {
      expr: addressAllowed(targetOf(actor), at),
      reject: ({ address_active_from: activeFrom }) => {
        throw addressNotListed(activeFrom);
      },
    },
    {
      // Withdrawals that wait for approval do not count as in flight.
      expr: expr`coalesce((SELECT -a.balance FROM accounts a WHERE a.kind = 'external'
          AND a.owner = CAST('external:' || w.chain AS BLOB) AND a.asset = w.asset), 0)
        - coalesce((SELECT sum(o.amount) FROM withdrawals o INDEXED BY withdrawals_open
          WHERE o.chain = w.chain AND o.asset = w.asset
            AND o.status IN ('queued', 'submitted')), 0) >= w.amount`,
      reject: () => {
        throw problem(
          "chain_liquidity",
          "The chain cannot pay that much of this asset now. Approve the withdrawal later.",
        );
      },
    },
  ];
}
