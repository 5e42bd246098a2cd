/**
 * The audit chain. The link of a row is SHA-256 over the previous link and the row. Cron seals the
 * rows in order, because writers would race for the head of the chain. The last link of each sealing
 * is signed, so that nobody without a key of AUDIT_KEYS can write another chain. The head also goes
 * to the log and to R2 (audit-anchor.ts), which show if rows were deleted from its end.
 */
import { createHash } from "node:crypto";
import { desc, gt } from "drizzle-orm";
import { commit, newGroup } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { log } from "../platform/log.ts";
import { read } from "../platform/read.ts";
import { sql } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import { headVerifies, type SignedHead, signHead } from "./audit-keys.ts";
import { isGenuine } from "./event-mac.ts";
import { needsMac } from "./rights.ts";
import { auditEvents, auditSeals } from "./tables.ts";

/** Rows that one batch seals. */
const PAGE = 500;
/** Rows that the verification reads at once, because D1 answers an invocation 1 000 queries. */
const VERIFIED_PAGE = 5_000;
/** Maximum number of rows that one call seals. The next call continues. */
const MAX_ROWS_PER_CALL = 10_000;
const GENESIS = `0x${"00".repeat(32)}`;

type Row = typeof auditEvents.$inferSelect;
export type Head = { readonly seq: number; readonly hash: string };

/**
 * Seals new rows, logs the head and returns it. Concurrent calls are safe, because a batch inserts
 * nothing unless it continues the stored head.
 */
