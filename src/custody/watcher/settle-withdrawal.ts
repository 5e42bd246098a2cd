/** Applies confirmed vault events of any transaction. The payer's own record is never trusted. */
import { IN_FLIGHT, UNFINISHED } from "../../assets/withdrawal-status.ts";
import type { VaultEvent } from "../../chain/decode-logs.ts";
import type { Group } from "../../platform/commit.ts";
import { type Sql, type Expr, expr, sql, uuid } from "../../platform/sql.ts";
import type { WatcherContext } from "./commit-move.ts";
import { uuidTextOf } from "../../audit/audit.ts";
import { inChunks } from "../../platform/chunks.ts";
import { alertRow, alertRows } from "../../platform/alert.ts";
import { NEEDS_RESTORE } from "../../platform/alert-kinds.ts";
import { assetOfEvent, tokenNameOf, tokenSubject } from "../../chain/token.ts";
import { externalOwner, post } from "../../ledger/post.ts";
import { SKIP_REASON } from "../../chain/vault-calls.ts";
import { ofWithdrawals, PAID, releaseEnded } from "../withdrawal-transfers.ts";
import { FAILURE_MESSAGES } from "../payment-records.ts";
import { haltRows } from "../payer/payer-lease.ts";

export function applyVaultEvents(
  group: Group,
  context: Pick<WatcherContext, "settings" | "chain">,
  events: readonly VaultEvent[],
  when: Sql,
): Sql[] {
  const { chain } = context.chain;
  return [
    ...recordVaultEvents(group, context, events, when),
    ...settlePaid(group, chain),
    ...failUnpayable(group),
    endMembers(group),
    requeueSkipped(group),
    closeFails(group),
    ...alertUnexpectedPayments(group, chain),
    ...haltOnForeignBatch(group, chain),
  ];
}

/** Waits before a skipped withdrawal is retried. A sweep takes a block or two. */
const SHORT_WAIT_MS = 15_000;
/** The vault's limit refills over a day. */
const LIMIT_WAIT_MS = 600_000;
/** The payer asks the token itself before it pays again (limit-queue.ts). */
const REFUSED_WAIT_MS = 60_000;
/** For ids that are done or invalid: a retry only costs gas. `withdrawals retry` ends the wait. */
const INVALID_WAIT_MS = 3_600_000;

/**
 * Condition on `vault_events e`: the group recorded the event, or one that says that its id was
 * already done, as after a restore, when an id that was paid or failed is queued again.
 */
function isDecidedBy(group: Group): Expr {
  // The second condition implies the first one, which makes SQLite use vault_events_payment.
  // Without that index it would read all events of all chains.
  return expr`e.payment_id IN (SELECT s.payment_id FROM vault_events s
      WHERE s.recorded_group = ${group.seq})
    AND (e.recorded_group = ${group.seq} OR EXISTS (SELECT 1 FROM vault_events s
      WHERE s.recorded_group = ${group.seq} AND (s.kind = 'AlreadyDone'
        OR (s.kind = 'Skipped' AND s.skip_reason = ${SKIP_REASON.alreadyDone}))
        AND s.payment_id = e.payment_id AND s.chain = e.chain))`;
}

/** Limit of events in one statement, because a parameter may have 2 MB. */
const EVENTS_PER_STATEMENT = 1_000;

