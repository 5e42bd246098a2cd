import {
  AUDITED,
  listAllWithdrawals,
  recordWithdrawalCommand,
  setWithdrawalsPaused,
} from "../custody/operator-commands.ts";
import { WITHDRAWAL_STATUSES } from "../custody/column-values.ts";
import { hasClientId } from "../custody/payment-records.ts";
import { near } from "../platform/near.ts";
import { Problem, problem } from "../platform/problem.ts";
import { blob, type Expr, expr, first, sql, uuid } from "../platform/sql.ts";
import { commandText } from "../platform/command-text.ts";
import { ageText, now, toWireTime } from "../platform/time.ts";
import { sendNotice } from "../streams/notice.ts";
import { type ListedAlert, openAlertsAbout } from "./alerts.ts";
import {
  actorOf,
  badOption,
  idOption,
  limitOption,
  oneOfOption,
  type OperatorContext,
  option,
} from "./context.ts";
import { ofUserSince, listedPage } from "./listed.ts";
import { OperatorRejection } from "./operator-rejection.ts";

export async function list(context: OperatorContext): Promise<unknown> {
  const status = oneOfOption(context, "status", WITHDRAWAL_STATUSES);
  const conditions = [
    ...(await ofUserSince(context, { id: "w.withdrawal_id", users: ["w.user_id"] })),
    ...(status === undefined ? [] : [expr`w.status = ${status}`]),
  ];
  const rows = await listAllWithdrawals(context.env.DB, conditions, limitOption(context));
  // What a table of 100 columns shows comes first.
  return listedPage(
    context,
    rows,
    ({ withdrawal_id }) => withdrawal_id,
    (row) => {
      const { withdrawal_id, email, status: its, chain, amount, venue_id, asset_id, ...rest } = row;
      const age = ageText(Date.parse(row.created_at));
      return { withdrawal_id, email, status: its, age, chain, amount, venue_id, asset_id, ...rest };
    },
  );
}

/** Users choose their client ids, so one may name withdrawals of several users. */
const MAX_SHOWN = 20;

type Listed = Awaited<ReturnType<typeof listAllWithdrawals>>[number];
type Waits = { readonly cause: string; readonly next: string | null };

/** Withdrawals by an id that a user or a block explorer names, and why each still waits. */
export async function show(context: OperatorContext): Promise<unknown> {
  const { DB } = context.env;
  const found = await listAllWithdrawals(DB, [conditionOf(context)], MAX_SHOWN);
  if (found.length === 0) throw problem("withdrawal_unknown", "There is no such withdrawal.");
  return Promise.all(
    found.map(async (withdrawal) => {
      const { withdrawal_id, email, status, chain, ...rest } = withdrawal;
      const alerts = await openAlertsAbout(context, chain, withdrawal_id);
      return {
        withdrawal_id,
        email,
        status,
        age: ageText(Date.parse(withdrawal.created_at)),
        ...(await waitsOf(context, withdrawal, alerts)),
        alerts,
        chain,
        ...rest,
      };
    }),
  );
}

function conditionOf(context: OperatorContext): Expr {
  const given = ["id", "client-id", "tx"].filter((name) => context.options[name] !== undefined);
  const [by] = given;
  if (by === undefined || given.length > 1)
    throw badOption("id", "exactly one of --id, --client-id and --tx must be given");
  if (by === "id") return expr`w.withdrawal_id = ${uuid(idOption(context, "id"))}`;
  if (by === "client-id") return hasClientId(option(context, "client-id"));
  const hash = option(context, "tx");
  if (!/^0x[0-9a-fA-F]{64}$/.test(hash)) throw badOption("tx", "must be a transaction hash");
  return expr`w.transaction_hash = ${blob(hash)}`;
}

/** Why it waits, the first reason first, and the command that goes on. */
async function waitsOf(
  { env, settings }: OperatorContext,
  { withdrawal_id, status, user_id, approval_expires_at, transaction_hash }: Listed,
  alerts: readonly ListedAlert[],
): Promise<Waits> {
  if (status === "settled" || status === "failed" || status === "cancelled")
    return { cause: `it has ended: ${status}`, next: null };
  if (status === "awaiting_approval")
    return {
      cause: `its owner must approve it until ${approval_expires_at ?? "it is cancelled"}`,
      next: null,
    };
  const next = (...words: readonly string[]) => commandText(settings, "operator", ...words);
  const state = await first<Record<"paused" | "frozen" | "not_before", number | null>>(
    env.DB,
    sql`SELECT (SELECT since FROM kill_switches WHERE name = 'withdrawals_paused') AS paused,
        (SELECT frozen_at FROM users WHERE user_id = ${uuid(user_id)}) AS frozen, not_before
      FROM withdrawals WHERE withdrawal_id = ${uuid(withdrawal_id)}`,
  );
  const isSigned = status === "submitted";
  if (!isSigned && typeof state?.frozen === "number")
    return { cause: "its owner is frozen", next: next("user", "unfreeze", "--user-id", user_id) };
  const [alert] = alerts;
  if (alert !== undefined) return { cause: `${alert.kind}: ${alert.detail}`, next: alert.next };
  if (!isSigned && typeof state?.paused === "number")
    return {
      cause: `withdrawals are paused since ${toWireTime(state.paused)}`,
      next: next("withdrawals", "resume"),
    };
  if (!isSigned && typeof state?.not_before === "number" && state.not_before > now())
    return {
      cause: `the vault skipped it; it is tried again at ${toWireTime(state.not_before)}`,
      next: next("withdrawals", "retry", "--id", withdrawal_id),
    };
  return isSigned
    ? { cause: `${transaction_hash ?? "its transaction"} waits for its confirmations`, next: null }
    : { cause: "it waits for the payer's next round", next: null };
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
