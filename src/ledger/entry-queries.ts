/**
 * The queries of history.ts, exported so that a test can hold each one's plan against the indexes it must use.
 *
 * An entry is one side of a transfer: the debit of transfer t is entry 2t, the credit 2t + 1. A merge is a recursive
 * query whose ORDER BY makes its queue a priority queue: each step takes the newest head and seeks the next of its run.
 */
import { blob, join, raw, type Sql, sql, uuid } from "../platform/sql.ts";
import { reasonCode } from "./codes.ts";
import {
  amountBounds,
  amountFits,
  assetFits,
  hasAmounts,
  type LedgerFilter,
  type Order,
  runsOf,
} from "./filter.ts";
import { COUNTERPARTY_CREDITS } from "./transfer-types.ts";

/** Above every entry_id that JSON can carry: "from the newest on". */
export const NEWEST = 2n ** 62n;

/** The `walk` newest entries of the filter's runs. With amounts, the last entry walked is always a row: a position. */
export function mergedEntries(
  userId: string,
  filter: LedgerFilter,
  page: { before: bigint; walk: number },
): Sql {
  const rows = sql`WITH RECURSIVE ${runsAndBounds(userId, filter, "position", page.before)}, ${merge("runs", "position", page.walk)}`;
  if (!hasAmounts(filter)) return sql`${rows} ${shown("merged")} ORDER BY entry_id DESC`;
  return sql`${rows} ${shown("merged", sql`, ${amountFits(filter)} AS fits, (SELECT count(*) FROM merged) AS walked`)}
    WHERE ${amountFits(filter)} OR w.entry_id = (SELECT min(entry_id) FROM merged) ORDER BY entry_id DESC`;
}

/**
 * The newest entries whose amount fits, merged from runs of one amount each. `size` says how many such runs there
 * are; when they are more than `most`, nothing has been merged.
 */
export function entriesOfAmounts(
  userId: string,
  filter: LedgerFilter,
  page: { before: bigint; limit: number; most: number },
): Sql {
  const { least, most } = amountBounds(filter);
  return sql`WITH RECURSIVE ${runsAndBounds(userId, filter, "amount", page.before)},
    distinct_amounts(account_id, found_at, incoming, credit, reason, amount) AS (
      SELECT r.account_id, r.found_at, r.incoming, r.credit, r.reason, ${seek("r", "amount", "t.amount", sql`t.amount BETWEEN ${least} AND ${most} ORDER BY t.amount`)}
      FROM runs r
      UNION ALL
      SELECT s.account_id, s.found_at, s.incoming, s.credit, s.reason, ${seek("s", "amount", "t.amount", sql`t.amount > s.amount AND t.amount <= ${most} ORDER BY t.amount`)}
      FROM distinct_amounts s WHERE s.amount IS NOT NULL
      LIMIT (SELECT count(*) FROM runs) + ${page.most + 1}),
    amounts AS MATERIALIZED (SELECT * FROM distinct_amounts WHERE amount IS NOT NULL),
    counted AS MATERIALIZED (SELECT count(*) AS size FROM amounts),
    small AS MATERIALIZED (SELECT * FROM amounts WHERE (SELECT size FROM counted) <= ${page.most}),
    ${merge("small", "amount", page.limit)}
    SELECT counted.size, e.* FROM counted LEFT JOIN (${shown("merged")}) e ON 1 ORDER BY e.entry_id DESC`;
}