/** Statements that record the events. An event that is read twice is recorded once. */
export function recordVaultEvents(
  group: Group,
  { settings, chain: config }: Pick<WatcherContext, "settings" | "chain">,
  events: readonly VaultEvent[],
  when: Sql,
): Sql[] {
  const { chain } = config;
  return inChunks(events, EVENTS_PER_STATEMENT).map((chunk) => {
    const rows = chunk.map((event) => ({
      tx: event.transactionHash.slice(2),
      ordinal: event.ordinal,
      kind: event.kind,
      id: event.id.slice(2),
      vault: event.vault.slice(2),
      // What an event does not have is absent in the text, and so NULL in its row.
      batch: event.batchNo,
      reason: event.reason,
      token: event.paid?.token.slice(2),
      tokenId: event.paid?.tokenId.toString(),
      asset: event.paid && assetOfEvent(settings, config, event.paid),
      amount: event.paid?.amount.toString(),
      to: event.paid?.to.slice(2),
      block: event.blockNumber,
      hash: event.blockHash.slice(2),
    }));
    return sql`INSERT INTO vault_events (chain, transaction_hash, ordinal, kind, payment_id, vault,
      batch_no, skip_reason, token, token_id, asset, amount, to_address, block_number,
      block_hash, recorded_group)
    SELECT ${chain}, unhex(j.value ->> 'tx'), j.value ->> 'ordinal', j.value ->> 'kind',
      unhex(j.value ->> 'id'), unhex(j.value ->> 'vault'), j.value ->> 'batch',
      j.value ->> 'reason', unhex(j.value ->> 'token'), j.value ->> 'tokenId',
      j.value ->> 'asset', j.value ->> 'amount', unhex(j.value ->> 'to'), j.value ->> 'block',
      unhex(j.value ->> 'hash'), ${group.seq}
    FROM json_each(${JSON.stringify(rows)}) j
    WHERE ${when} AND NOT EXISTS (SELECT 1 FROM vault_events v
      WHERE v.chain = ${chain} AND v.transaction_hash = unhex(j.value ->> 'tx')
        AND v.ordinal = j.value ->> 'ordinal')`;
  });
}

/** Condition on `vault_events e` and `withdrawals w`: the payment has the withdrawal's terms. */
export const AS_ORDERED: Expr = expr`e.asset IS w.asset AND e.amount IS CAST(w.amount AS TEXT)
  AND e.to_address IS w.to_address`;

/** As `AS_ORDERED`, and the payment is not in the ledger already, in another way. */
const SETTLES: Expr = expr`${AS_ORDERED} AND NOT EXISTS (SELECT 1 FROM accepted_payments p
  WHERE p.chain = e.chain AND p.payment_id = e.payment_id)`;

/** Settles paid withdrawals: pending → external. Other terms settle nothing and raise an alert. */
export function settlePaid(group: Group, chain: string): Sql[] {
  const settled = sql`w.ended_by = ${uuid(group.id)} AND w.status = 'settled'`;
  return [
    sql`UPDATE withdrawals AS w SET status = 'settled', transaction_hash = e.transaction_hash,
        updated_at = ${group.at}, changed_group = ${group.seq}, ended_by = ${uuid(group.id)}
      FROM vault_events e INDEXED BY vault_events_payment
      WHERE ${isDecidedBy(group)} AND e.kind = 'Paid'
        AND e.payment_id = w.payment_id AND e.chain = w.chain
        AND w.status ${IN_FLIGHT} AND ${SETTLES}`,
    ...post(group, { ...PAID, source: ofWithdrawals(settled, externalOwner(chain)) }),
  ];
}

/** Condition on `vault_events e` and `withdrawals w`: the vault paid the id, but not as ordered. */
export const PAID_OTHERWISE: Expr = expr`e.payment_id = w.payment_id AND e.chain = w.chain
  AND e.kind = 'Paid' AND NOT ${SETTLES}`;

/**
 * Closes `fail` commands of withdrawals that turn out to be paid on other terms. The funds stay
 * reserved: a later `fail` returns them, once the operator knows of the payment.
 */
function closeFails(group: Group): Sql {
  return sql`UPDATE chain_commands SET done_group = ${group.seq}, result = 'already_paid'
    WHERE kind = 'fail' AND done_group IS NULL AND withdrawal_id IN (
      SELECT w.withdrawal_id FROM withdrawals w
      JOIN vault_events s ON s.payment_id = w.payment_id AND s.chain = w.chain
      WHERE s.recorded_group = ${group.seq} AND s.kind IN ('Paid', 'AlreadyDone')
        AND w.status ${UNFINISHED})`;
}

