/**
 * The audit chain. The link of a row is SHA-256 over the previous link and the row. Cron seals the
 * rows in order, because writers would race for the head of the chain. The last link of each
 * sealing is signed, so that nobody without a key of AUDIT_KEYS can write another chain. The head
 * also goes to the log and to R2 (anchor.ts), which show if rows were deleted from its end.
 */
import { createHash } from "node:crypto";
import { commit, newGroup } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { log } from "../platform/log.ts";
import { all, type RowOf, select, type Sql, sql, typed } from "../platform/sql.ts";
import { type LoggedEvent, readAuditEvents } from "./audit.ts";
import { valuesOf } from "./event-mac.ts";
import { signHead } from "./signing-keys.ts";

/** Rows that one batch seals. */
const PAGE = 500;
/** Maximum number of rows that one call seals. The next call continues. */
const MAX_ROWS_PER_CALL = 10_000;
export const AUDIT_GENESIS = `0x${"00".repeat(32)}`;

export type Head = { readonly seq: number; readonly hash: string };

/** The link of each event. The last one of each sealing has a signature. */
const SEAL = {
  seq: typed<number>("audit_seq"),
  hash: typed<string>("'0x' || lower(hex(hash))"),
  keyId: typed<string | null>("key_id"),
  signature: typed<string | null>("signature"),
  sealedAt: typed<number>("sealed_at"),
};
export type AuditSeal = RowOf<typeof SEAL>;

/** The seals that `rest`, the clauses after FROM, selects. */
export function readAuditSeals(db: D1Database, rest: Sql): Promise<AuditSeal[]> {
  return all(db, sql`SELECT ${select(SEAL)} FROM audit_seals ${rest}`);
}

/** Seals new rows. Of concurrent calls, only one that continues the stored head inserts. */
export async function sealAudit(db: D1Database, settings: Config): Promise<Head> {
  const start = await sealedHead(db);
  let head = start;
  while (head.seq < start.seq + MAX_ROWS_PER_CALL) {
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
  }
  if (head !== start) log("info", "audit_head", { audit_seq: head.seq, hash: head.hash });
  return head;
}

async function sealedHead(db: D1Database): Promise<Head> {
  const [head] = await readAuditSeals(db, sql`ORDER BY audit_seq DESC LIMIT 1`);
  return head ?? { seq: 0, hash: AUDIT_GENESIS };
}

export function eventsAfter(db: D1Database, after: number, limit: number): Promise<LoggedEvent[]> {
  return readAuditEvents(db, sql`WHERE a.audit_seq > ${after} ORDER BY a.audit_seq LIMIT ${limit}`);
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
  const text = JSON.stringify([row.seq, ...valuesOf(row), row.mac, row.at]);
  return `0x${createHash("sha256").update(previous).update(text).digest("hex")}`;
}
