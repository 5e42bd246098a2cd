/** Reconciliation of the journal with itself: J1–J6. */
import { all, join, prepare, raw, type Sql, sql } from "../platform/sql.ts";
import { describeReason, REASONS, reasonCode, reasonNumber } from "./codes.ts";
import { MOVEMENTS } from "./transfer-types.ts";
import { type Difference, accountName, type AccountRow } from "./difference.ts";

/** Rows with `after < id <= upTo`. */
export type Slice = { readonly after: number; readonly upTo: number };

/** Differences of one kind that a slice tells by name. */
const MAX_PER_SLICE = 100;

/** A quote's row may be trimmed by age; the record of anything younger than this must be there. */
const RECORDS_KEPT_MS = 86_400_000;

/** Moves the checkpoint past a slice, with the balances that it ends on. */
export async function passTransfers(db: D1Database, slice: Slice): Promise<void> {
  const keep = sql`INSERT INTO checked_balances (account_id, balance)
    SELECT account_id, coalesce(after, 0) FROM (SELECT account_id, after, max(entry_id) FROM (${entries(slice)}) GROUP BY account_id)
    WHERE ${startsHere(slice)} ON CONFLICT (account_id) DO UPDATE SET balance = excluded.balance`;
  const advance = sql`UPDATE ledger_checkpoints SET position = ${slice.upTo} WHERE walk = 'transfers' AND position = ${slice.after}`;
  await db.batch([prepare(db, keep), prepare(db, advance)]);
}

export async function checkTransfers(db: D1Database, slice: Slice): Promise<Difference[]> {
  const [odd, broken] = await Promise.all([
    all<OddRow>(db, oddTransfers(slice)),
    all<BrokenRow>(db, brokenChains(slice)),
  ]);
  return [
    ...unnamed(odd, slice),
    ...unnamed(broken, slice),
    ...odd.map((row): Difference => ({
      check: row.fault,
      account: accountName(row),
      amount: row.amount ?? "0",
      detail: `transfer ${row.transfer_id} (${describeReason(row.reason)})`,
    })),
    ...broken.map((row): Difference => ({
      check: "J2",
      account: accountName(row),
      amount: (BigInt(row.after ?? "0") - BigInt(row.expected)).toString(),
      detail: `entry ${row.entry_id} leaves ${row.after ?? "nothing"} where ${row.expected} follows from the one before`,
    })),
  ];
}

/** A slice with more differences than it names says so: the walk goes on, and only a full run comes back to it. */
function unnamed(found: readonly unknown[], { after, upTo }: Slice): Difference[] {
  if (found.length < MAX_PER_SLICE) return [];
  const detail = `transfers ${after + 1} to ${upTo} have more differences than are named; resolve these, then run a full reconciliation`;
  return [{ check: "J8", account: "all/all/all", amount: "0", detail }];
}

type OddRow = AccountRow & {
  readonly fault: "J1" | "J4" | "J5" | "J8";
  readonly transfer_id: number;
  readonly reason: number;
  readonly amount: string | null;
};
type BrokenRow = AccountRow & {
  readonly entry_id: number;
  readonly after: string | null;
  readonly expected: string;
};

/**
 * Two accounts of one asset, a positive integer amount (J1), no debt (J4), time forward (J5), a known movement of a record,
 * between two owners only by a trade (J8). The gravest come first, lest a flood of others hide them.
 */
function oddTransfers({ after, upTo }: Slice): Sql {
  const movements = join(
    MOVEMENTS.map(
      ([reason, from, to]) => sql`(${reasonCode(reason)}, ${raw(`'${from}'`)}, ${raw(`'${to}'`)})`,
    ),
    ", ",
  );
  return sql`SELECT * FROM (SELECT t.transfer_id, t.reason, CAST(t.amount AS TEXT) AS amount, hex(f.owner) AS owner, f.kind, f.asset,
      CASE WHEN f.account_id IS NULL OR g.account_id IS NULL OR f.account_id = g.account_id OR f.asset <> g.asset
          OR typeof(t.amount) <> 'integer' OR t.amount <= 0 THEN 'J1'
        WHEN typeof(t.from_balance) <> 'integer' OR typeof(t.to_balance) <> 'integer' OR (f.kind <> 'external' AND t.from_balance < 0)
          OR (g.kind <> 'external' AND t.to_balance < 0) THEN 'J4'
        WHEN t.at < (SELECT p.at FROM transfers p WHERE p.transfer_id < t.transfer_id ORDER BY p.transfer_id DESC LIMIT 1) THEN 'J5'
        WHEN (t.reason, f.kind, g.kind) NOT IN (VALUES ${movements}) THEN 'J8'
        WHEN t.reason <> ${reasonCode("trade")} AND f.kind IN ('available', 'pending') AND g.kind IN ('available', 'pending') AND f.owner <> g.owner THEN 'J8'
        WHEN NOT ${hasRecord()} THEN 'J8' END AS fault
    FROM transfers t LEFT JOIN accounts f ON f.account_id = t.from_account LEFT JOIN accounts g ON g.account_id = t.to_account
    WHERE t.transfer_id > ${after} AND t.transfer_id <= ${upTo}) WHERE fault IS NOT NULL ORDER BY fault LIMIT ${MAX_PER_SLICE}`;
}

