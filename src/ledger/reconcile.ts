/**
 * The reconciliation: checks the invariants of the journal and of solvency in the database (see
 * docs/invariants.md). Its statements share nothing with the code that they check.
 *
 * It reads bounded chunks from checkpoints, so that D1 is never blocked for long. Each statement
 * sees one state of the database, so that operations in flight cause no differences.
 *
 * The recent walk follows the newest rows, minute by minute. The full walk starts again from the
 * first row: once a day in chunks, and at once when the operator asks.
 */
import { eq } from "drizzle-orm";
import { NOW } from "../platform/commit.ts";
import { all, first, prepare, type Sql, sql } from "../platform/sql.ts";
import { toWireTime, toWireTimeOrNull } from "../platform/time.ts";
import { checkAlone, type Chunk } from "./check-alone.ts";
import type { Difference } from "./difference.ts";
import { openDifferences, report, reportStanding, resolve } from "./difference-alerts.ts";
import {
  type AddressOf,
  checkAddresses,
  checkCredits,
  nextAddresses,
} from "./reconcile-addresses.ts";
import { checkHoldings, type HoldingsAt, type Surplus } from "./reconcile-holdings.ts";
import { checkEvents, checkStreams, nextStreams } from "./reconcile-events.ts";
import {
  advanceTransferScan,
  checkAccounts,
  checkTotals,
  checkTransfers,
  nextAccounts,
  positionOf,
  type ScanKind,
  scanName,
  type Walk,
} from "./reconcile-journal.ts";
import type { MacKeys } from "../auth/event-mac.ts";
import { nextUsers } from "../auth/compare-rights.ts";
import { checkRights } from "./reconcile-rights.ts";
import { checkLatePostings, checkOverdue, checkRecords, nextChange } from "./reconcile-records.ts";
import { ledgerCheckpoints } from "./tables.ts";
import { nextTransfers, stepOverReleased } from "./transfer-scan.ts";
import { read } from "../platform/read.ts";

export type { HoldingsAt } from "./reconcile-holdings.ts";

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
  /** Verify that the service wrote the withdrawals, and the audit events of rights. */
  readonly macKeys: MacKeys;
  /** Derives deposit addresses, with which their rows are compared. */
  readonly addressOf?: AddressOf | undefined;
  /** Checks everything from the first row on. Without it a part of the daily walk is checked. */
  readonly full?: boolean | undefined;
};

/** Rows a chunk. One chunk takes D1 some ten milliseconds. */
const TRANSFERS_PER_CHUNK = 2_000;
const GROUPS_PER_CHUNK = 500;
const ACCOUNTS_PER_CHUNK = 2_000;
const STREAMS_PER_CHUNK = 500;
const USERS_PER_CHUNK = 100;
/** Deriving an address takes some 50 µs of the Worker's time. */
const ADDRESSES_PER_CHUNK = 500;
/** Chunks of each scan in one reconciliation: more than the busiest journal fills in a minute. */
const MAX_CHUNKS = 60;
const MAX_CHUNKS_FULL = 100_000;
/** Chunks of the daily walk in one run of cron. What is in the archive is not walked. */
const FULL_CHUNKS_PER_RUN = 20;
const FULL_EVERY_MS = 86_400_000;

const SCAN_KINDS = ["transfers", "groups", "accounts", "streams", "rights", "addresses"] as const;
const FULL_SCANS = JSON.stringify(SCAN_KINDS.map((kind) => scanName("full", kind)));
/** Mark of a full scan that has not ended. The one over transfers is marked with its end. */
const RUNNING = "running";

export async function reconcile(
  db: D1Database,
  options: ReconcileOptions,
): Promise<Reconciliation> {
  await openScans(db);
  const recentDone = await walkRecent(db, options);
  if (options.full === true) await startFull(db);
  else await startFullIfDue(db);
  const chunks = options.full === true ? MAX_CHUNKS_FULL : FULL_CHUNKS_PER_RUN;
  await walkFull(db, chunks, options);
  await report(db, await checkAlone("expiries", () => overdue(db)));
  const { block, surplus } = await compareHoldings(db, options);
  const now = await first<{ at: number }>(db, sql`SELECT ${NOW} AS at`);
  const differences = await openDifferences(db);
  const complete = recentDone && Object.values(block).every((at) => at !== null);
  return {
    ok: complete && differences.length === 0,
    checked_at: toWireTime(now?.at ?? Date.now()),
    ...(await lastFinished(db)),
    block,
    differences,
    surplus,
    complete,
  };
}

/** Reports them itself, because it resolves those that are no longer found. */
async function overdue(db: D1Database): Promise<readonly Difference[]> {
  const { results, failed } = await checkOverdue(db);
  await reportStanding(db, "expiry_overdue", results);
  return failed;
}

