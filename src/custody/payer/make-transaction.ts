/**
 * Makes one transaction of the operator account. Nonce, signed bytes and members are stored in one
 * batch, and sent only after that. The bytes are signed before the batch, for a nonce that the
 * guard then grants or not.
 */
import { UNFINISHED } from "../../assets/withdrawal-status.ts";
import { alertWhile, clearAlert, raiseAlert } from "../../platform/alert.ts";
import { feeLimits, firstFees, type Fees } from "../../chain/fees.ts";
import { confirmedNonces } from "./agreed-reads.ts";
import { readNextNumbers } from "./open-transactions.ts";
import type { HeadView, PayerContext } from "./payer-context.ts";
import { sendToAll } from "../../chain/send.ts";
import type { Signed } from "../../chain/payer-account.ts";
import type { Call } from "../../chain/vault-calls.ts";
import { type Group, newGroup } from "../../platform/commit.ts";
import { blob, first, type Sql, sql, uuid } from "../../platform/sql.ts";
import { uuidv7 } from "../../platform/uuid.ts";
import { pushOrThrow } from "../../streams/event-log.ts";
import { announceWithdrawals } from "../custody-events.ts";
import { PAID_OTHERWISE } from "../watcher/settle-withdrawal.ts";
import { mayPay, mayVoid, PAUSED } from "./payer-lease.ts";
import { readRecords } from "./withdrawal-record.ts";
import { revertOf } from "../../chain/revert-of.ts";
import { describe, type Hex } from "../../chain/rpc.ts";
import { isNodeError } from "../../chain/rpc-transport.ts";

/** Signs, stores and sends, after `made` others in the round. False: fees or guard forbid it. */
export async function makeTransaction(
  context: HeadView,
  transaction: Omit<NewTransaction, "nonce" | "fees" | "headNumber">,
  made = 0,
): Promise<boolean> {
  const fees = firstFees(context.market, feeLimits(context.chain));
  const { baseFee } = context.market;
  const tooHigh = fees ? undefined : `the base fee of ${baseFee} wei is above max_fee_gwei`;
  await alertWhile(context.db, "fee_ceiling", context.chain.chain, tooHigh);
  if (fees === undefined) return false;
  const nonce = await nextNonce(context);
  // A gap would keep it, and all later ones, from being mined.
  if (nonce !== context.usedNonces + made) return false;
  const headNumber = context.head.number;
  const signed = await storeTransaction(context, { ...transaction, nonce, fees, headNumber });
  if (signed === undefined) return false;
  await broadcastSigned(context, signed.raw);
  await context.failpoint?.("sent");
  return true;
}

/**
 * Sends signed bytes to every endpoint. Responses decide nothing about the transaction. If no
 * endpoint accepts it and one states a reason, the operator has to act on that reason.
 */
export async function broadcastSigned(context: HeadView, raw: Hex): Promise<void> {
  const { chain } = context.chain;
  const sent = await sendToAll(context.chain, raw);
  const refusals = sent.filter(({ status }) => status === "refused");
  if (sent.some(({ status }) => status === "accepted"))
    await clearAlert(context.db, "node_refused", chain);
  else if (refusals.length > 0) {
    const reasons = refusals.map(({ host, reason }) => `${host}: ${reason}`).join("; ");
    const detail = `no node accepts a transaction: ${reasons}`;
    await raiseAlert(context.db, "node_refused", chain, detail);
  }
}

/**
 * Nonces that this database does not know were used with another copy of the key, or since a
 * backup. Only the confirmed block counts: an invented nonce would leave a permanent gap.
 */
async function nextNonce(context: HeadView): Promise<number> {
  const { db, chain, account, usedNonces } = context;
  const { nextNonce: known } = await readNextNumbers(db, chain, account.address);
  return known >= usedNonces
    ? known
    : Math.max(known, await confirmedNonces(context, account.address));
}

export type NewTransaction = {
  readonly kind: "pay" | "sweep" | "void";
  readonly call: Call;
  readonly nonce: number;
  readonly fees: Fees;
  /** The head when it is signed. Its fees rise only if later blocks leave it out. */
  readonly headNumber: number;
  readonly batchNo: number | null;
  /** UUIDs of the withdrawals that it pays or voids. */
  readonly members: readonly string[];
};

/**
 * Condition on `withdrawals w`: it may be paid now. It is in no live transaction, its owner is not
 * frozen, no `fail` command is open, and no payment of its id exists that does not settle it.
 */
export const PAYABLE: Sql = sql`w.status = 'queued'
  AND NOT EXISTS (SELECT 1 FROM users u WHERE u.user_id = w.user_id AND u.frozen_at IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM batch_members m
    WHERE m.withdrawal_id = w.withdrawal_id AND m.ended_group IS NULL)
  AND NOT EXISTS (SELECT 1 FROM chain_commands c
    WHERE c.withdrawal_id = w.withdrawal_id AND c.kind = 'fail' AND c.done_group IS NULL)
  AND NOT EXISTS (SELECT 1 FROM vault_events e WHERE ${PAID_OTHERWISE})`;

type Storing = PayerContext & Pick<HeadView, "account">;

