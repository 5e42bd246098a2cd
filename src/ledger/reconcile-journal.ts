/**
 * The checks of the journal against itself: transfers, running balances, balances, pending balances
 * and the sum of each asset.
 */
import { eq } from "drizzle-orm";
import { all, atom, type Expr, expr, join, prepare, raw, type Sql, sql } from "../platform/sql.ts";
import { checkAlone, checkRowsAlone, type Chunk, mapAlone, type Rows } from "./check-alone.ts";
import { describeReason, REASONS, reasonCode, reasonNumber } from "./codes.ts";
import { accountName, type AccountRow, type Check, type Difference } from "./difference.ts";
import { DELIVERED } from "./released.ts";
import { isIndexedCredit, TRANSFER_TYPES } from "./transfer-types.ts";
import { ledgerCheckpoints } from "./tables.ts";
import { read } from "../platform/read.ts";

/**
 * `recent` follows the newest rows, minute by minute. `full` starts again from the first row, once
 * a day and when the operator asks.
 */
export type Walk = "recent" | "full";

export type ScanKind = "transfers" | "groups" | "accounts" | "streams" | "rights" | "addresses";

/** The checkpoint's key. */
export function scanName(walk: Walk, kind: ScanKind): string {
  return walk === "recent" ? kind : `full_${kind}`;
}

/** Differences that one check of one chunk lists. */
const MAX_PER_CHUNK = 100;

export async function checkTransfers(
  db: D1Database,
  walk: Walk,
  chunk: Chunk,
): Promise<Difference[]> {
  const singly = await checkRowsAlone({ db, name: "transfers", rows: "transfer", chunk }, (part) =>
    checkSingly(db, part),
  );
  const running = await checkAlone("running balances", () => checkRunning(db, walk, chunk));
  return [...singly, ...running];
}

async function checkSingly(db: D1Database, chunk: Chunk): Promise<Difference[]> {
  const invalid = await all<InvalidRow>(db, invalidTransfers(chunk));
  return [
    ...unlisted(invalid, chunk),
    ...invalid.map((row): Difference => ({
      check: row.failed,
      account: accountName(row),
      amount: row.amount ?? "0",
      detail: `transfer ${row.transfer_id} (${describeReason(row.reason)})`,
    })),
  ];
}

async function checkRunning(db: D1Database, walk: Walk, chunk: Chunk): Promise<Difference[]> {
  const broken = await all<BrokenRow>(db, brokenBalances(walk, chunk));
  const { results, failed } = mapAlone("running balances", broken, {
    of: (row): Difference => ({
      check: "running_balance_broken",
      account: accountName(row),
      amount: (BigInt(row.after ?? "0") - BigInt(row.expected)).toString(),
      detail: `entry ${row.entry_id} leaves ${row.after ?? "nothing"}; expected ${row.expected}`,
    }),
    nameOf: ({ entry_id }) => `entry ${entry_id}`,
  });
  return [...unlisted(broken, chunk), ...results, ...failed];
}

/** Says that the list is cut. The scan moves on, so only a full reconciliation finds the others. */
function unlisted(found: readonly unknown[], { after, upTo }: Chunk): Difference[] {
  if (found.length < MAX_PER_CHUNK) return [];
  const detail =
    `transfers ${after + 1} to ${upTo} contain more differences than are listed; ` +
    "resolve these, then run a full reconciliation";
  return [{ check: "record_mismatch", account: "all/all/all", amount: "0", detail }];
}

type InvalidRow = AccountRow & {
  readonly failed: Check;
  readonly transfer_id: number;
  readonly reason: number;
  readonly amount: string | null;
};

/**
 * The checks of a single transfer, the most severe first. `violated` is a condition on transfer `t`
 * and its accounts `f` (from) and `g` (to).
 */
