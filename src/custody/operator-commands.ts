/** Records commands as rows, which watcher or payer carry out, and reads what operators need. */
import { IN_FLIGHT } from "../assets/withdrawal-status.ts";
import { type AuditActor, auditRow, recordBy } from "../audit/audit.ts";
import { commitOrThrow, newGroup } from "../platform/commit.ts";
import { invalidRequest, problem } from "../platform/problem.ts";
import {
  all,
  and,
  blob,
  typed,
  type Expr,
  expr,
  first,
  readUuid,
  type RowOf,
  scalar,
  select,
  sql,
  TRUE,
  uuid,
} from "../platform/sql.ts";
import { announceDeposits } from "./custody-events.ts";
import { makeSweepable } from "./watcher/credit-deposit.ts";
import { orphanSmallDeposit } from "./watcher/small-deposits.ts";
import { ageText, toWireTime } from "../platform/time.ts";
import { WITHDRAWAL, withdrawalView } from "./payment-records.ts";
import type { WithdrawalStatus } from "./column-values.ts";
import { type Config, witnessesOf } from "../platform/config.ts";

const MAX_LISTED = 500;

/** What the audit log says of the commands about a withdrawal. */
export const AUDITED = { fail: "withdrawal_failed", retry: "withdrawal_retried" } as const;

/** `withdrawals fail` and `retry`. A command that is already open is not recorded again. */
export async function recordWithdrawalCommand(
  db: D1Database,
  command: { kind: keyof typeof AUDITED; withdrawalId: string; actor: AuditActor },
): Promise<{ chain: string; recorded: boolean; userId: string }> {
  const withdrawal = await first<{ chain: string; status: WithdrawalStatus; user: string }>(
    db,
    sql`SELECT chain, status, hex(user_id) AS user FROM withdrawals
      WHERE withdrawal_id = ${uuid(command.withdrawalId)}`,
  );
  if (withdrawal === undefined)
    throw problem("withdrawal_unknown", `There is no withdrawal ${command.withdrawalId}.`);
  const { status } = withdrawal;
  const waits = status === "awaiting_approval";
  // A restored database may not know that it was approved and paid. The chain's word ends it.
  if (status !== "queued" && status !== "submitted" && !(waits && command.kind === "fail")) {
    const message = waits
      ? "the withdrawal waits for its owner's approval; without it nothing is paid"
      : `the withdrawal is already ${status}`;
    throw invalidRequest([{ path: "--id", message }]);
  }
  const userId = readUuid(withdrawal.user);
  const about = { userId, subjectId: command.withdrawalId };
  const group = newGroup();
  const open = sql`withdrawal_id = ${uuid(command.withdrawalId)} AND kind = ${command.kind}
    AND done_group IS NULL`;
  const applied = sql`EXISTS (SELECT 1 FROM chain_commands WHERE ${open} AND at = ${group.at})`;
  const rows = await commitOrThrow(db, group, [
    sql`INSERT INTO chain_commands (chain, kind, withdrawal_id, actor, at)
      SELECT ${withdrawal.chain}, ${command.kind}, ${uuid(command.withdrawalId)},
        ${command.actor}, ${group.at}
      WHERE NOT EXISTS (SELECT 1 FROM chain_commands WHERE ${open})
      RETURNING command_id`,
    sql`UPDATE alerts SET resolved_at = ${group.at}
      WHERE kind IN ('withdrawal_dead_letter', 'withdrawal_parked', 'withdrawal_altered')
        AND subject = ${command.withdrawalId}
        AND resolved_at IS NULL`,
    auditRow(recordBy(command.actor, AUDITED[command.kind], about), group.at, applied),
  ]);
  return { chain: withdrawal.chain, recorded: rows === null || rows[0]?.length === 1, userId };
}

/** `chain resume`: ends the halts of watcher and payer that are older than the command. */
export async function recordResume(
  db: D1Database,
  chain: string,
  actor: AuditActor,
): Promise<void> {
  const group = newGroup();
  const openHere = sql`chain = ${chain} AND done_group IS NULL`;
  await commitOrThrow(db, group, [
    // An open command is given anew, so that it also ends a halt that began after it.
    sql`UPDATE chain_commands SET actor = ${actor}, at = ${group.at}
      WHERE ${openHere} AND kind IN ('resume_chain', 'resume_payer')`,
    sql`INSERT INTO chain_commands (chain, kind, actor, at)
      SELECT ${chain}, k.value, ${actor}, ${group.at}
      FROM json_each('["resume_chain", "resume_payer"]') k
      WHERE NOT EXISTS (SELECT 1 FROM chain_commands WHERE ${openHere} AND kind = k.value)`,
    auditRow(recordBy(actor, "chain_resumed", { subjectId: chain }), group.at, TRUE),
  ]);
}

