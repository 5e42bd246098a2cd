/**
 * The checks of records: each record has exactly the transfers that its status calls for
 * (`record_mismatch`), matches follow their formulas (`terms_mismatch`), requests agree with their
 * matches and quotes (`request_mismatch`), a settled withdrawal has its payment on the chain
 * (`payment_mismatch`), and each one was ordered so (`withdrawal_mismatch`). Records are found by
 * the commit group that opened or ended them.
 */
import type { MacKeys } from "../audit/event-mac.ts";
import { all, type Expr, expr, join, literal, raw, type Sql, sql } from "../platform/sql.ts";
import { describeReason, reasonCode } from "../ledger/codes.ts";
import { accountName, type Difference } from "./difference.ts";
import { ARCHIVED_RECORD } from "../ledger/released.ts";
import { FEES_OWNER, LOSSES_OWNER } from "../ledger/post.ts";
import { NOW } from "../platform/commit.ts";
import { toWireTime } from "../platform/time.ts";
import { checkRowsAlone, type Chunk, mapAlone, type Rows } from "./check-alone.ts";
import { checkPromises } from "./check-balances.ts";
import { within } from "./check-journal.ts";
import { checkQuotes, checkRequests, checkTerms } from "./check-trades.ts";
import { checkOrders } from "./check-orders.ts";

export async function checkRecords(
  db: D1Database,
  keys: MacKeys,
  chunk: Chunk,
): Promise<Difference[]> {
  const alone = (name: string, check: typeof checkTerms) =>
    checkRowsAlone({ db, name, rows: "group", chunk }, (part) => check(db, part));
  return [
    ...(await checkTransfersOf(db, { rows: "group", chunk, select: changedIn })),
    ...(await alone("terms", checkTerms)),
    ...(await alone("requests", checkRequests)),
    ...(await alone("quotes", checkQuotes)),
    ...(await alone("promises", checkPromises)),
    ...(await alone("payments", checkPayments)),
    ...(await alone("orders", (_, part) => checkOrders(db, keys, part))),
  ];
}

/**
 * Compares the records that a chunk of transfers names and that no group after `checkedGroup` has
 * moved. The scan over groups has already compared them, so these transfers have no cause.
 */
export function checkLatePostings(
  db: D1Database,
  chunk: Chunk,
  checkedGroup: number,
): Promise<Difference[]> {
  const select = (part: Chunk) => postedIn(part, checkedGroup);
  return checkTransfersOf(db, { rows: "transfer", chunk, select });
}

/**
 * A table of records. `groups` are the columns of the groups that moved a record, latest first.
 * Transfers name it by `id`, and by `alsoNamed`.
 */
type Records = {
  readonly table: string;
  readonly id: string;
  readonly alsoNamed?: string;
  readonly groups: readonly string[];
};

const DEPOSITS: Records = { table: "deposits", id: "deposit_id", groups: ["ended_group"] };
/** Transfers of the maker's side name the quote. */
const MATCHES: Records = {
  table: "matches",
  id: "match_id",
  alsoNamed: "quote_id",
  groups: ["matched_group"],
};
const WITHDRAWALS: Records = {
  table: "withdrawals",
  id: "withdrawal_id",
  groups: ["changed_group"],
};
const ACCEPTED_PAYMENTS: Records = {
  table: "accepted_payments",
  id: "acceptance_id",
  groups: ["accepted_group"],
};
/** They have no transfers. */
const REQUESTS = { table: "requests", groups: ["ended_group", "opened_group"] };
const QUOTES = { table: "quotes", groups: ["ended_group"] };

const NO_GROUP = literal(Number.MAX_SAFE_INTEGER);

/**
 * Scalar: the first group after this one that is kept or has moved a record. Most groups are old
 * and their records have been deleted, so a scan of each number would take longer every day.
 */
export function nextChange(after: Expr): Expr {
  const columns = [DEPOSITS, QUOTES, MATCHES, WITHDRAWALS, ACCEPTED_PAYMENTS, REQUESTS].flatMap(
    ({ table, groups }) => groups.map((group) => ({ table, group })),
  );
  const firsts = [...columns, { table: "commit_groups", group: "seq" }].map(
    ({ table, group }) =>
      sql`coalesce((SELECT min(${raw(group)}) FROM ${raw(table)} WHERE ${raw(group)} > ${after}),
        ${NO_GROUP})`,
  );
  return expr`min(${join(firsts, ", ")})`;
}

/** Selects the `id` of the records that a check compares. */
type Selection = (records: Records) => Sql;

function changedIn(chunk: Chunk): Selection {
  return ({ table, id, groups }) =>
    join(
      groups.map(
        (group) => sql`SELECT ${raw(id)} AS id FROM ${raw(table)} WHERE ${within(group, chunk)}`,
      ),
      " UNION ",
    );
}