function transferChecks(): readonly { readonly check: Check; readonly violated: Expr }[] {
  const types = join(
    TRANSFER_TYPES.map(
      ([reason, from, to]) => sql`(${reasonCode(reason)}, ${raw(`'${from}'`)}, ${raw(`'${to}'`)})`,
    ),
    ", ",
  );
  return [
    {
      check: "transfer_invalid",
      violated: expr`f.account_id IS NULL OR g.account_id IS NULL OR f.account_id = g.account_id
        OR f.asset <> g.asset OR typeof(t.amount) <> 'integer' OR t.amount <= 0
        OR t.from_sub_account IS NOT f.sub_account
        OR t.to_sub_account IS NOT iif(
          t.reason IN (${reasonCode("deposit")}, ${reasonCode("trade")}), g.sub_account, NULL)`,
    },
    {
      check: "negative_balance",
      violated: expr`typeof(t.from_balance) <> 'integer' OR typeof(t.to_balance) <> 'integer'
        OR (f.kind <> 'external' AND t.from_balance < 0)
        OR (g.kind <> 'external' AND t.to_balance < 0)`,
    },
    {
      check: "clock_went_back",
      violated: expr`t.at < (SELECT p.at FROM transfers p WHERE p.transfer_id < t.transfer_id
        ORDER BY p.transfer_id DESC LIMIT 1)`,
    },
    {
      // A known type, between two users only as a trade, and for a record.
      check: "record_mismatch",
      violated: expr`(t.reason, f.kind, g.kind) NOT IN (VALUES ${types})
        OR (t.reason <> ${reasonCode("trade")} AND f.kind IN ('available', 'pending')
          AND g.kind IN ('available', 'pending') AND f.owner <> g.owner)
        OR NOT ${hasRecord()}`,
    },
  ];
}

/** Transfers that fail a check, the most severe first, so that a flood of others hides none. */
function invalidTransfers({ after, upTo }: Chunk): Sql {
  const checks = transferChecks();
  const failed = checks.map(({ check, violated }) => sql`WHEN ${violated} THEN ${check}`);
  const severity = checks.map(({ check }, rank) => sql`WHEN ${check} THEN ${rank}`);
  return sql`SELECT * FROM (
      SELECT t.transfer_id, t.reason, CAST(t.amount AS TEXT) AS amount, hex(f.owner) AS owner,
        f.kind, f.asset, CASE ${join(failed, " ")} END AS failed
      FROM transfers t LEFT JOIN accounts f ON f.account_id = t.from_account
        LEFT JOIN accounts g ON g.account_id = t.to_account
      WHERE t.transfer_id > ${after} AND t.transfer_id <= ${upTo})
    WHERE failed IS NOT NULL
    ORDER BY CASE failed ${join(severity, " ")} END LIMIT ${MAX_PER_CHUNK}`;
}

/** A record leaves with its last transfer, or later. No walk reads the transfers that have left. */
function hasRecord(): Expr {
  return expr`CASE t.reason
    WHEN ${reasonCode("deposit")} THEN EXISTS (SELECT 1 FROM deposits WHERE deposit_id = t.ref)
    WHEN ${reasonCode("withdrawal")}
      THEN EXISTS (SELECT 1 FROM withdrawals WHERE withdrawal_id = t.ref)
        OR EXISTS (SELECT 1 FROM accepted_payments WHERE acceptance_id = t.ref)
    WHEN ${reasonCode("reserve_trade")} THEN EXISTS (SELECT 1 FROM matches WHERE match_id = t.ref)
    WHEN ${reasonCode("fee")} THEN EXISTS (SELECT 1 FROM matches WHERE match_id = t.ref)
    WHEN ${reasonCode("trade")} THEN EXISTS (SELECT 1 FROM matches WHERE match_id = t.ref)
      OR EXISTS (SELECT 1 FROM matches WHERE quote_id = t.ref)
    WHEN ${reasonCode("reserve_rfq")} THEN EXISTS (SELECT 1 FROM matches WHERE quote_id = t.ref)
    ELSE EXISTS (SELECT 1 FROM withdrawals WHERE withdrawal_id = t.ref) END`;
}

type BrokenRow = AccountRow & {
  readonly entry_id: number;
  readonly after: string | null;
  readonly expected: string;
};

/**
 * Entries whose stored balance does not continue the account's previous one. The first entry of a
 * chunk continues the balance at the checkpoint.
 */
function brokenBalances(walk: Walk, chunk: Chunk): Sql {
  return sql`SELECT e.entry_id, CAST(e.after AS TEXT) AS after,
      CAST(e.expected AS TEXT) AS expected, hex(a.owner) AS owner, a.kind, a.asset
    FROM (
      SELECT x.*, coalesce(x.before, c.balance, 0) + x.delta AS expected
      FROM (
        SELECT *, lag(after) OVER (PARTITION BY account_id ORDER BY entry_id) AS before
        FROM (${entries(chunk)})) x
      LEFT JOIN checked_balances c ON c.scan = ${scanName(walk, "transfers")}
        AND c.account_id = x.account_id) e
    LEFT JOIN accounts a ON a.account_id = e.account_id
    WHERE e.after IS NOT e.expected AND ${isNext(walk, chunk)} LIMIT ${MAX_PER_CHUNK}`;
}

