/**
 * The checks of records against the journal: each record has exactly the transfers that its status
 * calls for (`record_mismatch`), and matches follow their formulas (`terms_mismatch`). Records are
 * found by the commit group that opened or ended them.
 */
import { all, type Sql, sql } from "../platform/sql.ts";
import { describeReason, reasonCode } from "./codes.ts";
import { accountName, type Difference } from "./difference.ts";
import { FEES_OWNER, LOSSES_OWNER } from "./post.ts";
import { type Chunk, within } from "./reconcile-journal.ts";

export async function checkRecords(db: D1Database, chunk: Chunk): Promise<Difference[]> {
  const found = await Promise.all(
    [deposits, quotes, matches, withdrawals, acceptedPayments].map((kind) =>
      all<MismatchRow>(db, kind(chunk)),
    ),
  );
  return [...found.flat().map(mismatch), ...(await checkTerms(db, chunk))];
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
 * to_owner, to_kind, asset, amount`. An amount of zero calls for no transfer.
 */
function compare(records: Sql, expected: Sql): Sql {
  return sql`WITH records AS MATERIALIZED (${records}),
    counted AS (
      SELECT e.*, -1 AS n FROM (${expected}) e WHERE e.amount <> 0
      UNION ALL
      SELECT t.ref, t.reason, f.owner, f.kind, g.owner, g.kind, f.asset, t.amount, 1
      FROM records CROSS JOIN transfers t INDEXED BY transfers_once ON t.ref = records.id
        LEFT JOIN accounts f ON f.account_id = t.from_account
        LEFT JOIN accounts g ON g.account_id = t.to_account)
    SELECT hex(ref) AS ref, reason, hex(from_owner) AS owner, from_kind AS kind,
      hex(to_owner) AS to_owner, to_kind, asset, CAST(amount AS TEXT) AS amount, sum(n) AS surplus
    FROM counted
    GROUP BY ref, reason, from_owner, from_kind, to_owner, to_kind, asset, amount
    HAVING sum(n) <> 0 LIMIT 100`;
}

function deposits(chunk: Chunk): Sql {
  return compare(
    sql`SELECT deposit_id AS id FROM deposits WHERE ${within("ended_group", chunk)}`,
    sql`SELECT d.deposit_id AS ref, ${reasonCode("deposit")} AS reason,
        CAST('external:' || d.chain AS BLOB) AS from_owner, 'external' AS from_kind,
        d.user_id AS to_owner, 'available' AS to_kind, d.asset, CAST(d.amount AS INTEGER) AS amount
      FROM records CROSS JOIN deposits d ON d.deposit_id = records.id WHERE d.status = 'credited'`,
  );
}

/** A quote's reserve, then its release or the maker's side of the trade. */
function quotes(chunk: Chunk): Sql {
  const q = sql`FROM records CROSS JOIN quotes q ON q.quote_id = records.id`;
  return compare(
    sql`SELECT quote_id AS id FROM quotes WHERE ${within("opened_group", chunk)}
      UNION SELECT quote_id FROM quotes WHERE ${within("ended_group", chunk)}`,
    sql`SELECT q.quote_id AS ref, ${reasonCode("reserve_rfq")} AS reason, q.maker_id AS from_owner,
        'available' AS from_kind, q.maker_id AS to_owner, 'pending' AS to_kind,
        q.reserve_asset AS asset, q.reserve AS amount ${q}
      UNION ALL
      SELECT q.quote_id, ${reasonCode("release")}, q.maker_id, 'pending', q.maker_id, 'available',
        q.reserve_asset, q.reserve ${q}
      WHERE q.status IN ('cancelled', 'expired', 'rejected')
      UNION ALL
      SELECT q.quote_id, ${reasonCode("trade")}, q.maker_id, 'pending', m.requester_id, 'available',
        iif(q.side = 'Bid', q.asset, 'usdc'),
        iif(q.side = 'Bid', CAST(q.amount AS INTEGER), q.usdc_amount)
      ${q} LEFT JOIN matches m ON m.quote_id = q.quote_id
      WHERE q.status = 'accepted'`,
  );
}

/**
 * The requester's reserve and side of the trade, and both fees. The buyer pays the fee from the
 * reserve, the seller from the proceeds.
 */
function matches(chunk: Chunk): Sql {
  const m = sql`FROM records CROSS JOIN matches m ON m.match_id = records.id`;
  return compare(
    sql`SELECT match_id AS id FROM matches WHERE ${within("matched_group", chunk)}`,
    sql`SELECT m.match_id AS ref, ${reasonCode("reserve_trade")} AS reason,
        m.requester_id AS from_owner, 'available' AS from_kind,
        m.requester_id AS to_owner, 'pending' AS to_kind,
        iif(m.side = 'Bid', 'usdc', m.asset) AS asset,
        iif(m.side = 'Bid', m.usdc_amount + m.taker_fee, m.amount) AS amount ${m}
      UNION ALL
      SELECT m.match_id, ${reasonCode("trade")}, m.requester_id, 'pending',
        m.maker_id, 'available', iif(m.side = 'Bid', 'usdc', m.asset),
        iif(m.side = 'Bid', m.usdc_amount, m.amount) ${m}
      UNION ALL
      SELECT m.match_id, ${reasonCode("fee")}, m.requester_id,
        iif(m.side = 'Bid', 'pending', 'available'), ${FEES_OWNER}, 'fees', 'usdc', m.taker_fee
      ${m}
      UNION ALL
      SELECT m.match_id, ${reasonCode("fee")}, m.maker_id,
        iif(m.side = 'Bid', 'available', 'pending'), ${FEES_OWNER}, 'fees', 'usdc', m.maker_fee
      ${m}`,
  );
}

function withdrawals(chunk: Chunk): Sql {
  const w = sql`FROM records CROSS JOIN withdrawals w ON w.withdrawal_id = records.id`;
  return compare(
    sql`SELECT withdrawal_id AS id FROM withdrawals WHERE ${within("changed_group", chunk)}`,
    sql`SELECT w.withdrawal_id AS ref, ${reasonCode("withdrawal")} AS reason,
        w.user_id AS from_owner, 'available' AS from_kind,
        w.user_id AS to_owner, 'pending' AS to_kind, w.asset, w.amount ${w}
      UNION ALL
      SELECT w.withdrawal_id, ${reasonCode("withdrawal")}, w.user_id, 'pending',
        CAST('external:' || w.chain AS BLOB), 'external', w.asset, w.amount ${w}
      WHERE w.status = 'settled'
      UNION ALL
      SELECT w.withdrawal_id, ${reasonCode("release")}, w.user_id, 'pending',
        w.user_id, 'available', w.asset, w.amount ${w}
      WHERE w.status = 'failed'`,
  );
}

/** A payment that nobody ordered and that the operator has accepted as a loss. */
function acceptedPayments(chunk: Chunk): Sql {
  return compare(
    sql`SELECT acceptance_id AS id FROM accepted_payments WHERE ${within("accepted_group", chunk)}`,
    sql`SELECT a.acceptance_id AS ref, ${reasonCode("withdrawal")} AS reason,
        ${LOSSES_OWNER} AS from_owner, 'external' AS from_kind,
        CAST('external:' || a.chain AS BLOB) AS to_owner, 'external' AS to_kind, a.asset, a.amount
      FROM records CROSS JOIN accepted_payments a ON a.acceptance_id = records.id
      WHERE a.kind = 'loss'`,
  );
}

type TermsRow = {
  readonly match_id: string;
  readonly requester: string;
  readonly asset: string;
  readonly amount: string;
  readonly price: number;
  readonly usdc_amount: string;
  readonly taker_fee: string;
  readonly maker_fee: string;
  readonly as_quoted: number;
};

/** No fee is above 1 000 basis points (docs/contract.md, section 1). */
const MAX_FEE_BPS = 1_000n;

/** Computed here and not in SQL, because amount × price exceeds SQLite's 64 bits. */
async function checkTerms(db: D1Database, chunk: Chunk): Promise<Difference[]> {
  const rows = await all<TermsRow>(
    db,
    sql`SELECT hex(m.match_id) AS match_id, hex(m.requester_id) AS requester, m.asset,
        CAST(m.amount AS TEXT) AS amount, m.price, CAST(m.usdc_amount AS TEXT) AS usdc_amount,
        CAST(m.taker_fee AS TEXT) AS taker_fee, CAST(m.maker_fee AS TEXT) AS maker_fee,
        q.quote_id IS NULL OR (q.status = 'accepted' AND q.price = m.price
          AND q.usdc_amount = m.usdc_amount AND q.taker_fee = m.taker_fee
          AND q.maker_fee = m.maker_fee AND CAST(q.amount AS INTEGER) = m.amount
          AND q.maker_id = m.maker_id) AS as_quoted
      FROM matches m LEFT JOIN quotes q ON q.quote_id = m.quote_id
      WHERE ${within("m.matched_group", chunk)}`,
  );
  return rows.flatMap((row): Difference[] => {
    const cost = BigInt(row.usdc_amount);
    const expected = (BigInt(row.amount) * BigInt(row.price) + 999_999n) / 1_000_000n;
    const maxFee = (cost * MAX_FEE_BPS) / 10_000n;
    const feesFit = BigInt(row.taker_fee) <= maxFee && BigInt(row.maker_fee) <= maxFee;
    if (cost === expected && feesFit && row.as_quoted === 1) return [];
    const account = accountName({ owner: row.requester, kind: "match", asset: row.asset });
    const detail =
      `match ${row.match_id.toLowerCase()}: cost ${cost}, expected ${expected}; ` +
      `fees ${row.taker_fee} and ${row.maker_fee}${row.as_quoted === 1 ? "" : "; not as quoted"}`;
    const amount = (cost - expected).toString();
    return [{ check: "terms_mismatch", account, amount, detail }];
  });
}
