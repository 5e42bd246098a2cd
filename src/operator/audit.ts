import { type AuditRecord, auditRow } from "../auth/audit.ts";
import { commitOrThrow, type Group, newGroup } from "../platform/commit.ts";
import { all, readUuid, type Sql, sql } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import { type OperatorContext, limitOption } from "./context.ts";

/**
 * Writes the audit event of a command, in one batch with `effects`. If the effects need several
 * batches, the caller writes the event first.
 */
export async function recordCommand(
  context: OperatorContext,
  kind: AuditRecord["kind"],
  subjectId: string | null,
  effects: (group: Group) => Sql[] = () => [],
): Promise<void> {
  const group = newGroup();
  const record: AuditRecord = {
    kind,
    actor: `operator:${context.operator}`,
    userId: null,
    apiKeyId: null,
    ip: null,
    subjectId,
  };
  await commitOrThrow(context.env.DB, group, [
    auditRow(record, group.at, sql`1`),
    ...effects(group),
  ]);
}

/** Closes the open alerts of a kind in one batch with the audit row. Returns their subjects. */
export async function closeAlerts(
  context: OperatorContext,
  kind: string,
  audited: { kind: AuditRecord["kind"]; reason: string },
): Promise<string[]> {
  const open = sql`kind = ${kind} AND resolved_at IS NULL`;
  const alerts = await all<{ subject: string }>(
    context.env.DB,
    sql`SELECT subject FROM alerts WHERE ${open}`,
  );
  if (alerts.length > 0) {
    await recordCommand(context, audited.kind, audited.reason, (group) => [
      sql`UPDATE alerts SET resolved_at = ${group.at} WHERE ${open}`,
    ]);
  }
  return alerts.map(({ subject }) => subject);
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

/** Lists the newest audit events of all users. */
export async function listAudit(context: OperatorContext): Promise<unknown> {
  const rows = await all<Row>(
    context.env.DB,
    sql`SELECT audit_seq AS seq, hex(audit_event_id) AS id, kind, actor,
        iif(user_id IS NULL, NULL, hex(user_id)) AS user_id, subject_id, ip, at
      FROM audit_events ORDER BY audit_seq DESC LIMIT ${limitOption(context)}`,
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
