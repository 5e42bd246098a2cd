/**
 * `restore --accept-payment`: accepts a payment that the service did not order, so that paying can
 * resume. A loss (a stolen key) is posted from the operator's account `losses`. A rescue (the
 * return of a mistaken transfer) posts nothing, because it was never credited.
 */
import { NOT_RETURNED } from "../assets/withdrawal-status.ts";
import type { AssetKey } from "../assets/asset.ts";
import { type AuditActor, auditRow, recordBy } from "../audit/audit.ts";
import { externalOwner, LOSSES_OWNER, post } from "../ledger/post.ts";
import { closedAlert } from "../platform/alert.ts";
import { commitOrThrow, newGroup } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { blob, expr, first, listed, MAX_NATIVE_UNITS, scalar, sql, uuid } from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { noPaymentLost } from "./payer/restore-payments.ts";
import type { ACCEPTED_AS } from "./column-values.ts";
import { PAID } from "./withdrawal-transfers.ts";

export type Acceptance = {
  readonly paymentId: string;
  readonly kind: (typeof ACCEPTED_AS)[number];
  readonly reason: string;
  readonly actor: AuditActor;
};

export type Accepted =
  | { readonly status: "accepted" | "accepted_before"; readonly chain: string }
  | { readonly status: "not_paid" | "has_withdrawal" | "unknown_asset" | "too_large" };

type Paid = { chain: string; asset: AssetKey | null; amount: string };

export async function acceptPayment(
  db: D1Database,
  settings: Config,
  { paymentId, kind, reason, actor }: Acceptance,
): Promise<Accepted> {
  const id = blob(paymentId);
  const chains = listed(settings.CHAINS.map(({ chain }) => chain));
  const paid = await first<Paid>(
    db,
    // A thief can pay one id on two chains. Repeating the command accepts the other one.
    sql`SELECT e.chain, e.asset, e.amount FROM vault_events e
      WHERE e.payment_id = ${id} AND e.kind = 'Paid'
        AND e.chain IN (${chains})
      ORDER BY EXISTS (SELECT 1 FROM accepted_payments p
        WHERE p.chain = e.chain AND p.payment_id = e.payment_id) LIMIT 1`,
  );
  const chain = settings.CHAINS.find((candidate) => candidate.chain === paid?.chain);
  if (paid === undefined || chain === undefined) return { status: "not_paid" };
  if (kind === "loss" && paid.asset === null) return { status: "unknown_asset" };
  if (kind === "loss" && !(await canPostLoss(db, paid))) return { status: "too_large" };

  const acceptanceId = uuidv7();
  const group = newGroup();
  const applied = expr`EXISTS (SELECT 1 FROM accepted_payments
    WHERE acceptance_id = ${uuid(acceptanceId)} AND accepted_group = ${group.seq})`;
  const source = sql`SELECT ${LOSSES_OWNER} AS from_owner, ${externalOwner(chain.chain)} AS to_owner,
      asset, amount, acceptance_id AS ref, 0 AS line FROM accepted_payments
    WHERE acceptance_id = ${uuid(acceptanceId)} AND kind = 'loss'`;
  const noneLost = noPaymentLost(chain.chain);
  await commitOrThrow(db, group, [
    sql`INSERT INTO accepted_payments (acceptance_id, chain, payment_id, kind, asset, amount,
        reason, actor, at, accepted_group)
      SELECT ${uuid(acceptanceId)}, e.chain, e.payment_id, ${kind},
        ${kind === "loss" ? sql`e.asset, CAST(e.amount AS INTEGER)` : sql`NULL, NULL`},
        ${reason}, ${actor}, ${group.at}, ${group.seq}
      FROM vault_events e
      WHERE e.chain = ${chain.chain} AND e.payment_id = ${id} AND e.kind = 'Paid'
        AND NOT EXISTS (SELECT 1 FROM withdrawals w
          WHERE w.payment_id = e.payment_id AND w.status ${NOT_RETURNED})
        AND NOT EXISTS (SELECT 1 FROM accepted_payments p
          WHERE p.chain = e.chain AND p.payment_id = e.payment_id)`,
    ...post(group, { ...PAID, from: "external", source }),
    // Every batch whose payments the watcher has read is known now, so paying may go on above it.
    sql`UPDATE payer_leases SET floor_vault = ${blob(chain.vault)}, batch_floor = max(
        coalesce(iif(floor_vault = ${blob(chain.vault)}, batch_floor, 1), 1),
        coalesce((SELECT max(batch_no) + 1 FROM vault_events
          WHERE chain = ${chain.chain} AND vault = ${blob(chain.vault)}), 1))
      WHERE chain = ${chain.chain} AND ${applied} AND ${noneLost}`,
    closedAlert(group, "payment_unknown", chain.chain, sql`${applied} AND ${noneLost}`),
    auditRow(recordBy(actor, "payment_accepted", { subjectId: paymentId }), group.at, applied),
  ]);
  return outcomeOf(db, chain.chain, { paymentId, acceptanceId });
}

/**
 * Whether the accounts can take the loss. A token of which more than 2^62 units exist has no
 * value, and the service has never credited as much. Two losses at once are decided by the journal.
 */
async function canPostLoss(db: D1Database, { chain, asset, amount }: Paid): Promise<boolean> {
  const row = await first<{ lost: string; outside: string }>(
    db,
    sql`SELECT
      CAST(coalesce((SELECT -balance FROM accounts WHERE owner = ${LOSSES_OWNER}
        AND kind = 'external' AND asset = ${asset}), 0) AS TEXT) AS lost,
      CAST(coalesce((SELECT balance FROM accounts WHERE owner = ${externalOwner(chain)}
        AND kind = 'external' AND asset = ${asset}), 0) AS TEXT) AS outside`,
  );
  const used = [row?.lost ?? "0", row?.outside ?? "0"].map(BigInt);
  return used.every((units) => units + BigInt(amount) <= MAX_NATIVE_UNITS);
}

async function outcomeOf(
  db: D1Database,
  chain: string,
  { paymentId, acceptanceId }: { paymentId: string; acceptanceId: string },
): Promise<Accepted> {
  const ours = expr`SELECT acceptance_id = ${uuid(acceptanceId)} FROM accepted_payments
    WHERE chain = ${chain} AND payment_id = ${blob(paymentId)}`;
  const accepted = await scalar<number | null>(db, ours);
  if (accepted === null) return { status: "has_withdrawal" };
  return { status: accepted === 1 ? "accepted" : "accepted_before", chain };
}
