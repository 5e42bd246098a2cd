/** Check `withdrawal_mismatch`: compares withdrawals with the MACs of what the service accepted. */
import type { MacKeys } from "../audit/event-mac.ts";
import { all, readUuid, select, sql } from "../platform/sql.ts";
import type { Chunk } from "./check-alone.ts";
import type { Difference } from "./difference.ts";
import { within } from "./check-journal.ts";
import { alteredTerms, MAC_COLUMNS, type MacRow } from "../ledger/withdrawal-mac.ts";

/**
 * Withdrawals that the service has not accepted or approved so (withdrawal-mac.ts). Earlier
 * releases made no MACs. The payer reports a row that needs one (payer/check-terms.ts).
 */
export async function checkOrders(
  db: D1Database,
  keys: MacKeys,
  chunk: Chunk,
): Promise<Difference[]> {
  const rows = await all<MacRow>(
    db,
    sql`SELECT ${select(MAC_COLUMNS)} FROM withdrawals w WHERE ${within("w.changed_group", chunk)}
      AND w.terms_mac IS NOT NULL`,
  );
  return rows.flatMap((row): Difference[] => {
    const problem = alteredTerms(keys, row);
    if (problem === undefined) return [];
    const id = readUuid(row.withdrawalId);
    return [
      {
        check: "withdrawal_mismatch",
        account: `${readUuid(row.userId)}/withdrawal/${id}`,
        amount: row.amount,
        detail: `${problem}. Next: npm run operator -- withdrawals fail --id ${id}`,
      },
    ];
  });
}
