/**
 * Makes the MACs of withdrawals that a release without them has accepted. Once for each chain, at
 * the first start of this release: the payer remembers it in its own storage, which SQL cannot
 * edit. From then on a row without a MAC was not written by this service.
 */
import type { MacKeys } from "../../auth/event-mac.ts";
import { approvalMac, MAC_COLUMNS, type MacRow, termsMac } from "../../ledger/withdrawal-mac.ts";
import { all, select, sql } from "../../platform/sql.ts";

const DONE = "withdrawals adopted";
const PER_STATEMENT = 500;

export async function adoptWithdrawals(
  storage: DurableObjectStorage,
  { db, keys, chain }: { readonly db: D1Database; readonly keys: MacKeys; readonly chain: string },
): Promise<void> {
  if ((await storage.get(DONE)) === true) return;
  for (let adopted = PER_STATEMENT; adopted === PER_STATEMENT;) {
    const rows = await all<MacRow>(
      db,
      sql`SELECT ${select(MAC_COLUMNS)} FROM withdrawals w
        WHERE w.status IN ('awaiting_approval', 'queued', 'submitted') AND w.chain = ${chain}
          AND w.terms_mac IS NULL LIMIT ${PER_STATEMENT}`,
    );
    const macs = rows.map((row) => ({
      id: row.withdrawalId,
      terms: termsMac(keys, row, row.waited === 1),
      approval: approvalMac(keys, row.withdrawalId),
    }));
    await all(
      db,
      sql`UPDATE withdrawals SET terms_mac = j.value ->> 'terms',
          approval_mac = iif(approved_at IS NULL, NULL, j.value ->> 'approval')
        FROM json_each(${JSON.stringify(macs)}) j
        WHERE withdrawal_id = unhex(j.value ->> 'id') AND terms_mac IS NULL
          AND status IN ('awaiting_approval', 'queued', 'submitted')`,
    );
    adopted = rows.length;
  }
  await storage.put(DONE, true);
}
