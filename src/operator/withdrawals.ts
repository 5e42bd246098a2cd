import {
  listWithdrawals,
  recordWithdrawalCommand,
  setWithdrawalsPaused,
} from "../custody/operator-commands.ts";
import { WITHDRAWAL_STATUSES } from "../custody/tables.ts";
import { auditRow } from "../audit/audit.ts";
import { near } from "../platform/near.ts";
import { Problem } from "../platform/problem.ts";
import { sql } from "../platform/sql.ts";
import { sendNotice } from "../streams/notice.ts";
import { type OperatorContext, idOption, limitOption, oneOfOption } from "./context.ts";
import { OperatorRejection } from "./operator-rejection.ts";

export function list(context: OperatorContext): Promise<unknown> {
  return listWithdrawals(context.env.DB, {
    status: oneOfOption(context, "status", WITHDRAWAL_STATUSES),
    limit: limitOption(context),
  });
}

/** Retries a withdrawal that is waiting after it was skipped or dead-lettered. */
export const retry = (context: OperatorContext): Promise<unknown> =>
  submitCommand(context, "retry");

/** Voids the payment on chain. The funds are returned once the void is confirmed. */
export const fail = (context: OperatorContext): Promise<unknown> => submitCommand(context, "fail");

async function submitCommand(context: OperatorContext, kind: "retry" | "fail"): Promise<unknown> {
  const withdrawalId = idOption(context, "id");
  const actor = `operator:${context.operator}` as const;
  const audited = kind === "fail" ? "withdrawal_failed" : "withdrawal_retried";
  let owner: string | undefined;
  const { chain, recorded } = await recordWithdrawalCommand(
    context.env.DB,
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
    // The id is valid here, so `invalid_request` can only concern the withdrawal's status.
    if (error instanceof Problem && error.data.code === "invalid_request")
      throw new OperatorRejection("withdrawal_final", error.data.detail);
    throw error;
  });
  if (recorded && owner !== undefined)
    await sendNotice(context.env, { userId: owner, kind: audited, subjectId: withdrawalId });
  await near(context.env, context.env.PAYER, chain).wake(chain);
  return { withdrawal_id: withdrawalId, command: kind, recorded, chain };
}

export async function setPaused(context: OperatorContext, paused: boolean): Promise<unknown> {
  const actor = `operator:${context.operator}` as const;
  await setWithdrawalsPaused(context.env.DB, paused, actor, (at) => [
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
  if (!paused)
    for (const { chain } of context.settings.CHAINS)
      await near(context.env, context.env.PAYER, chain).wake(chain);
  return { withdrawals_paused: paused };
}
