/**
 * Leaves out withdrawals that the payer must not sign: those whose row is not what the service
 * wrote (withdrawal-mac.ts), and those that the vault has paid under the id of an earlier release.
 * Their funds stay reserved until an operator has looked.
 */
import { all, readUuid, sql } from "../../platform/sql.ts";
import { unsaltedPaymentId } from "../../chain/payment-id.ts";
import { alteredTerms, type MacRow } from "../../ledger/withdrawal-mac.ts";
import { park } from "./park-over-limit.ts";
import type { HeadView } from "./payer-context.ts";

/** Returns the rows that may be paid, and raises the alert `withdrawal_altered` for the others. */
export async function withTermsAsOrdered<Row extends MacRow>(
  context: HeadView,
  rows: readonly Row[],
): Promise<Row[]> {
  const paid = await paidUnsalted(context, rows);
  const good: Row[] = [];
  for (const row of rows) {
    const problem = paid.has(row)
      ? "the vault has paid the id that an earlier release gave to it"
      : alteredTerms(context.settings, row);
    if (problem === undefined) {
      good.push(row);
      continue;
    }
    const id = readUuid(row.withdrawalId);
    await park(context, "withdrawal_altered", {
      id,
      detail:
        `withdrawal ${id} on ${context.chain.chain} is not paid: ${problem}. ` +
        `Return the funds: withdrawals fail --id ${id}`,
    });
  }
  return good;
}

/** The withdrawals that were ordered and paid before a restore to before their order. */
async function paidUnsalted<Row extends MacRow>(
  { db, chain }: HeadView,
  rows: readonly Row[],
): Promise<ReadonlySet<Row>> {
  const byId = new Map(
    rows.map((row) => [unsaltedPaymentId(row.userId, row.clientWithdrawalId).slice(2), row]),
  );
  const found = await all<{ id: string }>(
    db,
    sql`SELECT DISTINCT lower(hex(e.payment_id)) AS id
      FROM json_each(${JSON.stringify([...byId.keys()])}) j
      CROSS JOIN vault_events e INDEXED BY vault_events_payment ON e.payment_id = unhex(j.value)
      WHERE e.chain = ${chain.chain} AND e.kind = 'Paid'`,
  );
  return new Set(
    found.flatMap(({ id }) => {
      const row = byId.get(id);
      // A withdrawal of an earlier release has that id itself. Then the vault decides.
      return row === undefined || row.paymentId.toLowerCase() === id ? [] : [row];
    }),
  );
}
