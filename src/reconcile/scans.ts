/** The scans of the reconciliation: what each reads next, and what it checks of that. */
import type { MacKeys } from "../audit/event-mac.ts";
import { DELIVERED } from "../ledger/released.ts";
import type { Deployed } from "../platform/command-text.ts";
import { NOW } from "../platform/commit.ts";
import {
  all,
  atom,
  batch,
  type Expr,
  expr,
  first,
  literal,
  raw,
  type Sql,
  sql,
} from "../platform/sql.ts";
import { type AddressOf, checkAddresses, checkCredits } from "./check-addresses.ts";
import { checkAlone, checkEach, type Checks, type Chunk, type Rows } from "./check-alone.ts";
import {
  accountChecks,
  accountsInTransfers,
  balanceChecks,
  checkPromises,
  checkSums,
} from "./check-balances.ts";
import { checkEvents, checkStreams } from "./check-events.ts";
import {
  advanceTransferScan,
  checkRunning,
  checkTotals,
  checkTransfers,
  type ScanScope,
  type ScanKind,
  scanName,
  TURNS,
} from "./check-journal.ts";
import { checkOrders, checkPayments, checkPostings, nextChange } from "./check-records.ts";
import { checkQuotes, checkRequests, checkTerms } from "./check-trades.ts";
import type { Difference } from "./difference.ts";
import { report } from "./difference-alerts.ts";

/** Rows a chunk. One chunk takes D1 some ten milliseconds. */
const TRANSFERS_PER_CHUNK = 2_000;
const GROUPS_PER_CHUNK = 500;
const ACCOUNTS_PER_CHUNK = 2_000;
const STREAMS_PER_CHUNK = 500;
/** Deriving an address takes some 50 µs of the Worker's time. */
const ADDRESSES_PER_CHUNK = 500;

/** What the Worker's secrets say of rows that SQL can edit. */
export type Keys = {
  /** Verify that the service wrote the withdrawals. */
  readonly macKeys: MacKeys & Deployed;
  /** Derives deposit addresses, with which their rows are compared. */
  readonly addressOf?: AddressOf | undefined;
};

type Scanned = {
  /** Selects the `id` of the next rows of checkpoint `c`, or of the last of them. */
  readonly next: (after: Expr) => Sql;
  readonly check: (chunk: Chunk) => Promise<readonly Difference[]>;
};

function scansOf(db: D1Database, scan: ScanScope, keys: Keys): Readonly<Record<ScanKind, Scanned>> {
  const { macKeys } = keys;
  const each = (rows: Rows, checks: Checks) => (chunk: Chunk) =>
    checkEach({ db, rows, chunk }, checks);
  const ofTransfers = each("transfer", {
    transfers: (part) => checkTransfers(db, part),
    "transfers of records": (part) => checkPostings(db, "transfer", part),
    ...balanceChecks(db, accountsInTransfers),
  });
  const ofGroups = each("group", {
    "transfers of records": (part) => checkPostings(db, "group", part),
    terms: (part) => checkTerms(db, part),
    requests: (part) => checkRequests(db, part),
    quotes: (part) => checkQuotes(db, part),
    promises: (part) => checkPromises(db, part),
    payments: (part) => checkPayments(db, part),
    orders: (part) => checkOrders(db, macKeys, part),
    credits: (part) => checkCredits(db, macKeys, part),
  });
  return {
    transfers: {
      next: nextTransfers,
      check: async (chunk) => [
        ...(await ofTransfers(chunk)),
        // The last two continue what the chunk starts with, so no part of it is checked alone.
        ...(await checkAlone("running balances", () => checkRunning(db, scan, chunk))),
        ...(await checkAlone("sums of trades", () => checkSums(db, scan, chunk))),
      ],
    },
    groups: {
      next: nextGroup,
      check: async (chunk) => [...(await ofGroups(chunk)), ...(await checkEvents(db, chunk))],
    },
    accounts: {
      next: nextOf("accounts", "account_id", ACCOUNTS_PER_CHUNK),
      check: each("account", accountChecks(db)),
    },
    streams: {
      next: nextOf("streams", "stream_id", STREAMS_PER_CHUNK),
      check: each("stream", { "numbers of streams": (part) => checkStreams(db, scan, part) }),
    },
    addresses: {
      // NOT INDEXED makes SQLite seek by rowid.
      next: nextOf("deposit_addresses NOT INDEXED", "rowid", ADDRESSES_PER_CHUNK),
      check: each("address", { addresses: (part) => checkAddresses(db, keys, part) }),
    },
  };
}

