/**
 * The ledger as its owner reads it. An entry is one side of a transfer: the debit of transfer t is entry 2t, the credit
 * 2t + 1.
 *
 * A user's entries lie in *runs*, one per account, side and reason, each sorted in an index of its own. A page merges the
 * runs that the filter leaves, newest first, with a recursive query whose ORDER BY makes its queue a priority queue. So
 * a page costs one seek per run and one per item, however long the journal is and whoever else is in it. Only a filter on
 * amounts reads entries that it does not show: the owner's own, in slices, so that D1 is never held for long.
 */
import { type AssetKey, USDC, VENUES, type Venue } from "../assets/asset.ts";
import { all, blob, first, join, MAX_NATIVE_UNITS, raw, type Sql, sql, uuid } from "../platform/sql.ts";
import type { Reason } from "./post.ts";

export type SubAccount = "available" | "pending";
export type Direction = "credit" | "debit";

export type LedgerFilter = {
  readonly account?: SubAccount | undefined;
  readonly direction?: Direction | undefined;
  readonly reasons?: readonly Reason[] | undefined;
  readonly usdc?: boolean | undefined;
  readonly venue?: Venue | undefined;
  /** In canonical form. Without a venue it names the asset of that id on every venue. */
  readonly assetId?: string | undefined;
  /** A record's UUID, or the `0x` hash of a deposit's transaction. */
  readonly refId?: string | undefined;
  /** Unix milliseconds, both included. */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  /** Absolute native units, both included. */
  readonly minAmount?: bigint | undefined;
  readonly maxAmount?: bigint | undefined;
};

export type EntryRow = {
  readonly entry_id: number;
  readonly account: SubAccount;
  readonly asset: AssetKey;
  /** Signed decimal native units. */
  readonly delta: string;
  readonly reason: Reason;
  /** A UUID as `hex()` spells it, or a deposit's `0x` transaction hash. */
  readonly ref: string;
  readonly balance_after: string;
  readonly at: number;
};

/** Which movements each sub-account knows (contract.md section 4); reconciliation reports any other. */
const RUNS: readonly (readonly [SubAccount, Direction, Reason])[] = [
  ["available", "credit", "deposit"],
  ["available", "credit", "trade"],
  ["available", "credit", "release"],
  ["available", "debit", "reserve_rfq"],
  ["available", "debit", "reserve_trade"],
  ["available", "debit", "withdrawal"],
  ["available", "debit", "fee"],
  ["pending", "credit", "reserve_rfq"],
  ["pending", "credit", "reserve_trade"],
  ["pending", "credit", "withdrawal"],
  ["pending", "debit", "trade"],
  ["pending", "debit", "release"],
  ["pending", "debit", "withdrawal"],
  ["pending", "debit", "fee"],
];

/** Entries merged before a filter on amounts turns to scanning: enough for most ledgers to end in one query. */
const FIRST_WALK = 1_000;
/** Transfers whose own entries one query scans, doubled each time; the largest holds D1 some 0.2 s if all are one user's. */
const FIRST_SPAN = 16_384n;
const LARGEST_SPAN = 262_144n;

/** No entry of a JSON integer reaches it, so it stands for "from the newest on". */
export const NEWEST = 2n ** 62n;

export type EntryPage = { readonly rows: readonly EntryRow[]; readonly more: boolean };

/** Up to `limit` of the user's entries below `before`, newest first, and whether any follow. */
export async function readEntries(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  page: { before: bigint; limit: number },
): Promise<EntryPage> {
  if (selectsNothing(filter)) return { rows: [], more: false };
  const wanted = page.limit + 1;
  if (filter.refId !== undefined)
    return cut(await all<EntryRow>(db, entriesOfRef(userId, filter, { before: page.before, limit: wanted })), page.limit);
  if (filter.minAmount === undefined && filter.maxAmount === undefined) {
    return cut(await all<EntryRow>(db, mergedEntries(userId, filter, { before: page.before, walk: wanted })), page.limit);
  }
  return cut(await readByAmount(db, userId, filter, { before: page.before, limit: wanted }), page.limit);
}