/** `chain rescan`: the watcher reads the blocks again. Commands are carried out one by one. */
export async function recordRescan(
  db: D1Database,
  { chain, from, to, actor }: { chain: string; from: number; to: number; actor: AuditActor },
): Promise<void> {
  const group = newGroup();
  const subjectId = `${chain}:${from}-${to}`;
  await commitOrThrow(db, group, [
    sql`INSERT INTO chain_commands (chain, kind, from_block, to_block, actor, at)
      VALUES (${chain}, 'rescan', ${from}, ${to}, ${actor}, ${group.at})`,
    auditRow(recordBy(actor, "chain_rescanned", { subjectId }), group.at, TRUE),
  ]);
}

/**
 * `chain forget-deposit`: orphans a deposit that is not confirmed, or is below the minimum. It is
 * detected again if the chain still contains it. Returns whether there was such a deposit.
 */
export async function forgetDeposit(
  db: D1Database,
  depositId: string,
  actor: AuditActor,
): Promise<boolean> {
  const group = newGroup();
  const forgotten = expr`EXISTS (SELECT 1 FROM deposits
    WHERE deposit_id = ${uuid(depositId)} AND ended_group = ${group.seq})`;
  const rows = await commitOrThrow(db, group, [
    sql`UPDATE deposits SET status = 'orphaned', ended_group = ${group.seq}
      WHERE deposit_id = ${uuid(depositId)} AND status = 'confirming' RETURNING 1`,
    ...orphanSmallDeposit(group, uuid(depositId)),
    ...announceDeposits(group),
    auditRow(recordBy(actor, "deposit_forgotten", { subjectId: depositId }), group.at, forgotten),
  ]);
  return rows === null || rows[0]?.length === 1 || rows[1]?.length === 1;
}

/** Deposits of one `chain forget-deposit --block`. The operator repeats it while some are left. */
const MAX_FORGOTTEN = 1_000;

/** `chain forget-deposit --block`: the same for the unconfirmed deposits of a block. */
export async function forgetBlock(
  db: D1Database,
  { chain, block, actor }: { chain: string; block: number; actor: AuditActor },
): Promise<{ forgotten: boolean; left: number }> {
  const group = newGroup();
  const waiting = sql`FROM deposits WHERE chain = ${chain} AND status = 'confirming'
    AND confirmed_group IS NULL AND block_number = ${block}`;
  const record = recordBy(actor, "deposit_forgotten", { subjectId: `${chain}:${block}` });
  const forgotten = expr`EXISTS (SELECT 1 FROM deposits WHERE ended_group = ${group.seq})`;
  const rows = await commitOrThrow(db, group, [
    sql`UPDATE deposits SET status = 'orphaned', ended_group = ${group.seq}
      WHERE deposit_id IN (SELECT deposit_id ${waiting} LIMIT ${MAX_FORGOTTEN}) RETURNING 1`,
    ...announceDeposits(group),
    auditRow(record, group.at, forgotten),
  ]);
  const left = await scalar<number>(db, expr`SELECT count(*) ${waiting}`);
  return { forgotten: rows === null || (rows[0]?.length ?? 0) > 0, left };
}

/**
 * `chain resweep`: makes an address sweepable again for every asset that it has received. A sweep
 * reads the balance on chain, so the amount is only an estimate. Returns the number of assets.
 */
export async function resweepAddress(
  db: D1Database,
  { chain, address, actor }: { chain: string; address: string; actor: AuditActor },
): Promise<number> {
  const group = newGroup();
  const ofAddress = sql`chain = ${chain} AND address = ${blob(address)}`;
  await commitOrThrow(db, group, [
    makeSweepable(sql`${ofAddress} AND status = 'credited'`, sql`not_before = NULL`),
    auditRow(recordBy(actor, "address_resweep", { subjectId: address }), group.at, TRUE),
  ]);
  return scalar<number>(db, expr`SELECT count(*) FROM sweepable WHERE ${ofAddress}`);
}

/** `withdrawals pause` and `resume`. While paused, new ones are rejected and queued ones wait. */
export async function setWithdrawalsPaused(
  db: D1Database,
  paused: boolean,
  actor: AuditActor,
): Promise<void> {
  const group = newGroup();
  const kind = paused ? "withdrawals_paused" : "withdrawals_resumed";
  await commitOrThrow(db, group, [
    paused
      ? sql`INSERT INTO kill_switches (name, reason, since)
          SELECT 'withdrawals_paused', ${actor}, ${group.at}
          WHERE NOT EXISTS (SELECT 1 FROM kill_switches WHERE name = 'withdrawals_paused')`
      : sql`DELETE FROM kill_switches WHERE name = 'withdrawals_paused'`,
    auditRow(recordBy(actor, kind, { subjectId: null }), group.at, TRUE),
  ]);
}

