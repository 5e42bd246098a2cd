/**
 * Leaves out withdrawals that the payer must not sign, because their row is not what the service
 * wrote (withdrawal-mac.ts). Their funds stay reserved until an operator has looked.
 */
import { readUuid } from "../../platform/sql.ts";
import { alteredTerms, type MacRow } from "../../ledger/withdrawal-mac.ts";
import { park } from "./park-over-limit.ts";
import type { HeadView } from "./payer-context.ts";

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
    await park(context, "withdrawal_altered", {
      id,
      detail:
        `withdrawal ${id} on ${context.chain.chain} is not paid: ${problem}. ` +
        `Return the funds: withdrawals fail --id ${id}`,
    });
  }
  return good;
}
