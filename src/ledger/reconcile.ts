/**
 * The reconciliation: checks the invariants of the journal and of solvency in the database (see
 * docs/invariants.md). Its statements share nothing with the code that they check.
 *
 * It reads bounded chunks from checkpoints, so that D1 is never blocked for long. Each statement
 * sees one state of the database, so that operations in flight cause no differences.
 *
 * A difference becomes an alert that stays open until the operator resolves it, because the scan
 * that found it has moved on.
 */
import { and, desc, eq, isNull } from "drizzle-orm";
import { NOW } from "../platform/commit.ts";
import { log } from "../platform/log.ts";
import { all, first, prepare, type Sql, sql } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import type { Check, Difference } from "./difference.ts";
import { checkHoldings, type HoldingsAt, type Surplus } from "./reconcile-holdings.ts";
import {
  accountsInTransfers,
  accountsIn,
  advanceTransferScan,
  checkAccounts,
  checkTotals,
  checkTransfers,
  nextAccounts,
} from "./reconcile-journal.ts";
import { checkRecords } from "./reconcile-records.ts";
import { ledgerCheckpoints } from "./tables.ts";
import { read } from "../platform/read.ts";
import { alerts } from "../platform/tables.ts";

export type { HoldingsAt } from "./reconcile-holdings.ts";

export type Reconciliation = {
  /** No difference is open, and everything was compared. */
  readonly ok: boolean;
  readonly checked_at: string;
  /** The block at which each chain's holdings were compared, or null if it could not be read. */
  readonly block: Readonly<Record<string, number | null>>;
  /** Every unresolved difference, including those that earlier reconciliations found. */
  readonly differences: readonly Difference[];
  /**
   * What the chains hold above what is issued, of the assets that this reconciliation compared. It
   * is no difference: anyone can send tokens to the vault. It shows deposits that were missed.
   */
  readonly surplus: readonly Surplus[];
  /**
   * The scans have reached the newest transfer and commit group, and every chain could be read. If
   * a scan has not, the next reconciliation continues it.
   */
  readonly complete: boolean;
};

export type ReconcileOptions = {
  /** Chains whose holdings are compared, if `holdingsAt` is given. */
  readonly chains: readonly string[];
  readonly holdingsAt?: HoldingsAt | undefined;
  /** Starts again from the first transfer and checks every account. */
  readonly full?: boolean | undefined;
};

/** Rows a chunk. One chunk takes D1 some ten milliseconds. */
const TRANSFERS_PER_CHUNK = 2_000;
const GROUPS_PER_CHUNK = 500;
const ACCOUNTS_PER_CHUNK = 2_000;
/** Chunks of each scan in one reconciliation: more than the busiest journal fills in a minute. */
const MAX_CHUNKS = 60;
const MAX_CHUNKS_FULL = 100_000;
const MAX_LISTED = 200;

export async function reconcile(
  db: D1Database,
  options: ReconcileOptions,
): Promise<Reconciliation> {
  const full = options.full === true;
  const chunks = full ? MAX_CHUNKS_FULL : MAX_CHUNKS;
  await openScans(db, full);
  const transfersDone = await scanTransfers(db, chunks);
  const groupsDone = await scanGroups(db, chunks);
  await scanAccounts(db, full ? chunks : 1);
  if (transfersDone) await report(db, await checkTotals(db, full));
  const { block, surplus } = await compareHoldings(db, options);
  const now = await first<{ at: number }>(db, sql`SELECT ${NOW} AS at`);
  const differences = await openDifferences(db);
  const complete = transfersDone && groupsDone && Object.values(block).every((at) => at !== null);
  return {
    ok: complete && differences.length === 0,
    checked_at: toWireTime(now?.at ?? Date.now()),
    block,
    differences,
    surplus,
    complete,
  };
}

type Scan = "transfers" | "groups" | "accounts";

async function openScans(db: D1Database, full: boolean): Promise<void> {
  const open = sql`INSERT INTO ledger_checkpoints (scan, position, mark)
    SELECT s.value, 0, '' FROM json_each('["transfers","groups","accounts"]') s
    WHERE NOT EXISTS (SELECT 1 FROM ledger_checkpoints c WHERE c.scan = s.value)`;
  const restart = [
    sql`DELETE FROM checked_balances`,
    sql`UPDATE ledger_checkpoints SET position = 0
      WHERE scan IN ('transfers', 'groups', 'accounts')`,
  ];
  const statements = full ? [open, ...restart] : [open];
  await db.batch(statements.map((statement) => prepare(db, statement)));
}

/**
 * Returns whether the newest transfer has been checked. Two reconciliations at once are harmless,
 * because the checkpoint advances only from where a chunk starts.
 */
async function scanTransfers(db: D1Database, chunks: number): Promise<boolean> {
  for (let count = 0; count < chunks; count++) {
    const after = await positionOf(db, "transfers");
    const upTo = await lastId(
      db,
      sql`SELECT transfer_id AS id FROM transfers WHERE transfer_id > ${after}
        ORDER BY transfer_id LIMIT ${TRANSFERS_PER_CHUNK}`,
    );
    if (upTo === null) return true;
    await report(db, await checkTransfers(db, { after, upTo }));
    await report(db, await checkAccounts(db, accountsInTransfers({ after, upTo })));
    // Last, so that a reconciliation that is interrupted before checks the chunk again.
    await advanceTransferScan(db, { after, upTo });
  }
  return false;
}