/** Columns over `withdrawals w`. */
const LISTED = {
  ...WITHDRAWAL,
  user_id: typed<string>("hex(w.user_id)"),
  email: typed<string>("(SELECT u.email FROM users u WHERE u.user_id = w.user_id)"),
  payments_tried: typed<number>(`(SELECT count(*) FROM batch_members m
    WHERE m.withdrawal_id = w.withdrawal_id AND m.purpose = 'pay')`),
  open_commands: typed<string | null>(`(SELECT group_concat(c.kind) FROM chain_commands c
    WHERE c.withdrawal_id = w.withdrawal_id AND c.done_group IS NULL)`),
  dead_lettered: typed<number>(`EXISTS (SELECT 1 FROM alerts a
    WHERE a.kind = 'withdrawal_dead_letter' AND a.resolved_at IS NULL
      AND lower(replace(a.subject, '-', '')) = lower(hex(w.withdrawal_id)))`),
};

/** Withdrawals `w` of all users, newest first by the primary key, as ids contain their time. */
export async function listAllWithdrawals(
  db: D1Database,
  conditions: readonly Expr[],
  limit: number,
) {
  const rows = await all<RowOf<typeof LISTED>>(
    db,
    sql`SELECT ${select(LISTED)} FROM withdrawals w WHERE ${and(conditions)}
      ORDER BY w.withdrawal_id DESC LIMIT ${limit}`,
  );
  return rows.map(({ user_id, email, payments_tried, open_commands, dead_lettered, ...row }) => ({
    ...withdrawalView(row),
    user_id: readUuid(user_id),
    email,
    payments_tried,
    open_commands,
    dead_lettered: dead_lettered === 1,
  }));
}

const openWithdrawals = (status: "queued" | "submitted") =>
  typed<number>(`(SELECT count(*) FROM withdrawals w INDEXED BY withdrawals_open
    WHERE w.chain = c.chain AND w.status ${IN_FLIGHT.text} AND w.status = '${status}')`);
const depositsWith = (status: "confirming" | "quarantined") =>
  typed<number>(`(SELECT count(*) FROM deposits d
    WHERE d.chain = c.chain AND d.status = '${status}')`);

/** Columns over `chain_cursors c` and `payer_leases p`. */
const STATUS = {
  chain: typed<string>("c.chain"),
  confirmed_block: typed<number>("c.confirmed_number"),
  scanned_block: typed<number>("c.scanned_number"),
  head_block: typed<number>("c.head_number"),
  moved_at: typed<number>("c.moved_at"),
  halted_at: typed<number | null>("c.halted_at"),
  halt_reason: typed<string | null>("c.halt_reason"),
  payer_halted_at: typed<number | null>("p.halted_at"),
  payer_halt_reason: typed<string | null>("p.halt_reason"),
  queued: openWithdrawals("queued"),
  submitted: openWithdrawals("submitted"),
  open_transactions: typed<number>(`(SELECT count(*) FROM chain_transactions t
    WHERE t.chain = c.chain AND t.status = 'open')`),
  confirming: depositsWith("confirming"),
  quarantined: depositsWith("quarantined"),
  addresses_to_sweep: typed<number>("(SELECT count(*) FROM sweepable u WHERE u.chain = c.chain)"),
};

/** `chain status`: how far each chain has been read, what is open, what halted it, open alerts. */
export async function chainStatus(
  db: D1Database,
  settings: Pick<Config, "CHAINS">,
  chain: string | undefined,
): Promise<Record<string, unknown>> {
  const rows = await all<RowOf<typeof STATUS>>(
    db,
    sql`SELECT ${select(STATUS)} FROM chain_cursors c LEFT JOIN payer_leases p ON p.chain = c.chain
      WHERE ${chain ?? null} IS NULL OR c.chain = ${chain ?? null} ORDER BY c.chain`,
  );
  const open = await all<{ kind: string; subject: string; detail: string; at: number }>(
    db,
    sql`SELECT kind, subject, detail, at FROM alerts WHERE resolved_at IS NULL
      ORDER BY alert_id DESC LIMIT ${MAX_LISTED}`,
  );
  const halt = (at: number | null, reason: string | null) =>
    at === null ? null : { at: toWireTime(at), reason };
  return {
    chains: rows.map((row) => ({
      chain: row.chain,
      witnesses: witnessesOf(
        settings.CHAINS.find((candidate) => candidate.chain === row.chain) ?? { rpc_urls: [] },
      ),
      confirmed_block: row.confirmed_block,
      scanned_block: row.scanned_block,
      head_block: row.head_block,
      moved_at: toWireTime(row.moved_at),
      moved: `${ageText(row.moved_at)} ago`,
      halted: halt(row.halted_at, row.halt_reason),
      payer_halted: halt(row.payer_halted_at, row.payer_halt_reason),
      withdrawals: { queued: row.queued, submitted: row.submitted },
      open_transactions: row.open_transactions,
      deposits: { confirming: row.confirming, quarantined: row.quarantined },
      addresses_to_sweep: row.addresses_to_sweep,
    })),
    alerts: open.map((alert) => ({ ...alert, at: toWireTime(alert.at) })),
  };
}
