/**
 * Cron pays everybody who holds a token whose result is final. A pass walks over all accounts once,
 * for all such markets, in slices. A slice is one batch: the rows of its holders, their transfers
 * and events, and the position after it.
 *
 * The balance itself is the guard: what was redeemed is not there any more, so a slice that is
 * repeated or doubled pays nobody twice. A pair that is short pays nobody (`isCovered`).
 *
 * A pair with a chain owes what it has issued, but its holders also have tokens that came by
 * deposit, whose USDC is at the venue. As a pass begins, the float account of the venue buys so
 * many of them as the pair lacks USDC for, and `pays` is the part of each holding that can be paid.
 * The trigger `deposits_unpaid` has those paid who deposit later.
 */
import { venueOf } from "../../platform/venues.ts";
import { IN_USDC, pairOwner } from "../../ledger/post.ts";
import { alertRows } from "../../platform/alert.ts";
import { newGroup, NOW } from "../../platform/commit.ts";
import { log } from "../../platform/log.ts";
import { unavailable } from "../../platform/problem.ts";
import { all, atom, type Expr, expr, first, literal, type Sql, sql } from "../../platform/sql.ts";
import { commitAndPush } from "../../streams/event-log.ts";
import { pusherOf } from "../../streams/notify.ts";
import { config, type Config } from "../../platform/config.ts";
import { chainVenues, ISSUED, ON_CHAIN } from "./chain-stock.ts";
import {
  effectsOfRedemptions,
  FINAL_AT,
  freeOf,
  insertRedemptions,
  isCovered,
  pairBalance,
  usdcAt,
} from "./redemptions.ts";

/** Accounts that one batch looks at, and of them holders. */
const SCANNED_PER_SLICE = 20_000;
const PAID_PER_SLICE = 500;
const SLICES_PER_CALL = 4;
/** A pass over the accounts that could not pay everybody is followed by another after this time. */
const PASS_MS = 600_000;
/** Holders who wait longer are reported. */
const LATE_MS = 600_000;

const SCAN = "payouts";
/** Condition on markets `m`: their holders are to be paid. */
const dueAt = (at: Expr): Expr =>
  expr`m.settles_at <= ${at} AND ${FINAL_AT} <= ${at} AND m.paid_at IS NULL`;
const ALL = literal(1_000_000);

type Next = {
  /** Accounts up to this one are paid in this pass. 0: no pass runs. */
  readonly after: number;
  /** Null: no account follows. */
  readonly up_to: number | null;
};

/** Returns whether more may wait. */
export async function payHolders(env: Env, perSlice = PAID_PER_SLICE): Promise<boolean> {
  for (let slice = 0; slice < SLICES_PER_CALL; slice++) {
    const next = await nextSlice(env.DB, perSlice);
    if (next === undefined) return false;
    const { after, up_to: upTo } = next;
    if (after === 0) await beginPass(env);
    if (upTo === null) await endPass(env.DB, after);
    else await paySlice(env, after, upTo);
  }
  return true;
}

/** The next slice of the pass, or the first of a new one. Undefined: nothing is to be done. */
async function nextSlice(db: D1Database, perSlice: number): Promise<Next | undefined> {
  const isDue = sql`SELECT 1 FROM markets m WHERE ${dueAt(NOW)}`;
  await all(
    db,
    sql`INSERT INTO ledger_checkpoints (scan, position, mark) SELECT ${SCAN}, 0, '0'
      WHERE NOT EXISTS (SELECT 1 FROM ledger_checkpoints WHERE scan = ${SCAN})
        AND EXISTS (${isDue})`,
  );
  // The mark is when the pass began. A market that has settled since begins the next one at once.
  return first<Next>(
    db,
    sql`SELECT c.position AS after, (
        SELECT max(account_id) FROM (
          SELECT account_id, sum(holds) OVER (ORDER BY account_id) AS holding FROM (
            SELECT a.account_id, a.kind = 'available' AND a.balance > a.promised AND a.asset IN (
                SELECT m.asset FROM markets m WHERE ${dueAt(NOW)}) AS holds
            FROM accounts a WHERE a.account_id > c.position
            ORDER BY a.account_id LIMIT ${SCANNED_PER_SLICE}))
        WHERE holding <= ${perSlice}) AS up_to
      FROM ledger_checkpoints c WHERE c.scan = ${SCAN} AND EXISTS (${isDue})
        AND (c.position > 0 OR CAST(c.mark AS INTEGER) <= ${NOW} - ${PASS_MS}
          OR EXISTS (${isDue} AND ${FINAL_AT} >= CAST(c.mark AS INTEGER)))`,
  );
}

