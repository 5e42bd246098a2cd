/**
 * The reconciliation: checks the invariants of the journal and of solvency in the database (see
 * docs/invariants.md). Its statements share nothing with the code that they check.
 *
 * It reads bounded chunks from checkpoints, so that D1 is never blocked for long. Each statement
 * sees one state of the database, so that operations in flight cause no differences.
 *
 * The recent scan follows the newest rows, minute by minute. The full scan starts again from the
 * first row: once a day in chunks, and at once when the operator asks.
 */
import { NOW } from "../platform/commit.ts";
import { queriesLeft } from "../platform/query-limit.ts";
import { all, batch, expr, first, holds, listed, scalar, sql } from "../platform/sql.ts";
import { toWireTime, toWireTimeOrNull } from "../platform/time.ts";
import { checkAlone } from "./check-alone.ts";
import { type Difference, differencesIn } from "./difference.ts";
import {
  openDifferences,
  report,
  reportStanding,
  resolveDifferences,
} from "./difference-alerts.ts";
import { checkHoldings, type HoldingsAt, type Surplus } from "./check-holdings.ts";
import { SCAN_KINDS, scanName, TURNS } from "./check-journal.ts";
import { checkOverdue } from "./check-records.ts";
import { type Keys, step } from "./scans.ts";

export type Reconciliation = {
  /** No difference is open, and everything was compared. */
  readonly ok: boolean;
  readonly checked_at: string;
  /** When the newest transfer and commit group were last reached; null before the first time. */
  readonly recent_finished_at: string | null;
  /** When everything had last been checked from the first row on. Cron does it once a day. */
  readonly full_finished_at: string | null;
  /** The block at which each chain's holdings were compared, or null if it could not be read. */
  readonly block: Readonly<Record<string, number | null>>;
  /** Every unresolved difference, including those that earlier reconciliations found. */
  readonly differences: readonly Difference[];
  /**
   * What the chains hold above what is issued, of the assets that this reconciliation compared. It
   * is no difference: anyone can send tokens to the vault. It shows deposits that were missed.
   */
  readonly surplus: readonly Surplus[];
  /** The scans have reached their ends, and every chain could be read. */
  readonly complete: boolean;
  /** A scan has not, because D1 limits the queries of an invocation. The next one continues. */
  readonly unfinished: boolean;
};

export type ReconcileOptions = Keys & {
  /** Chains whose holdings are compared, if `holdingsAt` is given. */
  readonly chains: readonly string[];
  readonly holdingsAt?: HoldingsAt | undefined;
  /** Checks everything from the first row on, or continues that. Default: a part of it. */
  readonly full?: boolean | "continue" | undefined;
};

/** Chunks of a full scan that the operator asks for. */
const MAX_CHUNKS_FULL = 100_000;
/** Chunks of the daily scan in one minute. What is in the archive is not scanned. */
const FULL_CHUNKS_PER_RUN = 20;
const FULL_EVERY_MS = 86_400_000;
/** A chunk begins only if the invocation has these queries left: its checks and what they find. */
const QUERIES_PER_CHUNK = 60;

const FOLLOWED = [scanName("recent", "transfers"), scanName("recent", "groups")];
const FULL_SCANS = SCAN_KINDS.map((kind) => scanName("full", kind));
/** Mark of a full scan that has not ended. The one over transfers is marked with its end. */
const RUNNING = "running";

export async function reconcile(
  db: D1Database,
  options: ReconcileOptions,
): Promise<Reconciliation> {
  const recentDone = await scanRecent(db, options);
  if (options.full === true) await startFull(db);
  const { fullDone, block, surplus } = recentDone ? await checkRest(db, options) : NOT_CHECKED;
  const now = await scalar<number>(db, NOW);
  const differences = await openDifferences(db);
  const chainsRead = Object.values(block).every((at) => at !== null);
  const unfinished = !recentDone || (isFull(options) && !fullDone);
  return {
    ok: !unfinished && chainsRead && differences.length === 0,
    checked_at: toWireTime(now),
    ...(await lastFinished(db)),
    block,
    differences,
    surplus,
    complete: !unfinished && chainsRead,
    unfinished,
  };
}

const NOT_CHECKED = { fullDone: false, block: {}, surplus: [] };

/** Follows the newest transfers and groups, in turn. Returns whether all have been checked. */
export async function scanRecent(
  db: D1Database,
  keys: Keys,
  chunks = MAX_CHUNKS_FULL,
): Promise<boolean> {
  await openScans(db);
  let [transfersDone, groupsDone] = [false, false];
  for (let count = 0; count < chunks && !(transfersDone && groupsDone); count++) {
    if (queriesLeft(db) < 2 * QUERIES_PER_CHUNK) return false;
    transfersDone ||= await step(db, "recent", "transfers", keys);
    groupsDone ||= await step(db, "recent", "groups", keys);
  }
  return transfersDone && groupsDone;
}