/** Follows the newest rows. Returns whether they have all been checked. */
async function walkRecent(db: D1Database, keys: Keys): Promise<boolean> {
  const transfersDone = await scanTransfers(db, "recent", MAX_CHUNKS);
  const groupsDone = await scanGroups(db, "recent", MAX_CHUNKS, keys);
  // Accounts, streams, users and addresses without recent changes are checked in turn.
  await scanAccounts(db, "recent", 1);
  await scanStreams(db, "recent", 1);
  await scanRights(db, "recent", 1, keys);
  await scanAddresses(db, "recent", 1, keys);
  return transfersDone && groupsDone;
}

/**
 * Follows the newest transfers and groups by so many chunks of each, for the sealer: cron alone
 * walks at most 120 000 transfers a minute, which after an outage would hold sealing back.
 */
export async function walkOn(db: D1Database, keys: Keys, chunks: number): Promise<void> {
  await openScans(db);
  await scanTransfers(db, "recent", chunks);
  await scanGroups(db, "recent", chunks, keys);
}

/** What the Worker's secrets say of rows that SQL can edit. */
type Keys = Pick<ReconcileOptions, "macKeys" | "addressOf">;
type Scan = (db: D1Database, walk: Walk, chunks: number, keys: Keys) => Promise<boolean>;

const SCANS: Readonly<Record<ScanKind, Scan>> = {
  transfers: scanTransfers,
  groups: scanGroups,
  accounts: scanAccounts,
  streams: scanStreams,
  rights: scanRights,
  addresses: scanAddresses,
};

/** Continues the full walk, if one is running. Each scan reads at most so many chunks. */
async function walkFull(db: D1Database, chunks: number, keys: Keys): Promise<void> {
  for (const kind of SCAN_KINDS) {
    const scan = scanName("full", kind);
    const [row] = await read(db, ({ select }) =>
      select().from(ledgerCheckpoints).where(eq(ledgerCheckpoints.scan, scan)),
    );
    if (row === undefined || row.mark === "") continue;
    if (!(await SCANS[kind](db, "full", chunks, keys))) return;
    await all(db, sql`UPDATE ledger_checkpoints SET mark = '' WHERE scan = ${scan}`);
  }
}

async function startFullIfDue(db: D1Database): Promise<void> {
  const row = await first<{ due: number }>(
    db,
    sql`SELECT total(mark <> '') = 0 AND (count(finished_at) < count(*)
        OR min(finished_at) < ${NOW} - ${FULL_EVERY_MS}) AS due
      FROM ledger_checkpoints WHERE scan IN (SELECT value FROM json_each(${FULL_SCANS}))`,
  );
  if (row?.due === 1) await startFull(db);
}

async function startFull(db: D1Database): Promise<void> {
  const restart = [
    sql`DELETE FROM checked_balances WHERE scan = ${scanName("full", "transfers")}`,
    sql`UPDATE ledger_checkpoints SET position = 0, mark = ${RUNNING}
      WHERE scan IN (SELECT value FROM json_each(${FULL_SCANS}))`,
    // Its end, so that it ends although transfers are posted faster than it walks.
    sql`UPDATE ledger_checkpoints
      SET mark = (SELECT CAST(coalesce(max(transfer_id), 0) AS TEXT) FROM transfers)
      WHERE scan = ${scanName("full", "transfers")}`,
  ];
  await db.batch(restart.map((statement) => prepare(db, statement)));
}

async function openScans(db: D1Database): Promise<void> {
  const names = JSON.stringify(
    SCAN_KINDS.flatMap((kind) => [scanName("recent", kind), scanName("full", kind)]),
  );
  await all(
    db,
    sql`INSERT INTO ledger_checkpoints (scan, position, mark) SELECT s.value, 0, ''
      FROM json_each(${names}) s
      WHERE NOT EXISTS (SELECT 1 FROM ledger_checkpoints c WHERE c.scan = s.value)`,
  );
}

/** When all scans of a walk had last reached the end. */
export async function lastFinished(
  db: D1Database,
): Promise<Pick<Reconciliation, "recent_finished_at" | "full_finished_at">> {
  const of = (names: readonly string[]) =>
    first<{ at: number | null }>(
      db,
      sql`SELECT iif(count(finished_at) < count(*), NULL, min(finished_at)) AS at
        FROM ledger_checkpoints WHERE scan IN (SELECT value FROM json_each(${JSON.stringify(names)}))`,
    );
  const [recent, full] = await Promise.all([
    of([scanName("recent", "transfers"), scanName("recent", "groups")]),
    of(SCAN_KINDS.map((kind) => scanName("full", kind))),
  ]);
  return {
    recent_finished_at: toWireTimeOrNull(recent?.at ?? null),
    full_finished_at: toWireTimeOrNull(full?.at ?? null),
  };
}

/**
 * Returns whether the newest transfer has been checked. Two reconciliations at once are harmless,
 * because the checkpoint advances only from where a chunk starts.
 */