/**
 * Table over the due markets: `issued` by the pair, `on_chain` to withdraw, `has` of the float
 * account, and for the pair `usdc` and what it `lacks` to pay everybody else.
 */
function dueMarkets(settings: Config, at: Expr): Sql {
  const pair = pairOwner(atom("m.asset"), atom("m.complement"));
  return sql`(SELECT *, sum(owed) OVER (PARTITION BY pair) AS owes FROM (
    SELECT *, ${usdcAt(atom("(on_chain + issued - has)"), atom("result"))} AS owed FROM (
      SELECT m.asset, m.result, ${pair} AS pair, v.chain, (SELECT u.user_id FROM users u
          WHERE u.user_id = v.float_owner AND u.frozen_at IS NULL
            AND v.venue NOT IN (SELECT venue FROM paused_venues)) AS float_owner,
        ${isCovered(pair)} AS covered,
        ${pairBalance(pair, IN_USDC)} AS usdc, ${ISSUED} AS issued,
        iif(v.chain IS NULL, 0, ${ON_CHAIN}) AS on_chain,
        ${freeOf(atom("v.float_owner"), atom("m.asset"))} AS has
      FROM markets m JOIN markets c ON c.asset = m.complement
        LEFT JOIN ${chainVenues(settings)} v ON v.venue = ${venueOf("m.asset")}
      WHERE ${dueAt(at)})))`;
}

/** Repeating it takes only what still lacks. */
async function beginPass(env: Env, buys = true): Promise<void> {
  const settings = config(env);
  const group = newGroup();
  const { at, seq } = group;
  // What is left after the rows before it, of one pair, and of one float account. What rounding
  // leaves unpaid is less than a unit of each token, so that may be bought beyond the deposits.
  const left = (of: string, limit: Expr, column: string) =>
    expr`min(${atom(column)}, max(0, ${limit} - (sum(${atom(column)})
      OVER (PARTITION BY ${atom(of)} ORDER BY asset) - ${atom(column)})))`;
  const bought = insertRedemptions(sql`SELECT unhex(printf('%012x7%03x%016x', ${at}, ${seq} & 4095,
      -9223372036854775807 - 1 | row_number() OVER (ORDER BY asset))), float_owner, asset, pair, 'split',
      paid / result * ${ALL} + paid % result * ${ALL} / result, paid, ${at}, ${seq}, NULL, NULL
    FROM (SELECT *, ${left("float_owner", freeOf(atom("float_owner"), IN_USDC), "wanted")} AS paid
      FROM (SELECT *, ${left("pair", expr`owes - usdc`, "able")} AS wanted
        FROM (SELECT *, iif(result = 0, 0, 1 + ${usdcAt(atom("max(0, on_chain - has)"), atom("result"))}) AS able
          FROM ${dueMarkets(settings, at)} WHERE float_owner IS NOT NULL AND covered)))
    WHERE paid > 0`);
  const result = await commitAndPush(pusherOf(env), group, [
    ...(buys ? [bought, ...effectsOfRedemptions(group)] : []),
    // A division of REALs may round up, so it is one millionth less.
    sql`UPDATE markets AS m SET pays = d.pays FROM (SELECT asset, CASE WHEN NOT covered THEN 0
        WHEN chain IS NULL OR owes <= usdc THEN ${ALL}
        ELSE max(0, CAST(${ALL} * (usdc * 1.0 / owes) AS INTEGER) - 1) END AS pays
      FROM ${dueMarkets(settings, at)}) d WHERE d.asset = m.asset`,
  ]);
  if (result.committed) return;
  if (result.reason === "lost") throw unavailable("none");
  log("error", "settlement.float_refused", { cause: String(result.cause) });
  if (buys) await beginPass(env, false);
}

