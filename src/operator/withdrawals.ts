import {
  listWithdrawals,
  orderForWithdrawal,
  setWithdrawalsPaused,
} from "../custody/operator-commands.ts";
import { WITHDRAWAL_STATES } from "../custody/records.ts";
import { auditRow } from "../auth/audit.ts";
import { Problem } from "../platform/problem.ts";
import { sql } from "../platform/sql.ts";
import { tellUser } from "../streams/notice.ts";
import { type Desk, idOption, limitOption, oneOfOption } from "./context.ts";
import { Refusal } from "./refusal.ts";

export function list(desk: Desk): Promise<unknown> {
  return listWithdrawals(desk.env.DB, {
    status: oneOfOption(desk, "status", WITHDRAWAL_STATES),
    limit: limitOption(desk),
  });
}

/** Takes a withdrawal up again that waits after it was skipped or dead-lettered. */
export const retry = (desk: Desk): Promise<unknown> => order(desk, "retry");

/** Voids the payment's id on the chain, and gives the funds back only once that is final. */
export const fail = (desk: Desk): Promise<unknown> => order(desk, "fail");

async function order(desk: Desk, kind: "retry" | "fail"): Promise<unknown> {
  const withdrawalId = idOption(desk, "id");
  const actor = `operator:${desk.operator}` as const;
  const audited = kind === "fail" ? "withdrawal_failed" : "withdrawal_retried";
  let owner: string | undefined;
  const { chain, ordered } = await orderForWithdrawal(
    desk.env.DB,
    { kind, withdrawalId, actor },
    ({ at, applied, userId }) => {
      owner = userId;
      return [
        auditRow(
          { kind: audited, actor, userId, apiKeyId: null, ip: null, subjectId: withdrawalId },
          at,
          applied,
        ),
      ];
    },
  ).catch((error: unknown) => {
    // The id is a UUID here, so what it refuses is the withdrawal's state.
    if (error instanceof Problem && error.data.code === "invalid_request")
      throw new Refusal("withdrawal_final", error.data.detail);
    throw error;
  });
  if (ordered && owner !== undefined)
    await tellUser(desk.env, { userId: owner, kind: audited, subjectId: withdrawalId });
  await desk.env.PAYER.getByName(chain).wake(chain);
  return { withdrawal_id: withdrawalId, order: kind, ordered, chain };
}

export async function setPaused(desk: Desk, paused: boolean): Promise<unknown> {
  const actor = `operator:${desk.operator}` as const;
  await setWithdrawalsPaused(desk.env.DB, paused, actor, (at) => [
    auditRow(
      {
        kind: paused ? "withdrawals_paused" : "withdrawals_resumed",
        actor,
        userId: null,
        apiKeyId: null,
        ip: null,
        subjectId: null,
      },
      at,
      sql`1`,
    ),
  ]);
  return { withdrawals_paused: paused };
}
