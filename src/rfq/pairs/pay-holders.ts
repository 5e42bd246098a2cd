/**
 * Cron pays everybody who holds a token whose result is final. A pass walks over all accounts once,
 * for all such markets, in slices. A slice is one batch: the rows of its holders, their transfers
 * and events, and the position after it.
 *
 * The balance itself is the guard: what was redeemed is not there any more, so a slice that is
 * repeated or doubled pays nobody twice. A pair that is short pays nobody (`isCovered`).
 */
import { venueOf } from "../../platform/venues.ts";
import { pairOwner } from "../../ledger/post.ts";
import { alertRows } from "../../platform/alert.ts";
import { newGroup, NOW } from "../../platform/commit.ts";
import { log } from "../../platform/log.ts";
import { unavailable } from "../../platform/problem.ts";
import { all, atom, type Expr, expr, first, literal, type Sql, sql } from "../../platform/sql.ts";
import { commitAndPush } from "../../streams/event-log.ts";
import { pusherOf } from "../../streams/notify.ts";
import {
  effectsOfRedemptions,
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
/** Of markets `m`: their holders are to be paid. */
const dueAt = (at: Expr): Expr => expr`m.settles_at <= ${at} AND m.paid_at IS NULL`;

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
          OR EXISTS (${isDue} AND m.settles_at >= CAST(c.mark AS INTEGER)))`,
  );
}

/** Pays the holders of a range of accounts. One account that is refused stops no other. */
async function paySlice(env: Env, after: number, upTo: number, pays = true): Promise<void> {
  const group = newGroup();
  const moved = sql`UPDATE ledger_checkpoints SET position = ${upTo},
      mark = iif(position = 0, CAST(${group.at} AS TEXT), mark)
    WHERE scan = ${SCAN} AND position = ${after}`;
  const result = await commitAndPush(pusherOf(env), group, [
    moved,
    ...(pays ? [redeemAccounts({ after, upTo }, group), ...effectsOfRedemptions(group)] : []),
    // Everybody has redeemed when the pair has issued nothing any more.
    sql`UPDATE markets AS m SET paid_at = ${group.at} WHERE ${dueAt(group.at)} AND
      ${pairBalance(pairOwner(atom("m.asset"), atom("m.complement")), atom("m.asset"))} = 0`,
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
  { after, upTo }: { readonly after: number; readonly upTo: number },
  { at, seq }: { readonly at: Expr; readonly seq: Expr },
): Sql {
  const pair = pairOwner(atom("m.asset"), atom("m.complement"));
  // A UUID v7 of the group's instant, its number and the account.
  const id = sql`unhex(printf('%012x7%03x%016x', ${at}, ${seq} & 4095,
    -9223372036854775807 - 1 | account_id))`;
  return insertRedemptions(sql`WITH due AS MATERIALIZED (SELECT m.asset, m.result, ${pair} AS pair
      FROM markets m JOIN markets c ON c.asset = m.complement
      WHERE ${dueAt(at)} AND ${isCovered(pair)} AND NOT EXISTS (
        SELECT 1 FROM paused_venues v WHERE v.venue = ${venueOf("m.asset")}))
    SELECT ${id}, owner, asset, pair, 'result', amount, ${usdcAt(atom("amount"), atom("result"))},
      ${at}, ${seq}, NULL, NULL
    FROM (SELECT a.account_id, a.owner, a.asset, d.pair, d.result,
        a.balance - a.promised AS amount
      FROM accounts a CROSS JOIN due d ON d.asset = a.asset
      WHERE a.account_id > ${after} AND a.account_id <= ${upTo} AND a.kind = 'available'
        AND a.balance > a.promised)`);
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
