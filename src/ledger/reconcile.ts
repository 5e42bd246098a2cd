/**
 * The reconciliation: INVARIANTS.md J1–J9 and S1, checked in the database by statements that share nothing with the
 * verbs they check. It goes on from checkpoints in bounded slices, so that D1 is never held for long; each statement sees
 * one status of the database, so nothing under way looks like a difference.
 *
 * A difference is an alert that stays open until the operator resolves it, since the walk that found it has moved on.
 */
import { NOW } from "../platform/commit.ts";
import { log } from "../platform/log.ts";
import { all, first, type Sql, sql } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import { checkHoldings, type HoldingsAt } from "./reconcile-holdings.ts";
import {
  accountsInTransfers,
  accountsOf,
  checkAccounts,
  checkTotals,
  checkTransfers,
  nextAccounts,
  passTransfers,
} from "./reconcile-journal.ts";
import { checkRecords } from "./reconcile-records.ts";
import type { Difference } from "./difference.ts";

export type { HoldingsAt } from "./reconcile-holdings.ts";

export type Reconciliation = {
  /** No difference is open, and everything was compared. */
  readonly ok: boolean;
  readonly checked_at: string;
  /** The block at which each chain's holdings were compared; null where the chain could not be asked. */
  readonly block: Readonly<Record<string, number | null>>;
  /** Every difference that nobody has resolved yet, whenever it was found. */
  readonly differences: readonly Difference[];
  /** Whether the walks have reached the newest transfer and group (otherwise the next run goes on) and every chain could be asked. */
  readonly complete: boolean;
};

export type ReconcileOptions = {
  /** Chains whose holdings are compared, by the function below; none without it. */
  readonly chains: readonly string[];
  readonly holdingsAt?: HoldingsAt | undefined;
  /** Starts from the first transfer again and looks at every account. */
  readonly full?: boolean | undefined;
};

/** Rows a slice; one slice holds D1 for some ten milliseconds. */
const TRANSFERS_PER_SLICE = 2_000;
const GROUPS_PER_SLICE = 500;
const ACCOUNTS_PER_SLICE = 2_000;
/** Slices of each walk in one run, above what a minute of the busiest journal makes. */
const SLICES_PER_RUN = 60;
const SLICES_PER_FULL_RUN = 100_000;
const MAX_SHOWN = 200;

export async function reconcile(
  db: D1Database,
  options: ReconcileOptions,
): Promise<Reconciliation> {
  const slices = options.full === true ? SLICES_PER_FULL_RUN : SLICES_PER_RUN;
  await openWalks(db, options.full === true);
  const transfersDone = await walkTransfers(db, slices);
  const groupsDone = await walkGroups(db, slices);
  await walkAccounts(db, options.full === true ? slices : 1);
  if (transfersDone) await report(db, await checkTotals(db, options.full === true));
  const block: Record<string, number | null> = {};
  if (options.holdingsAt !== undefined) {
    for (const chain of options.chains) {
      const { differences, at, cleared } = await checkHoldings(db, chain, options.holdingsAt);
      block[chain] = at;
      await report(db, differences);
      for (const account of cleared) await resolve(db, "S1", account);
    }
  }
  const now = await first<{ at: number }>(db, sql`SELECT ${NOW} AS at`);
  const differences = await openDifferences(db);
  const complete = transfersDone && groupsDone && Object.values(block).every((at) => at !== null);
  return {
    ok: complete && differences.length === 0,
    checked_at: toWireTime(now?.at ?? Date.now()),
    block,
    differences,
    complete,
  };
}

type Walk = "transfers" | "groups" | "accounts";

async function openWalks(db: D1Database, full: boolean): Promise<void> {
  const restart: Sql[] = full
    ? [
        sql`DELETE FROM checked_balances`,
        sql`UPDATE ledger_checkpoints SET position = 0 WHERE walk IN ('transfers', 'groups', 'accounts')`,
      ]
    : [];
  const open = sql`INSERT INTO ledger_checkpoints (walk, position, mark) SELECT w.value, 0, '' FROM json_each('["transfers","groups","accounts"]') w
    WHERE NOT EXISTS (SELECT 1 FROM ledger_checkpoints c WHERE c.walk = w.value)`;
  await db.batch(
    [open, ...restart].map((statement) => db.prepare(statement.text).bind(...statement.params)),
  );
}

