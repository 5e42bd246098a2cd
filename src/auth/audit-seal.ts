/**
 * The audit chain: each row's link is SHA-256 over the previous link and the row. One sealer adds links in row order,
 * since writers would race for the head; it logs the head, an anchor outside the database that a cut-off tail cannot
 * follow.
 */
import { createHash } from "node:crypto";
import { commit, newGroup } from "../platform/commit.ts";
import { log } from "../platform/log.ts";
import { all, first, sql } from "../platform/sql.ts";

const PAGE = 500;
/** Rows sealed in one run at most; the next run goes on. */
const MAX_PER_RUN = 10_000;
const GENESIS = "00".repeat(32);

type Row = {
  audit_seq: number;
  id: string;
  kind: string;
  actor: string;
  user_id: string | null;
  api_key_id: string | null;
  ip: string | null;
  subject_id: string | null;
  at: number;
};
type Head = { readonly seq: number; readonly hash: string };

/** Seals what is new and logs the head. Returns the head; two sealers at once do no harm, one of them adds nothing. */
export async function sealAudit(db: D1Database): Promise<Head> {
  let head = await sealedHead(db);
  const limit = head.seq + MAX_PER_RUN;
  let added = false;
  while (head.seq < limit) {
    const rows = await rowsAfter(db, head.seq);
    if (rows.length === 0) break;
    const links = chain(head, rows);
    const group = newGroup();
    const sealed = await commit(db, group, [
      sql`INSERT INTO audit_seals (audit_seq, hash, sealed_at)
        SELECT value ->> 'seq', unhex(value ->> 'hash'), ${group.at} FROM json_each(${JSON.stringify(links)})
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

export type AuditVerdict = {
  readonly ok: boolean;
  /** Rows whose links verified. */
  readonly checked: number;
  /** Rows that the sealer has not reached yet. */
  readonly unsealed: number;
  readonly head: Head;
  readonly faults: readonly {
    readonly auditSeq: number;
    readonly fault: "changed" | "missing" | "unexpected" | "cut off";
  }[];
};

/** Recomputes the whole chain. `anchor`: a head from the logs, which the chain must still contain. */
export async function verifyAudit(db: D1Database, anchor?: Head): Promise<AuditVerdict> {
  const sealed = await sealedHead(db);
  const faults: AuditVerdict["faults"][number][] = [];
  let head: Head = { seq: 0, hash: GENESIS };
  let checked = 0;
  for (;;) {
    const seals = await all<{ audit_seq: number; hash: string }>(
      db,
      sql`SELECT audit_seq, lower(hex(hash)) AS hash FROM audit_seals WHERE audit_seq > ${head.seq} ORDER BY audit_seq LIMIT ${PAGE}`,
    );
    if (seals.length === 0) break;
    const rows = new Map((await rowsAfter(db, head.seq)).map((row) => [row.audit_seq, row]));
    for (const seal of seals) {
      for (let seq = head.seq + 1; seq < seal.audit_seq; seq++)
        faults.push({ auditSeq: seq, fault: "missing" });
      const row = rows.get(seal.audit_seq);
      const fault =
        row === undefined
          ? "missing"
          : linkOf(head.hash, row) === seal.hash
            ? undefined
            : "changed";
      if (fault === undefined) checked++;
      else faults.push({ auditSeq: seal.audit_seq, fault });
      if (anchor?.seq === seal.audit_seq && anchor.hash !== seal.hash)
        faults.push({ auditSeq: seal.audit_seq, fault: "changed" });
      // Each link is checked against the stored one before it, so that one bad row does not blame all that follow.
      head = { seq: seal.audit_seq, hash: seal.hash };
    }
  }
  if (anchor !== undefined && anchor.seq > head.seq)
    faults.push({ auditSeq: head.seq + 1, fault: "cut off" });
  const tail = await tailFaults(db, sealed.seq);
  faults.push(...tail.faults);
  return { ok: faults.length === 0, checked, unsealed: tail.unsealed, head, faults };
}

/** Rows behind the last seal are numbered without a gap too; a gap is a row that was taken out before it was sealed. */
async function tailFaults(db: D1Database, sealedSeq: number) {
  const tail = await first<{ n: number; last: number | null }>(
    db,
    sql`SELECT count(*) AS n, max(audit_seq) AS last FROM audit_events WHERE audit_seq > ${sealedSeq}`,
  );
  const unsealed = tail?.n ?? 0;
  const expected = (tail?.last ?? sealedSeq) - sealedSeq;
  return {
    unsealed,
    faults: expected === unsealed ? [] : [{ auditSeq: sealedSeq + 1, fault: "missing" as const }],
  };
}

async function sealedHead(db: D1Database): Promise<Head> {
  const row = await first<{ seq: number; hash: string }>(
    db,
    sql`SELECT audit_seq AS seq, lower(hex(hash)) AS hash FROM audit_seals ORDER BY audit_seq DESC LIMIT 1`,
  );
  return row ?? { seq: 0, hash: GENESIS };
}

function rowsAfter(db: D1Database, seq: number): Promise<Row[]> {
  return all<Row>(
    db,
    sql`SELECT audit_seq, hex(audit_event_id) AS id, kind, actor, hex(user_id) AS user_id, hex(api_key_id) AS api_key_id, ip, subject_id, at
      FROM audit_events WHERE audit_seq > ${seq} ORDER BY audit_seq LIMIT ${PAGE}`,
  );
}

function chain(head: Head, rows: readonly Row[]): Head[] {
  let previous = head.hash;
  return rows.map((row) => {
    previous = linkOf(previous, row);
    return { seq: row.audit_seq, hash: previous };
  });
}

/** JSON of a fixed order: unambiguous, whatever the texts hold. */
function linkOf(previous: string, row: Row): string {
  const text = JSON.stringify([
    row.audit_seq,
    row.id,
    row.kind,
    row.actor,
    row.user_id,
    row.api_key_id,
    row.ip,
    row.subject_id,
    row.at,
  ]);
  return createHash("sha256").update(previous).update(text).digest("hex");
}