/** The newest entries whose amount fits, sorted. `size` says how many fit anywhere; when more than `most`, it found only some. */
export function sortedEntries(
  userId: string,
  filter: LedgerFilter,
  page: { before: bigint; limit: number; most: number },
): Sql {
  return sql`WITH RECURSIVE ${runsAndBounds(userId, filter, "amount", page.before)},
    fitting AS MATERIALIZED (SELECT * FROM (${scan("amount", amountFits(filter))}) LIMIT ${page.most + 1}),
    counted AS MATERIALIZED (SELECT count(*) AS size FROM fitting),
    found AS MATERIALIZED (SELECT f.* FROM bounds b CROSS JOIN fitting f WHERE f.entry_id >> 1 >= b.floor
      AND f.entry_id >> 1 < iif(f.entry_id & 1, b.credit_below, b.debit_below) ORDER BY f.entry_id DESC LIMIT ${page.limit})
    SELECT counted.size, e.* FROM counted LEFT JOIN (${shown("found")}) e ON 1 ORDER BY e.entry_id DESC`;
}

/** The newest `limit` entries between two positions whose amount fits, from a scan of the runs. */
export function scannedEntries(
  userId: string,
  filter: LedgerFilter,
  page: { before: bigint; floor: bigint; limit: number },
): Sql {
  return sql`WITH RECURSIVE ${runsAndBounds(userId, filter, "position", page.before, page.floor)},
    found AS MATERIALIZED (SELECT entry_id, account_id FROM (${scan("position", sql`${BETWEEN_BOUNDS} AND ${amountFits(filter)}`)})
      ORDER BY entry_id DESC LIMIT ${page.limit})
    ${shown("found")} ORDER BY entry_id DESC`;
}

/** A record has few transfers, found by the journal's own unique key; a transaction hash names the caller's deposits of it. */
export function entriesOfRef(
  userId: string,
  filter: LedgerFilter,
  page: { before: bigint; limit: number },
): Sql {
  const refId = filter.refId ?? "";
  const refs = refId.startsWith("0x")
    ? sql`t.reason = ${reasonCode("deposit")} AND t.ref IN (SELECT deposit_id FROM deposits INDEXED BY deposits_hash
        WHERE transaction_hash = ${blob(refId)} AND user_id = ${uuid(userId)})`
    : sql`t.reason <> ${reasonCode("deposit")} AND t.ref IN (${uuid(refId)}, (SELECT quote_id FROM matches WHERE match_id = ${uuid(refId)})) AND ${SHOWN_REF} = ${uuid(refId)}`;
  const side = (credit: 0 | 1): Sql => {
    const kinds = runsOf(filter, "position").flatMap((run) =>
      run.credit === credit ? [[run.kind, run.reason]] : [],
    );
    const entryId = raw(credit === 1 ? "2 * t.transfer_id + 1" : "2 * t.transfer_id");
    const account = raw(credit === 1 ? "t.to_account" : "t.from_account");
    return sql`SELECT ${entryColumns(entryId)} FROM transfers t INDEXED BY transfers_once
      CROSS JOIN accounts a ON a.account_id = ${account} LEFT JOIN deposits d ON t.reason = ${reasonCode("deposit")} AND d.deposit_id = t.ref
      WHERE ${refs} AND a.owner = ${uuid(userId)} AND ${assetFits(filter)} AND ${entryId} < ${page.before}
        AND (a.kind, t.reason) IN (SELECT value ->> 0, value ->> 1 FROM json_each(${JSON.stringify(kinds)}))
        AND t.at >= ${filter.from ?? 0} AND t.at <= ${filter.to ?? Number.MAX_SAFE_INTEGER} AND ${amountFits(filter)}`;
  };
  return sql`SELECT * FROM (${side(0)} UNION ALL ${side(1)}) ORDER BY entry_id DESC LIMIT ${page.limit}`;
}

/** How many entries fit below a position, up to `most`; from an index alone. */
export function countedEntries(
  userId: string,
  filter: LedgerFilter,
  page: { before: bigint; most: number },
): Sql {
  const order: Order = hasAmounts(filter) ? "amount" : "position";
  return sql`WITH RECURSIVE ${runsAndBounds(userId, filter, order, page.before)}
    SELECT count(*) AS entries FROM (SELECT 1 FROM (${scan(order, sql`${BETWEEN_BOUNDS} AND ${amountFits(filter)}`)}) LIMIT ${page.most})`;
}