/** Queues skipped withdrawals again, because a skip leaves the id payable. */
function requeueSkipped(group: Group): Sql {
  return sql`UPDATE withdrawals SET status = 'queued', transaction_hash = NULL,
      updated_at = ${group.at}, changed_group = ${group.seq},
      not_before = ${group.at} + coalesce((
        SELECT CASE e.skip_reason
          WHEN ${SKIP_REASON.short} THEN ${SHORT_WAIT_MS}
          WHEN ${SKIP_REASON.overLimit} THEN ${LIMIT_WAIT_MS}
          WHEN ${SKIP_REASON.refused} THEN ${REFUSED_WAIT_MS} END
        FROM vault_events e WHERE e.recorded_group = ${group.seq} AND e.kind = 'Skipped'
          AND e.payment_id = withdrawals.payment_id LIMIT 1), ${INVALID_WAIT_MS})
    WHERE status = 'submitted' AND withdrawal_id IN (
      SELECT m.withdrawal_id FROM batch_members m INDEXED BY batch_members_ended_group
      WHERE m.ended_group = ${group.seq} AND m.outcome = 'Skipped')`;
}

/**
 * Ends the members whose event this group recorded. A skip ends only the member of its own batch,
 * and a void without effect (`AlreadyDone`) ends only voids.
 */
function endMembers(group: Group): Sql {
  return sql`UPDATE batch_members SET ended_group = ${group.seq}, outcome = e.kind
    FROM vault_events e JOIN withdrawals w ON w.payment_id = e.payment_id AND w.chain = e.chain
    WHERE e.recorded_group = ${group.seq} AND batch_members.withdrawal_id = w.withdrawal_id
      AND batch_members.ended_group IS NULL
      AND (e.kind <> 'AlreadyDone' OR batch_members.purpose = 'void')
      AND (e.kind <> 'Skipped' OR EXISTS (SELECT 1 FROM chain_transactions t
        WHERE t.transaction_id = batch_members.transaction_id
          AND t.batch_no = e.batch_no AND t.to_address = e.vault))`;
}

/** One alert per withdrawal, so that an open one does not hide the next payment on other terms. */
function alertOtherTerms(group: Group, chain: string): Sql {
  const subject = expr`${chain} || ':' || ${uuidTextOf("w.withdrawal_id")}`;
  const paid = sql`SELECT DISTINCT ${subject} AS subject,
      'The vault paid another token, amount or address than those of withdrawal '
        || ${uuidTextOf("w.withdrawal_id")} AS detail
    FROM vault_events e JOIN withdrawals w ON ${PAID_OTHERWISE}
    WHERE e.recorded_group = ${group.seq} AND w.status ${IN_FLIGHT}`;
  return alertRows(group, "payment_terms", paid);
}

/** Alerts of payments without a withdrawal, on other terms, or after a refund (halts the chain). */
function alertUnexpectedPayments(group: Group, chain: string): Sql[] {
  const paid = (condition: Sql) =>
    sql`EXISTS (SELECT 1 FROM vault_events e
      LEFT JOIN withdrawals w ON w.payment_id = e.payment_id AND w.chain = e.chain
      WHERE e.recorded_group = ${group.seq} AND e.kind = 'Paid' AND ${condition})`;
  const refunded = paid(sql`w.status IN ('failed', 'cancelled')`);
  const returned = "The vault paid a withdrawal whose funds were returned.";
  const skipped = sql`EXISTS (SELECT 1 FROM vault_events e
    WHERE e.recorded_group = ${group.seq} AND e.kind = 'Skipped'
      AND e.skip_reason NOT IN (${SKIP_REASON.short}, ${SKIP_REASON.refused}))`;
  const refused = sql`FROM vault_events e
    JOIN withdrawals w ON w.payment_id = e.payment_id AND w.chain = e.chain
    WHERE e.recorded_group = ${group.seq} AND e.kind = 'Skipped'
      AND e.skip_reason = ${SKIP_REASON.refused}`;
  return [
    alertRow(
      group,
      "payment_unknown",
      chain,
      "The vault paid an id that the database does not contain, or that waits for approval.",
      paid(sql`w.withdrawal_id IS NULL OR w.status = 'awaiting_approval'`),
    ),
    alertOtherTerms(group, chain),
    alertRow(
      group,
      "payment_skipped",
      chain,
      "The vault skipped a payment that is over its limit, already done or invalid.",
      skipped,
    ),
    alertRow(
      group,
      "token_refuses",
      // The payer reports the others of several tokens.
      sql`(SELECT ${tokenSubject(chain, "")} || min(${tokenNameOf("w.asset")}) ${refused})`,
      "The token refuses every transfer; its withdrawals wait until it accepts them again.",
      sql`EXISTS (SELECT 1 ${refused})`,
    ),
    sql`UPDATE chain_cursors SET halted_at = ${group.at},
        halt_reason = 'the vault paid a withdrawal whose funds were returned'
      WHERE chain = ${chain} AND halted_at IS NULL AND ${refunded}`,
    alertRow(group, "chain_halted", chain, returned, refunded),
  ];
}

