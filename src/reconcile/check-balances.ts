/** The checks of the balances as they are now, and of sums of trades (`position_mismatch`). */
import { IN_FLIGHT } from "../assets/withdrawal-status.ts";
import { all, atom, type Expr, expr, join, raw, type Sql, sql } from "../platform/sql.ts";
import type { Checks, Chunk } from "./check-alone.ts";
import { isIndexedCredit, reasonCode, REASONS, reasonNumber } from "../ledger/codes.ts";
import { tradeSums } from "../ledger/trade-sums.ts";
import {
  accountName,
  type AccountRow,
  type Check,
  type Difference,
  differencesIn,
} from "./difference.ts";
import {
  isNext,
  MAX_PER_CHUNK,
  placedWithin,
  scanName,
  type ScanScope,
  within,
} from "./check-journal.ts";
import { checkPairs } from "./check-pairs.ts";
import { DELIVERED } from "../ledger/released.ts";

/** The accounts of a chunk of transfers. */
export function accountsInTransfers(chunk: Chunk): Sql {
  return sql`SELECT from_account FROM transfers WHERE ${within("transfer_id", chunk)}
    UNION SELECT to_account FROM transfers WHERE ${within("transfer_id", chunk)}`;
}

/** The accounts of a chunk of accounts. */
function accountsIn(chunk: Chunk): Sql {
  return sql`SELECT account_id FROM accounts WHERE ${within("account_id", chunk)}`;
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

/** The checks of the balances of the accounts that `accountsOf` selects, as they are now. */
export function balanceChecks(db: D1Database, accountsOf: (part: Chunk) => Sql): Checks {
  const rows = (statement: Sql) => all<BalanceRow>(db, statement);
  return {
    balances: async (part) => (await rows(wrongBalances(accountsOf(part)))).map(SUMS),
    "pending balances": async (part) =>
      (await rows(wrongPending(ownersOf("pending", accountsOf(part))))).map(RESERVES),
    promises: async (part) =>
      (await rows(wrongPromises(ownersOf("available", accountsOf(part))))).map(PROMISES),
  };
}

/** The checks of a chunk of accounts. */
export function accountChecks(db: D1Database): Checks {
  return {
    ...balanceChecks(db, accountsIn),
    "sub-accounts": (part) => checkNumbers(db, part),
    "sums of trades": (part) => checkSealedSums(db, part),
    pairs: (part) => checkPairs(db, part),
  };
}

/** The number of a user's account decides in whose ledger its entries appear. */
function checkNumbers(db: D1Database, chunk: Chunk): Promise<Difference[]> {
  return differencesIn(
    db,
    "transfer_invalid",
    sql`SELECT hex(a.owner) AS owner, a.kind, a.asset, '0' AS amount, 'its sub-account '
        || coalesce(a.sub_account, 'null') || ' is not its owner''s' AS detail
      FROM accounts a WHERE ${within("a.account_id", chunk)} AND a.sub_account IS NOT iif(
        a.kind IN ('available', 'pending'), (a.kind = 'pending') + 2 * (
          SELECT min(b.account_id) FROM accounts b
          WHERE b.owner = a.owner AND b.kind IN ('available', 'pending')), NULL)
      LIMIT ${MAX_PER_CHUNK}`,
  );
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
function wrongPending(owners: Sql): Sql {
  return wrongSums("pending", owners, {
    amount: "balance",
    causes: sql`SELECT w.user_id AS owner, w.asset, w.amount
      FROM withdrawals w INDEXED BY withdrawals_open
      WHERE w.status ${IN_FLIGHT} AND w.user_id IN (SELECT owner FROM owners)
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

/** Accounts whose column differs from the sum of `causes` (`owner`, `asset` and `amount`). */
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
    UNION SELECT q.maker_id FROM quotes q WHERE ${placedWithin(chunk)}`;
  return (await all<BalanceRow>(db, wrongPromises(makers))).map(PROMISES);
}

/** Transfers after a chunk in which its accounts may have traded again and are compared still. */
const AHEAD = 2_000;

/**
 * Compares the sums of the accounts that traded in a chunk of transfers with those at the
 * checkpoint and the matches since. An account that traded even later is compared with that chunk.
 */
export function checkSums(db: D1Database, scan: ScanScope, chunk: Chunk): Promise<Difference[]> {
  const upTo = chunk.upTo + AHEAD;
  return wrongTradeSums(
    db,
    sql`(${tradeSums({ after: chunk.after, upTo })}) n
      CROSS JOIN accounts a ON a.account_id = n.account_id
      LEFT JOIN checked_balances s ON s.scan = ${scanName(scan, "transfers")}
        AND s.account_id = a.account_id
      WHERE ${notTradedAfter(expr`${upTo}`)} AND ${isNext(scan, chunk)}`,
    { traded: expr`n.traded`, usdc: expr`n.traded_usdc` },
  );
}

/** Compares the accounts of a chunk of accounts that have not traded since the last seal. */
function checkSealedSums(db: D1Database, chunk: Chunk): Promise<Difference[]> {
  return wrongTradeSums(
    db,
    sql`accounts a LEFT JOIN sealed_balances s ON s.account_id = a.account_id
      WHERE ${within("a.account_id", chunk)} AND ${notTradedAfter(DELIVERED)}`,
    { traded: expr`0`, usdc: expr`0` },
  );
}

/** Condition on account `a`. A token enters it as available and leaves it as pending. */
function notTradedAfter(transfer: Expr): Expr {
  const later = (index: Sql, account: Expr) => expr`EXISTS (SELECT 1
    FROM transfers t INDEXED BY ${index}
    WHERE ${account} = a.account_id AND t.reason = ${reasonCode("trade")}
      AND ${isIndexedCredit(atom("t.reason"))} AND t.transfer_id > ${transfer})`;
  return expr`NOT ${later(sql`transfers_to`, atom("t.to_account"))}
    AND NOT ${later(sql`transfers_from`, atom("t.from_account"))}`;
}

type SumsRow = AccountRow & {
  readonly traded: string;
  readonly usdc: string;
  readonly expected: string;
  readonly expected_usdc: string;
};

/** Accounts `a` whose sums are not those of the checkpoint `s` and what came after it. */
async function wrongTradeSums(
  db: D1Database,
  from: Sql,
  since: { readonly traded: Expr; readonly usdc: Expr },
): Promise<Difference[]> {
  const rows = await all<SumsRow>(
    db,
    sql`SELECT hex(owner) AS owner, kind, asset, CAST(traded AS TEXT) AS traded,
        CAST(traded_usdc AS TEXT) AS usdc, CAST(expected AS TEXT) AS expected,
        CAST(expected_usdc AS TEXT) AS expected_usdc
      FROM (SELECT a.owner, a.kind, a.asset, a.traded, a.traded_usdc,
          coalesce(s.traded, 0) + ${since.traded} AS expected,
          coalesce(s.traded_usdc, 0) + ${since.usdc} AS expected_usdc
        FROM ${from})
      WHERE (traded, traded_usdc) IS NOT (expected, expected_usdc) LIMIT ${MAX_PER_CHUNK}`,
  );
  return rows.map(({ traded, usdc, expected, expected_usdc: expectedUsdc, ...row }) => ({
    check: "position_mismatch",
    account: accountName(row),
    amount: (BigInt(traded) - BigInt(expected)).toString(),
    detail: `sums ${traded} for ${usdc} USDC; its matches sum to ${expected} for ${expectedUsdc}`,
  }));
}
