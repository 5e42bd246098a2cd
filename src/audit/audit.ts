/**
 * Audit rows, written in the same batch as the change that they record. In the verbs of auth, the
 * audit row is the guard of the operation: its INSERT contains the preconditions, and every other
 * statement depends on `audited(id)`.
 */
import * as z from "zod";
import { announce } from "../platform/announce.ts";
import { type EventForm, storedEvent } from "../platform/event-forms.ts";
import {
  all,
  atom,
  type Expr,
  expr,
  holds,
  listed,
  raw,
  type RowOf,
  select,
  type Sql,
  sql,
  TRUE,
  type Typed,
  typed,
  uuid,
} from "../platform/sql.ts";
import { fetchCount, type Page, pageFields, pageOf, type PageQuery } from "../http/cursor.ts";
import { described } from "../http/fields.ts";
import { toWireTime } from "../platform/time.ts";
import { uuidv7, uuidv7Sql } from "../platform/uuid.ts";
import { commitOrThrow, type Group, newGroup, RolledBack } from "../platform/commit.ts";
import { errorFields, log } from "../platform/log.ts";
import type { Actor, CheckedActor } from "../platform/actor.ts";
import { eventMac, isGenuine, type MacKeys } from "./event-mac.ts";
import { type Details, detailsOf, type Stored } from "./event-details.ts";
import {
  type AuditKind,
  type DetailedKind,
  kindsWith,
  type PlainKind,
  type StepUpKind,
} from "./event-kinds.ts";

/** Who caused the event. */
export type AuditActor =
  | "session"
  | "api_key"
  | "password"
  | "service"
  | "unknown"
  | `operator:${string}`;

type Common = {
  readonly actor: AuditActor;
  /** The user that the event concerns. get-audit-events shows it to them. */
  readonly userId: string | null;
  readonly apiKeyId: string | null;
  readonly ip: string | null;
  readonly subjectId: string | null;
};
export type AuditRecord = Common &
  (
    | { readonly kind: PlainKind; readonly details?: Details }
    | { readonly kind: DetailedKind; readonly details: Details }
  );

/**
 * The record of a change that `actor` makes to their own account. A change that takes step-up needs
 * the actor that `stepUp` returns, which the guard must contain, too.
 */
export function recordOf<Of extends AuditKind>(
  actor: Of extends StepUpKind ? CheckedActor : Actor,
  kind: Of,
  details: { ip: string | undefined; subjectId: string | null },
): Common & { readonly kind: Of } {
  const apiKeyId = actor.credential.kind === "api_key" ? actor.credential.apiKeyId : null;
  return {
    kind,
    actor: actor.credential.kind,
    userId: actor.userId,
    apiKeyId,
    ip: details.ip ?? null,
    subjectId: details.subjectId,
  };
}

/** What somebody did without a session or key of the user. By default, it is about the user. */
export function recordBy<Of extends AuditRecord["kind"]>(
  actor: AuditActor,
  kind: Of,
  about: {
    readonly userId?: string;
    readonly subjectId?: string | null;
    readonly ip?: string | undefined;
  },
): Common & { readonly kind: Of } {
  const { userId = null, subjectId = userId, ip = null } = about;
  return { kind, actor, userId, apiKeyId: null, ip, subjectId };
}

/** The record with what it orders or states. */
export function detailed<Of extends DetailedKind>(
  keys: MacKeys,
  record: Common & { readonly kind: Of },
  stored: Stored[Of],
): AuditRecord {
  return { ...record, details: detailsOf(keys, record.kind, stored) };
}

/** Inserts an audit row if `when` is true. Returns one row if it did. */
export function auditRow(record: AuditRecord, at: Sql, when: Sql, id: string = uuidv7()): Sql {
  const { kind, details: given } = record;
  const details = given?.json ?? null;
  const mac = given === undefined ? null : eventMac(given.keys, { ...record, id, details });
  return sql`INSERT INTO audit_events
      (audit_event_id, kind, actor, user_id, api_key_id, ip, subject_id, details, mac, at)
    SELECT ${uuid(id)}, ${kind}, ${record.actor}, ${optionalUuid(record.userId)},
      ${optionalUuid(record.apiKeyId)}, ${record.ip}, ${record.subjectId},
      ${details}, ${mac}, ${at}
    WHERE ${when} RETURNING 1 AS applied`;
}

