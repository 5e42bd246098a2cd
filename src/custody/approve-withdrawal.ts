/**
 * POST /custody/approve-withdrawal: a session with a fresh one-time code approves a withdrawal that
 * a key has asked for. Two keys of one thief do not suffice, nor does a session alone.
 */
import type { MacKeys } from "../audit/event-mac.ts";
import { type ActorFacts, actorFacts, actorPrecondition } from "../auth/may-write.ts";
import { stepUp, type StepUpFields } from "../auth/step-up.ts";
import { liquidity } from "../ledger/liquidity.ts";
import { approvalMac } from "../ledger/withdrawal-mac.ts";
import type { CheckedActor, SessionActor } from "../platform/actor.ts";
import { NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { runOperation } from "../platform/operation.ts";
import { type Precondition, required } from "../platform/preconditions.ts";
import { problem } from "../platform/problem.ts";
import { atom, type Expr, expr, sql, uuid } from "../platform/sql.ts";
import { type Changed, changeWithdrawal } from "./change-withdrawal.ts";
import type { WithdrawalStatus } from "./column-values.ts";
import { isHalted, PAUSED } from "./payer/payer-lease.ts";
import { macOfEntry } from "./withdrawal-addresses.ts";
import { allowedByPolicy, policyFacts, type PolicyFacts } from "./withdrawal-policy.ts";

type Approval = {
  readonly actor: CheckedActor;
  readonly withdrawalId: string;
  readonly ip: string | undefined;
};

/** Throws `STEP_UP_PROBLEMS`, `totp_not_enabled` and what the preconditions below say. */
export async function approveWithdrawal(
  db: D1Database,
  settings: Config,
  { fields, ...approval }: Omit<Approval, "actor"> & { actor: SessionActor; fields: StepUpFields },
): Promise<Changed> {
  const { actor: session, ip: clientIp } = approval;
  const { actor, secondFactor } = await stepUp(db, settings, { actor: session, fields, clientIp });
  if (secondFactor === "off")
    throw problem("totp_not_enabled", "An approval needs a one-time code. Turn TOTP on first.");
  return approveAfterStepUp(db, settings, { ...approval, actor });
}

/** The approval itself. Only `approveWithdrawal` may be called for a request. */
export async function approveAfterStepUp(
  db: D1Database,
  keys: MacKeys,
  approval: Approval,
): Promise<Changed> {
  const { actor, withdrawalId } = approval;
  const mine = sql`(user_id, chain, address) = (SELECT user_id, chain, to_address FROM withdrawals
    WHERE withdrawal_id = ${uuid(withdrawalId)} AND user_id = ${uuid(actor.userId)})`;
  const listed = await macOfEntry(db, keys, mine);
  const approve = changeWithdrawal({
    ...approval,
    kind: "withdrawal_approved",
    set: (group) => sql`status = 'queued', approved_at = ${group.at},
      approval_mac = ${approvalMac(keys, withdrawalId)}`,
    preconditions: (at) => preconditions(actor, listed, at),
    facts: {
      status: atom("w.status"),
      expired: expr`ifnull(w.approval_expires_at <= ${NOW}, 0)`,
      ...policyFacts(withdrawing(actor, listed)),
    },
    apart: actorFacts(actor),
  });
  return runOperation(db, approve);
}

type Facts = ActorFacts &
  PolicyFacts & { readonly status: WithdrawalStatus; readonly expired: number };

/** The withdrawal `w`. */
function withdrawing({ userId }: SessionActor, listed: string | null) {
  return {
    listed: atom("?", [listed]),
    user: uuid(userId),
    chain: atom("w.chain"),
    address: atom("w.to_address"),
    amount: atom("w.amount"),
    amountText: expr`CAST(w.amount AS TEXT)`,
    withdrawal: atom("w.withdrawal_id"),
  };
}

/** Over `withdrawals w`. */
function preconditions(
  actor: SessionActor,
  listed: string | null,
  at: Expr,
): readonly Precondition<Facts, Changed>[] {
  return [
    actorPrecondition(actor, at),
    required(
      expr`w.status = 'awaiting_approval' AND w.approval_expires_at > ${at}`,
      ({ status, expired }) => ({
        code: "withdrawal_not_approvable",
        detail:
          expired === 1 && status === "awaiting_approval"
            ? "The time to approve the withdrawal has passed."
            : `The withdrawal is ${status}, so it needs no approval.`,
        extensions: { withdrawal_status: status },
      }),
    ),
    required(expr`NOT ${PAUSED} AND NOT ${isHalted(atom("w.chain"))}`, () => ({
      code: "withdrawals_paused",
      detail: "Withdrawals are paused. Approve it later.",
    })),
    // The day of the order may be over, and its limit used again.
    ...allowedByPolicy(withdrawing(actor, listed), at),
    // Withdrawals that wait for approval do not count as in flight.
    required(
      expr`${liquidity({ chain: atom("w.chain"), asset: atom("w.asset") })} >= w.amount`,
      () => ({
        code: "chain_liquidity",
        detail: "The chain cannot pay that much of this asset now. Approve the withdrawal later.",
      }),
    ),
  ];
}