export async function sealAudit(db: D1Database, settings: Config): Promise<Head> {
  let head = await sealedHead(db);
  const limit = head.seq + MAX_ROWS_PER_CALL;
  let added = false;
  while (head.seq < limit) {
    const rows = await rowsAfter(db, head.seq, PAGE);
    if (rows.length === 0) break;
    const links = chain(head, rows);
    const newest = links.at(-1) ?? head;
    const { keyId, signature } = await signHead(settings, newest);
    const group = newGroup();
    const sealed = await commit(db, group, [
      sql`INSERT INTO audit_seals (audit_seq, hash, key_id, signature, sealed_at)
        SELECT value ->> 'seq', unhex(substr(value ->> 'hash', 3)),
          iif(value ->> 'seq' = ${newest.seq}, ${keyId}, NULL),
          iif(value ->> 'seq' = ${newest.seq}, ${signature}, NULL), ${group.at}
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
  /**
   * `forged`: a row was changed, removed, inserted by somebody else or signed by nobody.
   * `anchor_missing`: the bucket with the
   * heads cannot be read, or its newest head is more than an hour behind.
   */
  readonly verdict: "ok" | "forged" | "anchor_missing";
  /** Number of rows whose link verified. */
  readonly verified: number;
  /** Number of rows that are not sealed yet. */
  readonly unsealed: number;
  readonly head: Head;
  /** The newest head in the bucket, and when it was put there. Null: none, or it cannot be read. */
  readonly anchor: { readonly seq: number; readonly at: string } | null;
  readonly discrepancies: readonly Discrepancy[];
};
type Discrepancy = {
  readonly auditSeq: number;
  /**
   * `forged`: the event has no valid MAC, so this service did not write it. `unsigned`: no key of
   * AUDIT_KEYS signed this head. `anchor`: R2 has another hash.
   */
  readonly kind: "changed" | "forged" | "missing" | "truncated" | "unsigned" | "anchor";
};

/** The heads that R2 keeps, as far as they are readable. */
export type Anchors = {
  /** Null if the bucket cannot be read or is empty. */
  readonly newest: (SignedHead & { readonly at: number }) | null;
  /** Those from one event to another, inclusive. */
  between(from: number, to: number): Promise<readonly SignedHead[]>;
};

/** Of a bucket that cannot be read. */
export const NO_ANCHORS: Anchors = { newest: null, between: async () => [] };

/** How far the newest anchor may be behind the newest seal. */
const ANCHOR_LATE_MS = 3_600_000;

/** Recomputes the whole chain and compares it with the signed heads and with those in R2. */
export async function verifyAudit(
  db: D1Database,
  settings: Config,
  anchors: Anchors,
): Promise<AuditReport> {
  const sealed = await sealedHead(db);
  const discrepancies: Discrepancy[] = [];
  let head: Head = { seq: 0, hash: GENESIS };
  let sealedAt = 0;
  let verified = 0;
  let signedSeq = 0;
  for (;;) {
    const seals = await read(db, ({ select }) =>
      select()
        .from(auditSeals)
        .where(gt(auditSeals.auditSeq, head.seq))
        .orderBy(auditSeals.auditSeq)
        .limit(VERIFIED_PAGE),
    );
    const last = seals.at(-1);
    if (last === undefined) break;
    const events = await rowsAfter(db, head.seq, VERIFIED_PAGE);
    const rows = new Map(events.map((row) => [row.auditSeq, row]));
    const outside = new Map(
      (await anchors.between(head.seq + 1, last.auditSeq)).map((anchor) => [anchor.seq, anchor]),
    );
    for (const seal of seals) {
      const { auditSeq, hash } = seal;
      for (let seq = head.seq + 1; seq < auditSeq; seq++)
        discrepancies.push({ auditSeq: seq, kind: "missing" });
      const row = rows.get(auditSeq);
      const kind = wrongIn(settings, seal, { row, previous: head.hash });
      if (kind === undefined) verified++;
      else discrepancies.push({ auditSeq, kind });
      if (await isSigned(settings, seal)) signedSeq = auditSeq;
      else if (seal.signature !== null) discrepancies.push({ auditSeq, kind: "unsigned" });
      const anchor = outside.get(auditSeq);
      // Anyone who can write to the bucket can put a head there. Only signed ones count.
      if (anchor !== undefined && anchor.hash !== hash && (await headVerifies(settings, anchor)))
        discrepancies.push({ auditSeq, kind: "anchor" });
      // Continue from the stored link, so that one changed row is one discrepancy.
      head = { seq: auditSeq, hash };
    }
    sealedAt = last.sealedAt;
  }
  // Each sealing ends with a signature, so what follows the last one was written by somebody else.
  if (signedSeq < head.seq) discrepancies.push({ auditSeq: signedSeq + 1, kind: "unsigned" });
  const { newest } = anchors;
  if (newest !== null && newest.seq > head.seq && (await headVerifies(settings, newest)))
    discrepancies.push({ auditSeq: head.seq + 1, kind: "truncated" });
  const tail = await checkUnsealed(db, settings, sealed.seq);
  discrepancies.push(...tail.discrepancies);
  const verdict =
    discrepancies.length > 0
      ? "forged"
      : head.seq > 0 && (newest === null || sealedAt - newest.at > ANCHOR_LATE_MS)
        ? "anchor_missing"
        : "ok";
  const ok = verdict === "ok";
  const anchor = newest && { seq: newest.seq, at: toWireTime(newest.at) };
  return { ok, verdict, verified, unsealed: tail.unsealed, head, anchor, discrepancies };
}

function isSigned(
  settings: Config,
  seal: typeof auditSeals.$inferSelect,
): Promise<boolean> | false {
  const { auditSeq: seq, hash, keyId, signature } = seal;
  if (keyId === null || signature === null) return false;
  return headVerifies(settings, { seq, hash, keyId, signature });
}

/** What is wrong with a sealed row, if anything is. */
function wrongIn(
  settings: Config,
  { hash }: Pick<Head, "hash">,
  { row, previous }: { row: Row | undefined; previous: string },
): Discrepancy["kind"] | undefined {
  if (row === undefined) return "missing";
  if (linkOf(previous, row) !== hash) return "changed";
  return isAuthentic(settings, row) ? undefined : "forged";
}

/** Whether the service wrote the event, as far as a MAC says so. Some kinds have none. */
function isAuthentic(settings: Config, row: Row): boolean {
  return !needsMac(row) || isGenuine(settings, { ...row, id: row.auditEventId });
}

/**
 * Unsealed rows are numbered without gaps. A gap shows that a row was deleted before it was sealed.
 */
async function checkUnsealed(
  db: D1Database,
  settings: Config,
  sealedSeq: number,
): Promise<{ unsealed: number; discrepancies: Discrepancy[] }> {
  const discrepancies: Discrepancy[] = [];
  let [unsealed, last] = [0, sealedSeq];
  for (;;) {
    const rows = await rowsAfter(db, last, VERIFIED_PAGE);
    for (const row of rows)
      if (!isAuthentic(settings, row))
        discrepancies.push({ auditSeq: row.auditSeq, kind: "forged" });
    unsealed += rows.length;
    last = rows.at(-1)?.auditSeq ?? last;
    if (rows.length < VERIFIED_PAGE) break;
  }
  if (last - sealedSeq !== unsealed)
    discrepancies.push({ auditSeq: sealedSeq + 1, kind: "missing" });
  return { unsealed, discrepancies };
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

function rowsAfter(db: D1Database, seq: number, limit: number): Promise<Row[]> {
  return read(db, ({ select }) =>
    select()
      .from(auditEvents)
      .where(gt(auditEvents.auditSeq, seq))
      .orderBy(auditEvents.auditSeq)
      .limit(limit),
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
    row.mac,
    row.at,
  ]);
  return `0x${createHash("sha256").update(previous).update(text).digest("hex")}`;
}
