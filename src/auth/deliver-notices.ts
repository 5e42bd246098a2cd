/** Delivers account notices in the order of the audit log to NOTICE_URL, which sends mail. */
import type { Config } from "../platform/config.ts";
import { all, select, sql } from "../platform/sql.ts";
import { now, toWireTime } from "../platform/time.ts";
import { deliverLog, type LogPage } from "../outbound/deliver-log.ts";
import { signedHeaders } from "../outbound/sign.ts";
import { genuineEvents, LOGGED_EVENT, type LoggedEvent } from "../audit/audit.ts";
import { isNotice } from "../audit/event-kinds.ts";
import { cancelToken } from "./change-email.ts";

/** Audit events of one page. Most are no notices. */
export const NOTICE_PAGE = 200;
/** How long a replaced address gets notices, too. */
const OLD_ADDRESS_MS = 30 * 86_400_000;

type Row = LoggedEvent & { readonly email: string | null };

/** Cron task. Without NOTICE_URL it does nothing. */
export function deliverNotices(db: D1Database, settings: Config): Promise<boolean> {
  return deliverLog(db, {
    name: "notices",
    url: settings.NOTICE_URL,
    start: sql`SELECT coalesce(max(audit_seq), 0) FROM audit_events`,
    read: (after) => readPage(db, settings, after),
    late: "notices_late",
  });
}

/** Numbers are given in the order of commits, so no event appears below the cursor later. */
async function readPage(db: D1Database, settings: Config, after: number): Promise<LogPage> {
  const rows = await all<Row>(
    db,
    sql`SELECT ${select(LOGGED_EVENT)}, u.email
      FROM audit_events a LEFT JOIN users u ON u.user_id = a.user_id
      WHERE a.audit_seq > ${after} ORDER BY a.audit_seq LIMIT ${NOTICE_PAGE}`,
  );
  const notices = rows.filter(({ kind }) => isNotice(kind));
  const changes = notices.length === 0 ? new Map() : await readChanges(db, settings, notices);
  return {
    messages: notices.map((row) => ({
      position: row.seq,
      post: postOf(settings, row, changes.get(row.userId) ?? []),
    })),
    through: rows.at(-1)?.seq ?? after,
    more: rows.length === NOTICE_PAGE,
  };
}

type Change = { readonly seq: number; readonly at: number; readonly from: string };

/** The genuine changes of addresses of these users, oldest first. */
async function readChanges(
  db: D1Database,
  settings: Config,
  rows: readonly Row[],
): Promise<ReadonlyMap<string | null, readonly Change[]>> {
  const subjects = [...new Set(rows.flatMap(({ userId }) => userId ?? []))];
  const events = await genuineEvents(db, settings, { kind: "email_changed", subjects });
  const changes = events.map(({ seq, at, subjectId, details }) => {
    // Safe cast: the MAC shows that the service wrote it.
    const { from } = JSON.parse(details ?? "") as { from: string };
    return { seq, at, subjectId, from };
  });
  return Map.groupBy(changes, ({ subjectId }) => subjectId);
}

/** The address before the event, and those of the 30 days before: a new one may be a thief's. */
function addressesOf(row: Row, changes: readonly Change[]) {
  const next = changes.find(({ seq }) => seq >= row.seq);
  const old = changes
    .filter(({ seq, at }) => seq < row.seq && at > row.at - OLD_ADDRESS_MS)
    .map(({ from }) => from);
  return { email: next?.from ?? row.email, old_emails: [...new Set(old)] };
}

function postOf(settings: Config, row: Row, changes: readonly Change[]) {
  const { id, kind, actor, ip } = row;
  const cancel = kind === "email_change_requested" && { cancel_token: cancelToken(settings, id) };
  const body = JSON.stringify({
    type: "account.notice",
    timestamp: toWireTime(row.at),
    deployment: settings.DEPLOYMENT,
    data: {
      audit_event_id: id,
      kind,
      actor,
      user_id: row.userId,
      ...addressesOf(row, changes),
      subject_id: row.subjectId,
      api_key_id: row.apiKeyId,
      ip,
      ...cancel,
    },
  });
  const headers = signedHeaders(settings.NOTICE_SECRETS, { id, at: now(), body });
  return { to: "NOTICE_URL", url: settings.NOTICE_URL, headers, body };
}