/** The newest entries are merged like any page; if too few of them fit, the runs are scanned span by span. */
async function readByAmount(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  page: { before: bigint; limit: number },
): Promise<EntryRow[]> {
  const newest = await all<EntryRow & { fits: number; walked: number }>(
    db,
    mergedEntries(userId, filter, { before: page.before, walk: FIRST_WALK }),
  );
  const rows: EntryRow[] = newest.filter((row) => row.fits === 1);
  const last = newest.at(-1);
  if (last === undefined || last.walked < FIRST_WALK) return rows;
  const bottom = filter.from === undefined ? 1n : await firstSince(db, filter.from);
  let before = BigInt(last.entry_id);
  for (let span = FIRST_SPAN; rows.length < page.limit && before > 2n * bottom; span = span < LARGEST_SPAN ? span * 2n : span) {
    const floor = before / 2n > span ? before / 2n - span : 0n;
    rows.push(...(await all<EntryRow>(db, scannedEntries(userId, filter, { before, floor, limit: page.limit - rows.length }))));
    before = 2n * floor;
  }
  return rows;
}

/** The first transfer at or after an instant. */
async function firstSince(db: D1Database, instant: number): Promise<bigint> {
  const found = sql`WITH RECURSIVE ${lastBefore("before_from", instant)} SELECT position + 1 AS first FROM before_from WHERE stride = 0`;
  return BigInt((await first<{ first: number }>(db, found))?.first ?? 1);
}

function cut(rows: readonly EntryRow[], limit: number): EntryPage {
  return { rows: rows.slice(0, limit), more: rows.length > limit };
}

/** Filters that contradict each other, or ask for more than any posting moves. */
function selectsNothing(filter: LedgerFilter): boolean {
  const tokenOnly = filter.venue !== undefined || filter.assetId !== undefined;
  if (filter.usdc === true && tokenOnly) return true;
  if (filter.minAmount !== undefined && filter.minAmount > MAX_NATIVE_UNITS) return true;
  return runsOf(filter).length === 0;
}

function runsOf(filter: LedgerFilter) {
  return RUNS.filter(
    ([account, direction, reason]) =>
      (filter.account ?? account) === account &&
      (filter.direction ?? direction) === direction &&
      (filter.reasons === undefined || filter.reasons.includes(reason)),
  );
}

/** The merge of the filter's runs, `walk` entries long. With amounts, the last entry walked is always a row: a position. */
export function mergedEntries(userId: string, filter: LedgerFilter, page: { before: bigint; walk: number }): Sql {
  const amounts = amountsFit(filter);
  return sql`WITH RECURSIVE ${runsAndBounds(userId, filter, page.before)},
    walk(entry_id, account_id, reason, floor) AS (
      SELECT (SELECT 2 * t.transfer_id FROM transfers t INDEXED BY transfers_from WHERE t.from_account = r.account_id
          AND t.reason = r.reason AND t.transfer_id < b.debit_below AND t.transfer_id >= b.floor ORDER BY t.transfer_id DESC LIMIT 1),
        r.account_id, r.reason, b.floor FROM runs r CROSS JOIN bounds b WHERE r.direction = 'debit'
      UNION ALL
      SELECT (SELECT 2 * t.transfer_id + 1 FROM transfers t INDEXED BY transfers_to WHERE t.to_account = r.account_id
          AND t.reason = r.reason AND t.transfer_id < b.credit_below AND t.transfer_id >= b.floor ORDER BY t.transfer_id DESC LIMIT 1),
        r.account_id, r.reason, b.floor FROM runs r CROSS JOIN bounds b WHERE r.direction = 'credit'
      UNION ALL
      SELECT iif(w.entry_id & 1,
          (SELECT 2 * t.transfer_id + 1 FROM transfers t INDEXED BY transfers_to WHERE t.to_account = w.account_id
            AND t.reason = w.reason AND t.transfer_id < w.entry_id >> 1 AND t.transfer_id >= w.floor ORDER BY t.transfer_id DESC LIMIT 1),
          (SELECT 2 * t.transfer_id FROM transfers t INDEXED BY transfers_from WHERE t.from_account = w.account_id
            AND t.reason = w.reason AND t.transfer_id < w.entry_id >> 1 AND t.transfer_id >= w.floor ORDER BY t.transfer_id DESC LIMIT 1)),
        w.account_id, w.reason, w.floor FROM walk w WHERE w.entry_id IS NOT NULL
      ORDER BY 1 DESC LIMIT ${page.walk}),
    walked AS MATERIALIZED (SELECT entry_id, account_id FROM walk WHERE entry_id IS NOT NULL)
    SELECT ${entryColumns(raw("w.entry_id"))}${amounts === undefined ? raw("") : sql`, ${amounts} AS fits, (SELECT count(*) FROM walked) AS walked`}
    FROM walked w CROSS JOIN transfers t ON t.transfer_id = w.entry_id >> 1 CROSS JOIN accounts a ON a.account_id = w.account_id
      LEFT JOIN deposits d ON t.reason = 'deposit' AND d.deposit_id = t.ref
    ${amounts === undefined ? raw("") : sql`WHERE ${amounts} OR w.entry_id = (SELECT min(entry_id) FROM walked)`}
    ORDER BY w.entry_id DESC`;
}