/** The first transfer at or after an instant, as `first`. */
export function firstSince(instant: number): Sql {
  return sql`WITH RECURSIVE ${lastBefore("before_from", instant)} SELECT position + 1 AS first FROM before_from WHERE stride = 0`;
}

/** `merged(entry_id, account_id)`: the newest entries of `runs`, which has columns as runsAndBounds makes them, and `amount` when ordered by it. */
function merge(runs: string, order: Order, limit: number): Sql {
  const amount = order === "amount" ? ", amount" : "";
  const sameAmount = (run: string) => raw(order === "amount" ? `AND t.amount = ${run}.amount` : "");
  const columns = (run: string) =>
    raw(
      `${run}.account_id, ${run}.found_at, ${run}.incoming, ${run}.reason${amount && `, ${run}.amount`}`,
    );
  return sql`walk(entry_id, account_id, found_at, incoming, reason${raw(amount)}, floor) AS (
      SELECT 2 * ${seek("r", order, "t.transfer_id", sql`t.transfer_id < iif(r.credit, b.credit_below, b.debit_below) AND t.transfer_id >= b.floor ${sameAmount("r")} ORDER BY t.transfer_id DESC`)} + r.credit,
        ${columns("r")}, b.floor FROM ${raw(runs)} r CROSS JOIN bounds b
      UNION ALL
      SELECT 2 * ${seek("w", order, "t.transfer_id", sql`t.transfer_id < w.entry_id >> 1 AND t.transfer_id >= w.floor ${sameAmount("w")} ORDER BY t.transfer_id DESC`)} + (w.entry_id & 1),
        ${columns("w")}, w.floor FROM walk w WHERE w.entry_id IS NOT NULL
      ORDER BY 1 DESC LIMIT ${limit}),
    merged AS MATERIALIZED (SELECT entry_id, account_id FROM walk WHERE entry_id IS NOT NULL)`;
}

/** The first hit of a condition in the index of a run; `run` is the alias that has the run's columns. */
function seek(run: string, order: Order, what: string, rest: Sql): Sql {
  const hit = (side: "from" | "to") =>
    sql`(SELECT ${raw(what)} FROM transfers t INDEXED BY ${index(side, order)} WHERE ${ofRun(run, side, order)} AND ${rest} LIMIT 1)`;
  return sql`iif(${raw(run)}.incoming, ${hit("to")}, ${hit("from")})`;
}

/** Every transfer of `runs` that a condition leaves, as entries. */
function scan(order: Order, condition: Sql): Sql {
  const half = (
    side: "from" | "to",
  ) => sql`SELECT 2 * t.transfer_id + r.credit AS entry_id, r.account_id
      FROM bounds b CROSS JOIN runs r CROSS JOIN transfers t INDEXED BY ${index(side, order)}
      WHERE ${raw(side === "to" ? "r.incoming" : "NOT r.incoming")} AND ${ofRun("r", side, order)} AND ${condition}`;
  return sql`${half("from")} UNION ALL ${half("to")}`;
}

const BETWEEN_BOUNDS = raw(
  "t.transfer_id < iif(r.credit, b.credit_below, b.debit_below) AND t.transfer_id >= b.floor",
);

function index(side: "from" | "to", order: Order): Sql {
  return raw(order === "amount" ? `transfers_${side}_amount` : `transfers_${side}`);
}

function ofRun(run: string, side: "from" | "to", order: Order): Sql {
  // The planner takes an index of some rows only when the query says in the index's own words that it wants no others.
  const partial =
    order === "amount" && side === "to"
      ? sql`AND t.reason IN (${join(COUNTERPARTY_CREDITS.map(reasonCode), ", ")})`
      : raw("");
  return sql`${raw(`t.${side}_account = ${run}.found_at AND t.reason = ${run}.reason`)} ${partial}`;
}

