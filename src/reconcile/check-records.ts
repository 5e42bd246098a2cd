/**
 * The checks of records: each has exactly the transfers that its status calls for, a settled
 * withdrawal has its payment on the chain, and each withdrawal was ordered so. Records are found by
 * the commit group that opened or ended them.
 */
import type { MacKeys } from "../audit/event-mac.ts";
import {
  all,
  atom,
  type Expr,
  expr,
  join,
  literal,
  raw,
  type Sql,
  sql,
  readUuid,
  select,
} from "../platform/sql.ts";
import { describeReason, reasonCode } from "../ledger/codes.ts";
import { accountName, type Difference, differencesIn } from "./difference.ts";
import { ARCHIVED_RECORD } from "../ledger/released.ts";
import { FEES_OWNER, LOSSES_OWNER, pairOwner } from "../ledger/post.ts";
import { NOW } from "../platform/commit.ts";
import { toWireTime } from "../platform/time.ts";
import { type Chunk, mapAlone, type Rows } from "./check-alone.ts";
import { MAX_PER_CHUNK, unlisted, within } from "./check-journal.ts";
import { alteredTerms, MAC_COLUMNS, type MacRow } from "../ledger/withdrawal-mac.ts";

/** Compares records that groups moved, or that transfers name, with all their transfers. */
export async function checkPostings(
  db: D1Database,
  rows: Extract<Rows, "group" | "transfer">,
  chunk: Chunk,
): Promise<Difference[]> {
  const refs =
    rows === "group"
      ? refsOfGroups(chunk)
      : sql`SELECT DISTINCT ref AS id FROM transfers WHERE ${within("transfer_id", chunk)}`;
  const wrong = await all<MismatchRow>(db, wrongPostings(refs));
  return [...unlisted(wrong, rows, chunk), ...wrong.map(mismatch)];
}

/** The columns of the groups that moved a record. */
const GROUPS = [
  ["deposits", "ended_group"],
  ["quotes", "ended_group"],
  ["matches", "matched_group"],
  ["withdrawals", "changed_group"],
  ["accepted_payments", "accepted_group"],
  ["requests", "ended_group"],
  ["requests", "opened_group"],
  ["redemptions", "made_group"],
  ["commit_groups", "seq"],
] as const;

const NO_GROUP = literal(Number.MAX_SAFE_INTEGER);

/**
 * Scalar: the first group after this one that is kept or has moved a record. Most groups are old
 * and their records have been deleted, so a scan of each number would take longer every day.
 */
export function nextChange(after: Expr): Expr {
  const firsts = GROUPS.map(
    ([table, group]) =>
      sql`coalesce((SELECT min(${raw(group)}) FROM ${raw(table)} WHERE ${raw(group)} > ${after}),
        ${NO_GROUP})`,
  );
  return expr`min(${join(firsts, ", ")})`;
}