async function positionOf(db: D1Database, walk: Walk): Promise<number> {
  return (
    (
      await first<{ position: number }>(
        db,
        sql`SELECT position FROM ledger_checkpoints WHERE walk = ${walk}`,
      )
    )?.position ?? 0
  );
}

/** True once the newest transfer has been checked. Two runs at once are harmless: a slice counts only from its start. */
async function walkTransfers(db: D1Database, slices: number): Promise<boolean> {
  for (let slice = 0; slice < slices; slice++) {
    const after = await positionOf(db, "transfers");
    const upTo = await endOf(
      db,
      sql`SELECT transfer_id AS id FROM transfers WHERE transfer_id > ${after} ORDER BY transfer_id LIMIT ${TRANSFERS_PER_SLICE}`,
    );
    if (upTo === null) return true;
    await report(db, await checkTransfers(db, { after, upTo }));
    await report(db, await checkAccounts(db, accountsInTransfers({ after, upTo })));
    // Last: a run that dies before it looks at the slice again.
    await passTransfers(db, { after, upTo });
  }
  return false;
}

async function walkGroups(db: D1Database, slices: number): Promise<boolean> {
  for (let slice = 0; slice < slices; slice++) {
    const after = await positionOf(db, "groups");
    // By number, not by row: groups are trimmed by age, and what they opened and ended is still to be read in slices.
    const upTo = await endOf(
      db,
      sql`SELECT min(max(seq), ${after + GROUPS_PER_SLICE}) AS id FROM commit_groups HAVING max(seq) > ${after}`,
    );
    if (upTo === null) return true;
    await report(db, await checkRecords(db, { after, upTo }));
    await all(
      db,
      sql`UPDATE ledger_checkpoints SET position = ${upTo} WHERE walk = 'groups' AND position = ${after}`,
    );
  }
  return false;
}

/** Every account in turn, those that no transfer has touched for years too. */
async function walkAccounts(db: D1Database, slices: number): Promise<void> {
  for (let slice = 0; slice < slices; slice++) {
    const after = await positionOf(db, "accounts");
    const upTo = await endOf(db, nextAccounts(after, ACCOUNTS_PER_SLICE));
    if (upTo !== null) await report(db, await checkAccounts(db, accountsOf({ after, upTo })));
    await all(
      db,
      sql`UPDATE ledger_checkpoints SET position = ${upTo ?? 0} WHERE walk = 'accounts' AND position = ${after}`,
    );
    if (upTo === null) return;
  }
}

async function endOf(db: D1Database, slice: Sql): Promise<number | null> {
  return (
    (await first<{ last: number | null }>(db, sql`SELECT max(id) AS last FROM (${slice})`))?.last ??
    null
  );
}

/** Raised once: a row that stays open, and one line in the log. */
async function report(db: D1Database, differences: readonly Difference[]): Promise<void> {
  for (const difference of differences) {
    const subject = subjectOf(difference);
    const raised = await all(
      db,
      sql`INSERT INTO alerts (kind, subject, detail, at) SELECT 'reconciliation', ${subject}, ${JSON.stringify(difference)}, ${NOW}
        WHERE NOT EXISTS (SELECT 1 FROM alerts WHERE kind = 'reconciliation' AND subject = ${subject} AND resolved_at IS NULL) RETURNING alert_id`,
    );
    if (raised.length > 0) log("error", "ledger.difference", { ...difference });
  }
}

/** What is compared again and again is one thing per account, whatever the amount; the rest is one per entry or record. */
function subjectOf({ check, account, detail }: Difference): string {
  return check === "J3" || check === "J6" || check === "S1"
    ? `${check} ${account}`
    : `${check} ${account}: ${detail}`;
}

async function resolve(db: D1Database, check: Difference["check"], account: string): Promise<void> {
  await all(
    db,
    sql`UPDATE alerts SET resolved_at = ${NOW} WHERE kind = 'reconciliation' AND subject = ${`${check} ${account}`} AND resolved_at IS NULL`,
  );
}

async function openDifferences(db: D1Database): Promise<Difference[]> {
  const rows = await all<{ detail: string }>(
    db,
    sql`SELECT detail FROM alerts WHERE kind = 'reconciliation' AND resolved_at IS NULL ORDER BY alert_id DESC LIMIT ${MAX_SHOWN}`,
  );
  return rows.map((row) => readDifference(row.detail));
}

/** Written by `report` alone. */
function readDifference(detail: string): Difference {
  return JSON.parse(detail) as Difference;
}