/** A maker's leg of a trade lies under its quote, whose reserve it ends; it is caused by the match, and shown so. */
const SHOWN_REF = sql`iif(t.reason = ${reasonCode("trade")}, coalesce((SELECT m.match_id FROM matches m WHERE m.quote_id = t.ref), t.ref), t.ref)`;

function entryColumns(entryId: Sql): Sql {
  return sql`${entryId} AS entry_id, a.kind AS account, a.asset,
    CAST(iif(${entryId} & 1, t.amount, -t.amount) AS TEXT) AS delta, t.reason,
    iif(t.reason = ${reasonCode("deposit")}, '0x' || lower(hex(d.transaction_hash)), hex(${SHOWN_REF})) AS ref,
    CAST(iif(${entryId} & 1, t.to_balance, t.from_balance) AS TEXT) AS balance_after, t.at`;
}

/** The rows of a table of `entry_id, account_id`, with further columns if any. */
function shown(entries: string, also: Sql = raw("")): Sql {
  return sql`SELECT ${entryColumns(raw("w.entry_id"))}${also} FROM ${raw(entries)} w
      CROSS JOIN transfers t ON t.transfer_id = w.entry_id >> 1 CROSS JOIN accounts a ON a.account_id = w.account_id
      LEFT JOIN deposits d ON t.reason = ${reasonCode("deposit")} AND d.deposit_id = t.ref`;
}

/**
 * `runs`, the accounts and movements that the filter leaves, and `bounds`, the transfers that its cursor and instants
 * leave. Instants never go back along the journal (one clock), so an instant is a position, found by bisection.
 */
function runsAndBounds(
  userId: string,
  filter: LedgerFilter,
  order: Order,
  before: bigint,
  floor: bigint = 0n,
): Sql {
  const from =
    filter.from === undefined ? raw("") : sql`${lastBefore("before_from", filter.from)},`;
  const to = filter.to === undefined ? raw("") : sql`${lastBefore("until_to", filter.to + 1)},`;
  const since =
    filter.from === undefined
      ? raw("0")
      : raw("(SELECT position + 1 FROM before_from WHERE stride = 0)");
  const ceiling =
    filter.to === undefined
      ? raw(`${NEWEST}`)
      : raw("(SELECT position + 1 FROM until_to WHERE stride = 0)");
  return sql`runs AS MATERIALIZED (SELECT a.account_id, s.value ->> 'reason' AS reason, s.value ->> 'credit' AS credit, s.value ->> 'incoming' AS incoming,
        iif(s.value ->> 'foundAt' = a.kind, a.account_id,
          (SELECT o.account_id FROM accounts o WHERE o.owner = a.owner AND o.asset = a.asset AND o.kind = s.value ->> 'foundAt')) AS found_at
      FROM accounts a INDEXED BY accounts_owner CROSS JOIN json_each(${JSON.stringify(runsOf(filter, order))}) s
      WHERE a.owner = ${uuid(userId)} AND a.kind = s.value ->> 'kind' AND ${assetFits(filter)}),
    ${from} ${to} bounds AS MATERIALIZED (SELECT max(${since}, ${floor}) AS floor,
      min((${before} + 1) >> 1, ${ceiling}) AS debit_below, min(${before} >> 1, ${ceiling}) AS credit_below)`;
}

/** Bisects the journal for the last transfer before an instant: 41 seeks, whatever its length. */
function lastBefore(name: "before_from" | "until_to", instant: number): Sql {
  return sql`${raw(name)}(position, stride) AS (
      SELECT 0, 1 << 40
      UNION ALL
      SELECT position + iif(coalesce((SELECT t.at FROM transfers t WHERE t.transfer_id >= position + stride
        ORDER BY t.transfer_id LIMIT 1) < ${instant}, 0), stride, 0), stride >> 1 FROM ${raw(name)} WHERE stride > 0)`;
}
