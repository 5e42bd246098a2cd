/**
 * Delivers account notices to NOTICE_URL, from which the deployment sends mail. Cron reads on in
 * the audit log from a cursor, so no action waits for the receiver. A notice may arrive twice,
 * because the cursor moves after the receiver has accepted it.
 */
import { createHash } from "node:crypto";
import { clearAlert, raiseAlert } from "../platform/alert.ts";
import { NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { errorFields, log } from "../platform/log.ts";
import { all, first, select, type Sql, sql } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import { EVENT_CONTENT, isNoticeKind, uuidTextOf } from "../audit/audit.ts";
import { signText } from "../audit/signing-keys.ts";
import { cancelToken } from "./change-email.ts";
import { type EventContent, isGenuine } from "../audit/event-mac.ts";

/** Audit events of one page, and so the most notices in one call. */
export const NOTICE_PAGE = 200;
/** Of one minute. Most events are no notices, and their pages take no call. */
const MAX_PAGES = 20;
/** Cron gives a task 25 s. */
const MAX_PAGES_MS = 12_000;
const CALL_TIMEOUT_MS = 10_000;
/** Older notices are not delivered any more. Their events stay in the audit log. */
const RETRY_MS = 86_400_000;
const LATE_MS = 15 * 60_000;
/** How long a replaced address gets notices, too. */
const OLD_ADDRESS_MS = 30 * 86_400_000;

type Row = {
  readonly audit_seq: number;
  readonly audit_event_id: string;
  readonly kind: string;
  readonly actor: string;
  readonly user_id: string | null;
  readonly email: string | null;
  readonly subject_id: string | null;
  readonly api_key_id: string | null;
  readonly ip: string | null;
  readonly at: number;
  /** D1's clock. */
  readonly now: number;
};

/** Cron task. Without NOTICE_URL it does nothing. */
export async function deliverNotices(
  db: D1Database,
  settings: Config,
  call: typeof fetch = fetch,
): Promise<void> {
  if (settings.NOTICE_URL === "") return;
  const began = Date.now();
  for (let page = 0; page < MAX_PAGES && Date.now() - began < MAX_PAGES_MS; page++) {
    const after = await readCursor(db);
    const rows = await readPage(db, after);
    const last = rows.at(-1);
    if (last === undefined) return;
    const notices = rows.filter(({ kind, at, now }) => isNoticeKind(kind) && at > now - RETRY_MS);
    if (notices.length > 0) {
      if (!(await post(db, settings, notices, call))) return alertIfLate(db, notices);
      await clearAlert(db, "notices_late", "notices");
    }
    await moveCursor(db, after, last.audit_seq);
    if (rows.length < NOTICE_PAGE) return;
  }
}

/** At the first call: the newest event, so that a new receiver does not get the whole history. */
async function readCursor(db: D1Database): Promise<number> {
  const newest = sql`SELECT 1, coalesce(max(audit_seq), 0) FROM audit_events`;
  await all(
    db,
    sql`INSERT INTO notice_cursor (one, audit_seq) ${newest} WHERE 1 ON CONFLICT (one) DO NOTHING`,
  );
  const row = await first<{ seq: number }>(db, sql`SELECT audit_seq AS seq FROM notice_cursor`);
  if (row === undefined) throw new Error("the cursor of the notices is missing");
  return row.seq;
}

/** Only from where it was read: a pass that overlaps with another one does not move it back. */
async function moveCursor(db: D1Database, from: number, to: number): Promise<void> {
  await all(
    db,
    sql`UPDATE notice_cursor SET audit_seq = ${to} WHERE one = 1 AND audit_seq = ${from}`,
  );
}

/** Numbers are given in the order of commits, so no event appears below the cursor later. */
function readPage(db: D1Database, after: number): Promise<Row[]> {
  const page: Sql = sql`SELECT a.audit_seq, ${uuidTextOf("a.audit_event_id")} AS audit_event_id,
      a.kind, a.actor, ${uuidTextOf("a.user_id")} AS user_id, u.email, a.subject_id,
      ${uuidTextOf("a.api_key_id")} AS api_key_id, a.ip, a.at, ${NOW} AS now
    FROM audit_events a LEFT JOIN users u ON u.user_id = a.user_id
    WHERE a.audit_seq > ${after} ORDER BY a.audit_seq LIMIT ${NOTICE_PAGE}`;
  return all<Row>(db, page);
}

type Change = { readonly seq: number; readonly at: number; readonly from: string };

/** The genuine changes of addresses of these users, oldest first. */
async function readChanges(
  db: D1Database,
  settings: Config,
  rows: readonly Row[],
): Promise<ReadonlyMap<string | null, readonly Change[]>> {
  const users = JSON.stringify([...new Set(rows.map((row) => row.user_id))]);
  const events = await all<EventContent & { mac: string | null; seq: number; at: number }>(
    db,
    sql`SELECT ${select(EVENT_CONTENT)}, a.audit_seq AS seq, a.at
      FROM audit_events a INDEXED BY audit_events_rights
      WHERE a.subject_id IN (SELECT value FROM json_each(${users}))
        AND a.kind = 'email_changed' AND a.details IS NOT NULL ORDER BY a.audit_seq`,
  );
  const changes = events
    .filter((event) => isGenuine(settings, event))
    // Safe cast: the MAC shows that the service wrote it.
    .map((event) => ({ ...event, ...(JSON.parse(event.details ?? "") as { from: string }) }));
  return Map.groupBy(changes, ({ subjectId }) => subjectId);
}

/**
 * The address as it was before the event, and those that were replaced in the 30 days before it: a
 * new one may be a thief's.
 */
function addressesOf(row: Row, changes: readonly Change[]) {
  const next = changes.find(({ seq }) => seq >= row.audit_seq);
  const old = changes
    .filter(({ seq, at }) => seq < row.audit_seq && at > row.at - OLD_ADDRESS_MS)
    .map(({ from }) => from);
  return { email: next?.from ?? row.email, old_emails: [...new Set(old)] };
}

/** Whether the receiver accepted the notices. */
async function post(
  db: D1Database,
  settings: Config,
  rows: readonly Row[],
  call: typeof fetch,
): Promise<boolean> {
  const changes = await readChanges(db, settings, rows);
  const notices = rows.map((row) => ({
    audit_event_id: row.audit_event_id,
    kind: row.kind,
    actor: row.actor,
    user_id: row.user_id,
    ...addressesOf(row, changes.get(row.user_id) ?? []),
    subject_id: row.subject_id,
    api_key_id: row.api_key_id,
    ip: row.ip,
    created_at: toWireTime(row.at),
    ...(row.kind === "email_change_requested" && {
      cancel_token: cancelToken(settings, row.audit_event_id),
    }),
  }));
  const body = JSON.stringify({ deployment: settings.DEPLOYMENT, notices });
  const sha256 = createHash("sha256").update(body).digest("hex");
  const text = ["rfq-custody-notices-v1", settings.DEPLOYMENT, sha256].join("\n");
  const { keyId, signature } = await signText(settings, text);
  try {
    const response = await call(settings.NOTICE_URL, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "x-notice-key-id": keyId,
        "x-notice-signature": signature,
      },
      body,
      redirect: "manual",
      signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
    });
    await response.body?.cancel();
    if (response.ok) return true;
    log("warn", "notices_failed", { status: response.status });
  } catch (error) {
    log("warn", "notices_failed", errorFields(error));
  }
  return false;
}

async function alertIfLate(db: D1Database, [oldest]: readonly Row[]): Promise<void> {
  if (oldest === undefined || oldest.at > oldest.now - LATE_MS) return;
  await raiseAlert(db, "notices_late", "notices", "NOTICE_URL does not accept account notices");
}