/** Inserts a row of one kind for each row of `source` (`user_id`, `subject_id`). */
export function auditRows(
  { kind, actor, ip }: { kind: PlainKind; actor: AuditActor; ip: string | null },
  at: Expr,
  source: Sql,
): Sql {
  return sql`INSERT INTO audit_events
      (audit_event_id, kind, actor, user_id, ip, subject_id, at)
    SELECT ${uuidv7Sql(at)}, ${kind}, ${actor}, s.user_id, ${ip}, s.subject_id, ${at}
    FROM (${source}) s`;
}

/** Condition: the audit row exists, so the guard of the operation applied. */
export function audited(id: string): Expr {
  return expr`EXISTS (SELECT 1 FROM audit_events WHERE audit_event_id = ${uuid(id)})`;
}

export const NOTICE_GIVEN = {
  codes: { "account.notice": 22 },
  ids: {},
  values: ["kind", "subject_id", "api_key_id", "ip"],
} as const satisfies EventForm;

const NOTICES = kindsWith("notice")
  .map((kind) => `'${kind}'`)
  .join(", ");

/** The notices of all audit rows of the batch that began with this one, if its guard applied. */
function noticesSince(id: string): Sql {
  const notice = storedEvent(NOTICE_GIVEN, "account.notice", {
    kind: atom("a.kind"),
    subject_id: atom("a.subject_id"),
    api_key_id: uuidTextOf("a.api_key_id"),
    ip: atom("a.ip"),
  });
  return sql`SELECT a.user_id AS stream, ${notice}, a.audit_seq AS ord
    FROM audit_events a
    WHERE a.audit_seq >= (SELECT audit_seq FROM audit_events WHERE audit_event_id = ${uuid(id)})
      AND a.user_id IS NOT NULL AND a.kind IN (${raw(NOTICES)})`;
}

/** Columns of `audit_events a`: what the MAC covers, and what the database has added. */
export const LOGGED_EVENT = {
  id: uuidTextOf("a.audit_event_id"),
  kind: typed<string>("a.kind"),
  actor: typed<string>("a.actor"),
  userId: uuidTextOf<string | null>("a.user_id"),
  apiKeyId: uuidTextOf<string | null>("a.api_key_id"),
  ip: typed<string | null>("a.ip"),
  subjectId: typed<string | null>("a.subject_id"),
  details: typed<string | null>("a.details"),
  mac: typed<string | null>("a.mac"),
  seq: typed<number>("a.audit_seq"),
  at: typed<number>("a.at"),
};
export type LoggedEvent = RowOf<typeof LOGGED_EVENT>;

/** The events `a` that `rest`, the clauses after FROM, selects. */
export function readAuditEvents(db: D1Database, rest: Sql): Promise<LoggedEvent[]> {
  return all(db, sql`SELECT ${select(LOGGED_EVENT)} FROM audit_events a ${rest}`);
}

/** The events about these subjects that this service wrote, oldest first, of the first `most`. */
export async function genuineEvents(
  db: D1Database,
  keys: MacKeys,
  { kind, subjects, most = -1 }: { kind: DetailedKind; subjects: readonly string[]; most?: number },
): Promise<LoggedEvent[]> {
  const events = await readAuditEvents(
    db,
    sql`INDEXED BY audit_events_rights
      WHERE a.subject_id IN (${listed(subjects)})
        AND a.kind = ${kind} AND a.details IS NOT NULL ORDER BY a.audit_seq LIMIT ${most}`,
  );
  return events.filter((event) => isGenuine(keys, event));
}

/** SQL for a UUID in a BLOB column as text. NULL for NULL. */
export function uuidTextOf<Text extends string | null = string>(column: string): Typed<Text> {
  const h = `lower(hex(${column}))`;
  return atom(
    `iif(${column} IS NULL, NULL, substr(${h},1,8) || '-' || substr(${h},9,4) || '-'
      || substr(${h},13,4) || '-' || substr(${h},17,4) || '-' || substr(${h},21))`,
  );
}

/** Statements of a commit group that depend on `applied`, as those of rfq that end open quotes. */
export type Alongside = (group: Group, applied: Sql) => readonly Sql[];

type AuditedChange = {
  readonly record: AuditRecord;
  readonly when: (group: Group) => Sql;
  readonly statements: Alongside;
};

