/**
 * Rebuilds withdrawals that the vault has paid but a restored database does not contain. The
 * watcher goes on from its old cursor and finds their events again. These contain only a hash of
 * user and id, so the rest comes from the payer's recovery records. The payer stays halted until
 * every payment has its withdrawal. The operator's `restore` calls for each page, because a Durable
 * Object may make 1 000 requests per invocation.
 */
import { NOT_RETURNED } from "../../assets/withdrawal-status.ts";
import { paymentId } from "../../chain/payment-id.ts";
import { readCursor } from "../../chain/chain-cursor.ts";
import type { MacKeys } from "../../audit/event-mac.ts";
import { externalOwner, hasAvailable, post, insertTransfers } from "../../ledger/post.ts";
import { termsMac } from "../../ledger/withdrawal-mac.ts";
import type { ChainConfig } from "../../platform/config.ts";
import { commitOrThrow, type Group, newGroup } from "../../platform/commit.ts";
import {
  all,
  blob,
  type Expr,
  expr,
  holds,
  type RowOf,
  scalar,
  select,
  type Sql,
  sql,
  typed,
  uuid,
} from "../../platform/sql.ts";
import { uuidv7 } from "../../platform/uuid.ts";
import { commitAndPush } from "../../streams/event-log.ts";
import { SEQUENCE_JUMP, skipEvents } from "../../streams/trim-streams.ts";
import { announceWithdrawals } from "../custody-events.ts";
import { FAILURE_MESSAGES } from "../payment-records.ts";
import { PAID, QUEUED, RETURNED } from "../withdrawal-transfers.ts";
import { confirmedOutcomes } from "./agreed-reads.ts";
import { isHalted } from "./payer-lease.ts";
import type { WithdrawalRecord } from "./withdrawal-record.ts";
import type { ChainContext } from "../chain-object.ts";
import { AS_ORDERED } from "../watcher/settle-withdrawal.ts";

export type RestoreReport = Awaited<ReturnType<typeof restorePayments>>;

/** Lost payments of one page. Each takes up to three requests. */
const PAGE = 250;

/** Columns over `vault_events e`. Hex without `0x`, in lower case. */
const LOST = {
  position: typed<number>("e.rowid"),
  id: typed<string>("lower(hex(e.payment_id))"),
  tx: typed<string>("lower(hex(e.transaction_hash))"),
  kind: typed<"Paid" | "Failed">("e.kind"),
  asset: typed<string | null>("e.asset"),
  amount: typed<string | null>("e.amount"),
  to_address: typed<string | null>("lower(hex(e.to_address))"),
};
type LostEvent = RowOf<typeof LOST>;

/** Rebuilds the page after `after`, and lets the payer continue if no payment is lost any more. */
export async function restorePayments(
  context: ChainContext,
  lookUp: (ids: readonly string[]) => Promise<ReadonlyMap<string, WithdrawalRecord>>,
  after = 0,
) {
  const { db, chain } = context;
  const cursor = await readCursor(db, chain.chain);
  if (cursor === undefined) throw new Error(`${chain.chain} has not been read yet`);
  const haltedAt = await scalar<number | null>(
    db,
    expr`SELECT halted_at FROM payer_leases WHERE chain = ${chain.chain}`,
  );
  // This must come before the first row that would reuse an id issued after the backup.
  await advanceSequences(db, chain.chain);
  const lost = await lostEvents(db, chain.chain, after);
  const records = await lookUp(lost.map((event) => `0x${event.id}`));
  const unresolved: { payment_id: string; transaction_hash: string; reason: string }[] = [];
  let rebuilt = 0;
  for (const event of lost) {
    const reason = await rebuildWithdrawal(context, event, records.get(`0x${event.id}`));
    if (reason === undefined) rebuilt++;
    else if (event.kind === "Paid")
      unresolved.push({ payment_id: `0x${event.id}`, transaction_hash: `0x${event.tx}`, reason });
  }
  const { nextBatchNo } = await confirmedOutcomes({ chain, cursor }, chain.vault, []);
  const last = lost.at(-1)?.position ?? after;
  return {
    rebuilt,
    /** Payments of this page without a withdrawal. While there is one, the payer stays halted. */
    unresolved,
    /** Lost payments after this page. While there is one, the payer stays halted. */
    remaining: await scalar<number>(db, expr`SELECT count(*) ${lostAfter(chain.chain, last)}`),
    /** Where the next page begins, or null after the last one. */
    next: lost.length < PAGE ? null : last,
    /** Whether the payer may continue, because no payment is lost any more. */
    paying: await resumePaying(db, chain, { nextBatchNo, haltedAt }),
    next_batch: nextBatchNo,
  };
}