function postedIn(chunk: Chunk, checkedGroup: number): Selection {
  const posted = sql`IN (SELECT ref FROM transfers WHERE ${within("transfer_id", chunk)})`;
  return ({ table, id, alsoNamed = id, groups }) => sql`SELECT ${raw(id)} AS id FROM ${raw(table)}
    WHERE (${raw(id)} ${posted} OR ${raw(alsoNamed)} ${posted})
      AND coalesce(${raw(groups.join(", "))}, 0) <= ${checkedGroup}`;
}

async function checkTransfersOf(
  db: D1Database,
  { rows, chunk, select }: { rows: Rows; chunk: Chunk; select: (part: Chunk) => Selection },
): Promise<Difference[]> {
  const kinds = { deposits, matches, withdrawals, "accepted payments": acceptedPayments };
  const found = await Promise.all(
    Object.entries(kinds).map(([kind, wrongIn]) =>
      checkRowsAlone({ db, name: `transfers of ${kind}`, rows, chunk }, async (part) =>
        (await all<MismatchRow>(db, wrongIn(select(part)))).map(mismatch),
      ),
    ),
  );
  return found.flat();
}

/** A transfer that the journal contains too often (`surplus` above zero) or not often enough. */
type MismatchRow = {
  readonly ref: string;
  readonly reason: number;
  readonly owner: string | null;
  readonly kind: string | null;
  readonly to_owner: string | null;
  readonly to_kind: string | null;
  readonly asset: string | null;
  readonly amount: string | null;
  readonly surplus: number;
};

function mismatch(row: MismatchRow): Difference {
  const to = accountName({ owner: row.to_owner, kind: row.to_kind, asset: row.asset });
  const problem = row.surplus < 0 ? "missing" : "unexpected";
  return {
    check: "record_mismatch",
    account: accountName(row),
    amount: (BigInt(row.amount ?? "0") * BigInt(-row.surplus)).toString(),
    detail: `${describeReason(row.reason)} of ${row.ref.toLowerCase()} to ${to} is ${problem}`,
  };
}

/**
 * Counts the transfers that records call for against those in the journal. `records` selects the
 * records' `id`. `expected` selects from `records` the columns `ref, reason, from_owner, from_kind,
 * to_owner, to_kind, asset, amount`. An amount of zero calls for no transfer. `refs` selects from
 * `records` what their transfers name, as `id`.
 */
function compare(records: Sql, expected: Sql, refs = sql`SELECT id FROM records`): Sql {
  return sql`WITH records AS MATERIALIZED (${records}),
    refs AS MATERIALIZED (SELECT id FROM (${refs}) WHERE NOT ${ARCHIVED_RECORD}),
    counted AS (
      SELECT e.*, -1 AS n FROM (${expected}) e JOIN refs ON refs.id = e.ref WHERE e.amount <> 0
      UNION ALL
      SELECT t.ref, t.reason, f.owner, f.kind, g.owner, g.kind, f.asset, t.amount, 1
      FROM refs CROSS JOIN transfers t INDEXED BY transfers_once ON t.ref = refs.id
        LEFT JOIN accounts f ON f.account_id = t.from_account
        LEFT JOIN accounts g ON g.account_id = t.to_account)
    SELECT hex(ref) AS ref, reason, hex(from_owner) AS owner, from_kind AS kind,
      hex(to_owner) AS to_owner, to_kind, asset, CAST(amount AS TEXT) AS amount, sum(n) AS surplus
    FROM counted
    GROUP BY ref, reason, from_owner, from_kind, to_owner, to_kind, asset, amount
    HAVING sum(n) <> 0 LIMIT 100`;
}

function deposits(select: Selection): Sql {
  return compare(
    select(DEPOSITS),
    sql`SELECT d.deposit_id AS ref, ${reasonCode("deposit")} AS reason,
        CAST('external:' || d.chain AS BLOB) AS from_owner, 'external' AS from_kind,
        d.user_id AS to_owner, 'available' AS to_kind, d.asset, CAST(d.amount AS INTEGER) AS amount
      FROM records CROSS JOIN deposits d ON d.deposit_id = records.id WHERE d.status = 'credited'`,
  );
}

/**
 * The reserve and the trade of each side, and both fees. Who pays USDC pays the fee from the
 * reserve, the other from the proceeds.
 */
function matches(select: Selection): Sql {
  const m = sql`FROM records CROSS JOIN matches m ON m.match_id = records.id`;
  const terms = sql`m.match_id, m.asset, m.amount, m.usdc_amount ${m}`;
  return compare(
    select(MATCHES),
    sql`WITH sides AS (
        SELECT m.match_id AS ref, ${reasonCode("reserve_trade")} AS reserve,
          m.requester_id AS giver, m.maker_id AS taker, m.side = 'Bid' AS pays,
          m.taker_fee AS fee, ${terms}
        UNION ALL
        SELECT m.quote_id, ${reasonCode("reserve_rfq")}, m.maker_id, m.requester_id,
          m.side = 'Ask', m.maker_fee, ${terms})
      SELECT ref, reserve AS reason, giver AS from_owner, 'available' AS from_kind,
        giver AS to_owner, 'pending' AS to_kind, iif(pays, 'usdc', asset) AS asset,
        iif(pays, usdc_amount + fee, amount) AS amount FROM sides
      UNION ALL
      SELECT ref, ${reasonCode("trade")}, giver, 'pending', taker, 'available',
        iif(pays, 'usdc', asset), iif(pays, usdc_amount, amount) FROM sides
      UNION ALL
      SELECT match_id, ${reasonCode("fee")}, giver, iif(pays, 'pending', 'available'),
        ${FEES_OWNER}, 'fees', 'usdc', fee FROM sides`,
    sql`SELECT id FROM records UNION ALL SELECT m.quote_id ${m}`,
  );
}

