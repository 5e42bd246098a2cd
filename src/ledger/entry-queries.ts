/**
 * The SQL of get-ledger. history.ts decides which of these queries answers a request.
 *
 * An entry is one side of a transfer: the debit of transfer t is entry 2t, its credit entry 2t + 1.
 * A *run* is all entries of one sub-account, one side and one reason. An index contains each run as
 * one sorted range, so one index seek finds its newest entry, or the next older one. A filter that
 * names assets reads another index, where each run consists of one run per asset.
 *
 * A page merges the runs that the filter selects, newest entry first. Suppose Alice asks for her
 * two newest entries, and the journal contains these six transfers:
 *
 *   transfer  from             to               amount  reason
 *   1         external         Alice available     100  deposit
 *   2         external         Bob available        70  deposit
 *   3         Alice available  Alice pending        40  reserve_rfq
 *   4         external         Alice available      30  deposit
 *   5         Bob available    Bob pending          20  reserve_rfq
 *   6         Alice available  Alice pending        10  reserve_rfq
 *
 * Alice has three runs. The head of a run is its newest entry that is not on the page yet:
 *
 *   run                                 entries  heads: start  step 1  step 2
 *   A: available, credits, deposit      9, 3             9      9       9
 *   B: available, debits, reserve_rfq   12, 6            12     12      6
 *   C: pending, credits, reserve_rfq    13, 7            13     7       7
 *   page                                                        13      13, 12
 *
 * Each step takes the newest head and seeks the next entry of the same run. In SQL the merge is a
 * recursive query: SQLite keeps the heads in a queue, and ORDER BY makes it take the newest first.
 * A page costs one seek per run and one per entry. It reads none of Bob's entries. Neither the
 * length of the journal matters nor the number of assets, unless the filter names assets. C is
 * found via B, because both are sides of the same transfers (see `runsOf`). Instants in the journal
 * never go back, so a period is a range of transfers, found by bisection. No index is sorted by
 * amount. The same queries read a user's sealed transfers in their history (src/archive/).
 */
import {
  atom,
  blob,
  type Expr,
  expr,
  join,
  literal,
  MAX_NATIVE_UNITS,
  raw,
  type Sql,
  sql,
  uuid,
} from "../platform/sql.ts";
import { isIndexedCredit, reasonCode } from "./codes.ts";
import {
  amountFits,
  assetFits,
  hasAmounts,
  indexOf,
  type LedgerFilter,
  type RunIndex,
  runsOf,
} from "./filter.ts";
import { DELIVERED } from "./released.ts";

/** A position above every entry_id: the page starts with the newest entry. */
export const NEWEST = MAX_NATIVE_UNITS;

/** Selects transfers after this one: those of the database, or all of a history. */
export const HOT: Expr = DELIVERED;
export const ALL: Expr = literal(0);

type Bounds = { readonly before: bigint; readonly after: Expr };

/**
 * The newest `limit` entries of the selected runs. With a filter on amounts, of the newest
 * `examined` ones (`merged_count` is their number) those that fit (`fits`), and in any case the
 * oldest one, below which the caller can continue.
 */
export function mergedEntries(
  userId: string,
  filter: LedgerFilter,
  page: Bounds & { limit: number; examined: number },
): Sql {
  const index = indexOf(filter);
  const sized = hasAmounts(filter);
  const tables = sql`WITH RECURSIVE ${runsAndBounds(userId, filter, index, page)},
    ${merge(index, sized ? page.examined : page.limit)}`;
  if (!sized) return sql`${tables} ${rowsWith(raw(""))} ORDER BY entry_id DESC`;
  const fits = amountFits(filter);
  const counted = sql`, ${fits} AS fits, (SELECT count(*) FROM merged) AS merged_count`;
  return sql`${tables} ${rowsWith(counted)}
    WHERE ${fits} OR e.entry_id = (SELECT min(entry_id) FROM merged)
    ORDER BY entry_id DESC LIMIT ${page.limit}`;
}

/** The tables `runs`, selected by the filter, and `bounds`, from its instants and the cursor. */
function runsAndBounds(
  userId: string,
  filter: LedgerFilter,
  index: RunIndex,
  { before, after }: Bounds,
): Sql {
  const { from, to } = filter;
  const bisections = [
    ...(from === undefined ? [] : [lastTransferBefore("before_from", from)]),
    ...(to === undefined ? [] : [lastTransferBefore("until_to", to + 1)]),
  ];
  const since = from === undefined ? raw("0") : positionAfter("before_from");
  const ceiling = to === undefined ? raw(`${NEWEST}`) : positionAfter("until_to");
  const bounds = sql`bounds AS MATERIALIZED (SELECT max(${since}, ${after} + 1) AS floor,
    min((${before} + 1) >> 1, ${ceiling}) AS debits_below,
    min(${before} >> 1, ${ceiling}) AS credits_below)`;
  return join([selectedRuns(userId, filter, index), ...bisections, bounds], ", ");
}