function hasRecord(): Sql {
  return sql`CASE t.reason
    WHEN ${reasonCode("deposit")} THEN EXISTS (SELECT 1 FROM deposits WHERE deposit_id = t.ref)
    WHEN ${reasonCode("withdrawal")} THEN EXISTS (SELECT 1 FROM withdrawals WHERE withdrawal_id = t.ref)
    WHEN ${reasonCode("reserve_trade")} THEN EXISTS (SELECT 1 FROM matches WHERE match_id = t.ref)
    WHEN ${reasonCode("fee")} THEN EXISTS (SELECT 1 FROM matches WHERE match_id = t.ref)
    WHEN ${reasonCode("trade")} THEN EXISTS (SELECT 1 FROM matches WHERE match_id = t.ref) OR EXISTS (SELECT 1 FROM matches WHERE quote_id = t.ref)
    ELSE EXISTS (SELECT 1 FROM quotes WHERE quote_id = t.ref) OR EXISTS (SELECT 1 FROM withdrawals WHERE withdrawal_id = t.ref)
      OR t.at < (SELECT at FROM commit_groups ORDER BY seq DESC LIMIT 1) - ${RECORDS_KEPT_MS} END`;
}

/** Both sides of a slice's transfers as `account_id`, `entry_id`, `delta`, `after`. */
function entries({ after, upTo }: Slice): Sql {
  const within = sql`transfer_id > ${after} AND transfer_id <= ${upTo}`;
  return sql`SELECT from_account AS account_id, 2 * transfer_id AS entry_id, -amount AS delta, from_balance AS after FROM transfers WHERE ${within}
    UNION ALL SELECT to_account, 2 * transfer_id + 1, amount, to_balance FROM transfers WHERE ${within}`;
}

function startsHere({ after }: Slice): Sql {
  return sql`(SELECT position FROM ledger_checkpoints WHERE walk = 'transfers') = ${after}`;
}

/** J2: each stored balance follows from the account's previous one, the slice's first from the checkpoint. */
function brokenChains(slice: Slice): Sql {
  return sql`SELECT e.entry_id, CAST(e.after AS TEXT) AS after, CAST(e.expected AS TEXT) AS expected, hex(a.owner) AS owner, a.kind, a.asset FROM (
      SELECT x.*, coalesce(x.before, c.balance, 0) + x.delta AS expected FROM (
        SELECT *, lag(after) OVER (PARTITION BY account_id ORDER BY entry_id) AS before FROM (${entries(slice)})) x
      LEFT JOIN checked_balances c ON c.account_id = x.account_id) e
    LEFT JOIN accounts a ON a.account_id = e.account_id
    WHERE e.after IS NOT e.expected AND ${startsHere(slice)} LIMIT ${MAX_PER_SLICE}`;
}

export function accountsInTransfers({ after, upTo }: Slice): Sql {
  const within = sql`transfer_id > ${after} AND transfer_id <= ${upTo}`;
  return sql`SELECT from_account FROM transfers WHERE ${within} UNION SELECT to_account FROM transfers WHERE ${within}`;
}

export function accountsOf({ after, upTo }: Slice): Sql {
  return sql`SELECT account_id FROM accounts WHERE account_id > ${after} AND account_id <= ${upTo}`;
}

export function nextAccounts(after: number, limit: number): Sql {
  return sql`SELECT account_id AS id FROM accounts WHERE account_id > ${after} ORDER BY account_id LIMIT ${limit}`;
}

type StateRow = AccountRow & { readonly balance: string; readonly expected: string };

/** J3, J4 and J6 of a set of accounts, each as the database is now. */
export async function checkAccounts(db: D1Database, accounts: Sql): Promise<Difference[]> {
  const [balances, pending] = await Promise.all([
    all<StateRow>(db, wrongBalances(accounts)),
    all<StateRow>(db, wrongPending(accounts)),
  ]);
  const difference =
    (check: "J3" | "J6", why: string) =>
    (row: StateRow): Difference => ({
      check,
      account: accountName(row),
      amount: (BigInt(row.balance) - BigInt(row.expected)).toString(),
      detail: `holds ${row.balance}; ${why} ${row.expected}`,
    });
  return [
    ...balances.map(difference("J3", "its entries sum to")),
    ...pending.map(difference("J6", "open quotes and withdrawals under way reserve")),
  ];
}

