/** Carries out commands. `fail` becomes a void, because only the chain can rule out a payment. */
import { UNFINISHED } from "../../assets/withdrawal-status.ts";
import { clearAlert } from "../../platform/alert.ts";
import { MAX_VOIDS, voidCall } from "../../chain/vault-calls.ts";
import { newGroup } from "../../platform/commit.ts";
import { all, readUuid, sql } from "../../platform/sql.ts";
import { commitAndPush } from "../../streams/event-log.ts";
import { announceWithdrawals } from "../custody-events.ts";
import { failPaidOnOtherTerms } from "../watcher/settle-withdrawal.ts";
import { refusalSubject, wouldSucceed, makeTransaction } from "./make-transaction.ts";
import type { HeadView, PayerContext } from "./payer-context.ts";

/** Carries out what needs no transaction. Returns whether a `resume_payer` is open. */
export async function closeCommands(context: PayerContext): Promise<boolean> {
  const { db, chain } = context;
  const openHere = sql`chain = ${chain.chain} AND done_group IS NULL`;
  const open = await all<{ kind: "fail" | "retry" | "resume_payer" }>(
    db,
    sql`SELECT DISTINCT kind FROM chain_commands
      WHERE ${openHere} AND kind IN ('fail', 'retry', 'resume_payer')`,
  );
  const resumes = open.some(({ kind }) => kind === "resume_payer");
  if (!open.some(({ kind }) => kind !== "resume_payer")) return resumes;
  const group = newGroup();
  await commitAndPush(context, group, [
    ...failPaidOnOtherTerms(group, chain.chain),
    sql`UPDATE chain_commands SET done_group = ${group.seq}, result = w.status FROM withdrawals w
      WHERE chain_commands.chain = ${chain.chain} AND done_group IS NULL AND kind = 'fail'
        AND w.withdrawal_id = chain_commands.withdrawal_id
        AND w.status IN ('settled', 'failed', 'cancelled')`,
    sql`UPDATE withdrawals SET not_before = NULL WHERE status = 'queued' AND withdrawal_id IN (
      SELECT withdrawal_id FROM chain_commands WHERE ${openHere} AND kind = 'retry')`,
    sql`UPDATE chain_commands SET done_group = ${group.seq}, result = 'retried'
      WHERE ${openHere} AND kind = 'retry'`,
    ...announceWithdrawals(group),
  ]);
  return resumes;
}

/** Voids the ids of `fail` commands. The watcher returns the funds once the void is confirmed. */
export async function voidCommandedPayments(context: HeadView): Promise<boolean> {
  const rows = await all<{ id: string; payment: string }>(
    context.db,
    sql`SELECT DISTINCT hex(w.withdrawal_id) AS id, lower(hex(w.payment_id)) AS payment
      FROM chain_commands c
      JOIN withdrawals w ON w.withdrawal_id = c.withdrawal_id AND w.chain = c.chain
      WHERE c.chain = ${context.chain.chain} AND c.kind = 'fail' AND c.done_group IS NULL
        AND w.status ${UNFINISHED}
        AND NOT EXISTS (SELECT 1 FROM batch_members m WHERE m.withdrawal_id = w.withdrawal_id
          AND m.purpose = 'void' AND m.ended_group IS NULL)
      LIMIT ${MAX_VOIDS}`,
  );
  if (rows.length === 0) {
    await clearAlert(context.db, "payment_refused", refusalSubject(context.chain.chain, "void"));
    return false;
  }
  const call = voidCall(
    context.chain,
    rows.map((row) => `0x${row.payment}` as const),
  );
  // A new vault voids nothing before its predecessor has retired. Each attempt would cost gas.
  if (!(await wouldSucceed(context, "void", call))) return false;
  return makeTransaction(context, {
    kind: "void",
    call,
    batchNo: null,
    members: rows.map((row) => readUuid(row.id)),
  });
}