/** Entries of a run are found at `indexed_at`, among its credits (`via_credit`) or its debits. */
function selectedRuns(userId: string, filter: LedgerFilter, index: RunIndex): Sql {
  const columns = sql`s.value ->> 'reason' AS reason, s.value ->> 'credit' AS credit,
      s.value ->> 'viaCredit' AS via_credit`;
  const runs = sql`json_each(${JSON.stringify(runsOf(filter))}) s`;
  if (index === "sub_account")
    return sql`runs AS MATERIALIZED (
    SELECT ${columns}, first.number * 2 + (s.value ->> 'indexedAt' = 'pending') AS indexed_at
    FROM (SELECT sub_account / 2 AS number FROM accounts INDEXED BY accounts_owner
        WHERE owner = ${uuid(userId)} LIMIT 1) first
      CROSS JOIN ${runs})`;
  return sql`runs AS MATERIALIZED (
    SELECT ${columns},
      iif(s.value ->> 'indexedAt' = a.kind, a.account_id,
        (SELECT o.account_id FROM accounts o WHERE o.owner = a.owner AND o.asset = a.asset
          AND o.kind = s.value ->> 'indexedAt')) AS indexed_at
    FROM accounts a INDEXED BY accounts_owner CROSS JOIN ${runs}
    WHERE a.owner = ${uuid(userId)} AND a.kind = s.value ->> 'kind' AND ${assetFits(filter)})`;
}

type Bisection = "before_from" | "until_to";

/** Bisects the journal for the last transfer before an instant: 41 seeks at any length. */
function lastTransferBefore(name: Bisection, instant: number): Sql {
  return sql`${raw(name)}(position, stride) AS (
      SELECT 0, 1 << 40
      UNION ALL
      SELECT position + iif(coalesce((SELECT t.at FROM transfers t
          WHERE t.transfer_id >= position + stride ORDER BY t.transfer_id LIMIT 1) < ${instant}, 0),
        stride, 0), stride >> 1
      FROM ${raw(name)} WHERE stride > 0)`;
}

/** The position that follows the transfer that a bisection found. */
function positionAfter(name: Bisection): Expr {
  return atom(`(SELECT position + 1 FROM ${name} WHERE stride = 0)`);
}

/** The tables `merge`, the heads that the merge takes, and `merged`, its newest entries. */
function merge(index: RunIndex, limit: number): Sql {
  const columns = (run: RunAlias) => raw(`${run}.indexed_at, ${run}.via_credit, ${run}.reason`);
  return sql`merge(entry_id, indexed_at, via_credit, reason, floor) AS (
      SELECT 2 * ${newest("r", index, WITHIN_BOUNDS)} + r.credit, ${columns("r")}, b.floor
      FROM runs r CROSS JOIN bounds b
      UNION ALL
      SELECT 2 * ${newest("p", index, expr`t.transfer_id < p.entry_id >> 1 AND t.transfer_id >= p.floor`)}
        + (p.entry_id & 1), ${columns("p")}, p.floor
      FROM merge p WHERE p.entry_id IS NOT NULL
      ORDER BY 1 DESC LIMIT ${limit}),
    merged AS MATERIALIZED (SELECT entry_id FROM merge WHERE entry_id IS NOT NULL)`;
}

/** Transfers of a run `r` within the bounds `b`. */
const WITHIN_BOUNDS = expr`t.transfer_id < iif(r.credit, b.credits_below, b.debits_below)
  AND t.transfer_id >= b.floor`;

/** A row with the columns of a run: the run itself, or the previous row of a recursive query. */
type RunAlias = "r" | "p";

/** The newest transfer of a run below a bound, by one index seek; NULL if there is none. */
function newest(run: RunAlias, index: RunIndex, below: Expr): Expr {
  const hit = (side: Side) =>
    expr`SELECT t.transfer_id FROM transfers t INDEXED BY ${nameOf(index, side)}
      WHERE ${ofRun(run, side, index)} AND ${below} ORDER BY t.transfer_id DESC LIMIT 1`;
  return expr`iif(${raw(run)}.via_credit, ${hit("to")}, ${hit("from")})`;
}

type Side = "from" | "to";

function nameOf(index: RunIndex, side: Side): Sql {
  return raw(index === "account" ? `transfers_${side}` : `transfers_${side}_${index}`);
}

function ofRun(run: RunAlias, side: Side, index: RunIndex): Expr {
  const equal = expr`t.${raw(`${side}_${index}`)} = ${raw(run)}.indexed_at
    AND t.reason = ${raw(run)}.reason`;
  if (index === "sub_account" || side === "from") return equal;
  // SQLite uses a partial index only for a query that repeats the index's own condition.
  return expr`${equal} AND ${isIndexedCredit(atom("t.reason"))}`;
}