/** Both entries of each transfer of a chunk, as `account_id, entry_id, delta, after`. */
function entries(chunk: Chunk): Sql {
  return sql`SELECT from_account AS account_id, 2 * transfer_id AS entry_id, -amount AS delta,
      from_balance AS after
    FROM transfers WHERE ${within("transfer_id", chunk)}
    UNION ALL
    SELECT to_account, 2 * transfer_id + 1, amount, to_balance
    FROM transfers WHERE ${within("transfer_id", chunk)}`;
}

/** The chunk starts at the checkpoint, and none of it has been released since it was chosen. */
function isNext(walk: Walk, { after }: Chunk): Expr {
  return expr`(SELECT position FROM ledger_checkpoints
    WHERE scan = ${scanName(walk, "transfers")}) = ${after} AND ${DELIVERED} <= ${after}`;
}

export function within(column: string, { after, upTo }: Chunk): Sql {
  return sql`${raw(column)} > ${after} AND ${raw(column)} <= ${upTo}`;
}

/** Moves the checkpoint past a chunk and stores the balances that the chunk ends with. */
export async function advanceTransferScan(db: D1Database, walk: Walk, chunk: Chunk): Promise<void> {
  const scan = scanName(walk, "transfers");
  const store = sql`INSERT INTO checked_balances (scan, account_id, balance)
    SELECT ${scan}, account_id, coalesce(after, 0)
    FROM (SELECT account_id, after, max(entry_id) FROM (${entries(chunk)}) GROUP BY account_id)
    WHERE ${isNext(walk, chunk)}
    ON CONFLICT (scan, account_id) DO UPDATE SET balance = excluded.balance`;
  const advance = sql`UPDATE ledger_checkpoints SET position = ${chunk.upTo}
    WHERE scan = ${scan} AND ${isNext(walk, chunk)}`;
  await db.batch([prepare(db, store), prepare(db, advance)]);
}

/** The accounts of a chunk of transfers. */
function accountsInTransfers(chunk: Chunk): Sql {
  return sql`SELECT from_account FROM transfers WHERE ${within("transfer_id", chunk)}
    UNION SELECT to_account FROM transfers WHERE ${within("transfer_id", chunk)}`;
}

/** The accounts of a chunk of accounts. */
function accountsIn(chunk: Chunk): Sql {
  return sql`SELECT account_id FROM accounts WHERE ${within("account_id", chunk)}`;
}

export function nextAccounts(after: Expr, limit: number): Sql {
  return sql`SELECT account_id AS id FROM accounts WHERE account_id > ${after}
    ORDER BY account_id LIMIT ${limit}`;
}

type BalanceRow = AccountRow & { readonly balance: string; readonly expected: string };

const difference =
  (check: Check, holds: string, what: string) =>
  (row: BalanceRow): Difference => ({
    check,
    account: accountName(row),
    amount: (BigInt(row.balance) - BigInt(row.expected)).toString(),
    detail: `${holds} ${row.balance}; ${what} ${row.expected}`,
  });
const SUMS = difference("balance_mismatch", "holds", "its entries sum to");
const RESERVES = difference("pending_mismatch", "holds", "withdrawals in flight reserve");
const PROMISES = difference("promised_mismatch", "promises", "open quotes reserve");

/** Checks the balances of the accounts of a chunk as they are now. */
export async function checkAccounts(
  db: D1Database,
  rows: Extract<Rows, "account" | "transfer">,
  chunk: Chunk,
): Promise<Difference[]> {
  const accountsOf = rows === "account" ? accountsIn : accountsInTransfers;
  const promises =
    rows === "transfer"
      ? []
      : await checkRowsAlone({ db, name: "promises", rows, chunk }, async (part) =>
          (await all<BalanceRow>(db, wrongPromises(ownersOf("available", accountsOf(part))))).map(
            PROMISES,
          ),
        );
  const [balances, pending] = await Promise.all([
    checkRowsAlone({ db, name: "balances", rows, chunk }, async (part) =>
      (await all<BalanceRow>(db, wrongBalances(accountsOf(part)))).map(SUMS),
    ),
    checkRowsAlone({ db, name: "pending balances", rows, chunk }, async (part) =>
      (await all<BalanceRow>(db, wrongPending(accountsOf(part)))).map(RESERVES),
    ),
  ]);
  if (rows === "transfer") return [...balances, ...pending];
  const numbers = await checkRowsAlone({ db, name: "sub-accounts", rows, chunk }, (part) =>
    checkNumbers(db, part),
  );
  return [...balances, ...pending, ...promises, ...numbers];
}

