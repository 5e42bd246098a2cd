/**
 * POST /custody/withdraw: one operation inserts the withdrawal and moves its amount from available
 * to pending. The queue message that follows only wakes the payer, so it may be lost.
 */
import { toHex } from "../assets/amount.ts";
import type { AssetKey } from "../assets/asset.ts";
import { auditRow, recordOf } from "../audit/audit.ts";
import { type ActorFacts, actorFacts, actorPrecondition } from "../auth/may-write.ts";
import { paymentId } from "../chain/payment-id.ts";
import { availableText, hasAvailable, insertTransfers } from "../ledger/post.ts";
import { liquidity } from "../ledger/liquidity.ts";
import { termsMac } from "../ledger/withdrawal-mac.ts";
import type { Actor } from "../platform/actor.ts";
import { type Group, NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { beforeDeadline, type InstantFact } from "../platform/deadline.ts";
import { runOperation } from "../platform/operation.ts";
import { guardOf, type Precondition, questionOf, required } from "../platform/preconditions.ts";
import { Problem, type ProblemData } from "../platform/problem.ts";
import {
  type Columns,
  atom,
  blob,
  type Expr,
  expr,
  FALSE,
  join,
  raw,
  MAX_NATIVE_UNITS,
  select,
  type Sql,
  sql,
  TRUE,
  uuid,
} from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { eventsToPush } from "../streams/event-log.ts";
import { type Changed, readChanged } from "./change-withdrawal.ts";
import { announceWithdrawals } from "./custody-events.ts";
import { APPROVAL_MS, unapprovedLastDay } from "../auth/exposure.ts";
import { effectivePolicy } from "../auth/policy.ts";
import { isHalted, PAUSED } from "./payer/payer-lease.ts";
import { isDepositAddress } from "./check-destination.ts";
import {
  allowedByKey,
  allowedByPolicy,
  policyFacts,
  type PolicyFacts,
} from "./withdrawal-policy.ts";
import {
  hasClientId,
  readWithdrawal,
  spelledSo,
  spellingsOf,
  WITHDRAWAL,
  WITHDRAWAL_TEXT,
} from "./payment-records.ts";
import { isEntry, macOfEntry } from "./withdrawal-addresses.ts";
import { ofWithdrawals, QUEUED } from "./withdrawal-transfers.ts";

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
  /** The client's deadline in Unix milliseconds. Not a term, so a replay may carry another one. */
  readonly notAfter?: number | undefined;
  /** The vault's largest payment of the asset (payment-limit.ts). Left out if it is not known. */
  readonly vaultLimit?: bigint | undefined;
  readonly ip: string | undefined;
};

/** `row` is as it is now. `replayed`: an earlier call queued it. Events are for `notifyStreams`. */
export type Withdrawn = Changed & { readonly replayed: boolean };

/** Reverted payments of a user after which an address is refused: the service paid their gas. */
export const MAX_REVERTED_PAYMENTS = 3;
const REVERTED_PAYMENTS_MS = 30 * 86_400_000;
const DAY_MS = 86_400_000;

/** A command with the MAC of its address's entry in the address book (`macOfEntry`). */
type Ordered = WithdrawCommand & { readonly listed: string | null };

/** Throws the contract's problems. A rejected call does not use up its client_withdrawal_id. */
export async function withdraw(
  db: D1Database,
  settings: Config,
  given: WithdrawCommand,
): Promise<Withdrawn> {
  const { actor, terms } = given;
  const { chain, toAddress: address } = terms;
  const entry = isEntry(actor.userId, { chain, address });
  const command: Ordered = { ...given, listed: await macOfEntry(db, settings, entry) };
  const withdrawalId = uuidv7();
  const jobId = uuidv7();
  const mine = sql`w.withdrawal_id = ${uuid(withdrawalId)}`;
  return runOperation(db, {
    statements: (group) => {
      // More than a balance can hold is never available, and an INTEGER column cannot hold it.
      if (terms.amount > MAX_NATIVE_UNITS) return [];
      const queued = sql`${mine} AND w.queued_group = ${group.seq}`;
      return [
        insertWithdrawal({ withdrawalId, jobId }, settings, command, group),
        insertTransfers(group, { ...QUEUED, source: ofWithdrawals(queued) }),
        auditRow(
          recordOf(actor, "withdrawal_queued", { ip: command.ip, subjectId: withdrawalId }),
          group.at,
          expr`EXISTS (SELECT 1 FROM withdrawals w WHERE ${queued})`,
        ),
        ...announceWithdrawals(group),
      ];
    },
    report: (group) => [
      sql`SELECT ${select(WITHDRAWAL)} FROM withdrawals w WHERE ${mine}`,
      eventsToPush(group),
    ],
    result: (rows) => {
      const changed = readChanged(rows);
      return changed && { ...changed, replayed: false };
    },
    rejection: () =>
      questionOf({
        preconditions: preconditions(settings, command, NOW),
        facts: {
          instant: NOW,
          available: availableText(actor.userId, atom("?", [terms.asset])),
          liquidity: expr`CAST(${liquidity(terms)} AS TEXT)`,
          ...policyFacts(withdrawing(command)),
        },
        apart: { ...actorFacts(actor), ...earlierFacts(actor.userId, terms) },
      }),
  });
}