async function scanTransfers(db: D1Database, walk: Walk, chunks: number): Promise<boolean> {
  for (let count = 0; count < chunks; count++) {
    const checkedGroup = await positionOf(db, scanName(walk, "groups"));
    const { after, upTo, released } = await nextTransfers(db, walk, TRANSFERS_PER_CHUNK);
    if (walk === "full" && released) {
      await stepOverReleased(db);
      continue;
    }
    if (upTo === null) {
      await report(db, await checkAlone("sums", () => checkTotals(db, walk)));
      return finish(db, scanName(walk, "transfers"));
    }
    await report(db, await checkTransfers(db, walk, { after, upTo }));
    await report(db, await checkLatePostings(db, { after, upTo }, checkedGroup));
    await report(db, await checkAccounts(db, "transfer", { after, upTo }));
    // Last, so that a reconciliation that is interrupted before checks the chunk again.
    await advanceTransferScan(db, walk, { after, upTo });
  }
  return false;
}

async function scanGroups(
  db: D1Database,
  walk: Walk,
  chunks: number,
  { macKeys }: Keys,
): Promise<boolean> {
  const scan = scanName(walk, "groups");
  for (let count = 0; count < chunks; count++) {
    const after = await positionOf(db, scan);
    // By number and not by row: old groups are deleted, but the records that they opened and
    // ended must still be read in bounded chunks.
    const upTo = await lastId(
      db,
      sql`SELECT min(newest.seq, ${nextChange(after)} + ${GROUPS_PER_CHUNK - 1}) AS id
        FROM (SELECT seq FROM commit_groups ORDER BY seq DESC LIMIT 1) newest
        WHERE newest.seq > ${after}`,
    );
    if (upTo === null) return finish(db, scan);
    await report(db, await checkRecords(db, macKeys, { after, upTo }));
    await report(db, await checkCredits(db, { after, upTo }));
    await report(db, await checkEvents(db, { after, upTo }));
    await advance(db, scan, { from: after, to: upTo });
  }
  return false;
}

/** Checks accounts in turn, including those without recent transfers. */
function scanAccounts(db: D1Database, walk: Walk, chunks: number): Promise<boolean> {
  return scanInTurn(db, scanName(walk, "accounts"), chunks, {
    next: (after) => nextAccounts(after, ACCOUNTS_PER_CHUNK),
    check: (chunk) => checkAccounts(db, "account", chunk),
  });
}

/** Checks streams in turn, including those without recent events. */
function scanStreams(db: D1Database, walk: Walk, chunks: number): Promise<boolean> {
  return scanInTurn(db, scanName(walk, "streams"), chunks, {
    next: (after) => nextStreams(after, STREAMS_PER_CHUNK),
    check: (chunk) => checkStreams(db, walk, chunk),
  });
}

/** Compares in turn who may act for each user with their audit events. */
function scanRights(
  db: D1Database,
  walk: Walk,
  chunks: number,
  { macKeys }: Keys,
): Promise<boolean> {
  return scanInTurn(db, scanName(walk, "rights"), chunks, {
    next: (after) => nextUsers(after, USERS_PER_CHUNK),
    check: (chunk) => checkRights(db, macKeys, chunk),
  });
}

/** Compares the rows of deposit addresses in turn with the addresses that they derive. */
async function scanAddresses(
  db: D1Database,
  walk: Walk,
  chunks: number,
  { addressOf }: Keys,
): Promise<boolean> {
  const scan = scanName(walk, "addresses");
  if (addressOf === undefined) return finish(db, scan);
  return scanInTurn(db, scan, chunks, {
    next: (after) => nextAddresses(after, ADDRESSES_PER_CHUNK),
    check: (chunk) => checkAddresses(db, addressOf, chunk),
  });
}

/** Checks rows by their id. After the last one the scan starts again. */
async function scanInTurn(
  db: D1Database,
  scan: string,
  chunks: number,
  rows: {
    readonly next: (after: number) => Sql;
    readonly check: (chunk: Chunk) => Promise<readonly Difference[]>;
  },
): Promise<boolean> {
  for (let count = 0; count < chunks; count++) {
    const after = await positionOf(db, scan);
    const upTo = await lastId(db, rows.next(after));
    if (upTo !== null) await report(db, await rows.check({ after, upTo }));
    await advance(db, scan, { from: after, to: upTo ?? 0 });
    if (upTo === null) return finish(db, scan);
  }
  return false;
}

async function finish(db: D1Database, scan: string): Promise<true> {
  await all(db, sql`UPDATE ledger_checkpoints SET finished_at = ${NOW} WHERE scan = ${scan}`);
  return true;
}

async function advance(
  db: D1Database,
  scan: string,
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
    block[chain] = null;
    const differences = await checkAlone(`holdings of ${chain}`, async () => {
      const checked = await checkHoldings(db, chain, holdingsAt);
      block[chain] = checked.block;
      surplus.push(...checked.surplus);
      for (const account of checked.cleared) await resolve(db, "holdings_short", account);
      return checked.differences;
    });
    await report(db, differences);
  }
  return { block, surplus };
}
