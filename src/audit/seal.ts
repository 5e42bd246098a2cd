/**
 * The audit chain. The link of a row is SHA-256 over the previous link and the row. Cron seals the
 * rows in order, because writers would race for the head of the chain. The last link of each
 * sealing is signed, so that nobody without a key of AUDIT_KEYS can write another chain. The head
 * also goes to the log and to R2 (anchor.ts), which show if rows were deleted from its end.
 */
import { createHash } from "node:crypto";
import { desc, gt } from "drizzle-orm";
import { commit, newGroup } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { log } from "../platform/log.ts";
import { read } from "../platform/read.ts";
import { sql } from "../platform/sql.ts";
import type { LoggedEvent } from "./audit.ts";
import { signHead } from "./signing-keys.ts";
import { auditEvents, auditSeals } from "./tables.ts";

/** Rows that one batch seals. */
const PAGE = 500;
/** Maximum number of rows that one call seals. The next call continues. */
const MAX_ROWS_PER_CALL = 10_000;
export const GENESIS = `0x${"00".repeat(32)}`;

export type Head = { readonly seq: number; readonly hash: string };
export type Seal = Readonly<typeof auditSeals.$inferSelect>;

/**
 * Seals new rows, logs the head and returns it. Concurrent calls are safe, because a batch inserts
 * nothing unless it continues the stored head.
 */
export async function sealAudit(db: D1Database, settings: Config): Promise<Head> {
  let head = await sealedHead(db);
  const limit = head.seq + MAX_ROWS_PER_CALL;
  let added = false;
  while (head.seq < limit) {
    const rows = await eventsAfter(db, head.seq, PAGE);
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

async function sealedHead(db: D1Database): Promise<Head> {
  const [head] = await read(db, ({ select }) =>
    select().from(auditSeals).orderBy(desc(auditSeals.seq)).limit(1),
  );
  return head ?? { seq: 0, hash: GENESIS };
}

export function eventsAfter(db: D1Database, after: number, limit: number): Promise<LoggedEvent[]> {
  const { seq } = auditEvents;
  return read(db, ({ select }) =>
    select().from(auditEvents).where(gt(seq, after)).orderBy(seq).limit(limit),
  );
}

function chain(head: Head, rows: readonly LoggedEvent[]): Head[] {
  let previous = head.hash;
  return rows.map((row) => {
    previous = linkOf(previous, row);
    return { seq: row.seq, hash: previous };
  });
}

/** Hashes a JSON array, because its encoding is unambiguous for any text. */
export function linkOf(previous: string, row: LoggedEvent): string {
  const text = JSON.stringify([
    row.seq,
    row.id,
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