/** A maker's leg of a trade lies under its quote, whose reserve it ends; it is caused by the match, and shown so. */
const SHOWN_REF = raw("iif(t.reason = 'trade', coalesce((SELECT m.match_id FROM matches m WHERE m.quote_id = t.ref), t.ref), t.ref)");

/** A record has few transfers, found by the journal's own unique key; a transaction hash names the caller's deposits of it. */
export function entriesOfRef(userId: string, filter: LedgerFilter, page: { before: bigint; limit: number }): Sql {
  const refId = filter.refId ?? "";
  const refs = refId.startsWith("0x")
    ? sql`t.reason = 'deposit' AND t.ref IN (SELECT deposit_id FROM deposits INDEXED BY deposits_hash
        WHERE transaction_hash = ${blob(refId)} AND user_id = ${uuid(userId)})`
    : sql`t.reason <> 'deposit' AND t.ref IN (${uuid(refId)}, (SELECT quote_id FROM matches WHERE match_id = ${uuid(refId)})) AND ${SHOWN_REF} = ${uuid(refId)}`;
  const side = (direction: Direction): Sql => {
    const runs = runsOf(filter).filter((run) => run[1] === direction);
    const entryId = raw(direction === "credit" ? "2 * t.transfer_id + 1" : "2 * t.transfer_id");
    const account = raw(direction === "credit" ? "t.to_account" : "t.from_account");
    return sql`SELECT ${entryColumns(entryId)} FROM transfers t INDEXED BY transfers_once
      CROSS JOIN accounts a ON a.account_id = ${account} LEFT JOIN deposits d ON t.reason = 'deposit' AND d.deposit_id = t.ref
      WHERE ${refs} AND a.owner = ${uuid(userId)} AND ${assetFits(filter)} AND ${entryId} < ${page.before}
        AND (a.kind, t.reason) IN (SELECT value ->> 0, value ->> 2 FROM json_each(${JSON.stringify(runs)}))
        AND t.at >= ${filter.from ?? 0} AND t.at <= ${filter.to ?? Number.MAX_SAFE_INTEGER} AND ${amountsFit(filter) ?? raw("1")}`;
  };
  return sql`SELECT * FROM (${side("debit")} UNION ALL ${side("credit")}) ORDER BY entry_id DESC LIMIT ${page.limit}`;
}

/** How many entries a filter without `refId` has below a position, counted up to `most`. */
export async function countEntries(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  page: { before: bigint; most: number },
): Promise<number> {
  if (selectsNothing(filter)) return 0;
  return (await first<{ entries: number }>(db, countedEntries(userId, filter, page)))?.entries ?? 0;
}

export function countedEntries(userId: string, filter: LedgerFilter, page: { before: bigint; most: number }): Sql {
  return sql`WITH RECURSIVE ${runsAndBounds(userId, filter, page.before)}
    SELECT count(*) AS entries FROM (SELECT 1 FROM (${scan(filter)}) LIMIT ${page.most})`;
}

/** The newest `limit` entries between two positions whose amount fits, from a scan of the runs. */
export function scannedEntries(userId: string, filter: LedgerFilter, page: { before: bigint; floor: bigint; limit: number }): Sql {
  return sql`WITH RECURSIVE ${runsAndBounds(userId, filter, page.before, page.floor)},
    found AS MATERIALIZED (SELECT entry_id, account_id FROM (${scan(filter)}) ORDER BY entry_id DESC LIMIT ${page.limit})
    SELECT ${entryColumns(raw("w.entry_id"))}
    FROM found w CROSS JOIN transfers t ON t.transfer_id = w.entry_id >> 1 CROSS JOIN accounts a ON a.account_id = w.account_id
      LEFT JOIN deposits d ON t.reason = 'deposit' AND d.deposit_id = t.ref
    ORDER BY w.entry_id DESC`;
}

