import { listWithdrawals, orderForWithdrawal, setWithdrawalsPaused } from "../custody/chain-orders.ts";
import { auditRow } from "../auth/audit.ts";
import { sql } from "../platform/sql.ts";
import { tellUser } from "../streams/notice.ts";
import { type Desk, idOption, optional } from "./desk.ts";

const DEFAULT_LISTED = 50;

export function list(desk: Desk): Promise<unknown> {
  const limit = Number(optional(desk, "limit") ?? DEFAULT_LISTED);
  return listWithdrawals(desk.env.DB, {
    status: optional(desk, "status"),
    limit: Number.isInteger(limit) && limit > 0 ? limit : DEFAULT_LISTED,
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
  const { chain, ordered } = await orderForWithdrawal(desk.env.DB, { kind, withdrawalId, actor }, ({ at, fired, userId }) => {
    owner = userId;
    return [auditRow({ kind: audited, actor, userId, apiKeyId: null, ip: null, subjectId: withdrawalId }, at, fired)];
  });
  if (ordered && owner !== undefined) await tellUser(desk.env, { userId: owner, kind: audited, subjectId: withdrawalId });
  await desk.env.PAYER.getByName(chain).wake(chain);
  return { withdrawal_id: withdrawalId, order: kind, ordered, chain };
}

export async function setPaused(desk: Desk, paused: boolean): Promise<unknown> {
  const actor = `operator:${desk.operator}` as const;
  await setWithdrawalsPaused(desk.env.DB, paused, actor, (at) => [
    auditRow(
      { kind: paused ? "withdrawals_paused" : "withdrawals_resumed", actor, userId: null, apiKeyId: null, ip: null, subjectId: null },
      at,
      sql`1`,
    ),
  ]);
  return { withdrawals_paused: paused };
}
