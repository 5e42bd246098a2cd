/** Sets queued withdrawals aside that the payer must not sign, or that the vault can never pay. */
import { alertRow } from "../../platform/alert.ts";
import { commit, newGroup } from "../../platform/commit.ts";
import { all, sql, uuid, readUuid } from "../../platform/sql.ts";
import { SKIP_REASON } from "../../chain/vault-calls.ts";
import { isEverPayable, type Job, type PaymentLimits } from "./choose-payments.ts";
import type { HeadView } from "./payer-context.ts";
import { alteredTerms, type MacRow } from "../../ledger/withdrawal-mac.ts";

/** Skips before a withdrawal is parked: about an hour, in which the limit may be raised again. */
const MAX_LIMIT_SKIPS = 6;
/** After this time a parked withdrawal is tried again, even if no operator looked at it. */
const PARKED_MS = 30 * 86_400_000;

/** Returns the jobs without those that it parked. */
export async function parkOverLimit(
  context: HeadView,
  jobs: readonly Job[],
  limits: PaymentLimits,
): Promise<Job[]> {
  const over = jobs.filter((job) => !isEverPayable(job, limits));
  const skipped = over.length === 0 ? new Set() : await readOftenSkipped(context, over);
  const parked = new Set(over.filter(({ paymentId }) => skipped.has(paymentId)));
  for (const job of parked)
    await park(context, "withdrawal_parked", {
      id: job.withdrawalId,
      detail:
        `withdrawal ${job.withdrawalId} of ${job.amount} ${job.asset} on ${context.chain.chain} ` +
        `exceeds the vault's largest payment of ${limits.get(job.asset)?.maximum}. Raise the ` +
        `limit, then withdrawals retry --id ${job.withdrawalId}; or return the funds: ` +
        `withdrawals fail --id ${job.withdrawalId}`,
    });
  return jobs.filter((job) => !parked.has(job));
}

async function readOftenSkipped(
  { db, chain }: HeadView,
  jobs: readonly Job[],
): Promise<ReadonlySet<string>> {
  const ids = JSON.stringify(jobs.map(({ paymentId }) => paymentId.slice(2)));
  const rows = await all<{ id: string }>(
    db,
    sql`SELECT lower(hex(e.payment_id)) AS id FROM json_each(${ids}) j
      CROSS JOIN vault_events e INDEXED BY vault_events_payment
        ON e.payment_id = unhex(j.value)
      WHERE e.chain = ${chain.chain} AND e.kind = 'Skipped' AND e.skip_reason = ${SKIP_REASON.overLimit}
      GROUP BY e.payment_id HAVING count(*) >= ${MAX_LIMIT_SKIPS}`,
  );
  return new Set(rows.map(({ id }) => `0x${id}`));
}

/** Sets a withdrawal aside until an operator looks at it, and raises an alert. */
async function park(
  { db }: HeadView,
  kind: "withdrawal_parked" | "withdrawal_altered",
  { id, detail }: { readonly id: string; readonly detail: string },
): Promise<void> {
  const group = newGroup();
  await commit(db, group, [
    sql`UPDATE withdrawals SET not_before = ${group.at} + ${PARKED_MS}
      WHERE withdrawal_id = ${uuid(id)} AND status = 'queued'`,
    alertRow(group, kind, id, detail),
  ]);
}

/** Returns the rows that may be paid, and raises the alert `withdrawal_altered` for the others. */
export async function withTermsAsOrdered<Row extends MacRow>(
  context: HeadView,
  rows: readonly Row[],
): Promise<Row[]> {
  const good: Row[] = [];
  for (const row of rows) {
    const problem = alteredTerms(context.settings, row);
    if (problem === undefined) {
      good.push(row);
      continue;
    }
    const id = readUuid(row.withdrawalId);
    const detail =
      `withdrawal ${id} on ${context.chain.chain} is not paid: ${problem}. ` +
      `Return the funds: withdrawals fail --id ${id}`;
    await park(context, "withdrawal_altered", { id, detail });
  }
  return good;
}
