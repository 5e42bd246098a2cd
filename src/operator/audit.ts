import { and, desc, eq, isNull } from "drizzle-orm";
import { type AuditRecord, auditRow, type PlainKind } from "../auth/audit.ts";
import { commitOrThrow, type Group, newGroup } from "../platform/commit.ts";
import { type Sql, sql } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import { type OperatorContext, limitOption } from "./context.ts";
import { alerts } from "../platform/tables.ts";
import { read } from "../platform/read.ts";
import { auditEvents } from "../auth/tables.ts";

/**
 * Writes the audit event of a command, in one batch with `effects`. If the effects need several
 * batches, the caller writes the event first.
 */
export async function recordCommand(
  context: OperatorContext,
  kind: PlainKind,
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
  audited: { kind: PlainKind; reason: string },
): Promise<string[]> {
  const found = await read(context.env.DB, ({ select }) =>
    select({ subject: alerts.subject })
      .from(alerts)
      .where(and(eq(alerts.kind, kind), isNull(alerts.resolvedAt))),
  );
  if (found.length > 0) {
    await recordCommand(context, audited.kind, audited.reason, (group) => [
      sql`UPDATE alerts SET resolved_at = ${group.at}
        WHERE kind = ${kind} AND resolved_at IS NULL`,
    ]);
  }
  return found.map(({ subject }) => subject);
}

/** Lists the newest audit events of all users. */
export async function listAudit(context: OperatorContext): Promise<unknown> {
  const rows = await read(context.env.DB, ({ select }) =>
    select().from(auditEvents).orderBy(desc(auditEvents.auditSeq)).limit(limitOption(context)),
  );
  return rows.map((row) => ({
    audit_seq: row.auditSeq,
    audit_event_id: row.auditEventId,
    kind: row.kind,
    actor: row.actor,
    user_id: row.userId,
    subject_id: row.subjectId,
    ip: row.ip,
    created_at: toWireTime(row.at),
  }));
}
