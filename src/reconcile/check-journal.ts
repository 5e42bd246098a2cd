/** The checks of the journal against itself: transfers, running balances and the sum of each asset. */
import { all, batch, type Expr, expr, raw, type Sql, sql } from "../platform/sql.ts";
import { type Chunk, mapAlone, type Rows } from "./check-alone.ts";
import { describeReason, reasonCode } from "../ledger/codes.ts";
import { accountName, type AccountRow, type Check, type Difference } from "./difference.ts";
import { DELIVERED } from "../ledger/released.ts";
import { addClosing, closingBalances, entriesIn } from "../ledger/trade-sums.ts";
import { ID_LAG_MS, ID_LEAD_MS } from "../platform/time.ts";
import { idsFrom } from "../platform/uuid.ts";

/** `recent` follows the newest rows, `full` starts from the first one (reconcile.ts). */
export type ScanScope = "recent" | "full";

/** Rows that are checked in turn, also without recent changes. The first follows the last. */
export const TURNS = ["accounts", "streams", "addresses"] as const;
export const SCAN_KINDS = ["transfers", "groups", ...TURNS] as const;
export type ScanKind = (typeof SCAN_KINDS)[number];

/** The checkpoint's key. */
export function scanName(scan: ScanScope, kind: ScanKind): string {
  return scan === "recent" ? kind : `full_${kind}`;
}

/** Differences that one check of one chunk lists. */
export const MAX_PER_CHUNK = 100;

/** Checks what one transfer alone must fulfil, without its neighbours. */
export async function checkTransfers(db: D1Database, chunk: Chunk): Promise<Difference[]> {
  const invalid = await all<InvalidRow>(db, invalidTransfers(chunk));
  return [
    ...unlisted(invalid, "transfer", chunk),
    ...invalid.map((row): Difference => ({
      check: row.failed,
      account: accountName(row),
      amount: row.amount ?? "0",
      detail: `transfer ${row.transfer_id} (${describeReason(row.reason)})`,
    })),
  ];
}

/** Checks that each entry continues its account's balance. `chunk` starts at the checkpoint. */
export async function checkRunning(
  db: D1Database,
  scan: ScanScope,
  chunk: Chunk,
): Promise<Difference[]> {
  const broken = await all<BrokenRow>(db, brokenBalances(scan, chunk));
  const { results, failed } = mapAlone("running balances", broken, {
    of: (row): Difference => ({
      check: "running_balance_broken",
      account: accountName(row),
      amount: (BigInt(row.after ?? "0") - BigInt(row.expected)).toString(),
      detail: `entry ${row.entry_id} leaves ${row.after ?? "nothing"}; expected ${row.expected}`,
    }),
    nameOf: ({ entry_id }) => `entry ${entry_id}`,
  });
  return [...unlisted(broken, "transfer", chunk), ...results, ...failed];
}

/** Says that the list is cut. The scan moves on, so only a full reconciliation finds the others. */
export function unlisted(
  found: readonly unknown[],
  rows: Rows,
  { after, upTo }: Chunk,
): Difference[] {
  if (found.length < MAX_PER_CHUNK) return [];
  const detail =
    `${rows}s ${after + 1} to ${upTo} contain more differences than are listed; ` +
    "resolve these, then run a full reconciliation";
  return [{ check: "record_mismatch", account: "all/all/all", amount: "0", detail }];
}

type InvalidRow = AccountRow & {
  readonly failed: Check;
  readonly transfer_id: number;
  readonly reason: number;
  readonly amount: string | null;
};

/** Transfers that fail a check, the most severe first, so that a flood of others hides none. */
function invalidTransfers(chunk: Chunk): Sql {
  return sql`SELECT * FROM (
      SELECT t.transfer_id, t.reason, CAST(t.amount AS TEXT) AS amount, hex(f.owner) AS owner,
        f.kind, f.asset, CASE
          WHEN f.account_id IS NULL OR g.account_id IS NULL OR f.account_id = g.account_id
            OR f.asset <> g.asset OR typeof(t.amount) <> 'integer' OR t.amount <= 0
            OR t.from_sub_account IS NOT f.sub_account
            OR t.to_sub_account IS NOT iif(t.reason IN (${reasonCode("deposit")},
              ${reasonCode("trade")}), g.sub_account, NULL) THEN 'transfer_invalid'
          WHEN typeof(t.from_balance) <> 'integer' OR typeof(t.to_balance) <> 'integer'
            OR (f.kind <> 'external' AND t.from_balance < 0)
            OR (g.kind <> 'external' AND t.to_balance < 0) THEN 'negative_balance'
          WHEN t.at < (SELECT p.at FROM transfers p WHERE p.transfer_id < t.transfer_id
            ORDER BY p.transfer_id DESC LIMIT 1) THEN 'clock_went_back'
          END AS failed
      FROM transfers t LEFT JOIN accounts f ON f.account_id = t.from_account
        LEFT JOIN accounts g ON g.account_id = t.to_account
      WHERE ${within("t.transfer_id", chunk)})
    WHERE failed IS NOT NULL
    ORDER BY CASE failed WHEN 'transfer_invalid' THEN 0 WHEN 'negative_balance' THEN 1 ELSE 2 END
    LIMIT ${MAX_PER_CHUNK}`;
}