/** Checks what does not follow the newest rows, and a part of the daily scan. */
export async function checkRest(
  db: D1Database,
  options: ReconcileOptions,
): Promise<Pick<Reconciliation, "block" | "surplus"> & { readonly fullDone: boolean }> {
  const held = await compareHoldings(db, options);
  await report(db, await checkAlone("expiries", () => overdue(db)));
  await report(db, await checkAlone("checkpoints", () => checkCheckpoints(db)));
  for (const kind of TURNS) await step(db, "recent", kind, options);
  if (!isFull(options)) await startFullIfDue(db);
  const chunks = isFull(options) ? MAX_CHUNKS_FULL : FULL_CHUNKS_PER_RUN;
  return { ...held, fullDone: await continueFull(db, chunks, options) };
}

/** Reports them itself, because it resolves those that are no longer found. */
async function overdue(db: D1Database): Promise<readonly Difference[]> {
  const { results, failed } = await checkOverdue(db);
  await reportStanding(db, "expiry_overdue", results);
  return failed;
}

/** A checkpoint ahead of the newest row would make the scans step over the rows before it. */
function checkCheckpoints(db: D1Database): Promise<readonly Difference[]> {
  return differencesIn(
    db,
    "transfer_invalid",
    sql`SELECT hex('all') AS owner, 'checkpoint' AS kind, c.scan AS asset, '0' AS amount,
        'the scan stands at ' || c.position || ', but the newest row is '
          || coalesce(n.newest, 'null') || '. Set it back by SQL' AS detail
      FROM ledger_checkpoints c JOIN (
        SELECT 'transfers' AS kind, (SELECT max(transfer_id) FROM transfers) AS newest
        UNION ALL SELECT 'groups', (SELECT max(seq) FROM commit_groups)) n
      ON c.scan IN (n.kind, 'full_' || n.kind) WHERE c.position > coalesce(n.newest, 0)`,
  );
}

function isFull({ full }: ReconcileOptions): boolean {
  return full === true || full === "continue";
}

/** Continues a full scan by so many chunks of each kind. Whether none is unfinished any more. */
async function continueFull(db: D1Database, chunks: number, keys: Keys): Promise<boolean> {
  const running = await all<{ scan: string }>(
    db,
    sql`SELECT scan FROM ledger_checkpoints WHERE mark <> ''`,
  );
  for (const kind of SCAN_KINDS) {
    const scan = scanName("full", kind);
    if (!running.some((row) => row.scan === scan)) continue;
    let done = false;
    for (let count = 0; !done && count < chunks; count++) {
      if (queriesLeft(db) < QUERIES_PER_CHUNK) return false;
      done = await step(db, "full", kind, keys);
    }
    if (!done) return false;
    await all(db, sql`UPDATE ledger_checkpoints SET mark = '' WHERE scan = ${scan}`);
  }
  return true;
}

async function startFullIfDue(db: D1Database): Promise<void> {
  const isDue = expr`SELECT total(mark <> '') = 0 AND (count(finished_at) < count(*)
      OR min(finished_at) < ${NOW} - ${FULL_EVERY_MS})
    FROM ledger_checkpoints WHERE scan IN (${listed(FULL_SCANS)})`;
  if (await holds(db, isDue)) await startFull(db);
}

async function startFull(db: D1Database): Promise<void> {
  await batch(db, [
    sql`DELETE FROM checked_balances WHERE scan = ${scanName("full", "transfers")}`,
    sql`UPDATE ledger_checkpoints SET position = 0, mark = ${RUNNING}
      WHERE scan IN (${listed(FULL_SCANS)})`,
    // Fixed now, so that the scan ends even if transfers are posted faster than it reads.
    sql`UPDATE ledger_checkpoints
      SET mark = (SELECT CAST(coalesce(max(transfer_id), 0) AS TEXT) FROM transfers)
      WHERE scan = ${scanName("full", "transfers")}`,
  ]);
}

async function openScans(db: D1Database): Promise<void> {
  const names = [...SCAN_KINDS.map((kind) => scanName("recent", kind)), ...FULL_SCANS];
  await all(
    db,
    sql`INSERT INTO ledger_checkpoints (scan, position, mark) SELECT s.value, 0, ''
      FROM (${listed(names)}) s
      WHERE NOT EXISTS (SELECT 1 FROM ledger_checkpoints c WHERE c.scan = s.value)`,
  );
}

/** When all scans of a kind had last reached the end. */
export async function lastFinished(
  db: D1Database,
): Promise<Pick<Reconciliation, "recent_finished_at" | "full_finished_at">> {
  const of = (scans: readonly string[]) =>
    sql`(SELECT iif(count(finished_at) < count(*), NULL, min(finished_at))
      FROM ledger_checkpoints WHERE scan IN (${listed(scans)}))`;
  const row = await first<{ recent: number | null; full: number | null }>(
    db,
    sql`SELECT ${of(FOLLOWED)} AS recent, ${of(FULL_SCANS)} AS full`,
  );
  return {
    recent_finished_at: toWireTimeOrNull(row?.recent ?? null),
    full_finished_at: toWireTimeOrNull(row?.full ?? null),
  };
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
    block[chain] = null;
    const differences = await checkAlone(`holdings of ${chain}`, async () => {
      const checked = await checkHoldings(db, chain, holdingsAt);
      block[chain] = checked.block;
      surplus.push(...checked.surplus);
      await resolveDifferences(db, "holdings_short", checked.cleared);
      return checked.differences;
    });
    await report(db, differences);
  }
  return { block, surplus };
}
