/**
 * A new email address and password for a user who lost both, which two operators have ordered.
 * Everything waits for AUTH_SECURITY_DELAY_SECS: until then password, sessions and keys of the
 * owner work, so a freeze or the token of the notice cancels a change that the owner did not ask
 * for.
 *
 * The event of the request decides, because it has a MAC and the row has none: an edited or revived
 * row changes nothing. The token is a MAC over the event's id, so it is stored nowhere.
 */
import type { Config } from "../platform/config.ts";
import { NOW } from "../platform/commit.ts";
import { problem } from "../platform/problem.ts";
import {
  all,
  type Expr,
  expr,
  first,
  listed,
  readUuid,
  scalar,
  select,
  sql,
  uuid,
} from "../platform/sql.ts";
import {
  commitAudited,
  detailed,
  LOGGED_EVENT,
  type LoggedEvent,
  recordBy,
} from "../audit/audit.ts";
import { isGenuine, isMacOf, type MacKeys, macOf } from "../audit/event-mac.ts";
import { holdMsOf } from "./hold.ts";
import { type EmailChange, passwordSha256 } from "../audit/event-details.ts";
import { normalizeEmail } from "./user.ts";

export type NewEmail = {
  readonly userId: string;
  readonly operator: string;
  readonly keepKeys: boolean;
  readonly email: string;
  readonly passwordHash: string;
};

/** Condition: another user has the address, or will have it. */
function emailTaken(email: string, userId: string): Expr {
  const other = sql`email = ${email} AND user_id <> ${uuid(userId)}`;
  return expr`EXISTS (SELECT 1 FROM users WHERE ${other})
    OR EXISTS (SELECT 1 FROM email_changes WHERE ${other})`;
}

/** Returns when the change takes effect. Throws `email_taken`. */
export async function requestEmailChange(
  db: D1Database,
  settings: Config,
  request: NewEmail,
): Promise<number> {
  const { userId, passwordHash, keepKeys } = request;
  const to = normalizeEmail(request.email);
  const mine = sql`user_id = ${uuid(userId)}`;
  const user = await first<{ email: string; now: number }>(
    db,
    sql`SELECT email, ${NOW} AS now FROM users WHERE ${mine}`,
  );
  if (user === undefined) throw new Error(`user ${userId} was just found`);
  const activeFrom = user.now + holdMsOf(settings);
  const by = `operator:${request.operator}` as const;
  const record = recordBy(by, "email_change_requested", { userId });
  const applied = await commitAudited(db, {
    record: detailed(settings, record, {
      from: user.email,
      to,
      passwordSha256: passwordSha256(passwordHash),
      keepKeys,
      activeFrom,
    }),
    when: () => sql`EXISTS (SELECT 1 FROM users WHERE ${mine} AND email = ${user.email})
      AND NOT ${emailTaken(to, userId)}`,
    statements: (_, written) => [
      sql`DELETE FROM email_changes WHERE ${mine} AND ${written}`,
      sql`INSERT INTO email_changes (user_id, audit_event_id, email, password_hash, active_from)
        SELECT user_id, audit_event_id, ${to}, ${passwordHash}, ${activeFrom} FROM audit_events
        WHERE audit_seq = (SELECT max(audit_seq) FROM audit_events
            WHERE ${mine} AND kind = 'email_change_requested') AND ${written}`,
    ],
  });
  if (!applied) throw problem("email_taken", "Another user has this email address.");
  return activeFrom;
}

export type DueEmailChange = EmailChange & {
  readonly userId: string;
  readonly operator: string;
  readonly passwordHash: string;
  readonly eventId: string;
};

/** Changes applied in one minute. There are few. */
const MAX_DUE = 20;

/** Changes whose instant has passed, as their events say. */
export async function dueEmailChanges(db: D1Database, keys: MacKeys): Promise<DueEmailChange[]> {
  const rows = await all<LoggedEvent & { user: string; email: string; passwordHash: string }>(
    db,
    sql`SELECT ${select(LOGGED_EVENT)}, hex(c.user_id) AS user, c.email,
        c.password_hash AS passwordHash
      FROM email_changes c JOIN audit_events a ON a.audit_event_id = c.audit_event_id
      WHERE c.active_from <= ${NOW} ORDER BY c.active_from LIMIT ${MAX_DUE}`,
  );
  return rows.flatMap(({ user, email, passwordHash, ...event }) => {
    if (event.kind !== "email_change_requested" || !isGenuine(keys, event)) return [];
    // Safe cast: the MAC shows that `requestEmailChange` wrote it.
    const change = JSON.parse(event.details ?? "") as EmailChange;
    const same =
      event.subjectId === readUuid(user) &&
      change.to === email &&
      change.passwordSha256 === passwordSha256(passwordHash);
    const operator = event.actor.replace(/^operator:/, "");
    return same
      ? [{ ...change, userId: readUuid(user), operator, passwordHash, eventId: event.id }]
      : [];
  });
}

/** Kinds of events that `cancelWaiting` goes with. They cancel a row that SQL put back, too. */
const CANCEL_KINDS = [
  "account_frozen",
  "password_set",
  "totp_reset",
  "security_hold",
  "totp_replacement_requested",
];

/** Guard condition: the change waits, its instant has passed, and no event has cancelled it. */
export function mayApplyEmailChange(
  { userId, eventId, activeFrom, from, to }: DueEmailChange,
  at: Expr,
): Expr {
  const kinds = listed([...CANCEL_KINDS, "email_change_cancelled", "email_changed"]);
  return expr`${activeFrom} <= ${at}
    AND EXISTS (SELECT 1 FROM users WHERE user_id = ${uuid(userId)} AND email = ${from})
    AND EXISTS (SELECT 1 FROM email_changes c JOIN audit_events a USING (audit_event_id)
      WHERE c.user_id = ${uuid(userId)} AND c.audit_event_id = ${uuid(eventId)}
        AND NOT EXISTS (SELECT 1 FROM audit_events e INDEXED BY audit_events_user
          WHERE e.user_id = c.user_id AND e.audit_seq > a.audit_seq AND e.kind IN (${kinds})))
    AND NOT ${emailTaken(to, userId)}`;
}

/** What cancels the change of this event, for its notice. */
export function cancelToken(keys: MacKeys, auditEventId: string): string {
  return `${auditEventId}.${macOf(keys, "cancel token v1", [auditEventId])}`;
}

/** `<audit event id>.<key id>.<MAC>`, as `cancelToken` makes it. */
export const CANCEL_TOKEN = /^[0-9a-f-]{36}\.[\w-]{1,64}\.[\w-]{43}$/;

/** Cancels the change of the token. Null: no such change waits. */
export async function cancelEmailChange(
  db: D1Database,
  settings: Config,
  { token, clientIp }: { token: string; clientIp: string | undefined },
): Promise<string | null> {
  const eventId = token.slice(0, 36);
  const mac = token.slice(37);
  if (!isMacOf(settings, "cancel token v1", { values: [eventId], mac })) return null;
  const waiting = sql`FROM email_changes WHERE audit_event_id = ${uuid(eventId)}`;
  const user = await scalar<string | null>(db, expr`SELECT hex(user_id) ${waiting}`);
  if (user === null) return null;
  const userId = readUuid(user);
  const record = recordBy("unknown", "email_change_cancelled", { userId, ip: clientIp });
  const applied = await commitAudited(db, {
    record,
    when: () => sql`EXISTS (SELECT 1 ${waiting})`,
    statements: (_, written) => [sql`DELETE ${waiting} AND ${written}`],
  });
  return applied ? userId : null;
}
