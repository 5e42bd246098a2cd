/**
 * Deletes what is sealed from the database, one seal at a time: transfers, requests and quotes, and
 * much later the matches, which the tape reads.
 *
 * A seal is first *delivered*: from that instant on readers take its transfers from the archive. It
 * is *released* at the earliest two minutes later, so no read that began before sees a deletion.
 *
 * The records to delete are those that the object in the archive lists. A guard counts them in the
 * database, so nothing is deleted unless all of them are there. Then they are deleted in slices,
 * each in a batch, so that D1 serves others in between. A call that finds a release begun deletes
 * what is left.
 *
 * A transfer whose record can still move is held, and so are the earlier ones of the same record:
 * the journal's unique key must still refuse to post them twice, and the reconciliation compares
 * all transfers of a record or none. The next releases delete them when the record has ended. A
 * request is held while a quote on it is here.
 */
import { venueOf } from "../platform/venues.ts";
import { UNFINISHED } from "../assets/withdrawal-status.ts";
import { addBounded, boundedSum } from "../platform/bounded-sum.ts";
import { inChunks } from "../platform/chunks.ts";
import { commitOrThrow, type Group, newGroup, NOW } from "../platform/commit.ts";
import type { Failpoint } from "../platform/failpoint.ts";
import {
  all,
  blob,
  type Expr,
  expr,
  first,
  holds,
  join,
  literal,
  raw,
  type RowOf,
  select,
  type Sql,
  sql,
  typed,
  uuids,
} from "../platform/sql.ts";
import { addToCandles, NOT_IN_CANDLES, type PricedFrom } from "./candles.ts";
import type { SealRef } from "./footer.ts";
import type { Seal } from "./seal-format.ts";
import { SEAL } from "./seal-row.ts";
import { type SealBucket, tryReadSeal } from "./seal-store.ts";

export type ReleaseContext = {
  readonly db: D1Database;
  readonly bucket: SealBucket;
  readonly lagMs: number;
  /** Matches stay so long after they were made. */
  readonly matchesMs: number;
  readonly settings: PricedFrom;
  /** Tests name fewer. */
  readonly perSlice?: number;
  readonly failpoint?: Failpoint | undefined;
};

/** A statement binds a text of at most 2 MB, which fits 57 000 ids. */
const IDS_PER_STATEMENT = 20_000;
/** Rows that one batch deletes. It holds D1 for some 15 ms. */
const ROWS_PER_SLICE = 1_000;

export type Released =
  | { readonly status: "idle" }
  | (SealRef & { readonly status: Step["status"] })
  /** The archive and the database do not have the same, so nothing is deleted. */
  | { readonly status: "mismatch"; readonly detail: string };

const NEXT = {
  ...SEAL,
  delivered: typed<number>("delivered_at IS NOT NULL"),
  released: typed<number>("released_at IS NOT NULL"),
  held: typed<number>("held IS NOT NULL"),
};
type Next = RowOf<typeof NEXT>;

/** The column that each step sets, with which it has applied. */
const SETS = {
  delivered: "delivered_at",
  releasing: "released_at",
  released: "held",
  matches_released: "matches_released_at",
} as const;
/** What is due for a seal. */
type Step = { readonly status: keyof typeof SETS; readonly statements: readonly Sql[] };

/** Delivers or releases the next seal, or its matches, if that is due. */
export async function releaseRound(context: ReleaseContext): Promise<Released> {
  const next = (await nextSeal(context)) ?? (await nextMatches(context));
  if (next === undefined) return { status: "idle" };
  const { db, bucket } = context;
  const { epoch, number, sha256 } = next;
  // The object is read once more, because afterwards it is the only copy.
  const stored = await tryReadSeal(bucket, next);
  if ("wrong" in stored)
    return { status: "mismatch", detail: `seal ${number} could not be read: ${stored.wrong}` };
  if (next.released === 1 && next.held === 0) await deleteSlices(context, next, stored.seal);
  const group = newGroup();
  const { status, statements } = stepOf(group, next, stored.seal, context);
  await commitOrThrow(db, group, statements);
  const isSet = sealIs(number, expr`${raw(SETS[status])} IS NOT NULL`);
  if (!(await holds(db, isSet)))
    return {
      status: "mismatch",
      detail: `the database lacks records that seal ${number} contains`,
    };
  await context.failpoint?.(`seal_${status}`);
  return { status, epoch, number, sha256 };
}