function scan(filter: LedgerFilter): Sql {
  const amounts = amountsFit(filter) ?? raw("1");
  return sql`SELECT 2 * t.transfer_id AS entry_id, r.account_id FROM bounds b CROSS JOIN runs r CROSS JOIN transfers t INDEXED BY transfers_from
      WHERE r.direction = 'debit' AND t.from_account = r.account_id AND t.reason = r.reason AND t.transfer_id < b.debit_below AND t.transfer_id >= b.floor AND ${amounts}
    UNION ALL
    SELECT 2 * t.transfer_id + 1, r.account_id FROM bounds b CROSS JOIN runs r CROSS JOIN transfers t INDEXED BY transfers_to
      WHERE r.direction = 'credit' AND t.to_account = r.account_id AND t.reason = r.reason AND t.transfer_id < b.credit_below AND t.transfer_id >= b.floor AND ${amounts}`;
}

function entryColumns(entryId: Sql): Sql {
  return sql`${entryId} AS entry_id, a.kind AS account, a.asset,
    CAST(iif(${entryId} & 1, t.amount, -t.amount) AS TEXT) AS delta, t.reason,
    iif(t.reason = 'deposit', '0x' || lower(hex(d.transaction_hash)), hex(${SHOWN_REF})) AS ref,
    CAST(iif(${entryId} & 1, t.to_balance, t.from_balance) AS TEXT) AS balance_after, t.at`;
}

/**
 * `runs`, the accounts and movements that the filter leaves, and `bounds`, the transfers that its cursor and instants
 * leave. Instants never go back along the journal (one clock), so an instant is a position, found by bisection.
 */
function runsAndBounds(userId: string, filter: LedgerFilter, before: bigint, least: bigint = 0n): Sql {
  const from = filter.from === undefined ? raw("") : sql`${lastBefore("before_from", filter.from)},`;
  const to = filter.to === undefined ? raw("") : sql`${lastBefore("until_to", filter.to + 1)},`;
  const since = filter.from === undefined ? raw("0") : raw("(SELECT position + 1 FROM before_from WHERE stride = 0)");
  const ceiling = filter.to === undefined ? raw(`${NEWEST}`) : raw("(SELECT position + 1 FROM until_to WHERE stride = 0)");
  return sql`runs AS MATERIALIZED (SELECT a.account_id, s.value ->> 1 AS direction, s.value ->> 2 AS reason
      FROM accounts a INDEXED BY accounts_owner CROSS JOIN json_each(${JSON.stringify(runsOf(filter))}) s
      WHERE a.owner = ${uuid(userId)} AND a.kind = s.value ->> 0 AND ${assetFits(filter)}),
    ${from} ${to} bounds AS MATERIALIZED (SELECT max(${since}, ${least}) AS floor,
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

function assetFits({ usdc, venue, assetId }: LedgerFilter): Sql {
  if (usdc === true) return sql`a.asset = ${USDC}`;
  if (assetId !== undefined) {
    const venues = venue === undefined ? VENUES : [venue];
    return sql`a.asset IN (${join(
      venues.map((name) => sql`${`${name}:${assetId}`}`),
      ", ",
    )})`;
  }
  // ';' follows ':' in ASCII, so this is the range of all keys with the prefix.
  if (venue !== undefined) return sql`a.asset >= ${`${venue}:`} AND a.asset < ${`${venue};`}`;
  return usdc === false ? sql`a.asset <> ${USDC}` : raw("1");
}

/** Condition on the absolute delta; undefined without such a filter. */
function amountsFit({ minAmount, maxAmount }: LedgerFilter): Sql | undefined {
  if (minAmount === undefined && maxAmount === undefined) return undefined;
  const atMost = maxAmount === undefined || maxAmount > MAX_NATIVE_UNITS ? MAX_NATIVE_UNITS : maxAmount;
  return sql`t.amount BETWEEN ${minAmount ?? 0n} AND ${atMost}`;
}
