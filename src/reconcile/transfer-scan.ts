/** Where a scan over transfers continues, and where the full one ends. */
import { expr, first, literal, prepare, sql } from "../platform/sql.ts";
import { scanName, type Scan } from "./check-journal.ts";
import { DELIVERED } from "../ledger/released.ts";

/** What a scan over transfers checks next. */
type NextTransfers = {
  readonly after: number;
  /** Null: the scan has reached its end. */
  readonly upTo: number | null;
  /** Transfers after the checkpoint may have been released. */
  readonly released: boolean;
};

const NO_END = literal(Number.MAX_SAFE_INTEGER);

/** A full scan ends at the transfer that was the newest when it started (`mark`). */
export async function nextTransfers(
  db: D1Database,
  scan: Scan,
  limit: number,
): Promise<NextTransfers> {
  const row = await first<{ after: number; up_to: number | null; released: number }>(
    db,
    sql`SELECT c.position AS after, c.position < ${DELIVERED} AS released,
        (SELECT max(transfer_id) FROM (
          SELECT t.transfer_id FROM transfers t WHERE t.transfer_id > c.position
            AND t.transfer_id <= iif(c.mark = '', ${NO_END}, CAST(c.mark AS INTEGER))
          ORDER BY t.transfer_id LIMIT ${limit})) AS up_to
      FROM ledger_checkpoints c WHERE c.scan = ${scanName(scan, "transfers")}`,
  );
  if (row === undefined) return { after: 0, upTo: null, released: false };
  const { after, up_to: upTo, released } = row;
  return { after, upTo, released: released === 1 };
}

/**
 * Moves the full scan to the end of the last seal, whose balances are stored. The recent scan has
 * checked what it steps over, and `journal verify` checks it in the archive.
 */
export async function stepOverReleased(db: D1Database): Promise<void> {
  const scan = scanName("full", "transfers");
  const isBehind = expr`(SELECT position FROM ledger_checkpoints WHERE scan = ${scan}) < ${DELIVERED}`;
  const statements = [
    sql`DELETE FROM checked_balances WHERE scan = ${scan} AND ${isBehind}`,
    sql`INSERT INTO checked_balances (scan, account_id, balance, traded, traded_usdc)
      SELECT ${scan}, account_id, balance, traded, traded_usdc FROM sealed_balances WHERE ${isBehind}`,
    sql`UPDATE ledger_checkpoints
      SET position = (SELECT up_to_transfer FROM journal_seals ORDER BY number DESC LIMIT 1)
      WHERE scan = ${scan} AND ${isBehind}`,
  ];
  await db.batch(statements.map((statement) => prepare(db, statement)));
}