function insertWithdrawal(
  ids: { readonly withdrawalId: string; readonly jobId: string },
  settings: Config,
  command: Ordered,
  group: Group,
): Sql {
  const { actor, terms } = command;
  const [clientWithdrawalId] = spellingsOf(terms.clientWithdrawalId);
  const payment = paymentId(settings, actor.userId, clientWithdrawalId);
  const { withdrawalId } = ids;
  const amount = String(terms.amount);
  const named = { clientWithdrawalId, withdrawalId, userId: actor.userId, paymentId: payment };
  const bound = { ...terms, ...named, amount };
  const mac = (waits: boolean) => termsMac(settings, bound, waits);
  return sql`INSERT INTO withdrawals (withdrawal_id, job_id, user_id, client_withdrawal_id,
      payment_id, chain, asset, amount, to_address, status, approval_expires_at, created_at,
      updated_at, queued_group, changed_group, terms_mac)
    SELECT ${uuid(withdrawalId)}, ${uuid(ids.jobId)}, ${uuid(actor.userId)},
      ${clientWithdrawalId}, ${blob(payment)}, ${terms.chain}, ${terms.asset},
      ${terms.amount}, ${blob(terms.toAddress)}, iif(p.waits, 'awaiting_approval', 'queued'),
      iif(p.waits, ${group.at} + ${APPROVAL_MS}, NULL), ${group.at}, ${group.at}, ${group.seq},
      ${group.seq}, iif(p.waits, ${mac(true)}, ${mac(false)})
    FROM (SELECT ${needsApproval(command, group.at)} AS waits) p
    WHERE ${guardOf(preconditions(settings, command, group.at))}`;
}

/** Condition: the withdrawal lifts the last day's unapproved sum above the policy's. */
function needsApproval({ actor, terms }: WithdrawCommand, at: Expr): Expr {
  const user = uuid(actor.userId);
  return expr`EXISTS (SELECT 1 FROM ${effectivePolicy(user, at)} p
    WHERE p.withdraw_approval_above IS NOT NULL
      AND ${unapprovedLastDay(user, at)} + ${bounded(terms.amount)} > p.withdraw_approval_above)`;
}

/** More than a balance can hold is above every limit, and an INTEGER cannot hold it. */
function bounded(amount: bigint): bigint {
  return amount > MAX_NATIVE_UNITS ? MAX_NATIVE_UNITS : amount;
}

function withdrawing({ actor, terms, listed }: Pick<Ordered, "actor" | "terms" | "listed">) {
  return {
    listed: atom("?", [listed]),
    user: uuid(actor.userId),
    chain: atom("?", [terms.chain]),
    address: blob(terms.toAddress),
    toAddress: terms.toAddress,
    amount: expr`${bounded(terms.amount)}`,
    amountText: atom("?", [String(terms.amount)]),
  };
}

/** `earlier`: the withdrawal that used this client_withdrawal_id before, as JSON text. */
type EarlierFacts = { readonly earlier: string | null };

function earlierFacts(userId: string, terms: WithdrawTerms): Columns<keyof EarlierFacts> {
  return {
    earlier: expr`SELECT ${WITHDRAWAL_TEXT} FROM withdrawals w
      WHERE w.user_id = ${uuid(userId)} AND ${hasClientId(terms.clientWithdrawalId)}
      ${spelledSo(terms.clientWithdrawalId)}`,
  };
}

type Facts = InstantFact & PolicyFacts & { readonly available: string; readonly liquidity: string };

type Preconditions = readonly Precondition<Facts & ActorFacts & EarlierFacts, Withdrawn>[];

function preconditions(settings: Config, command: Ordered, at: Expr): Preconditions {
  const { actor, notAfter } = command;
  return [
    actorPrecondition(actor, at),
    ...isNew(settings, command),
    ...beforeDeadline(at, notAfter, (passed): never => {
      throw passed;
    }),
    ...withinLimits(settings, command, at),
    ...isFunded(settings, command),
  ];
}

function isNew(settings: Config, { actor, terms }: WithdrawCommand): Preconditions {
  const user = uuid(actor.userId);
  const { chain, clientWithdrawalId } = terms;
  const payments = spellingsOf(clientWithdrawalId).map((id) =>
    blob(paymentId(settings, actor.userId, id)),
  );
  return [
    {
      expr: expr`NOT EXISTS (SELECT 1 FROM withdrawals
        WHERE user_id = ${user} AND ${hasClientId(clientWithdrawalId)})`,
      reject: ({ earlier }) => replayOf(earlier, terms),
    },
    // After a restore the payment of its id may be in the ledger already, without a withdrawal.
    required(
      expr`NOT EXISTS (SELECT 1 FROM accepted_payments
        WHERE chain = ${chain} AND payment_id IN (${join(payments, ", ")}))`,
      () => ID_REUSED,
    ),
  ];
}