/** Returns the signed bytes, or undefined if the guard did not apply and nothing was written. */
export async function storeTransaction(
  context: Storing,
  transaction: NewTransaction,
): Promise<Signed | undefined> {
  const { call, nonce, fees } = transaction;
  if (transaction.kind === "pay")
    await context.saveRecords(await readRecords(context.db, transaction.members));
  const signed = await context.account.sign({ ...call, nonce, fees });
  await context.failpoint?.("signed");
  const id = uuidv7();
  const group = newGroup();
  await pushOrThrow(context, group, [
    guard(group, context, transaction, id),
    ...dependents(group, transaction, signed),
    ...announceWithdrawals(group),
  ]);
  const stored = sql`SELECT 1 FROM chain_transactions WHERE transaction_id = ${uuid(id)}`;
  if ((await first(context.db, stored)) === undefined) return undefined;
  await context.failpoint?.("stored");
  return signed;
}

function guard(group: Group, context: Storing, transaction: NewTransaction, id: string): Sql {
  const { chain } = context.chain;
  const { call, nonce, batchNo, kind } = transaction;
  const members = JSON.stringify(transaction.members);
  const unended = sql`w.status ${UNFINISHED}`;
  const eligible = kind === "void" ? unended : PAYABLE;
  const notPaused = sql`NOT ${PAUSED}`;
  const byKind = {
    pay: sql`${notPaused}
        AND NOT EXISTS (SELECT 1 FROM chain_transactions
          WHERE chain = ${chain} AND to_address = ${blob(call.to)} AND batch_no >= ${batchNo}
            AND status <> 'unused')`,
    // A pause may mean that the key to the vault is stolen. Deposits are safer where they are.
    sweep: notPaused,
    void: sql`1`,
  };
  return sql`INSERT INTO chain_transactions (transaction_id, chain, sender, nonce, kind, batch_no,
      to_address, data, gas_limit, status, made_group, made_at)
    SELECT ${uuid(id)}, ${chain}, ${blob(context.account.address)}, ${nonce}, ${kind}, ${batchNo},
      ${blob(call.to)}, ${blob(call.data)}, ${call.gasLimit}, 'open', ${group.seq}, ${group.at}
    WHERE ${kind === "void" ? mayVoid(chain, context.token) : mayPay(chain, context.token)}
      AND NOT EXISTS (SELECT 1 FROM chain_transactions
        WHERE chain = ${chain} AND sender = ${blob(context.account.address)} AND nonce >= ${nonce})
      AND ${byKind[kind]}
      AND (SELECT count(*) FROM json_each(${members}) j
        JOIN withdrawals w ON w.withdrawal_id = unhex(j.value, '-')
        WHERE w.chain = ${chain} AND ${eligible}
          AND NOT EXISTS (SELECT 1 FROM batch_members m WHERE m.withdrawal_id = w.withdrawal_id
            AND m.purpose = ${kind} AND m.ended_group IS NULL)
        ) = ${transaction.members.length}`;
}

function dependents(group: Group, transaction: NewTransaction, signed: Signed): Sql[] {
  const made = sql`SELECT t.transaction_id FROM chain_transactions t
    WHERE t.made_group = ${group.seq}`;
  const members = sql`INSERT INTO batch_members (transaction_id, withdrawal_id, purpose)
    SELECT t.transaction_id, unhex(j.value, '-'), t.kind
    FROM json_each(${JSON.stringify(transaction.members)}) j
    JOIN chain_transactions t ON t.made_group = ${group.seq} WHERE t.kind IN ('pay', 'void')`;
  const submitted = sql`UPDATE withdrawals SET status = 'submitted',
      transaction_hash = ${blob(signed.hash)}, not_before = NULL,
      updated_at = ${group.at}, changed_group = ${group.seq}
    WHERE status = 'queued' AND withdrawal_id IN (SELECT m.withdrawal_id FROM batch_members m
      WHERE m.purpose = 'pay' AND m.transaction_id IN (${made}))`;
  return [
    storeAttempt(group, made, { ...transaction, number: 0, signed }),
    ...(transaction.members.length === 0 ? [] : [members, submitted]),
  ];
}

/** Inserts an attempt. `of` selects the transaction's id, or no row if the guard did not apply. */
export function storeAttempt(
  group: Group,
  of: Sql,
  attempt: Pick<NewTransaction, "fees" | "headNumber"> & { number: number; signed: Signed },
): Sql {
  const { number, signed, fees, headNumber } = attempt;
  return sql`INSERT INTO transaction_attempts (transaction_id, attempt, hash, signed,
      max_fee, priority_fee, signed_group, signed_at, head_number)
    SELECT t.transaction_id, ${number}, ${blob(signed.hash)}, ${blob(signed.raw)},
      ${fees.maxFee}, ${fees.priorityFee}, ${group.seq}, ${group.at}, ${headNumber}
    FROM (${of}) t`;
}

/**
 * Simulates a call. Raises an alert if it would revert as a whole, for example because the vault is
 * paused or the operator account has lost its role. Payments, sweeps and voids have alerts of their
 * own, so that the success of one does not clear the alert of another. Throws if no node responds.
 */
export async function wouldSucceed(
  context: HeadView,
  kind: "pay" | "sweep" | "void",
  call: Call,
): Promise<boolean> {
  const { chain } = context.chain;
  const subject = refusalSubject(chain, kind);
  try {
    const { to, data, gasLimit: gas } = call;
    await context.endpoint.client.call({ account: context.account.address, to, data, gas });
    await clearAlert(context.db, "payment_refused", subject);
    return true;
  } catch (error) {
    if (!isNodeError(error)) throw error;
    const detail = revertOf(error, kind) ?? describe(error);
    await raiseAlert(context.db, "payment_refused", subject, detail);
    return false;
  }
}

/** Subject of the alert `payment_refused`. */
export function refusalSubject(chain: string, kind: "pay" | "sweep" | "void"): string {
  return kind === "pay" ? chain : `${chain}:${kind}`;
}
