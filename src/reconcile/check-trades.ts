/** The checks of matches, and of requests and quotes against them. */
import { all, type RowOf, select, sql, typed } from "../platform/sql.ts";
import { idsFrom } from "../platform/uuid.ts";
import type { Chunk } from "./check-alone.ts";
import { accountName, type Difference, differencesIn } from "./difference.ts";
import { MAX_PER_CHUNK, within } from "./check-journal.ts";
import { MATCHES_LEFT_BEFORE } from "../ledger/released.ts";

/** Of match `m`, its quote `q` and its request `r`, of which older ones have left. */
const TERMS = {
  match_id: typed<string>("lower(hex(m.match_id))"),
  requester: typed<string>("hex(m.requester_id)"),
  asset: typed<string>("m.asset"),
  amount: typed<string>("CAST(m.amount AS TEXT)"),
  price: typed<number>("m.price"),
  usdc_amount: typed<string>("CAST(m.usdc_amount AS TEXT)"),
  taker_fee: typed<string>("CAST(m.taker_fee AS TEXT)"),
  maker_fee: typed<string>("CAST(m.maker_fee AS TEXT)"),
  as_quoted: typed<number>(`q.quote_id IS NULL OR (q.status = 'accepted' AND q.price = m.price
    AND q.usdc_amount = m.usdc_amount AND q.taker_fee = m.taker_fee
    AND q.maker_fee = m.maker_fee AND CAST(q.amount AS INTEGER) = m.amount
    AND q.maker_id = m.maker_id AND q.side = m.side AND q.complement IS m.complement)`),
  paired: typed<number>(`m.complement IS NULL OR m.complement IS (SELECT k.complement
    FROM markets k WHERE k.asset = m.asset)`),
  /** The USDC of a request whose size is in USDC. */
  requested_usdc: typed<string | null>("CAST(r.usdc_amount AS TEXT)"),
};

/** No fee is above 1 000 basis points (docs/contract.md, section 1). */
const MAX_FEE_BPS = 1_000n;

/** Computed here and not in SQL, because amount × price exceeds SQLite's 64 bits. */
export async function checkTerms(db: D1Database, chunk: Chunk): Promise<Difference[]> {
  const rows = await all<RowOf<typeof TERMS>>(
    db,
    sql`SELECT ${select(TERMS)} FROM matches m LEFT JOIN quotes q ON q.quote_id = m.quote_id
        LEFT JOIN requests r ON r.request_id = m.request_id
      WHERE ${within("m.matched_group", chunk)}`,
  );
  return rows.flatMap((row): Difference[] => {
    const cost = BigInt(row.usdc_amount);
    const expected = (BigInt(row.amount) * BigInt(row.price) + 999_999n) / 1_000_000n;
    const maxFee = (cost * MAX_FEE_BPS) / 10_000n;
    const feesFit = BigInt(row.taker_fee) <= maxFee && BigInt(row.maker_fee) <= maxFee;
    const size = row.requested_usdc;
    const amountFits =
      size === null || BigInt(row.amount) === (BigInt(size) * 1_000_000n) / BigInt(row.price);
    const isKnown = row.as_quoted === 1 && row.paired === 1;
    if (cost === expected && feesFit && amountFits && isKnown) return [];
    const account = accountName({ owner: row.requester, kind: "match", asset: row.asset });
    const detail =
      `match ${row.match_id}: cost ${cost}, expected ${expected}; ` +
      (amountFits ? "" : `amount ${row.amount} for ${size} USDC; `) +
      `fees ${row.taker_fee} and ${row.maker_fee}${row.as_quoted === 1 ? "" : "; not as quoted"}` +
      (row.paired === 1 ? "" : "; not its market's pair");
    const amount = (cost - expected).toString();
    return [{ check: "terms_mismatch", account, amount, detail }];
  });
}

/**
 * Requests against their matches and quotes: matched exactly if there is a match of the same
 * parties and terms, and no open quote on an ended request. A match may leave the database before
 * its request, because a seal bounds transfers and groups apart. Its id says when it was made.
 */
export function checkRequests(db: D1Database, chunk: Chunk): Promise<Difference[]> {
  return differencesIn(
    db,
    "request_mismatch",
    sql`WITH requests_of AS MATERIALIZED (
        SELECT request_id FROM requests WHERE ${within("ended_group", chunk)}
        UNION SELECT request_id FROM requests WHERE ${within("opened_group", chunk)}
        UNION SELECT request_id FROM matches WHERE ${within("matched_group", chunk)})
      SELECT hex('all') AS owner, 'request' AS kind, asset, '0' AS amount,
        'request ' || lower(hex(request_id)) || ' is ' || status || ' but ' || problem AS detail
      FROM (SELECT r.request_id, r.asset, r.status, CASE
          WHEN r.status = 'matched' AND m.match_id IS NULL
            AND coalesce(r.ended_by, x'ff') >= ${idsFrom(MATCHES_LEFT_BEFORE)} THEN 'has no match'
          WHEN r.status <> 'matched' AND m.match_id IS NOT NULL THEN 'has a match'
          WHEN m.requester_id <> r.requester_id OR m.asset <> r.asset
            OR r.side NOT IN (m.side, 'TwoWay') OR CAST(m.amount AS TEXT) <> r.amount
            THEN 'its match has other terms'
          WHEN (r.status = 'open') <> (r.ended_group IS NULL) THEN 'its group says otherwise'
          WHEN r.status <> 'open' AND EXISTS (SELECT 1 FROM quotes q
            WHERE q.request_id = r.request_id AND q.status = 'open'
              AND q.stuck_at IS NULL) THEN 'has an open quote'
          END AS problem
        FROM requests_of o CROSS JOIN requests r ON r.request_id = o.request_id
          LEFT JOIN matches m ON m.request_id = r.request_id)
      WHERE problem IS NOT NULL LIMIT ${MAX_PER_CHUNK}`,
  );
}

/** Accepted quotes without a match. What a match says of its quote is checked with its terms. */
export function checkQuotes(db: D1Database, chunk: Chunk): Promise<Difference[]> {
  return differencesIn(
    db,
    "record_mismatch",
    sql`SELECT hex(q.maker_id) AS owner, 'available' AS kind, q.reserve_asset AS asset,
        CAST(q.reserve AS TEXT) AS amount,
        'quote ' || lower(hex(q.quote_id)) || ' is accepted but has no match' AS detail
      FROM quotes q WHERE ${within("q.ended_group", chunk)} AND q.status = 'accepted'
        AND coalesce(q.ended_by, x'ff') >= ${idsFrom(MATCHES_LEFT_BEFORE)}
        AND NOT EXISTS (SELECT 1 FROM matches m WHERE m.quote_id = q.quote_id)
      LIMIT ${MAX_PER_CHUNK}`,
  );
}
