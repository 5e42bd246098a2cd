import {
  AUDITED,
  listWithdrawals,
  recordWithdrawalCommand,
  setWithdrawalsPaused,
} from "../custody/operator-commands.ts";
import { WITHDRAWAL_STATUSES } from "../custody/column-values.ts";
import { near } from "../platform/near.ts";
import { Problem } from "../platform/problem.ts";
import { expr } from "../platform/sql.ts";
import { ageText } from "../platform/time.ts";
import { sendNotice } from "../streams/notice.ts";
import { actorOf, type OperatorContext, idOption, limitOption, oneOfOption } from "./context.ts";
import { ofUser, sinceId } from "./listed.ts";
import { OperatorRejection } from "./operator-rejection.ts";

export async function list(context: OperatorContext): Promise<unknown> {
  const status = oneOfOption(context, "status", WITHDRAWAL_STATUSES);
  const conditions = [
    ...(await ofUser(context, "w.user_id")),
    ...sinceId(context, "w.withdrawal_id"),
    ...(status === undefined ? [] : [expr`w.status = ${status}`]),
  ];
  const rows = await listWithdrawals(context.env.DB, conditions, limitOption(context));
  // What a table of 100 columns shows comes first.
  return rows.map((row) => {
    const { withdrawal_id, email, status: its, chain, amount, venue_id, asset_id, ...rest } = row;
    const age = ageText(Date.parse(row.created_at));
    return { withdrawal_id, email, status: its, age, chain, amount, venue_id, asset_id, ...rest };
  });
}

/** Retries a withdrawal that is waiting after it was skipped or dead-lettered. */
export const retry = (context: OperatorContext): Promise<unknown> =>
  submitCommand(context, "retry");

/** Voids the payment on chain. The funds are returned once the void is confirmed. */
export const fail = (context: OperatorContext): Promise<unknown> => submitCommand(context, "fail");

async function submitCommand(
  context: OperatorContext,
  kind: keyof typeof AUDITED,
): Promise<unknown> {
  const withdrawalId = idOption(context, "id");
  const command = { kind, withdrawalId, actor: actorOf(context) };
  const { chain, recorded, userId } = await recordWithdrawalCommand(context.env.DB, command).catch(
    (error: unknown) => {
      // The id is valid here, so `invalid_request` can only concern the withdrawal's status.
      if (error instanceof Problem && error.data.code === "invalid_request")
        throw new OperatorRejection("withdrawal_final", error.data.detail);
      throw error;
    },
  );
  if (recorded)
    await sendNotice(context.env, { userId, kind: AUDITED[kind], subjectId: withdrawalId });
  await near(context.env, context.env.PAYER, chain).wake(chain);
  return { withdrawal_id: withdrawalId, command: kind, recorded, chain };
}

export async function setPaused(context: OperatorContext, paused: boolean): Promise<unknown> {
  await setWithdrawalsPaused(context.env.DB, paused, actorOf(context));
  if (!paused)
    for (const { chain } of context.settings.CHAINS)
      await near(context.env, context.env.PAYER, chain).wake(chain);
  return { withdrawals_paused: paused };
}