async function scanGroups(db: D1Database, chunks: number): Promise<boolean> {
  for (let count = 0; count < chunks; count++) {
    const after = await positionOf(db, "groups");
    // By number and not by row: old groups are deleted, but the records that they opened and
    // ended must still be read in bounded chunks.
    const upTo = await lastId(
      db,
      sql`SELECT min(max(seq), ${after + GROUPS_PER_CHUNK}) AS id FROM commit_groups
        HAVING max(seq) > ${after}`,
    );
    if (upTo === null) return true;
    await report(db, await checkRecords(db, { after, upTo }));
    await advance(db, "groups", { from: after, to: upTo });
  }
  return false;
}

/** Checks all accounts in turn, including those without recent transfers. */
async function scanAccounts(db: D1Database, chunks: number): Promise<void> {
  for (let count = 0; count < chunks; count++) {
    const after = await positionOf(db, "accounts");
    const upTo = await lastId(db, nextAccounts(after, ACCOUNTS_PER_CHUNK));
    if (upTo !== null) await report(db, await checkAccounts(db, accountsIn({ after, upTo })));
    await advance(db, "accounts", { from: after, to: upTo ?? 0 });
    if (upTo === null) return;
  }
}

async function positionOf(db: D1Database, scan: Scan): Promise<number> {
  const [row] = await read(db, ({ select }) =>
    select().from(ledgerCheckpoints).where(eq(ledgerCheckpoints.scan, scan)),
  );
  return row?.position ?? 0;
}

async function advance(
  db: D1Database,
  scan: Scan,
  { from, to }: { from: number; to: number },
): Promise<void> {
  await all(
    db,
    sql`UPDATE ledger_checkpoints SET position = ${to} WHERE scan = ${scan} AND position = ${from}`,
  );
}

async function lastId(db: D1Database, chunk: Sql): Promise<number | null> {
  const row = await first<{ last: number | null }>(db, sql`SELECT max(id) AS last FROM (${chunk})`);
  return row?.last ?? null;
}

/** Compares the holdings of each chain. Returns its block and what it holds in surplus. */
async function compareHoldings(
  db: D1Database,
  { chains, holdingsAt }: ReconcileOptions,
): Promise<Pick<Reconciliation, "block" | "surplus">> {
  const block: Record<string, number | null> = {};
  const surplus: Surplus[] = [];
  if (holdingsAt === undefined) return { block, surplus };
  for (const chain of chains) {
    const checked = await checkHoldings(db, chain, holdingsAt);
    block[chain] = checked.block;
    surplus.push(...checked.surplus);
    await report(db, checked.differences);
    for (const account of checked.cleared) await resolve(db, "holdings_short", account);
  }
  return { block, surplus };
}

/** Raises an alert for each difference that has none yet, and logs it. */
async function report(db: D1Database, differences: readonly Difference[]): Promise<void> {
  for (const difference of differences) {
    const subject = subjectOf(difference);
    const raised = await all(
      db,
      sql`INSERT INTO alerts (kind, subject, detail, at)
        SELECT 'reconciliation', ${subject}, ${JSON.stringify(difference)}, ${NOW}
        WHERE NOT EXISTS (SELECT 1 FROM alerts
          WHERE kind = 'reconciliation' AND subject = ${subject} AND resolved_at IS NULL)
        RETURNING alert_id`,
    );
    if (raised.length > 0) log("error", "ledger.difference", { ...difference });
  }
}

/** Checks that compare the same account again and again, with an amount that may change. */
const CHECKS_OF_ACCOUNTS: ReadonlySet<Check> = new Set([
  "balance_mismatch",
  "pending_mismatch",
  "holdings_short",
]);

/** The alert's key: one per account for these checks, otherwise one per entry or record. */
function subjectOf({ check, account, detail }: Difference): string {
  const subject = `${check} ${account}`;
  return CHECKS_OF_ACCOUNTS.has(check) ? subject : `${subject}: ${detail}`;
}

async function resolve(db: D1Database, check: Check, account: string): Promise<void> {
  await all(
    db,
    sql`UPDATE alerts SET resolved_at = ${NOW}
      WHERE kind = 'reconciliation' AND subject = ${`${check} ${account}`} AND resolved_at IS NULL`,
  );
}

async function openDifferences(db: D1Database): Promise<Difference[]> {
  const rows = await read(db, ({ select }) =>
    select({ detail: alerts.detail })
      .from(alerts)
      .where(and(eq(alerts.kind, "reconciliation"), isNull(alerts.resolvedAt)))
      .orderBy(desc(alerts.alertId))
      .limit(MAX_LISTED),
  );
  return rows.map((row) => readDifference(row.detail));
}

/** Safe cast: only `report` writes these details. */
function readDifference(detail: string): Difference {
  return JSON.parse(detail) as Difference;
}