function withdrawals(select: Selection): Sql {
  const w = sql`FROM records CROSS JOIN withdrawals w ON w.withdrawal_id = records.id`;
  return compare(
    select(WITHDRAWALS),
    sql`SELECT w.withdrawal_id AS ref, ${reasonCode("withdrawal")} AS reason,
        w.user_id AS from_owner, 'available' AS from_kind,
        w.user_id AS to_owner, 'pending' AS to_kind, w.asset, w.amount ${w}
      UNION ALL
      SELECT w.withdrawal_id, ${reasonCode("withdrawal")}, w.user_id, 'pending',
        CAST('external:' || w.chain AS BLOB), 'external', w.asset, w.amount ${w}
      WHERE w.status = 'settled'
      UNION ALL
      SELECT w.withdrawal_id, ${reasonCode("release")}, w.user_id, 'pending',
        w.user_id, 'available', w.asset, w.amount ${w} WHERE w.status IN ('failed', 'cancelled')`,
  );
}

/** A payment that was accepted as a loss, or as that of a lost withdrawal. */
function acceptedPayments(select: Selection): Sql {
  const a = sql`FROM records CROSS JOIN accepted_payments a ON a.acceptance_id = records.id`;
  return compare(
    select(ACCEPTED_PAYMENTS),
    sql`SELECT a.acceptance_id AS ref, ${reasonCode("withdrawal")} AS reason,
        coalesce(a.user_id, ${LOSSES_OWNER}) AS from_owner,
        iif(a.kind = 'loss', 'external', 'pending') AS from_kind,
        CAST('external:' || a.chain AS BLOB) AS to_owner, 'external' AS to_kind, a.asset, a.amount
        ${a} WHERE a.kind <> 'rescue'
      UNION ALL
      SELECT a.acceptance_id, ${reasonCode("withdrawal")}, a.user_id, 'available',
        a.user_id, 'pending', a.asset, a.amount ${a} WHERE a.kind = 'withdrawal'`,
  );
}

type PaymentRow = {
  readonly withdrawal: string;
  readonly owner: string;
  readonly asset: string;
  readonly amount: string;
};

/** Settled withdrawals without the vault's payment of the same amount to the same address. */
async function checkPayments(db: D1Database, chunk: Chunk): Promise<Difference[]> {
  const rows = await all<PaymentRow>(
    db,
    sql`SELECT lower(hex(w.withdrawal_id)) AS withdrawal, hex(w.user_id) AS owner, w.asset,
        CAST(w.amount AS TEXT) AS amount
      FROM withdrawals w WHERE ${within("w.changed_group", chunk)} AND w.status = 'settled'
        AND NOT EXISTS (SELECT 1 FROM vault_events e WHERE e.payment_id = w.payment_id
          AND e.chain = w.chain AND e.kind = 'Paid' AND e.to_address = w.to_address
          AND e.amount = CAST(w.amount AS TEXT))
      LIMIT 100`,
  );
  return rows.map(({ withdrawal, owner, asset, amount }) => ({
    check: "payment_mismatch",
    account: accountName({ owner, kind: "pending", asset }),
    amount,
    detail: `withdrawal ${withdrawal} is settled, but no event of the vault paid it`,
  }));
}

/** Records that are still open this long after their expiry are overdue. */
const OVERDUE_MS = 600_000;

/** Books whose expiries do not happen, with the number of open records that are overdue. */
export async function checkOverdue(db: D1Database) {
  const rows = await all<{ asset: string; n: number; oldest: number }>(
    db,
    sql`WITH due AS (SELECT ${NOW} - ${OVERDUE_MS} AS at)
      SELECT asset, count(*) AS n, min(expires_at) AS oldest FROM (
        SELECT asset, expires_at FROM quotes
        WHERE status = 'open' AND expires_at <= (SELECT at FROM due)
        UNION ALL
        SELECT asset, expires_at FROM requests
        WHERE status = 'open' AND expires_at <= (SELECT at FROM due))
      GROUP BY asset LIMIT 100`,
  );
  return mapAlone("expiries", rows, {
    of: ({ asset, n, oldest }): Difference => ({
      check: "expiry_overdue",
      account: `all/book/${asset}`,
      amount: n.toString(),
      detail: `open since their expiry, the oldest since ${toWireTime(oldest)}`,
    }),
    nameOf: ({ asset }) => `book ${asset}`,
  });
}