/** The first seal that is due for release, or in it, or else the first that is not delivered yet. */
async function nextSeal({ db, lagMs }: ReleaseContext): Promise<Next | undefined> {
  return first<Next>(
    db,
    sql`SELECT ${select(NEXT)} FROM journal_seals INDEXED BY journal_seals_unreleased
      WHERE held IS NULL AND (delivered_at IS NULL OR delivered_at + ${lagMs} <= ${NOW})
      ORDER BY number LIMIT 1`,
  );
}

/** The first released seal whose matches are still here, if they are old enough. */
async function nextMatches({ db, matchesMs }: ReleaseContext): Promise<Next | undefined> {
  return first<Next>(
    db,
    sql`SELECT * FROM (SELECT ${select(NEXT)}, last_at
        FROM journal_seals INDEXED BY journal_seals_matches_unreleased
        WHERE matches_released_at IS NULL AND held IS NOT NULL AND matches > 0
        ORDER BY number LIMIT 1)
      WHERE last_at + ${matchesMs} <= ${NOW}`,
  );
}

function stepOf(group: Group, next: Next, seal: Seal, context: ReleaseContext): Step {
  if (next.held === 1) return releaseMatches(group, next, seal, context);
  if (next.released === 1) return end(next);
  return next.delivered === 1 ? begin(group, next, seal, context) : deliver(group, next);
}

function deliver(group: Group, { number, sha256 }: Next): Step {
  return {
    status: "delivered",
    statements: [
      sql`UPDATE journal_seals SET delivered_at = ${group.at}
        WHERE number = ${number} AND sha256 = ${blob(sha256)} AND delivered_at IS NULL`,
    ],
  };
}

/** The guard counts the records, and a trigger of `journal_seals` counts the transfers. */
function begin(
  group: Group,
  { number, sha256 }: Next,
  seal: Seal,
  { lagMs }: ReleaseContext,
): Step {
  const counted = (records: Sql, ids: readonly string[]) => {
    const counts = inChunks(ids, IDS_PER_STATEMENT).map(
      (some) => sql`(SELECT count(*) FROM ${records} IN (${uuids(some)}))`,
    );
    return join([raw("0"), ...counts], " + ");
  };
  return {
    status: "releasing",
    statements: [
      sql`UPDATE journal_seals SET released_at = ${group.at}
        WHERE number = ${number} AND sha256 = ${blob(sha256)} AND released_at IS NULL
          AND delivered_at + ${lagMs} <= ${group.at}
          AND quotes = ${counted(sql`quotes WHERE quote_id`, quotesOf(seal))}
          AND requests = ${counted(sql`requests WHERE request_id`, requestsOf(seal))}`,
    ],
  };
}

const quotesOf = ({ quotes }: Seal) => quotes.map((row) => row.quote_id);
const requestsOf = ({ requests }: Seal) => requests.map((row) => row.request_id);

async function deleteSlices(context: ReleaseContext, next: Next, seal: Seal): Promise<void> {
  for (const slice of await slicesOf(context, next, seal)) {
    await commitOrThrow(context.db, newGroup(), [slice]);
    await context.failpoint?.("seal_sliced");
  }
}

/** A statement for each slice, also for what earlier releases held. Quotes precede requests. */
async function slicesOf(context: ReleaseContext, next: Next, seal: Seal): Promise<Sql[]> {
  const { db, perSlice = ROWS_PER_SLICE } = context;
  const { number, sha256, afterGroup } = next;
  const applied = sealIs(
    number,
    expr`sha256 = ${blob(sha256)} AND released_at IS NOT NULL
    AND held IS NULL`,
  );
  const unquoted = expr`NOT EXISTS (SELECT 1 FROM quotes q WHERE q.request_id = r.request_id)`;
  const quotes = inChunks(quotesOf(seal), perSlice);
  const requests = inChunks(requestsOf(seal), perSlice);
  return [
    ...quotes.map(
      (ids) => sql`DELETE FROM quotes WHERE quote_id IN (${uuids(ids)}) AND ${applied}`,
    ),
    ...requests.map(
      (ids) => sql`DELETE FROM requests AS r WHERE r.request_id IN (${uuids(ids)})
        AND ${unquoted} AND ${applied}`,
    ),
    sql`DELETE FROM requests AS r WHERE r.ended_group <= ${afterGroup} AND ${unquoted}
      AND ${applied}`,
    ...(await transferSlices(db, next, perSlice)).map(
      (upTo) => sql`DELETE FROM transfers AS t WHERE t.transfer_id <= ${upTo}
        AND NOT ${isHeld(upTo)} AND ${applied}`,
    ),
  ];
}