/** Applies `Failed` and `Voided`, after which the vault never pays the id: releases the funds. */
export function failUnpayable(group: Group): Sql[] {
  return [
    sql`UPDATE withdrawals SET status = 'failed', transaction_hash = e.transaction_hash,
        updated_at = ${group.at}, changed_group = ${group.seq}, ended_by = ${uuid(group.id)},
        failure_code = iif(e.kind = 'Failed', 'payment_reverted', 'operator_failed'),
        failure_message = iif(e.kind = 'Failed',
          ${FAILURE_MESSAGES.payment_reverted}, ${FAILURE_MESSAGES.operator_failed})
      FROM vault_events e INDEXED BY vault_events_payment
      WHERE ${isDecidedBy(group)} AND e.kind IN ('Failed', 'Voided')
        AND e.payment_id = withdrawals.payment_id AND e.chain = withdrawals.chain
        AND withdrawals.status ${UNFINISHED}`,
    releaseEnded(group, "failed"),
  ];
}

/**
 * Carries out `fail` commands for ids whose payment does not settle the withdrawal. The vault never
 * pays such an id again, so no void is needed. These transfers do not account for what it did pay.
 */
export function failPaidOnOtherTerms(group: Group, chain: string): Sql[] {
  return [
    sql`UPDATE withdrawals AS w SET status = 'failed', transaction_hash = NULL,
        updated_at = ${group.at}, changed_group = ${group.seq}, ended_by = ${uuid(group.id)},
        failure_code = 'operator_failed', failure_message = ${FAILURE_MESSAGES.operator_failed}
      WHERE w.chain = ${chain} AND w.status ${UNFINISHED}
        AND EXISTS (SELECT 1 FROM chain_commands c WHERE c.withdrawal_id = w.withdrawal_id
          AND c.kind = 'fail' AND c.done_group IS NULL)
        AND EXISTS (SELECT 1 FROM vault_events e WHERE ${PAID_OTHERWISE})
        AND NOT EXISTS (SELECT 1 FROM batch_members m
          WHERE m.withdrawal_id = w.withdrawal_id AND m.ended_group IS NULL)`,
    releaseEnded(group, "failed"),
  ];
}

/**
 * Halts the payer if this group recorded an event of such a batch. An older database that was put
 * back halts too, because it lacks what was signed since.
 */
function haltOnForeignBatch(group: Group, chain: string): Sql[] {
  // A hash covers sender, nonce and payments, so a stored one is our own batch.
  const foreign = sql`FROM vault_events e
    WHERE e.recorded_group = ${group.seq} AND e.batch_no IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM transaction_attempts a WHERE a.hash = e.transaction_hash)`;
  const advice = `pause the vault and revoke the key. ${NEEDS_RESTORE}`;
  const reason = expr`SELECT 'batch ' || e.batch_no || ' of the vault is 0x'
    || lower(hex(e.transaction_hash)) || ', which the payer has not signed: ' || ${advice}
    ${foreign} ORDER BY e.batch_no LIMIT 1`;
  return haltRows(group, chain, { reason, when: sql`EXISTS (SELECT 1 ${foreign})` });
}