/**
 * Condition on `vault_events e`: the vault has decided it, and it belongs to no withdrawal. A
 * payment belongs to one that it has settled or will settle. Nobody has accepted it either.
 */
function isLost(chain: string): Expr {
  return expr`e.chain = ${chain} AND e.kind IN ('Paid', 'Failed')
    AND NOT EXISTS (SELECT 1 FROM withdrawals w WHERE w.payment_id = e.payment_id
      AND (e.kind = 'Failed'
        OR (w.status ${NOT_RETURNED} AND ${AS_ORDERED})))
    AND NOT EXISTS (SELECT 1 FROM accepted_payments p
      WHERE p.chain = e.chain AND p.payment_id = e.payment_id)`;
}

export function noPaymentLost(chain: string): Expr {
  return expr`NOT EXISTS (SELECT 1 FROM vault_events e WHERE ${isLost(chain)} AND e.kind = 'Paid')`;
}

function lostAfter(chain: string, position: number): Sql {
  return sql`FROM vault_events e WHERE e.rowid > ${position} AND ${isLost(chain)}`;
}

/** In the order in which they were recorded, so that a page goes on where the last one ended. */
function lostEvents(db: D1Database, chain: string, after: number): Promise<LostEvent[]> {
  return all<LostEvent>(
    db,
    sql`SELECT ${select(LOST)} ${lostAfter(chain, after)} ORDER BY e.rowid LIMIT ${PAGE}`,
  );
}

/** Puts the payment into the ledger again. Returns the reason if that was not possible. */
async function rebuildWithdrawal(
  context: ChainContext,
  event: LostEvent,
  record: WithdrawalRecord | undefined,
): Promise<string | undefined> {
  if (record === undefined) return "no recovery record";
  const { userId, clientWithdrawalId } = record;
  if (paymentId(context.settings, userId, clientWithdrawalId) !== `0x${event.id}`)
    return "the recovery record has another payment id";
  const asOrdered =
    record.asset === event.asset &&
    record.amount === event.amount &&
    record.to === event.to_address;
  if (event.kind === "Paid" && !asOrdered) return "the recovery record has other terms";
  const { chain } = context.chain;
  const group = newGroup();
  const result = await commitAndPush(context, group, [
    ...rebuildStatements(group, { keys: context.settings, chain }, event, record),
    ...announceWithdrawals(group),
  ]);
  if (!result.committed) return "the transfers could not be posted";
  const still = await scalar<number>(context.db, staysLost(chain, event));
  return still === 1 ? "the user is unknown or has too little available" : undefined;
}

function staysLost(chain: string, { position }: LostEvent): Expr {
  return expr`EXISTS (
    SELECT 1 FROM vault_events e WHERE e.rowid = ${position} AND ${isLost(chain)})`;
}

/**
 * Settles the withdrawal if it waits for an approval that was given in the lost time. Otherwise
 * inserts it. If another one has its ids, or it has ended here, its owner is debited without it.
 */
