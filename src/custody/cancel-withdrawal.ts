/**
 * DELETE /custody/withdraw: cancels a withdrawal that was never signed, and returns its amount.
 * This guard demands that no batch of the payer contains it, and the payer's that it is queued, so
 * exactly one of the two applies.
 */
import { type ActorFacts, actorFacts, actorPrecondition } from "../auth/may-write.ts";
import type { Actor } from "../platform/actor.ts";
import { runOperation } from "../platform/operation.ts";
import { type Precondition, required } from "../platform/preconditions.ts";
import { atom, type Expr, expr, readUuid, sql, uuid } from "../platform/sql.ts";
import { type Changed, changeWithdrawal } from "./change-withdrawal.ts";
import { isHalted } from "./payer/payer-lease.ts";
import {
  findWithdrawal,
  readWithdrawal,
  WITHDRAWAL_TEXT,
  type WithdrawalLookup,
} from "./payment-records.ts";
import { releaseEnded } from "./withdrawal-transfers.ts";
import type { WithdrawalStatus } from "./column-values.ts";

/** Throws `withdrawal_unknown`, `withdrawal_not_cancellable` and `withdrawals_paused`. */
export async function cancelWithdrawal(
  db: D1Database,
  { actor, id, ip }: { actor: Actor; id: WithdrawalLookup; ip: string | undefined },
): Promise<Changed> {
  const { withdrawal_id } = await findWithdrawal(db, actor.userId, id);
  const cancel = changeWithdrawal({
    actor,
    withdrawalId: readUuid(withdrawal_id),
    ip,
    kind: "withdrawal_cancelled",
    set: (group) => sql`status = 'cancelled', ended_by = ${uuid(group.id)}`,
    also: (group) => [releaseEnded(group, "cancelled")],
    preconditions: (at) => preconditions(actor, at),
    facts: { status: atom("w.status"), row: WITHDRAWAL_TEXT },
    apart: actorFacts(actor),
  });
  return runOperation(db, cancel);
}

type Facts = ActorFacts & { readonly status: WithdrawalStatus; readonly row: string };

/** Over `withdrawals w`. */
function preconditions(actor: Actor, at: Expr): readonly Precondition<Facts, Changed>[] {
  return [
    actorPrecondition(actor, at),
    {
      expr: expr`w.status <> 'cancelled'`,
      reject: ({ row }) => ({ row: readWithdrawal(row), events: [] }),
    },
    // A payment that the vault skipped is queued again, but its signed bytes may be anywhere.
    required(
      expr`w.status IN ('awaiting_approval', 'queued') AND NOT EXISTS (
        SELECT 1 FROM batch_members m WHERE m.withdrawal_id = w.withdrawal_id)`,
      ({ status }) => ({
        code: "withdrawal_not_cancellable",
        detail:
          status === "queued" || status === "awaiting_approval"
            ? "A transaction that contains the withdrawal has been signed."
            : `The withdrawal is ${status}, so it can no longer be cancelled.`,
        extensions: { withdrawal_status: status },
      }),
    ),
    // After a restore the database may lack signed payments, until the payer has halted and the
    // operator has restored them.
    required(expr`NOT ${isHalted(atom("w.chain"))}`, () => ({
      code: "withdrawals_paused",
      detail: "Payments on this chain are halted. The withdrawal can be cancelled after a review.",
    })),
  ];
}