type BrokenRow = AccountRow & {
  readonly entry_id: number;
  readonly after: string | null;
  readonly expected: string;
};

/** Entries that do not continue their account's balance: the previous one or the checkpoint's. */
function brokenBalances(scan: ScanScope, chunk: Chunk): Sql {
  return sql`SELECT e.entry_id, CAST(e.after AS TEXT) AS after,
      CAST(e.expected AS TEXT) AS expected, hex(a.owner) AS owner, a.kind, a.asset
    FROM (
      SELECT x.*, coalesce(x.before, c.balance, 0) + x.delta AS expected
      FROM (
        SELECT *, lag(after) OVER (PARTITION BY account_id ORDER BY entry_id) AS before
        FROM (${entriesIn(chunk)})) x
      LEFT JOIN checked_balances c ON c.scan = ${scanName(scan, "transfers")}
        AND c.account_id = x.account_id) e
    LEFT JOIN accounts a ON a.account_id = e.account_id
    WHERE e.after IS NOT e.expected AND ${isNext(scan, chunk)} LIMIT ${MAX_PER_CHUNK}`;
}

/** The chunk starts at the checkpoint, and none of it has been released since it was chosen. */
export function isNext(scan: ScanScope, { after }: Chunk): Expr {
  return expr`(SELECT position FROM ledger_checkpoints
    WHERE scan = ${scanName(scan, "transfers")}) = ${after} AND ${DELIVERED} <= ${after}`;
}

export function within(column: string, { after, upTo }: Chunk): Sql {
  return sql`${raw(column)} > ${after} AND ${raw(column)} <= ${upTo}`;
}

/**
 * Condition on quote `q`: a group of the chunk placed it. Each quote would pay for a row of an
 * index of its group, so a range of ids is read, whose times are near the instants of their groups.
 * Once a group is trimmed, it finds nothing: its events may have been deleted, and the scan over
 * accounts compares the promises.
 */
export function placedWithin(chunk: Chunk): Sql {
  const at = (end: "min" | "max") =>
    expr`(SELECT ${raw(end)}(at) FROM commit_groups WHERE ${within("seq", chunk)})`;
  return sql`q.quote_id >= ${idsFrom(expr`${at("min")} - ${ID_LAG_MS}`)}
    AND q.quote_id < ${idsFrom(expr`${at("max")} + ${ID_LEAD_MS + 1}`)}
    AND ${within("q.opened_group", chunk)}`;
}

/** Moves the checkpoint past a chunk and stores the balances and sums that the chunk ends with. */
export async function advanceTransferScan(
  db: D1Database,
  scan: ScanScope,
  chunk: Chunk,
): Promise<void> {
  const name = scanName(scan, "transfers");
  const store = sql`INSERT INTO checked_balances (scan, account_id, balance, traded, traded_usdc)
    SELECT ${name}, c.* FROM (${closingBalances(chunk)}) c WHERE ${isNext(scan, chunk)}
    ON CONFLICT (scan, account_id) DO UPDATE SET ${addClosing("checked_balances")}`;
  const advance = sql`UPDATE ledger_checkpoints SET position = ${chunk.upTo}
    WHERE scan = ${name} AND ${isNext(scan, chunk)}`;
  await batch(db, [store, advance]);
}

const ACCOUNTS_PER_PAGE = 20_000;
/** Pages of balances that a recent scan sums. More accounts are summed only by a full one. */
const MAX_PAGES = 5;

type TotalRow = {
  readonly asset: string;
  readonly high: number;
  readonly low: number;
  readonly last: number;
  readonly position: number;
};

/** Checks that the balances at the checkpoint sum to zero for each asset. */
export async function checkTotals(db: D1Database, scan: ScanScope): Promise<Difference[]> {
  const totals = new Map<string, bigint>();
  const name = scanName(scan, "transfers");
  let start: number | undefined;
  let after = 0;
  for (let page = 0; ; page++) {
    // In two halves, because the sum of many balances may overflow 64 bits.
    const rows = await all<TotalRow>(
      db,
      sql`SELECT a.asset, sum(c.balance >> 32) AS high, sum(c.balance & 4294967295) AS low,
          max(c.account_id) AS last,
          (SELECT position FROM ledger_checkpoints WHERE scan = ${name}) AS position
        FROM (SELECT * FROM checked_balances WHERE scan = ${name} AND account_id > ${after}
          ORDER BY account_id LIMIT ${ACCOUNTS_PER_PAGE}) c
        CROSS JOIN accounts a ON a.account_id = c.account_id GROUP BY a.asset`,
    );
    if (rows.length === 0) break;
    start ??= rows[0]?.position;
    // Another reconciliation moved the checkpoint, so these balances are of two moments.
    if (rows[0]?.position !== start) return [];
    for (const { asset, high, low } of rows)
      totals.set(asset, (totals.get(asset) ?? 0n) + BigInt(high) * 2n ** 32n + BigInt(low));
    after = Math.max(...rows.map((row) => row.last));
    if (scan === "recent" && page + 1 === MAX_PAGES) return [];
  }
  return [...totals]
    .filter(([, total]) => total !== 0n)
    .map(([asset, total]) => ({
      check: "transfer_invalid",
      account: `all/all/${asset}`,
      amount: total.toString(),
      detail: "the journal of the asset does not sum to zero",
    }));
}