/** Where the slices of the transfers end. */
async function transferSlices(
  db: D1Database,
  { after, upTo }: Next,
  perSlice: number,
): Promise<number[]> {
  const rows = await all<{ end: number }>(
    db,
    sql`SELECT transfer_id AS "end" FROM (
        SELECT transfer_id, row_number() OVER (ORDER BY transfer_id) AS n FROM transfers
        WHERE transfer_id > ${after} AND transfer_id < ${upTo})
      WHERE n % ${perSlice} = 0 ORDER BY "end"`,
  );
  return [...rows.map(({ end: at }) => at), upTo];
}

/** A trigger of `journal_seals` compares what remains with `held`, and rolls the batch back. */
function end({ number, after, upTo }: Next): Step {
  return {
    status: "released",
    statements: [
      sql`UPDATE journal_seals SET held = (SELECT count(*) FROM transfers t
          WHERE t.transfer_id > ${after} AND t.transfer_id <= ${upTo} AND ${isHeld(upTo)})
        WHERE number = ${number} AND released_at IS NOT NULL AND held IS NULL`,
    ],
  };
}

/** Their sums and candles stay, because the operator reads fees of a month. */
function releaseMatches(
  group: Group,
  { number, sha256 }: Next,
  seal: Seal,
  { matchesMs, settings }: ReleaseContext,
): Step {
  const matches = uuids(seal.matches.map((row) => row.match_id));
  const applied = sealIs(number, expr`matches_released_at = ${group.at}`);
  return {
    status: "matches_released",
    statements: [
      sql`UPDATE journal_seals SET matches_released_at = ${group.at}
        WHERE number = ${number} AND sha256 = ${blob(sha256)} AND matches_released_at IS NULL
          AND last_at + ${matchesMs} <= ${group.at}
          AND matches = (SELECT count(*) FROM matches WHERE match_id IN (${matches}))`,
      addVenueDays(sql`m.match_id IN (${matches}) AND ${applied}`),
      addToCandles(settings, sql`m.match_id IN (${matches}) AND ${NOT_IN_CANDLES} AND ${applied}`),
      sql`DELETE FROM matches WHERE match_id IN (${matches}) AND ${applied}`,
    ],
  };
}

/** Adds matches `m` to the sums of their days. */
function addVenueDays(condition: Sql): Sql {
  // Not a parameter: D1 binds numbers as REAL, and a day is a whole number.
  const day = literal(86_400_000);
  return sql`INSERT INTO venue_days (day, venue, trades, usdc_amount, taker_fee, maker_fee)
    SELECT m.at / ${day}, ${venueOf("m.asset")}, count(*),
      ${boundedSum("m.usdc_amount")}, ${boundedSum("m.taker_fee")}, ${boundedSum("m.maker_fee")}
    FROM matches m WHERE ${condition} GROUP BY 1, 2
    ON CONFLICT (day, venue) DO UPDATE SET trades = trades + excluded.trades,
      ${addBounded("venue_days", "usdc_amount")}, ${addBounded("venue_days", "taker_fee")},
      ${addBounded("venue_days", "maker_fee")}`;
}

function sealIs(number: number, condition: Expr): Expr {
  return expr`EXISTS (SELECT 1 FROM journal_seals WHERE number = ${number} AND ${condition})`;
}

/**
 * Condition on transfer `t`: its record can still move, has moved above `upTo`, or moved last. The
 * newest transfer stays, because the next one continues its number and instant.
 */
function isHeld(upTo: number): Expr {
  return expr`t.ref = (SELECT ref FROM transfers ORDER BY transfer_id DESC LIMIT 1)
    OR EXISTS (SELECT 1 FROM withdrawals w
      WHERE w.withdrawal_id = t.ref AND w.status ${UNFINISHED})
    OR EXISTS (SELECT 1 FROM transfers n WHERE n.ref = t.ref AND n.transfer_id > ${upTo})`;
}