/** With J2, a balance equals the sum of its entries exactly when it equals what its newest entry left. */
function wrongBalances(accounts: Sql): Sql {
  const newest = (side: "from" | "to") =>
    raw(`(SELECT 2 * t.transfer_id + ${side === "to" ? 1 : 0} FROM transfers t INDEXED BY transfers_${side}
    WHERE t.${side}_account = a.account_id AND t.reason = r.value ORDER BY t.transfer_id DESC LIMIT 1)`);
  return sql`SELECT hex(owner) AS owner, kind, asset, CAST(balance AS TEXT) AS balance, CAST(expected AS TEXT) AS expected FROM (
    SELECT a.owner, a.kind, a.asset, a.balance, coalesce((SELECT iif(n.entry & 1, t.to_balance, t.from_balance) FROM (
        SELECT max(max(coalesce(${newest("from")}, 0), coalesce(${newest("to")}, 0))) AS entry FROM json_each(${JSON.stringify(REASONS.map(reasonNumber))}) r) n
      JOIN transfers t ON t.transfer_id = n.entry >> 1), 0) AS expected
    FROM accounts a WHERE a.account_id IN (${accounts}))
    WHERE balance <> expected OR typeof(balance) <> 'integer' OR (balance < 0 AND kind <> 'external') LIMIT 100`;
}

/** All pending accounts of the set's owners against what their open quotes and withdrawals reserve. */
function wrongPending(accounts: Sql): Sql {
  return sql`WITH owners AS MATERIALIZED (SELECT DISTINCT owner FROM accounts WHERE kind = 'pending' AND account_id IN (${accounts})),
    held AS MATERIALIZED (
      SELECT owner, asset, sum(amount) AS amount FROM (
        SELECT q.maker_id AS owner, q.reserve_asset AS asset, q.reserve AS amount
          FROM owners o CROSS JOIN quotes q INDEXED BY quotes_open_maker ON q.maker_id = o.owner WHERE q.status = 'open'
        UNION ALL
        SELECT w.user_id, w.asset, w.amount FROM withdrawals w INDEXED BY withdrawals_open
          WHERE w.status IN ('queued', 'submitted') AND w.user_id IN (SELECT owner FROM owners))
      GROUP BY owner, asset)
    SELECT hex(owner) AS owner, 'pending' AS kind, asset, CAST(sum(balance) AS TEXT) AS balance, CAST(sum(expected) AS TEXT) AS expected FROM (
      SELECT a.owner, a.asset, a.balance, 0 AS expected FROM owners o CROSS JOIN accounts a ON a.owner = o.owner AND a.kind = 'pending'
      UNION ALL SELECT owner, asset, 0, amount FROM held)
    GROUP BY owner, asset HAVING sum(balance) <> sum(expected) LIMIT 100`;
}

const ACCOUNTS_PER_PAGE = 20_000;
/** Pages of the total that a run reads; a journal with more accounts is summed by a full run alone. */
const PAGES_PER_RUN = 5;

/** J1 over everything: the balances at the checkpoint sum to zero for each asset. Halves, since a plain sum may overflow. */
export async function checkTotals(db: D1Database, full: boolean): Promise<Difference[]> {
  const totals = new Map<string, bigint>();
  const position = async () =>
    (
      await all<{ position: number }>(
        db,
        sql`SELECT position FROM ledger_checkpoints WHERE walk = 'transfers'`,
      )
    )[0]?.position;
  const start = await position();
  let after = 0;
  for (let page = 0; ; page++) {
    const rows = await all<{ asset: string; high: number; low: number; last: number }>(
      db,
      sql`SELECT a.asset, sum(c.balance >> 32) AS high, sum(c.balance & 4294967295) AS low, max(c.account_id) AS last
        FROM (SELECT * FROM checked_balances WHERE account_id > ${after} ORDER BY account_id LIMIT ${ACCOUNTS_PER_PAGE}) c
        CROSS JOIN accounts a ON a.account_id = c.account_id GROUP BY a.asset`,
    );
    if (rows.length === 0) break;
    for (const row of rows)
      totals.set(
        row.asset,
        (totals.get(row.asset) ?? 0n) + BigInt(row.high) * 2n ** 32n + BigInt(row.low),
      );
    after = Math.max(...rows.map((row) => row.last));
    if (!full && page + 1 === PAGES_PER_RUN) return [];
  }
  // Another run has moved the checkpoint meanwhile: its balances are of two moments, and it sums for itself.
  if ((await position()) !== start) return [];
  return [...totals]
    .filter(([, total]) => total !== 0n)
    .map(([asset, total]) => ({
      check: "J1",
      account: `all/all/${asset}`,
      amount: total.toString(),
      detail: "the journal of the asset does not sum to zero",
    }));
}