function rebuildStatements(
  group: Group,
  { keys, chain }: { readonly keys: MacKeys; readonly chain: string },
  event: LostEvent,
  record: WithdrawalRecord,
): Sql[] {
  const terms = { ...record, paymentId: event.id, chain, toAddress: record.to };
  const user = uuid(record.userId);
  const lost = staysLost(chain, event);
  const hasIds = expr`EXISTS (SELECT 1 FROM withdrawals
    WHERE payment_id = ${blob(event.id)} OR withdrawal_id = ${uuid(record.withdrawalId)}
      OR job_id = ${uuid(record.jobId)}
      OR (user_id = ${user} AND client_withdrawal_id = ${record.clientWithdrawalId}))`;
  const canDebit = expr`EXISTS (SELECT 1 FROM users WHERE user_id = ${user})
    AND ${hasAvailable(record.userId, record.asset, BigInt(record.amount))}`;
  const acceptanceId = uuid(uuidv7());
  const failed = event.kind === "Failed";
  const ofPayment = [
    sql`UPDATE withdrawals SET status = 'settled', transaction_hash = ${blob(event.tx)},
        updated_at = ${group.at}, changed_group = ${group.seq}, ended_by = ${uuid(group.id)}
      WHERE payment_id = ${blob(event.id)} AND status = 'awaiting_approval' AND ${lost}
        AND asset = ${record.asset} AND amount = ${BigInt(record.amount)}
        AND to_address = ${blob(record.to)}`,
    sql`INSERT INTO accepted_payments (acceptance_id, chain, payment_id, kind, user_id, asset,
        amount, reason, actor, at, accepted_group)
      SELECT ${acceptanceId}, ${chain}, ${blob(event.id)}, 'withdrawal', ${user}, ${record.asset},
        ${BigInt(record.amount)}, 'a withdrawal that a restore has lost', 'restore', ${group.at},
        ${group.seq}
      WHERE ${lost} AND ${hasIds} AND ${canDebit}`,
  ];
  /** The withdrawals that `where` names and the acceptance, whose money moves to `to`. */
  const source = (where: Sql, to: Sql) =>
    sql`SELECT user_id AS from_owner, ${to} AS to_owner, asset, amount, withdrawal_id AS ref,
        0 AS line FROM withdrawals WHERE ${where}
      UNION ALL
      SELECT user_id, ${to}, asset, amount, acceptance_id, 0 FROM accepted_payments
      WHERE acceptance_id = ${acceptanceId} AND accepted_group = ${group.seq}`;
  const ended = sql`ended_by = ${uuid(group.id)}`;
  return [
    ...(failed ? [] : ofPayment),
    sql`INSERT INTO withdrawals (withdrawal_id, job_id, user_id, client_withdrawal_id, payment_id,
        chain, asset, amount, to_address, status, transaction_hash, failure_code, failure_message,
        created_at, updated_at, queued_group, changed_group, ended_by, terms_mac)
      SELECT ${uuid(record.withdrawalId)}, ${uuid(record.jobId)}, ${user},
        ${record.clientWithdrawalId}, ${blob(event.id)}, ${chain}, ${record.asset},
        ${BigInt(record.amount)}, ${blob(record.to)}, ${failed ? "failed" : "settled"},
        ${blob(event.tx)}, ${failed ? "payment_reverted" : null},
        ${failed ? FAILURE_MESSAGES.payment_reverted : null},
        ${record.createdAt}, ${group.at}, ${group.seq}, ${group.seq}, ${uuid(group.id)},
        ${termsMac(keys, terms, false)}
      WHERE ${lost} AND NOT ${hasIds} AND ${canDebit}`,
    insertTransfers(group, {
      ...QUEUED,
      source: source(sql`${ended} AND queued_group = ${group.seq}`, sql`user_id`),
    }),
    ...(failed
      ? [insertTransfers(group, { ...RETURNED, source: source(ended, sql`user_id`) })]
      : post(group, { ...PAID, source: source(ended, externalOwner(chain)) })),
  ];
}

/** Skips ids once per halt, so that repeating an unfinished restore does not skip again. */
async function advanceSequences(db: D1Database, chain: string): Promise<void> {
  const due = sql`chain = ${chain} AND halted_at > coalesce(sequences_advanced_at, 0)`;
  const halted = expr`EXISTS (SELECT 1 FROM payer_leases WHERE ${due})`;
  const group = newGroup();
  await commitOrThrow(db, group, [
    sql`UPDATE sqlite_sequence SET seq = coalesce(seq, 0) + ${SEQUENCE_JUMP}
      WHERE name = 'transfers' AND ${halted}`,
    ...skipEvents(halted),
    sql`UPDATE payer_leases SET sequences_advanced_at = ${group.at} WHERE ${due}`,
  ]);
}

/**
 * Lets the payer continue unless a payment is lost, or it was halted anew since the call began. A
 * lost failure does not keep it halted, because it moved no money. Returns whether it may continue.
 */
async function resumePaying(
  db: D1Database,
  { chain, vault }: ChainConfig,
  { nextBatchNo, haltedAt }: { readonly nextBatchNo: number; readonly haltedAt: number | null },
): Promise<boolean> {
  const group = newGroup();
  const noneLost = noPaymentLost(chain);
  const halted = isHalted(chain);
  await commitOrThrow(db, group, [
    sql`UPDATE payer_leases SET batch_floor = ${nextBatchNo}, floor_vault = ${blob(vault)}
      WHERE chain = ${chain} AND ${noneLost}`,
    sql`UPDATE payer_leases SET halted_at = NULL, halt_reason = NULL
      WHERE chain = ${chain} AND ${noneLost} AND halted_at = ${haltedAt}`,
    sql`UPDATE alerts SET resolved_at = ${group.at}
      WHERE kind IN ('payer_halted', 'payment_unknown') AND subject = ${chain}
        AND resolved_at IS NULL AND ${noneLost} AND (kind <> 'payer_halted' OR NOT ${halted})`,
  ]);
  return holds(db, expr`NOT ${halted} AND ${noneLost}`);
}
