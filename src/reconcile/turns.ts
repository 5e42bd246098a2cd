/** The scans of rows that are checked in turn, also those without recent changes. */
import type { MacKeys } from "../audit/event-mac.ts";
import { nextUsers } from "../auth/compare-rights.ts";
import { NOW } from "../platform/commit.ts";
import { atom, type Expr, prepare, type Sql, sql } from "../platform/sql.ts";
import type { Chunk } from "./check-alone.ts";
import type { Difference } from "./difference.ts";
import { report } from "./difference-alerts.ts";
import { type AddressOf, checkAddresses, nextAddresses } from "./check-addresses.ts";
import { checkAccounts, nextAccounts } from "./check-balances.ts";
import { checkStreams, nextStreams } from "./check-events.ts";
import { scanName, type Scan } from "./check-journal.ts";
import { checkRights } from "./check-rights.ts";

/** Rows a chunk. One chunk takes D1 some ten milliseconds. */
const ACCOUNTS_PER_CHUNK = 2_000;
const STREAMS_PER_CHUNK = 500;
const USERS_PER_CHUNK = 100;
/** Deriving an address takes some 50 µs of the Worker's time. */
const ADDRESSES_PER_CHUNK = 500;

/** After the last row they start again from the first one. */
export const TURNS = ["accounts", "streams", "rights", "addresses"] as const;

/** What the Worker's secrets say of rows that SQL can edit. */
export type Keys = {
  /** Verify that the service wrote the withdrawals, and the audit events of rights. */
  readonly macKeys: MacKeys;
  /** Derives deposit addresses, with which their rows are compared. */
  readonly addressOf?: AddressOf | undefined;
};

type Turn = {
  /** Selects the `id` of the next rows. */
  readonly next: (after: Expr) => Sql;
  readonly check: (chunk: Chunk) => Promise<readonly Difference[]>;
};

/** Rows that are checked by their id, also those without recent changes. */
function turnsOf(
  db: D1Database,
  scan: Scan,
  { macKeys, addressOf }: Keys,
): Readonly<Record<(typeof TURNS)[number], Turn>> {
  return {
    accounts: {
      next: (after) => nextAccounts(after, ACCOUNTS_PER_CHUNK),
      check: (chunk) => checkAccounts(db, "account", chunk),
    },
    streams: {
      next: (after) => nextStreams(after, STREAMS_PER_CHUNK),
      check: (chunk) => checkStreams(db, scan, chunk),
    },
    // Who may act for each user is compared with their audit events.
    rights: {
      next: (after) => nextUsers(after, USERS_PER_CHUNK),
      check: (chunk) => checkRights(db, macKeys, chunk),
    },
    addresses:
      addressOf === undefined
        ? { next: () => sql`SELECT NULL AS id WHERE 0`, check: async () => [] }
        : {
            next: (after) => nextAddresses(after, ADDRESSES_PER_CHUNK),
            check: (chunk) => checkAddresses(db, addressOf, chunk),
          },
  };
}

/**
 * Checks a chunk of each scan. After its last row a scan starts again. Returns whether all of them
 * have reached it.
 */
export async function takeTurns(
  db: D1Database,
  scan: Scan,
  kinds: readonly (typeof TURNS)[number][],
  keys: Keys,
): Promise<boolean> {
  const turns = turnsOf(db, scan, keys);
  const next = await db.batch<{ after: number; up_to: number | null }>(
    kinds.map((kind) =>
      prepare(
        db,
        sql`SELECT c.position AS after,
            (SELECT max(id) FROM (${turns[kind].next(atom("c.position"))})) AS up_to
          FROM ledger_checkpoints c WHERE c.scan = ${scanName(scan, kind)}`,
      ),
    ),
  );
  const moves: Sql[] = [];
  let done = true;
  for (const [index, kind] of kinds.entries()) {
    const { after = 0, up_to: upTo = null } = next[index]?.results[0] ?? {};
    if (upTo !== null) await report(db, await turns[kind].check({ after, upTo }));
    done &&= upTo === null;
    moves.push(sql`UPDATE ledger_checkpoints
      SET position = ${upTo ?? 0}, finished_at = iif(${upTo === null}, ${NOW}, finished_at)
      WHERE scan = ${scanName(scan, kind)} AND position = ${after}`);
  }
  await db.batch(moves.map((move) => prepare(db, move)));
  return done;
}