/**
 * Commits an operation whose guard is its audit row. Returns false if the guard did not apply. Then
 * nothing was written. Users get a notice of what changes who may act for them.
 *
 * If a constraint rolls the commit back, the change is committed without `alongside`, because what
 * cannot be ended must not prevent a freeze or a revocation.
 */
export async function commitAudited(
  db: D1Database,
  { alongside, ...change }: AuditedChange & { readonly alongside?: Alongside | undefined },
): Promise<boolean> {
  if (alongside === undefined) return commitChange(db, change);
  const { statements } = change;
  try {
    return await commitChange(db, {
      ...change,
      statements: (group, applied) => [...statements(group, applied), ...alongside(group, applied)],
    });
  } catch (error) {
    if (!(error instanceof RolledBack)) throw error;
    log("error", "audit.committed_alone", { kind: change.record.kind, ...errorFields(error) });
    return commitChange(db, change);
  }
}

const REPEAT_MS = 60_000;

/**
 * The statements of an event with its notice, for a batch that is not `commitAudited`: at most one
 * of its kind a minute for a credential, because the change is repeated at will.
 */
export function auditOncePerMinute(record: AuditRecord, group: Group, when: Sql): Sql[] {
  const id = uuidv7();
  const recent = sql`SELECT 1 FROM audit_events WHERE user_id = ${optionalUuid(record.userId)}
    AND kind = ${record.kind} AND api_key_id IS ${optionalUuid(record.apiKeyId)}
    AND at > ${group.at} - ${REPEAT_MS}`;
  return [
    auditRow(record, group.at, sql`${when} AND NOT EXISTS (${recent})`, id),
    ...announce(group, noticesSince(id)),
  ];
}

async function commitChange(db: D1Database, operation: AuditedChange): Promise<boolean> {
  const group = newGroup();
  const id = uuidv7();
  const rows = await commitOrThrow(db, group, [
    auditRow(operation.record, group.at, operation.when(group), id),
    ...operation.statements(group, audited(id)),
    ...(operation.record.userId === null ? [] : announce(group, noticesSince(id))),
  ]);
  if (rows !== null) return (rows[0]?.length ?? 0) > 0;
  // The group committed, but D1's response was lost. The row shows whether the guard applied.
  return holds(db, audited(id));
}

export function optionalUuid(id: string | null): Sql {
  return id === null ? sql`NULL` : uuid(id);
}

export const AuditEvent = z
  .object({
    audit_event_id: described(z.uuid(), "Id of the event"),
    kind: z.string().meta({
      description: "What happened. New kinds may be added.",
      examples: kindsWith("user"),
    }),
    actor: described(
      z.string(),
      "Who caused it: `session`, `api_key`, `password`, `service`, `unknown` or `operator:<name>`",
    ),
    api_key_id: described(z.uuid().nullable(), "Id of the API key that caused it, or null"),
    ip: described(z.string().nullable(), "IP address of the caller. Null for operators."),
    subject_id: described(
      z.string().nullable(),
      "Id of the record that it concerns, such as a user, an API key or a withdrawal",
    ),
    created_at: described(z.iso.datetime(), "When it happened"),
  })
  .meta({ id: "AuditEvent" });

/** A position is the user's own event. A number would show how many events others caused. */
export const auditPage = pageFields(z.tuple([z.uuid()]).transform(([id]) => id));

/** Lists the events that concern a user, newest first. */
export async function listAuditEvents(
  db: D1Database,
  userId: string,
  page: PageQuery<string>,
): Promise<Page<z.input<typeof AuditEvent>>> {
  const before = page.last_cursor?.position;
  // NULL, and so an empty page, if the event is not the user's.
  const isOlder =
    before === undefined
      ? TRUE
      : expr`a.audit_seq < (SELECT audit_seq FROM audit_events
          WHERE audit_event_id = ${uuid(before)} AND user_id = ${uuid(userId)})`;
  const rows = await readAuditEvents(
    db,
    sql`WHERE a.user_id = ${uuid(userId)} AND ${isOlder}
      ORDER BY a.audit_seq DESC LIMIT ${fetchCount(page)}`,
  );
  const toEvent = (row: LoggedEvent) => ({
    audit_event_id: row.id,
    kind: row.kind,
    actor: row.actor,
    api_key_id: row.apiKeyId,
    ip: row.ip,
    subject_id: row.subjectId,
    created_at: toWireTime(row.at),
  });
  return pageOf(page, rows, toEvent, (row) => [row.id]);
}