/** Pays the holders of a range of accounts. One account that is refused stops no other. */
async function paySlice(env: Env, after: number, upTo: number, pays = true): Promise<void> {
  const settings = config(env);
  const group = newGroup();
  const moved = sql`UPDATE ledger_checkpoints SET position = ${upTo},
      mark = iif(position = 0, CAST(${group.at} AS TEXT), mark)
    WHERE scan = ${SCAN} AND position = ${after}`;
  const result = await commitAndPush(pusherOf(env), group, [
    moved,
    ...(pays
      ? [redeemAccounts({ after, upTo, settings }, group), ...effectsOfRedemptions(group)]
      : []),
    // Everybody has redeemed when only the float account is left, which redeems at the venue.
    sql`UPDATE markets AS m SET paid_at = ${group.at} WHERE ${dueAt(group.at)} AND ${ISSUED} =
      coalesce((SELECT sum(h.balance) FROM ${chainVenues(settings)} v JOIN accounts h
          ON h.owner IN (CAST('external:' || v.chain AS BLOB), v.float_owner) AND h.asset = m.asset
        WHERE v.venue = ${venueOf("m.asset")}), 0)`,
    sql`UPDATE alerts SET resolved_at = ${group.at} WHERE kind = 'settlement_late'
      AND resolved_at IS NULL
      AND subject IN (SELECT m.asset FROM markets m WHERE m.paid_at IS NOT NULL)`,
  ]);
  if (result.committed) return;
  if (result.reason === "lost") throw unavailable("none");
  if (upTo - after > 1) {
    const middle = Math.floor((after + upTo) / 2);
    await paySlice(env, after, middle);
    return paySlice(env, middle, upTo);
  }
  // The end of the pass raises `settlement_late`, because the market stays unpaid.
  log("error", "settlement.account_refused", { account: upTo, cause: String(result.cause) });
  if (pays) await paySlice(env, after, upTo, false);
}

function redeemAccounts(
  {
    after,
    upTo,
    settings,
  }: { readonly after: number; readonly upTo: number; readonly settings: Config },
  { at, seq }: { readonly at: Expr; readonly seq: Expr },
): Sql {
  const pair = pairOwner(atom("m.asset"), atom("m.complement"));
  // A UUID v7 of the group's instant, its number and the account.
  const id = sql`unhex(printf('%012x7%03x%016x', ${at}, ${seq} & 4095,
    -9223372036854775807 - 1 | account_id))`;
  const value = usdcAt(atom("(a.balance - a.promised)"), atom("d.result"));
  // The fewest tokens that are worth what is paid, all of one that is worth nothing.
  const amount = sql`iif(whole, free,
    usdc / result * ${ALL} + (usdc % result * ${ALL} + result - 1) / result)`;
  return insertRedemptions(sql`WITH due AS MATERIALIZED (SELECT m.asset, m.result, m.pays,
        ${pair} AS pair, v.float_owner, ${pairBalance(pair, IN_USDC)} AS held
      FROM markets m LEFT JOIN ${chainVenues(settings)} v ON v.venue = ${venueOf("m.asset")}
      WHERE ${dueAt(at)} AND m.pays > 0 AND NOT EXISTS (
        SELECT 1 FROM paused_venues p WHERE p.venue = ${venueOf("m.asset")}))
    SELECT ${id}, owner, asset, pair, 'result', ${amount}, usdc, ${at}, ${seq}, NULL, NULL
    FROM (SELECT *, sum(usdc) OVER (PARTITION BY pair) AS sum FROM (
      SELECT a.account_id, a.owner, a.asset, d.pair, d.result, d.held,
        a.balance - a.promised AS free, d.pays = ${ALL} OR d.result = 0 AS whole,
        iif(d.pays = ${ALL}, ${value}, ${usdcAt(value, atom("d.pays"))}) AS usdc
      FROM accounts a CROSS JOIN due d ON d.asset = a.asset
      WHERE a.account_id > ${after} AND a.account_id <= ${upTo} AND a.kind = 'available'
        AND a.balance > a.promised AND a.owner IS NOT d.float_owner))
    WHERE sum <= held AND (whole OR usdc > 0)`);
}

/** Reports markets whose holders still wait: the pair is short, or the venue is paused for long. */
async function endPass(db: D1Database, after: number): Promise<void> {
  await all(
    db,
    sql`UPDATE ledger_checkpoints SET position = 0, finished_at = ${NOW}
      WHERE scan = ${SCAN} AND position = ${after}`,
  );
  await all(
    db,
    alertRows(
      { at: NOW },
      "settlement_late",
      sql`SELECT m.asset AS subject,
          'Holders of ' || m.asset || ' wait for their payment.' AS detail
        FROM markets m WHERE ${dueAt(NOW)} AND m.settles_at <= ${NOW} - ${literal(LATE_MS)}`,
    ),
  );
}
