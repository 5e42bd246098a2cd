/**
 * POST /custody/withdraw: one unit inserts the withdrawal and moves its amount from available to pending. The guard holds
 * every precondition; why it did not apply is looked up only afterwards. The queue message is a doorbell and may be lost.
 */
import { actorRejection, mayWrite } from "../auth/may-write.ts";
import { auditRow, recordOf } from "../auth/audit.ts";
import { toHex } from "../assets/amount.ts";
import type { AssetKey } from "../assets/asset.ts";
import { paymentId } from "../chain/payment-id.ts";
import { readBalance } from "../ledger/balance.ts";
import { externalOwner, hasAvailable, transfer } from "../ledger/post.ts";
import { commit, type Group, newGroup, NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { errorFields, log } from "../platform/log.ts";
import { Problem, problem, unavailable } from "../platform/problem.ts";
import { blob, first, join, MAX_NATIVE_UNITS, type Sql, sql, uuid } from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { eventsToPush, type StreamEvent } from "../streams/event-log.ts";
import { announceWithdrawals } from "./announce.ts";
import { WITHDRAWAL_COLUMNS, type WithdrawalRow } from "./records.ts";
import type { Actor } from "../platform/actor.ts";

export type WithdrawTerms = {
  readonly clientWithdrawalId: string;
  /** Native units, any U256. */
  readonly amount: bigint;
  readonly toAddress: string;
  readonly chain: string;
  readonly asset: AssetKey;
};

export type WithdrawCommand = {
  readonly actor: Actor;
  readonly terms: WithdrawTerms;
  readonly ip: string | undefined;
};

type Limits = Pick<
  Config,
  "WITHDRAWAL_MIN_UNITS" | "WITHDRAWAL_MAX_UNITS" | "WITHDRAWAL_DAILY_COUNT"
>;

/** `row` is what the withdrawal is now; `replayed` when it was queued by an earlier call. Events are for `notifyStreams`. */
export type Withdrawn = {
  readonly row: WithdrawalRow;
  readonly replayed: boolean;
  readonly events: readonly StreamEvent[];
};

/** A guard can lose to a change made between it and its explanation; then it is tried again. */
const GUARD_TRIES = 3;

/** Reverted payments of a user to one address within `REFUSED_FOR_MS` after which it is refused: the service paid their gas. */
const REFUSED_AFTER_FAILURES = 3;
const REFUSED_FOR_MS = 30 * 86_400_000;
const DAY_MS = 86_400_000;

/** Throws the contract's problems. A refused call uses no client_withdrawal_id up. */
export async function withdraw(
  db: D1Database,
  limits: Limits,
  command: WithdrawCommand,
): Promise<Withdrawn> {
  for (let attempt = 0; attempt < GUARD_TRIES; attempt++) {
    const queued = await tryToQueue(db, limits, command);
    if (queued !== undefined) return queued;
    const earlier = await explain(db, limits, command);
    if (earlier !== undefined) return { row: earlier, replayed: true, events: [] };
  }
  throw unavailable("none", "The withdrawal could not be queued now. Try again shortly.");
}

async function tryToQueue(
  db: D1Database,
  limits: Limits,
  command: WithdrawCommand,
): Promise<Withdrawn | undefined> {
  if (!withinLimits(limits, command.terms.amount)) return undefined;
  const withdrawalId = uuidv7();
  const group = newGroup();
  const read = sql`SELECT ${WITHDRAWAL_COLUMNS} FROM withdrawals w WHERE w.withdrawal_id = ${uuid(withdrawalId)}`;
  const outcome = await commit(db, group, [
    ...queueUnit(group, limits, { ...command, withdrawalId }),
    read,
    eventsToPush(group),
  ]);
  if (!outcome.committed) {
    if (outcome.reason === "constraint")
      log("error", "custody.withdraw_refused_by_schema", errorFields(outcome.cause));
    return undefined;
  }
  if (outcome.rows === null) {
    const row = await first<WithdrawalRow>(db, read);
    return row === undefined ? undefined : { row, replayed: false, events: [] };
  }
  const [row] = rowsOf<WithdrawalRow>(outcome.rows.at(-2));
  return row === undefined
    ? undefined
    : { row, replayed: false, events: rowsOf<StreamEvent>(outcome.rows.at(-1)) };
}

/** Rows of one statement of the batch, whose columns the statement itself names. */
function rowsOf<Row>(rows: readonly unknown[] | undefined): readonly Row[] {
  return (rows ?? []) as readonly Row[];
}

function queueUnit(
  group: Group,
  limits: Limits,
  command: WithdrawCommand & { withdrawalId: string },
): Sql[] {
  const { actor, terms, withdrawalId } = command;
  const queued = sql`FROM withdrawals WHERE withdrawal_id = ${uuid(withdrawalId)} AND queued_group = ${group.seq}`;
  return [
    sql`INSERT INTO withdrawals (withdrawal_id, job_id, user_id, client_withdrawal_id, payment_id, chain, asset, amount,
        to_address, status, created_at, updated_at, queued_group, changed_group)
      SELECT ${uuid(withdrawalId)}, ${uuid(uuidv7())}, ${uuid(actor.userId)}, ${terms.clientWithdrawalId},
        ${blob(paymentId(actor.userId, terms.clientWithdrawalId))}, ${terms.chain}, ${terms.asset}, ${terms.amount},
        ${blob(terms.toAddress)}, 'queued', ${group.at}, ${group.at}, ${group.seq}, ${group.seq}
      WHERE ${join(guard(group, limits, command), " AND ")}`,
    transfer(group, {
      reason: "withdrawal",
      step: "queue",
      from: "available",
      to: "pending",
      source: sql`SELECT user_id AS from_owner, user_id AS to_owner, asset, amount, withdrawal_id AS ref, 0 AS line ${queued}`,
    }),
    auditRow(
      recordOf(actor, "withdrawal_queued", { ip: command.ip, subjectId: withdrawalId }),
      group.at,
      sql`EXISTS (SELECT 1 ${queued})`,
    ),
    ...announceWithdrawals(group),
  ];
}

function guard(group: Group, limits: Limits, { actor, terms }: WithdrawCommand): Sql[] {
  const user = uuid(actor.userId);
  return [
    mayWrite(actor, group.at),
    sql`NOT EXISTS (SELECT 1 FROM withdrawals WHERE user_id = ${user} AND client_withdrawal_id = ${terms.clientWithdrawalId})`,
    sql`NOT EXISTS (SELECT 1 FROM withdrawals WHERE payment_id = ${blob(paymentId(actor.userId, terms.clientWithdrawalId))})`,
    sql`NOT ${paused(terms.chain)}`,
    sql`${queuedToday(actor.userId, group.at, limits.WITHDRAWAL_DAILY_COUNT)} < ${limits.WITHDRAWAL_DAILY_COUNT}`,
    sql`${failuresTo(actor.userId, group.at, terms.toAddress)} < ${REFUSED_AFTER_FAILURES}`,
    hasAvailable(actor.userId, terms.asset, terms.amount),
    sql`${liquidity(terms)} >= ${terms.amount}`,
  ];
}

/** A payer that has stopped by itself means balances that cannot be trusted: after a restore they lack what was paid. */
function paused(chain: string): Sql {
  return sql`(EXISTS (SELECT 1 FROM kill_switches WHERE name = 'withdrawals_paused')
    OR EXISTS (SELECT 1 FROM payer_leases WHERE chain = ${chain} AND halted_at IS NOT NULL))`;
}

/** Failures count too, so that a payment which always reverts cannot be repeated without end. */
function queuedToday(userId: string, at: Sql, most: number): Sql {
  return sql`(SELECT count(*) FROM (SELECT 1 FROM withdrawals WHERE user_id = ${uuid(userId)} AND created_at > ${at} - ${DAY_MS} LIMIT ${most}))`;
}

function failuresTo(userId: string, at: Sql, toAddress: string): Sql {
  return sql`(SELECT count(*) FROM withdrawals WHERE user_id = ${uuid(userId)} AND created_at > ${at} - ${REFUSED_FOR_MS}
    AND failure_code = 'payment_reverted' AND to_address = ${blob(toAddress)})`;
}

/** What the chain has issued of the asset, less what is under way there. Its external account holds the issue, negative. */
function liquidity({ chain, asset }: WithdrawTerms): Sql {
  return sql`(coalesce((SELECT -balance FROM accounts WHERE owner = ${externalOwner(chain)} AND asset = ${asset} AND kind = 'external'), 0)
    - coalesce((SELECT sum(amount) FROM withdrawals WHERE chain = ${chain} AND asset = ${asset} AND status IN ('queued', 'submitted')), 0))`;
}

/** An amount that no balance can hold is not bound to SQL at all: it is refused by `explain`. */
function withinLimits(limits: Limits, amount: bigint): boolean {
  return (
    amount >= limits.WITHDRAWAL_MIN_UNITS &&
    amount <= limits.WITHDRAWAL_MAX_UNITS &&
    amount <= MAX_NATIVE_UNITS
  );
}

/** The earlier withdrawal of a replay; throws what stood in the way; undefined when nothing does any more. */
async function explain(
  db: D1Database,
  limits: Limits,
  { actor, terms }: WithdrawCommand,
): Promise<WithdrawalRow | undefined> {
  const rejection = await actorRejection(db, actor);
  if (rejection !== undefined) throw new Problem(rejection);
  const earlier = await first<WithdrawalRow>(
    db,
    sql`SELECT ${WITHDRAWAL_COLUMNS} FROM withdrawals w WHERE w.user_id = ${uuid(actor.userId)} AND w.client_withdrawal_id = ${terms.clientWithdrawalId}`,
  );
  if (earlier !== undefined) {
    if (sameTerms(earlier, terms)) return earlier;
    throw problem(
      "client_withdrawal_id_reused",
      "This client_withdrawal_id was used with other terms; choose a fresh one.",
    );
  }
  const seen = await first<{ paused: number; today: number; failures: number; liquidity: string }>(
    db,
    sql`SELECT ${paused(terms.chain)} AS paused,
      ${queuedToday(actor.userId, NOW, limits.WITHDRAWAL_DAILY_COUNT)} AS today,
      ${failuresTo(actor.userId, NOW, terms.toAddress)} AS failures, CAST(${liquidity(terms)} AS TEXT) AS liquidity`,
  );
  if (seen === undefined) return undefined;
  const { available } = await readBalance(db, actor.userId, terms.asset);
  refuse(limits, terms, { ...seen, available, liquidity: BigInt(seen.liquidity) });
  return undefined;
}

type Seen = {
  readonly paused: number;
  readonly today: number;
  readonly failures: number;
  readonly liquidity: bigint;
  readonly available: bigint;
};

function refuse(limits: Limits, { amount, chain }: WithdrawTerms, seen: Seen): void {
  if (seen.paused === 1)
    throw problem(
      "withdrawals_paused",
      "Withdrawals are paused. What is queued waits; nothing was taken.",
    );
  const { WITHDRAWAL_MIN_UNITS: minimum, WITHDRAWAL_MAX_UNITS: maximum } = limits;
  // A maximum of 2^62 is no limit of withdrawals but of balances: beyond it the funds are short.
  if (amount < minimum || (amount > maximum && maximum < MAX_NATIVE_UNITS)) {
    throw problem(
      "withdrawal_amount_limit",
      "The amount is outside the limits of one withdrawal.",
      {
        minimum: toHex(minimum),
        maximum: toHex(maximum),
      },
    );
  }
  if (seen.today >= limits.WITHDRAWAL_DAILY_COUNT) {
    throw problem(
      "withdrawal_daily_limit",
      `At most ${limits.WITHDRAWAL_DAILY_COUNT} withdrawals in 24 hours, failed ones included.`,
      {
        remaining: 0,
      },
    );
  }
  if (seen.failures >= REFUSED_AFTER_FAILURES) {
    throw problem(
      "destination_refused",
      "Payments to this address failed repeatedly. Choose another one.",
    );
  }
  if (seen.available < amount) {
    throw problem("insufficient_funds", "The available balance is below the amount.", {
      available: toHex(seen.available),
      required: toHex(amount),
    });
  }
  if (seen.liquidity < amount) {
    const available = seen.liquidity > 0n ? seen.liquidity : 0n;
    throw problem(
      "chain_liquidity",
      `${chain} cannot pay that much of this asset now. Withdraw less, or on another chain.`,
      {
        available: toHex(available),
      },
    );
  }
}

/** By value, not by spelling. */
function sameTerms(row: WithdrawalRow, terms: WithdrawTerms): boolean {
  return (
    BigInt(row.amount) === terms.amount &&
    row.to_address.toLowerCase() === terms.toAddress.slice(2).toLowerCase() &&
    row.chain === terms.chain &&
    row.asset === terms.asset
  );
}
