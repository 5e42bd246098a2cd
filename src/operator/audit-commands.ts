import { auditRow, readAuditEvents, recordBy } from "../audit/audit.ts";
import type { PlainKind } from "../audit/event-kinds.ts";
import { sealAudit } from "../audit/seal.ts";
import { type AuditReport, verifyAudit } from "../audit/verify.ts";
import { commitOrThrow, type Group, newGroup } from "../platform/commit.ts";
import { all, and, type Expr, expr, type Sql, sql, TRUE, uuid } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import {
  actorOf,
  limitOption,
  type OperatorContext,
  optional,
  optionalInteger,
} from "./context.ts";
import { Listed, listedPage, sinceOption, userOption } from "./listed.ts";

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
  await commitOrThrow(context.env.DB, group, [
    auditRow(recordBy(actorOf(context), kind, { subjectId }), group.at, TRUE),
    ...effects(group),
  ]);
}

/** Closes the open alerts of a kind, or that about `subject`. Returns their subjects. */
export async function closeAlerts(
  context: OperatorContext,
  { kind, subject }: { readonly kind: string; readonly subject?: string },
  audited: { kind: PlainKind; reason: string },
): Promise<string[]> {
  const open = sql`kind = ${kind} AND subject = coalesce(${subject ?? null}, subject)
    AND resolved_at IS NULL`;
  const found = await all<{ subject: string }>(
    context.env.DB,
    sql`SELECT subject FROM alerts WHERE ${open}`,
  );
  if (found.length > 0) {
    await recordCommand(context, audited.kind, audited.reason, (group) => [
      sql`UPDATE alerts SET resolved_at = ${group.at} WHERE ${open}`,
    ]);
  }
  return found.map((alert) => alert.subject);
}

/** Many times a minute, so its events would fill every page. */
const CROWDING = "journal_sealed";
/** Events that one call searches. A page of rare ones may be short; its cursor continues. */
const MAX_SEARCHED = 20_000;
/** Events that one call verifies, a few seconds of work. */
const MAX_VERIFIED = 25_000;

/** Lists audit events of all users, newest first, without seals unless `--kind` names them. */
export async function listAudit(context: OperatorContext): Promise<unknown> {
  const kind = optional(context, "kind");
  const before = optionalInteger(context, "cursor") ?? Number.MAX_SAFE_INTEGER;
  const limit = limitOption(context);
  const db = context.env.DB;
  const [window] = await all<{ lowest: number | null; n: number }>(
    db,
    sql`SELECT min(audit_seq) AS lowest, count(*) AS n FROM (SELECT audit_seq FROM audit_events
      WHERE audit_seq < ${before} ORDER BY audit_seq DESC LIMIT ${MAX_SEARCHED})`,
  );
  const lowest = window?.lowest ?? 0;
  const subject = optional(context, "subject");
  const since = sinceOption(context);
  const userId = await userOption(context);
  const ofKind = kind === undefined ? expr`a.kind <> ${CROWDING}` : expr`a.kind = ${kind}`;
  const conditions: Expr[] = [expr`a.audit_seq < ${before}`, expr`a.audit_seq >= ${lowest}`];
  if (kind !== "all") conditions.push(ofKind);
  if (userId !== undefined) conditions.push(expr`a.user_id = ${uuid(userId)}`);
  if (subject !== undefined) conditions.push(expr`a.subject_id = ${subject}`);
  if (since !== undefined) conditions.push(expr`a.at >= ${since}`);
  const rows = await readAuditEvents(
    db,
    sql`WHERE ${and(conditions)} ORDER BY a.audit_seq DESC LIMIT ${limit}`,
  );
  const events = rows.map((row) => ({
    audit_seq: row.seq,
    created_at: toWireTime(row.at),
    audit_event_id: row.id,
    kind: row.kind,
    actor: row.actor,
    user_id: row.userId,
    subject_id: row.subjectId,
    ...lineOf(row.details),
    ip: row.ip,
  }));
  const rest = window?.n === MAX_SEARCHED ? lowest : null;
  const { next } = listedPage(context, rows, ({ seq }) => seq);
  return new Listed(events, next ?? (rest === null ? null : String(rest)));
}

/** What an operator ordered, with its options. */
function lineOf(details: string | null): { order?: string } {
  // Safe cast: `details` is JSON that this service wrote, and only a text is shown.
  const { line } = JSON.parse(details ?? "{}") as { line?: unknown };
  return typeof line === "string" ? { order: line } : {};
}

/** Verifies a part of the log. `next` of the result continues it, as `--continue`. */
export async function verifyLog(context: OperatorContext): Promise<AuditReport> {
  const { env, settings } = context;
  await sealAudit(env.DB, settings);
  return verifyAudit(env.DB, settings, {
    bucket: env.AUDIT,
    from: optional(context, "continue"),
    maxRows: MAX_VERIFIED,
    knownRestores: optionalInteger(context, "known-restores"),
  });
}