/** The number of a user's account decides in whose ledger its entries appear. */
async function checkNumbers(db: D1Database, chunk: Chunk): Promise<Difference[]> {
  const rows = await all<AccountRow & { readonly number: number | null }>(
    db,
    sql`SELECT hex(a.owner) AS owner, a.kind, a.asset, a.sub_account AS number FROM accounts a
      WHERE ${within("a.account_id", chunk)} AND a.sub_account IS NOT iif(
        a.kind IN ('available', 'pending'), (a.kind = 'pending') + 2 * (
          SELECT min(b.account_id) FROM accounts b
          WHERE b.owner = a.owner AND b.kind IN ('available', 'pending')), NULL)
      LIMIT ${MAX_PER_CHUNK}`,
  );
  return rows.map(({ number, ...row }) => ({
    check: "transfer_invalid",
    account: accountName(row),
    amount: "0",
    detail: `its sub-account ${number ?? "null"} is not its owner's`,
  }));
}

/**
 * Accounts whose balance differs from what their newest entry left. The credit of a reserve or of a
 * release is found by its debit on the owner's other account of the asset. As long as the running
 * balances are sound, that is the sum of all entries. An account that has not moved since the last
 * delivered seal has the balance that the seals leave.
 */
function wrongBalances(accounts: Sql): Sql {
  const newest = (credit: 0 | 1, index: "from" | "to", which: Expr) =>
    expr`coalesce((SELECT 2 * t.transfer_id + ${raw(`${credit}`)}
      FROM transfers t INDEXED BY ${raw(`transfers_${index}`)}
      WHERE t.reason = r.value AND ${which} ORDER BY t.transfer_id DESC LIMIT 1), 0)`;
  const ends = join(
    [
      newest(0, "from", expr`t.from_account = a.account_id`),
      newest(1, "to", expr`t.to_account = a.account_id AND ${isIndexedCredit(atom("t.reason"))}`),
      // Trades leave the other account too, but never for this one. All of them would be read.
      expr`iif(${isIndexedCredit(atom("r.value"))}, 0, ${newest(
        1,
        "from",
        expr`t.from_account = a.other_account AND t.to_account = a.account_id`,
      )})`,
    ],
    ", ",
  );
  const reasons = JSON.stringify(REASONS.map(reasonNumber));
  return sql`SELECT hex(owner) AS owner, kind, asset, CAST(balance AS TEXT) AS balance,
      CAST(expected AS TEXT) AS expected
    FROM (
      SELECT a.owner, a.kind, a.asset, a.balance, coalesce((
        SELECT iif(n.entry & 1, t.to_balance, t.from_balance)
        FROM (
          SELECT max(max(${ends})) AS entry
          FROM json_each(${reasons}) r) n
        JOIN transfers t ON t.transfer_id = n.entry >> 1 AND t.transfer_id > ${DELIVERED}),
        (SELECT s.balance FROM sealed_balances s
          WHERE s.account_id = a.account_id AND ${DELIVERED} > 0), 0) AS expected
      FROM (SELECT b.*, (SELECT o.account_id FROM accounts o
            WHERE o.owner = b.owner AND o.asset = b.asset
              AND o.kind = iif(b.kind = 'available', 'pending', 'available')) AS other_account
          FROM accounts b WHERE b.account_id IN (${accounts})) a)
    WHERE balance <> expected OR typeof(balance) <> 'integer'
      OR (balance < 0 AND kind <> 'external')
    LIMIT ${MAX_PER_CHUNK}`;
}