function nextOf(table: string, id: string, limit: number): Scanned["next"] {
  return (after) => sql`SELECT ${raw(id)} AS id FROM ${raw(table)} WHERE ${raw(id)} > ${after}
    ORDER BY ${raw(id)} LIMIT ${limit}`;
}

const NO_END = literal(Number.MAX_SAFE_INTEGER);

/** A full scan ends at the transfer that was the newest when it started (`mark`). */
function nextTransfers(after: Expr): Sql {
  return sql`SELECT t.transfer_id AS id FROM transfers t WHERE t.transfer_id > ${after}
      AND t.transfer_id <= iif(c.mark = '', ${NO_END}, CAST(c.mark AS INTEGER))
    ORDER BY t.transfer_id LIMIT ${TRANSFERS_PER_CHUNK}`;
}

/** By number, because groups are deleted before the records that they opened and ended. */
function nextGroup(after: Expr): Sql {
  return sql`SELECT min(newest.seq, ${nextChange(after)} + ${GROUPS_PER_CHUNK - 1}) AS id
    FROM (SELECT seq FROM commit_groups ORDER BY seq DESC LIMIT 1) newest
    WHERE newest.seq > ${after}`;
}

/**
 * Checks the next chunk of a scan. True: there is none. Two calls at once are harmless, because the
 * checkpoint advances only from where a chunk starts.
 */
export async function step(
  db: D1Database,
  scan: ScanScope,
  kind: ScanKind,
  keys: Keys,
): Promise<boolean> {
  if (scan === "full" && kind === "transfers") await stepOverReleased(db);
  const { next, check } = scansOf(db, scan, keys)[kind];
  const name = scanName(scan, kind);
  const row = await first<{ after: number; up_to: number | null }>(
    db,
    sql`SELECT c.position AS after, (SELECT max(id) FROM (${next(atom("c.position"))})) AS up_to
      FROM ledger_checkpoints c WHERE c.scan = ${name}`,
  );
  const { after = 0, up_to: upTo = null } = row ?? {};
  if (upTo === null) {
    if (kind === "transfers")
      await report(db, await checkAlone("sums", () => checkTotals(db, scan)));
    const start = TURNS.some((turn) => turn === kind) ? 0 : after;
    await all(
      db,
      sql`UPDATE ledger_checkpoints SET position = ${start}, finished_at = ${NOW}
        WHERE scan = ${name} AND position = ${after}`,
    );
    return true;
  }
  const chunk = { after, upTo };
  await report(db, await check(chunk));
  // Last, so that a reconciliation that is interrupted before checks the chunk again.
  if (kind === "transfers") await advanceTransferScan(db, scan, chunk);
  else
    await all(
      db,
      sql`UPDATE ledger_checkpoints SET position = ${upTo}
        WHERE scan = ${name} AND position = ${after}`,
    );
  return false;
}

/**
 * Moves the full scan to the end of the last seal, whose balances are stored, if transfers after
 * its checkpoint may have been released. The recent scan has checked what it steps over, and
 * `journal verify` checks it in the archive.
 */
async function stepOverReleased(db: D1Database): Promise<void> {
  const scan = scanName("full", "transfers");
  const isBehind = expr`(SELECT position FROM ledger_checkpoints WHERE scan = ${scan}) < ${DELIVERED}`;
  await batch(db, [
    sql`DELETE FROM checked_balances WHERE scan = ${scan} AND ${isBehind}`,
    sql`INSERT INTO checked_balances (scan, account_id, balance, traded, traded_usdc)
      SELECT ${scan}, account_id, balance, traded, traded_usdc FROM sealed_balances WHERE ${isBehind}`,
    sql`UPDATE ledger_checkpoints
      SET position = (SELECT up_to_transfer FROM journal_seals ORDER BY number DESC LIMIT 1)
      WHERE scan = ${scan} AND ${isBehind}`,
  ]);
}