/** The rows of get-ledger of the entries `merged`, with further columns. */
function rowsWith(further: Sql): Sql {
  return sql`SELECT ${entryColumns(atom("e.entry_id"))}${further} FROM merged e
    CROSS JOIN transfers t ON t.transfer_id = e.entry_id >> 1
    CROSS JOIN accounts a ON a.account_id = iif(e.entry_id & 1, t.to_account, t.from_account)
    LEFT JOIN deposits d ON t.reason = ${reasonCode("deposit")} AND d.deposit_id = t.ref`;
}

function entryColumns(entryId: Expr): Sql {
  return sql`${entryId} AS entry_id, a.kind AS account, a.asset,
    CAST(iif(${entryId} & 1, t.amount, -t.amount) AS TEXT) AS delta, t.reason,
    iif(t.reason = ${reasonCode("deposit")}, '0x' || lower(hex(d.transaction_hash)),
      hex(${PUBLIC_REF})) AS ref,
    CAST(iif(${entryId} & 1, t.to_balance, t.from_balance) AS TEXT) AS balance_after, t.at`;
}

/** A maker's side is posted under the quote whose reserve it ends. The ledger shows its match. */
const PUBLIC_REF = expr`iif(t.reason = ${reasonCode("trade")},
  coalesce((SELECT m.match_id FROM matches m WHERE m.quote_id = t.ref), t.ref), t.ref)`;

/** The first transfer at or after an instant that is not read from the archive, as `first`. */
export function firstTransferSince(instant: number): Sql {
  return sql`WITH RECURSIVE ${lastTransferBefore("before_from", instant)}
    SELECT max(position, ${DELIVERED}) + 1 AS first FROM before_from WHERE stride = 0`;
}

/** How many entries fit below a position, counted up to `most`. */
export function countedEntries(
  userId: string,
  filter: LedgerFilter,
  page: Bounds & { most: number },
): Sql {
  const index = indexOf(filter);
  const half = (side: Side) => sql`SELECT 1
    FROM bounds b CROSS JOIN runs r CROSS JOIN transfers t INDEXED BY ${nameOf(index, side)}
    WHERE ${raw(side === "to" ? "r.via_credit" : "NOT r.via_credit")}
      AND ${ofRun("r", side, index)} AND ${WITHIN_BOUNDS} AND ${amountFits(filter)}`;
  return sql`WITH RECURSIVE ${runsAndBounds(userId, filter, index, page)}
    SELECT count(*) AS entries FROM (${half("from")} UNION ALL ${half("to")} LIMIT ${page.most})`;
}

/** The entries of one record, which has few transfers, found by the journal's unique key. */
export function entriesOfRef(
  userId: string,
  filter: LedgerFilter & { readonly refId: string },
  page: { before: bigint; limit: number },
): Sql {
  const ofRef = refFits(userId, filter.refId);
  const side = (credit: 0 | 1): Sql => {
    const types = runsOf(filter).flatMap((run) =>
      run.credit === credit ? [[run.kind, run.reason]] : [],
    );
    const entryId = credit === 1 ? expr`2 * t.transfer_id + 1` : expr`2 * t.transfer_id`;
    const account = raw(credit === 1 ? "t.to_account" : "t.from_account");
    return sql`SELECT ${entryColumns(entryId)} FROM transfers t INDEXED BY transfers_once
      CROSS JOIN accounts a ON a.account_id = ${account}
      LEFT JOIN deposits d ON t.reason = ${reasonCode("deposit")} AND d.deposit_id = t.ref
      WHERE ${ofRef} AND a.owner = ${uuid(userId)} AND ${assetFits(filter)}
        AND ${entryId} < ${page.before}
        AND (a.kind, t.reason) IN
          (SELECT value ->> 0, value ->> 1 FROM json_each(${JSON.stringify(types)}))
        AND t.at >= ${filter.from ?? 0} AND t.at <= ${filter.to ?? Number.MAX_SAFE_INTEGER}
        AND ${amountFits(filter)}`;
  };
  return sql`SELECT * FROM (${side(0)} UNION ALL ${side(1)})
    ORDER BY entry_id DESC LIMIT ${page.limit}`;
}

/** A transaction hash names the caller's deposits in that transaction. */
function refFits(userId: string, refId: string): Expr {
  if (refId.startsWith("0x"))
    return expr`t.reason = ${reasonCode("deposit")} AND t.ref IN (
      SELECT deposit_id FROM deposits INDEXED BY deposits_hash
      WHERE transaction_hash = ${blob(refId)} AND user_id = ${uuid(userId)})`;
  const quote = expr`SELECT quote_id FROM matches WHERE match_id = ${uuid(refId)}`;
  return expr`t.reason <> ${reasonCode("deposit")} AND t.ref IN (${uuid(refId)}, ${quote})
    AND ${PUBLIC_REF} = ${uuid(refId)}`;
}