/** Compares the owners' pending accounts with their withdrawals in flight. */
function wrongPending(accounts: Sql): Sql {
  return wrongSums("pending", ownersOf("pending", accounts), {
    amount: "balance",
    causes: sql`SELECT w.user_id AS owner, w.asset, w.amount
      FROM withdrawals w INDEXED BY withdrawals_open
      WHERE w.status IN ('queued', 'submitted') AND w.user_id IN (SELECT owner FROM owners)
      UNION ALL
      SELECT w.user_id, w.asset, w.amount FROM withdrawals w INDEXED BY withdrawals_awaiting
      WHERE w.status = 'awaiting_approval' AND w.user_id IN (SELECT owner FROM owners)`,
  });
}

/** Compares what the owners promise with what their open quotes reserve. */
function wrongPromises(owners: Sql): Sql {
  return wrongSums("available", owners, {
    amount: "promised",
    causes: sql`SELECT q.maker_id AS owner, q.reserve_asset AS asset, q.reserve AS amount
      FROM owners o CROSS JOIN quotes q INDEXED BY quotes_open_maker ON q.maker_id = o.owner
      WHERE q.status = 'open'`,
  });
}

/**
 * Accounts of a kind of whose owners a column differs from the sum of its causes. `causes` selects
 * `owner`, `asset` and `amount`, for `owners`.
 */
function wrongSums(
  kind: "available" | "pending",
  owners: Sql,
  { amount, causes }: { amount: "balance" | "promised"; causes: Sql },
): Sql {
  return sql`WITH owners AS MATERIALIZED (${owners}),
    causes AS MATERIALIZED (
      SELECT owner, asset, sum(amount) AS amount FROM (${causes}) GROUP BY owner, asset)
    SELECT hex(owner) AS owner, ${kind} AS kind, asset, CAST(sum(held) AS TEXT) AS balance,
      CAST(sum(expected) AS TEXT) AS expected
    FROM (
      SELECT a.owner, a.asset, a.${raw(amount)} AS held, 0 AS expected
      FROM owners o CROSS JOIN accounts a ON a.owner = o.owner AND a.kind = ${kind}
      UNION ALL
      SELECT owner, asset, 0, amount FROM causes)
    GROUP BY owner, asset HAVING sum(held) <> sum(expected) LIMIT ${MAX_PER_CHUNK}`;
}

function ownersOf(kind: "available" | "pending", accounts: Sql): Sql {
  return sql`SELECT DISTINCT owner FROM accounts WHERE kind = ${kind} AND account_id IN (${accounts})`;
}

/** Checks what the makers promise whose quotes a chunk of commit groups opened or ended. */
export async function checkPromises(db: D1Database, chunk: Chunk): Promise<Difference[]> {
  const makers = sql`SELECT maker_id AS owner FROM quotes WHERE ${within("ended_group", chunk)}
    UNION SELECT maker_id FROM quotes WHERE ${within("opened_group", chunk)}`;
  return (await all<BalanceRow>(db, wrongPromises(makers))).map(PROMISES);
}

const ACCOUNTS_PER_PAGE = 20_000;
/** Pages of balances that a recent walk sums. More accounts are summed only by a full one. */
const MAX_PAGES = 5;

type TotalRow = {
  readonly asset: string;
  readonly high: number;
  readonly low: number;
  readonly last: number;
  readonly position: number;
};

/** Checks that the balances at the checkpoint sum to zero for each asset. */
export async function checkTotals(db: D1Database, walk: Walk): Promise<Difference[]> {
  const totals = new Map<string, bigint>();
  const scan = scanName(walk, "transfers");
  let start: number | undefined;
  let after = 0;
  for (let page = 0; ; page++) {
    // In two halves, because the sum of many balances may overflow 64 bits.
    const rows = await all<TotalRow>(
      db,
      sql`SELECT a.asset, sum(c.balance >> 32) AS high, sum(c.balance & 4294967295) AS low,
          max(c.account_id) AS last,
          (SELECT position FROM ledger_checkpoints WHERE scan = ${scan}) AS position
        FROM (SELECT * FROM checked_balances WHERE scan = ${scan} AND account_id > ${after}
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
    if (walk === "recent" && page + 1 === MAX_PAGES) return [];
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

/** The last row that a scan has checked. */
export async function positionOf(db: D1Database, scan: string): Promise<number> {
  const [row] = await read(db, ({ select }) =>
    select().from(ledgerCheckpoints).where(eq(ledgerCheckpoints.scan, scan)),
  );
  return row?.position ?? 0;
}
