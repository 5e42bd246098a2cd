/**
 * Deletes sealed transfers from the database, one seal at a time.
 *
 * A seal is first *delivered*: from that instant on readers take its transfers from the archive. It
 * is *released* at the earliest two minutes later, so no read that began before sees a deletion.
 *
 * A transfer whose record can still move is held, and so are the earlier ones of the same record:
 * the journal's unique key must still refuse to post them twice, and the reconciliation compares all
 * transfers of a record or none. The next releases delete them when the record has ended.
 */
import { commit, type Group, newGroup } from "../platform/commit.ts";
import { abandonFullWalk } from "../ledger/released.ts";
import type { Failpoint } from "../platform/failpoint.ts";
import { blob, type Expr, expr, first, type Sql, sql } from "../platform/sql.ts";
import { SealMalformed } from "./bytes.ts";
import type { SealId } from "./footer.ts";
import { readSeal, type SealBucket, SealMissing } from "./seal-store.ts";

export type ReleaseContext = {
  readonly db: D1Database;
  readonly bucket: SealBucket;
  readonly lagMs: number;
  readonly failpoint?: Failpoint;
};

export type Released =
  | { readonly status: "idle" }
  | (SealId & { readonly status: "delivered" | "released" })
  /** The archive does not have the seal as the database states it, so nothing is deleted. */
  | { readonly status: "mismatch"; readonly detail: string };

type Next = {
  readonly number: number;
  readonly epoch: number;
  readonly after: number;
  readonly up_to: number;
  readonly sha256: string;
  readonly delivered: number;
};

/** Delivers or releases the next seal, if it is due. */
export async function releaseRound(context: ReleaseContext): Promise<Released> {
  const next = await nextSeal(context);
  if (next === undefined) return { status: "idle" };
  const { db, bucket } = context;
  const wrong = await mismatchOf(bucket, next);
  if (wrong !== undefined) return { status: "mismatch", detail: wrong };
  const group = newGroup();
  const delivered = next.delivered === 1;
  const result = await commit(
    db,
    group,
    delivered ? release(group, next, context) : deliver(group, next),
  );
  if (!result.committed)
    throw new Error(`seal ${next.number} was not released`, { cause: result.cause });
  await context.failpoint?.(delivered ? "seal_released" : "seal_delivered");
  const { epoch, number } = next;
  return { status: delivered ? "released" : "delivered", epoch, number };
}

/** The first seal that is due for release, or else the first that is not delivered yet. */
async function nextSeal({ db, lagMs }: ReleaseContext): Promise<Next | undefined> {
  return first<Next>(
    db,
    sql`SELECT number, epoch, after_transfer AS "after", up_to_transfer AS up_to,
        lower(hex(sha256)) AS sha256, delivered_at IS NOT NULL AS delivered
      FROM journal_seals INDEXED BY journal_seals_unreleased
      WHERE released_at IS NULL
        AND (delivered_at IS NULL OR delivered_at + ${lagMs} <= unixepoch('subsec') * 1000)
      ORDER BY number LIMIT 1`,
  );
}

/** The object is read once more, because afterwards it is the only copy. */
async function mismatchOf(bucket: SealBucket, next: Next): Promise<string | undefined> {
  try {
    const { sha256 } = await readSeal(bucket, next);
    return sha256 === next.sha256
      ? undefined
      : `the object of seal ${next.number} is not what its row states`;
  } catch (error) {
    if (error instanceof SealMalformed || error instanceof SealMissing)
      return `seal ${next.number} could not be read: ${error.message}`;
    throw error;
  }
}

function deliver(group: Group, { number, up_to: upTo, sha256 }: Next): Sql[] {
  return [
    sql`UPDATE journal_seals SET delivered_at = ${group.at}
      WHERE number = ${number} AND sha256 = ${blob(sha256)} AND delivered_at IS NULL`,
    abandonFullWalk(upTo),
  ];
}

/** The triggers of `journal_seals` count before and after, and roll the batch back on a difference. */
function release(group: Group, next: Next, { lagMs }: ReleaseContext): Sql[] {
  const { number, after, up_to: upTo, sha256 } = next;
  const ofRange = sql`t.transfer_id > ${after} AND t.transfer_id <= ${upTo}`;
  const applied = expr`EXISTS (SELECT 1 FROM journal_seals
    WHERE number = ${number} AND released_at = ${group.at} AND held IS NULL)`;
  return [
    sql`UPDATE journal_seals SET released_at = ${group.at}
      WHERE number = ${number} AND sha256 = ${blob(sha256)} AND released_at IS NULL
        AND delivered_at + ${lagMs} <= ${group.at}`,
    sql`DELETE FROM transfers AS t WHERE ${ofRange} AND NOT ${isHeld(upTo)} AND ${applied}`,
    // What earlier releases held. Only few rows are left there.
    sql`DELETE FROM transfers AS t
      WHERE t.transfer_id <= ${after} AND NOT ${isHeld(upTo)} AND ${applied}`,
    sql`UPDATE journal_seals
      SET held = (SELECT count(*) FROM transfers t WHERE ${ofRange} AND ${isHeld(upTo)})
      WHERE number = ${number} AND released_at = ${group.at} AND held IS NULL`,
  ];
}

/**
 * Condition on transfer `t`: its record can still move, has moved above `upTo`, or moved last. The
 * newest transfer stays, because the next one continues its number and instant.
 */
function isHeld(upTo: number): Expr {
  return expr`t.ref = (SELECT ref FROM transfers ORDER BY transfer_id DESC LIMIT 1)
    OR EXISTS (SELECT 1 FROM quotes q WHERE q.quote_id = t.ref AND q.status = 'open')
    OR EXISTS (SELECT 1 FROM withdrawals w
      WHERE w.withdrawal_id = t.ref AND w.status IN ('queued', 'submitted'))
    OR EXISTS (SELECT 1 FROM transfers n WHERE n.ref = t.ref AND n.transfer_id > ${upTo})`;
}
