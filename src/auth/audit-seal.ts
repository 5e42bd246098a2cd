/**
 * The audit chain. The link of a row is SHA-256 over the previous link and the row. Cron seals the
 * rows in order, because writers would race for the head of the chain. It also logs the head, so
 * that the logs show if rows were deleted from the end of the chain.
 */
import { createHash } from "node:crypto";
import { count, desc, gt, max } from "drizzle-orm";
import { commit, newGroup } from "../platform/commit.ts";
import { log } from "../platform/log.ts";
import { read } from "../platform/read.ts";
import { sql } from "../platform/sql.ts";
import { auditEvents, auditSeals } from "./tables.ts";

const PAGE = 500;
/** Maximum number of rows that one call seals. The next call continues. */
const MAX_ROWS_PER_CALL = 10_000;
const GENESIS = `0x${"00".repeat(32)}`;

type Row = typeof auditEvents.$inferSelect;
type Head = { readonly seq: number; readonly hash: string };

/**
 * Seals new rows, logs the head and returns it. Concurrent calls are safe, because a batch inserts
 * nothing unless it continues the stored head.
 */
export async function sealAudit(db: D1Database): Promise<Head> {
  let head = await sealedHead(db);
  const limit = head.seq + MAX_ROWS_PER_CALL;
  let added = false;
  while (head.seq < limit) {
    const rows = await rowsAfter(db, head.seq);
    if (rows.length === 0) break;
    const links = chain(head, rows);
    const group = newGroup();
    const sealed = await commit(db, group, [
      sql`INSERT INTO audit_seals (audit_seq, hash, sealed_at)
        SELECT value ->> 'seq', unhex(substr(value ->> 'hash', 3)), ${group.at}
        FROM json_each(${JSON.stringify(links)})
        WHERE (SELECT coalesce(max(audit_seq), 0) FROM audit_seals) = ${head.seq} ORDER BY 1`,
    ]);
    if (!sealed.committed) break;
    const now = await sealedHead(db);
    if (now.seq === head.seq) break;
    head = now;
    added = true;
  }
  if (added) log("info", "audit_head", { audit_seq: head.seq, hash: head.hash });
  return head;
}

export type AuditReport = {
  readonly ok: boolean;
  /** Number of rows whose link verified. */
  readonly verified: number;
  /** Number of rows that are not sealed yet. */
  readonly unsealed: number;
  readonly head: Head;
  readonly discrepancies: readonly Discrepancy[];
};
type Discrepancy = {
  readonly auditSeq: number;
  readonly kind: "changed" | "missing" | "truncated";
};

/** Recomputes the whole chain. `anchor` is a head from the logs, which the chain must contain. */
export async function verifyAudit(db: D1Database, anchor?: Head): Promise<AuditReport> {
  const sealed = await sealedHead(db);
  const discrepancies: Discrepancy[] = [];
  let head: Head = { seq: 0, hash: GENESIS };
  let verified = 0;
  for (;;) {
    const seals = await read(db, ({ select }) =>
      select()
        .from(auditSeals)
        .where(gt(auditSeals.auditSeq, head.seq))
        .orderBy(auditSeals.auditSeq)
        .limit(PAGE),
    );
    if (seals.length === 0) break;
    const rows = new Map((await rowsAfter(db, head.seq)).map((row) => [row.auditSeq, row]));
    for (const seal of seals) {
      for (let seq = head.seq + 1; seq < seal.auditSeq; seq++)
        discrepancies.push({ auditSeq: seq, kind: "missing" });
      const row = rows.get(seal.auditSeq);
      const kind =
        row === undefined
          ? "missing"
          : linkOf(head.hash, row) === seal.hash
            ? undefined
            : "changed";
      if (kind === undefined) verified++;
      else discrepancies.push({ auditSeq: seal.auditSeq, kind });
      if (anchor?.seq === seal.auditSeq && anchor.hash !== seal.hash)
        discrepancies.push({ auditSeq: seal.auditSeq, kind: "changed" });
      // Continue from the stored link, so that one changed row is one discrepancy.
      head = { seq: seal.auditSeq, hash: seal.hash };
    }
  }
  if (anchor !== undefined && anchor.seq > head.seq)
    discrepancies.push({ auditSeq: head.seq + 1, kind: "truncated" });
  const tail = await checkUnsealed(db, sealed.seq);
  discrepancies.push(...tail.discrepancies);
  const ok = discrepancies.length === 0;
  return { ok, verified, unsealed: tail.unsealed, head, discrepancies };
}

/**
 * Unsealed rows are numbered without gaps. A gap shows that a row was deleted before it was sealed.
 */
async function checkUnsealed(
  db: D1Database,
  sealedSeq: number,
): Promise<{ unsealed: number; discrepancies: Discrepancy[] }> {
  const [tail] = await read(db, ({ select }) =>
    select({ count: count(), last: max(auditEvents.auditSeq) })
      .from(auditEvents)
      .where(gt(auditEvents.auditSeq, sealedSeq)),
  );
  const unsealed = tail?.count ?? 0;
  const expected = (tail?.last ?? sealedSeq) - sealedSeq;
  return {
    unsealed,
    discrepancies: expected === unsealed ? [] : [{ auditSeq: sealedSeq + 1, kind: "missing" }],
  };
}

async function sealedHead(db: D1Database): Promise<Head> {
  const [head] = await read(db, ({ select }) =>
    select({ seq: auditSeals.auditSeq, hash: auditSeals.hash })
      .from(auditSeals)
      .orderBy(desc(auditSeals.auditSeq))
      .limit(1),
  );
  return head ?? { seq: 0, hash: GENESIS };
}

function rowsAfter(db: D1Database, seq: number): Promise<Row[]> {
  return read(db, ({ select }) =>
    select()
      .from(auditEvents)
      .where(gt(auditEvents.auditSeq, seq))
      .orderBy(auditEvents.auditSeq)
      .limit(PAGE),
  );
}

function chain(head: Head, rows: readonly Row[]): Head[] {
  let previous = head.hash;
  return rows.map((row) => {
    previous = linkOf(previous, row);
    return { seq: row.auditSeq, hash: previous };
  });
}

/** Hashes a JSON array, because its encoding is unambiguous for any text. */
function linkOf(previous: string, row: Row): string {
  const text = JSON.stringify([
    row.auditSeq,
    row.auditEventId,
    row.kind,
    row.actor,
    row.userId,
    row.apiKeyId,
    row.ip,
    row.subjectId,
    row.details,
    row.at,
  ]);
  return `0x${createHash("sha256").update(previous).update(text).digest("hex")}`;
}