const ID_REUSED: ProblemData = {
  code: "client_withdrawal_id_reused",
  detail: "This client_withdrawal_id was used with other terms. Choose a new one.",
};

/** Throws when the terms of the earlier withdrawal differ, by value, not by spelling. */
function replayOf(earlier: string | null, terms: WithdrawTerms): Withdrawn | undefined {
  if (earlier === null) return undefined;
  const row = readWithdrawal(earlier);
  const same =
    BigInt(row.amount) === terms.amount &&
    row.to_address.toLowerCase() === terms.toAddress.slice(2).toLowerCase() &&
    row.chain === terms.chain &&
    row.asset === terms.asset;
  if (!same) throw new Problem(ID_REUSED);
  return { row, replayed: true, events: [] };
}

function withinLimits(
  settings: Config,
  { actor, terms, vaultLimit, listed }: Ordered,
  at: Expr,
): Preconditions {
  const user = uuid(actor.userId);
  const { amount, chain, toAddress } = terms;
  const { WITHDRAWAL_MIN_UNITS: minimum, WITHDRAWAL_MAX_UNITS: configured } = settings;
  const maximum = vaultLimit !== undefined && vaultLimit < configured ? vaultLimit : configured;
  return [
    required(expr`NOT ${PAUSED} AND NOT ${isHalted(chain)}`, () => ({
      code: "withdrawals_paused",
      detail: "Withdrawals are paused. Queued withdrawals wait; nothing was taken.",
    })),
    // A maximum of 2^62 is a limit of balances: beyond it the funds are insufficient.
    required(
      amount >= minimum && (amount <= maximum || maximum >= MAX_NATIVE_UNITS) ? TRUE : FALSE,
      () => ({
        code: "withdrawal_amount_limit",
        detail: "The amount is outside the limits of one withdrawal.",
        extensions: { minimum: toHex(minimum), maximum: toHex(maximum) },
      }),
    ),
    required(expr`${queuedToday(user, at, settings)} < ${settings.WITHDRAWAL_DAILY_COUNT}`, () => ({
      code: "withdrawal_daily_limit",
      detail:
        `You have reached the limit of ${settings.WITHDRAWAL_DAILY_COUNT} withdrawals in 24 hours, ` +
        "failed ones included.",
      extensions: { remaining: 0 },
    })),
    ...allowedByPolicy(withdrawing({ actor, terms, listed }), at),
    ...allowedByKey(actor.credential, withdrawing({ actor, terms, listed }), at),
    required(
      expr`(SELECT count(*) FROM withdrawals INDEXED BY withdrawals_reverted
        WHERE user_id = ${user}
        AND created_at > ${at} - ${REVERTED_PAYMENTS_MS} AND failure_code = 'payment_reverted'
        AND to_address = ${blob(toAddress)}) < ${MAX_REVERTED_PAYMENTS}`,
      () => DESTINATION_REFUSED,
    ),
  ];
}

const DESTINATION_REFUSED: ProblemData = {
  code: "destination_refused",
  detail: "The service does not pay to this address.",
};

function isFunded(settings: Config, { actor, terms }: WithdrawCommand): Preconditions {
  const { amount, asset, chain, toAddress } = terms;
  return [
    required(hasAvailable(actor.userId, asset, amount), ({ available }: Facts) => ({
      code: "insufficient_funds",
      detail: "The available balance is below the amount.",
      extensions: { available: toHex(BigInt(available)), required: toHex(amount) },
    })),
    // After the check of funds, and worded like an address that failed. Otherwise anybody could
    // ask, without funds, which addresses are the service's.
    required(expr`NOT ${isDepositAddress(settings, toAddress)}`, () => DESTINATION_REFUSED),
    required(
      amount > MAX_NATIVE_UNITS ? FALSE : expr`${liquidity(terms)} >= ${amount}`,
      ({ liquidity: left }: Facts) => ({
        code: "chain_liquidity",
        detail: `${chain} cannot pay that much of this asset now. Withdraw less, or on another chain.`,
        extensions: { available: toHex(BigInt(left) > 0n ? BigInt(left) : 0n) },
      }),
    ),
  ];
}

/** Failed withdrawals count, too. Else a user could repeat one that always reverts for ever. */
function queuedToday(user: Expr, at: Expr, settings: Config): Expr {
  return expr`SELECT count(*) FROM (SELECT 1 FROM withdrawals
    WHERE user_id = ${user} AND created_at > ${at} - ${DAY_MS}
      LIMIT ${raw(String(settings.WITHDRAWAL_DAILY_COUNT))})`;
}