/** What transfers name of the records that a chunk of groups moved. Five terms, as D1 takes. */
function refsOfGroups(chunk: Chunk): Sql {
  const matched = within("matched_group", chunk);
  return sql`SELECT deposit_id AS id FROM deposits WHERE ${within("ended_group", chunk)}
    UNION ALL SELECT match_id FROM matches WHERE ${matched}
    UNION ALL SELECT quote_id FROM matches WHERE ${matched}
    UNION ALL SELECT withdrawal_id FROM withdrawals WHERE ${within("changed_group", chunk)}
    UNION ALL SELECT id FROM (
      SELECT acceptance_id AS id FROM accepted_payments WHERE ${within("accepted_group", chunk)}
      UNION ALL SELECT redemption_id FROM redemptions WHERE ${within("made_group", chunk)})`;
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

/** Counts transfers that records call for against the journal's. `refs` selects what they name. */
function wrongPostings(refs: Sql): Sql {
  return sql`WITH refs AS MATERIALIZED (SELECT id FROM (${refs}) WHERE NOT ${ARCHIVED_RECORD}),
    counted AS (
      SELECT e.*, -1 AS n FROM (${EXPECTED}) e JOIN refs ON refs.id = e.ref WHERE e.amount <> 0
      UNION ALL
      SELECT t.ref, t.reason, f.owner, f.kind, g.owner, g.kind, f.asset, t.amount, 1
      FROM refs CROSS JOIN transfers t INDEXED BY transfers_once ON t.ref = refs.id
        LEFT JOIN accounts f ON f.account_id = t.from_account
        LEFT JOIN accounts g ON g.account_id = t.to_account)
    SELECT hex(ref) AS ref, reason, hex(from_owner) AS owner, from_kind AS kind,
      hex(to_owner) AS to_owner, to_kind, asset, CAST(amount AS TEXT) AS amount, sum(n) AS surplus
    FROM counted
    GROUP BY ref, reason, from_owner, from_kind, to_owner, to_kind, asset, amount
    HAVING sum(n) <> 0 LIMIT ${MAX_PER_CHUNK}`;
}

const PAIR_OF_MATCH = pairOwner(atom("asset"), atom("complement"));

/**
 * The reserve and the trade of each side, and both fees. Who pays USDC pays the fee from the
 * reserve, the other from the proceeds. Transfers of the maker's side name the quote. If a pair
 * takes part, each side gives to it and gets from it.
 */
const OF_MATCHES = sql`WITH m AS MATERIALIZED (
      SELECT m.* FROM refs CROSS JOIN matches m ON m.match_id = refs.id
      UNION SELECT m.* FROM refs CROSS JOIN matches m ON m.quote_id = refs.id),
    sides AS (
      SELECT match_id AS ref, ${reasonCode("reserve_trade")} AS reserve, requester_id AS giver,
        maker_id AS taker, side = 'Bid' AS pays, taker_fee AS fee, match_id, asset, amount,
        usdc_amount, complement IS NOT NULL AS paired, ${PAIR_OF_MATCH} AS pair FROM m
      UNION ALL
      SELECT quote_id, ${reasonCode("reserve_rfq")}, maker_id, requester_id,
        side = iif(complement IS NULL, 'Ask', 'Bid'), maker_fee, match_id,
        ifnull(complement, asset), amount, iif(complement IS NULL, usdc_amount,
          amount - usdc_amount), complement IS NOT NULL, ${PAIR_OF_MATCH} FROM m)
  SELECT ref, reserve AS reason, giver AS from_owner, 'available' AS from_kind,
    giver AS to_owner, 'pending' AS to_kind, iif(pays, 'usdc', asset) AS asset,
    iif(pays, usdc_amount + fee, amount) AS amount FROM sides
  UNION ALL
  SELECT ref, ${reasonCode("trade")}, giver, 'pending', iif(paired, pair, taker),
    iif(paired, 'external', 'available'), iif(pays, 'usdc', asset), iif(pays, usdc_amount, amount)
  FROM sides
  UNION ALL
  SELECT ref, ${reasonCode("trade")}, pair, 'external', giver, 'available',
    iif(pays, asset, 'usdc'), iif(pays, amount, usdc_amount) FROM sides WHERE paired
  UNION ALL
  SELECT match_id, ${reasonCode("fee")}, giver, iif(pays, 'pending', 'available'),
    ${FEES_OWNER}, 'fees', 'usdc', fee FROM sides`;

const DEPOSIT = sql`SELECT d.deposit_id AS ref, ${reasonCode("deposit")} AS reason,
    CAST('external:' || d.chain AS BLOB) AS from_owner, 'external' AS from_kind,
    d.user_id AS to_owner, 'available' AS to_kind, d.asset, CAST(d.amount AS INTEGER) AS amount
  FROM refs CROSS JOIN deposits d ON d.deposit_id = refs.id WHERE d.status = 'credited'`;

const W = sql`FROM refs CROSS JOIN withdrawals w ON w.withdrawal_id = refs.id`;
const OF_WITHDRAWALS = sql`SELECT w.withdrawal_id, ${reasonCode("withdrawal")}, w.user_id,
    'available', w.user_id, 'pending', w.asset, w.amount ${W}
  UNION ALL
  SELECT w.withdrawal_id, ${reasonCode("withdrawal")}, w.user_id, 'pending',
    CAST('external:' || w.chain AS BLOB), 'external', w.asset, w.amount ${W}
  WHERE w.status = 'settled'
  UNION ALL
  SELECT w.withdrawal_id, ${reasonCode("release")}, w.user_id, 'pending',
    w.user_id, 'available', w.asset, w.amount ${W} WHERE w.status IN ('failed', 'cancelled')`;

/** A payment that was accepted as a loss, or as that of a lost withdrawal. */
const A = sql`FROM refs CROSS JOIN accepted_payments a ON a.acceptance_id = refs.id`;
const OF_ACCEPTED_PAYMENTS = sql`SELECT a.acceptance_id, ${reasonCode("withdrawal")},
    coalesce(a.user_id, ${LOSSES_OWNER}), iif(a.kind = 'loss', 'external', 'pending'),
    CAST('external:' || a.chain AS BLOB), 'external', a.asset, a.amount
    ${A} WHERE a.kind <> 'rescue'
  UNION ALL
  SELECT a.acceptance_id, ${reasonCode("withdrawal")}, a.user_id, 'available',
    a.user_id, 'pending', a.asset, a.amount ${A} WHERE a.kind = 'withdrawal'`;

/** A user gives USDC for both tokens, or a token for USDC: a reserve and a trade each way. */
const OF_REDEMPTIONS = sql`WITH r AS MATERIALIZED (SELECT r.*,
      iif(r.kind = 'split', 'usdc', r.asset) AS given,
      iif(r.kind = 'split', r.asset, 'usdc') AS taken,
      iif(r.kind = 'split', r.usdc_amount, r.amount) AS gives,
      iif(r.kind = 'split', r.amount, r.usdc_amount) AS takes
    FROM refs CROSS JOIN redemptions r ON r.redemption_id = refs.id)
  SELECT redemption_id, ${reasonCode("reserve_trade")}, user_id, 'available', user_id, 'pending',
    given, gives FROM r
  UNION ALL SELECT redemption_id, ${reasonCode("trade")}, user_id, 'pending', pair, 'external',
    given, gives FROM r
  UNION ALL SELECT redemption_id, ${reasonCode("trade")}, pair, 'external', user_id, 'available',
    taken, takes FROM r`;

/** From `refs`: `ref, reason, from_owner, from_kind, to_owner, to_kind, asset, amount`. */
const EXPECTED = join(
  [DEPOSIT, OF_MATCHES, OF_WITHDRAWALS, OF_ACCEPTED_PAYMENTS, OF_REDEMPTIONS].map(
    (transfers) => sql`SELECT * FROM (${transfers})`,
  ),
  " UNION ALL ",
);

/** Settled withdrawals without the vault's payment of the same amount to the same address. */
export function checkPayments(db: D1Database, chunk: Chunk): Promise<Difference[]> {
  return differencesIn(
    db,
    "payment_mismatch",
    sql`SELECT hex(w.user_id) AS owner, 'pending' AS kind, w.asset,
        CAST(w.amount AS TEXT) AS amount, 'withdrawal ' || lower(hex(w.withdrawal_id))
          || ' is settled, but no event of the vault paid it' AS detail
      FROM withdrawals w WHERE ${within("w.changed_group", chunk)} AND w.status = 'settled'
        AND NOT EXISTS (SELECT 1 FROM vault_events e WHERE e.payment_id = w.payment_id
          AND e.chain = w.chain AND e.kind = 'Paid' AND e.to_address = w.to_address
          AND e.amount = CAST(w.amount AS TEXT))
      LIMIT ${MAX_PER_CHUNK}`,
  );
}

/** Withdrawals whose MAC does not fit. The payer reports a row without one. */
export async function checkOrders(
  db: D1Database,
  keys: MacKeys,
  chunk: Chunk,
): Promise<Difference[]> {
  const rows = await all<MacRow>(
    db,
    sql`SELECT ${select(MAC_COLUMNS)} FROM withdrawals w WHERE ${within("w.changed_group", chunk)}
      AND w.terms_mac IS NOT NULL`,
  );
  return rows.flatMap((row): Difference[] => {
    const problem = alteredTerms(keys, row);
    if (problem === undefined) return [];
    const id = readUuid(row.withdrawalId);
    return [
      {
        check: "withdrawal_mismatch",
        account: `${readUuid(row.userId)}/withdrawal/${id}`,
        amount: row.amount,
        detail: problem,
      },
    ];
  });
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
