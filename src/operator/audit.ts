import { type AuditRecord, auditRow } from "../auth/audit.ts";
import { commitOrThrow, newGroup } from "../platform/commit.ts";
import { all, readUuid, sql } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import { type Desk, limitOption } from "./desk.ts";

/** The audit event of a command that has no batch of its own to write it in; it is written before the command's work. */
export async function recordCommand(
  desk: Desk,
  kind: AuditRecord["kind"],
  subjectId: string | null,
  userId: string | null = null,
): Promise<void> {
  const group = newGroup();
  const record: AuditRecord = { kind, actor: `operator:${desk.operator}`, userId, apiKeyId: null, ip: null, subjectId };
  await commitOrThrow(desk.env.DB, group, [auditRow(record, group.at, sql`1`)]);
}

type Row = {
  seq: number;
  id: string;
  kind: string;
  actor: string;
  user_id: string | null;
  subject_id: string | null;
  ip: string | null;
  at: number;
};

/** The newest events, of everyone. */
export async function listAudit(desk: Desk): Promise<unknown> {
  const rows = await all<Row>(
    desk.env.DB,
    sql`SELECT audit_seq AS seq, hex(audit_event_id) AS id, kind, actor, iif(user_id IS NULL, NULL, hex(user_id)) AS user_id, subject_id, ip, at
      FROM audit_events ORDER BY audit_seq DESC LIMIT ${limitOption(desk)}`,
  );
  return rows.map((row) => ({
    audit_seq: row.seq,
    audit_event_id: readUuid(row.id),
    kind: row.kind,
    actor: row.actor,
    user_id: row.user_id === null ? null : readUuid(row.user_id),
    subject_id: row.subject_id,
    ip: row.ip,
    created_at: toWireTime(row.at),
  }));
}
