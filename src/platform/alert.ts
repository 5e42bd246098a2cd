/**
 * Alerts: rows that stay open until they are resolved, with a line in the log when raised. Triggers
 * note both for the pagers (`alerts_raised`, `alerts_resolved`).
 */
import type { AlertKind } from "./alert-kinds.ts";
import { NOW } from "./commit.ts";
import { log } from "./log.ts";
import { all, type Sql, sql, TRUE } from "./sql.ts";

/** Raises the alert unless it is open. `when` and `detail` may read the batch's rows. */
export function alertRow(
  { at }: { readonly at: Sql },
  kind: AlertKind,
  subject: string | Sql,
  detail: string | Sql,
  when: Sql = TRUE,
): Sql {
  return sql`INSERT INTO alerts (kind, subject, detail, at)
    SELECT ${kind}, ${subject}, ${detail}, ${at}
    WHERE ${when} AND NOT EXISTS (
      SELECT 1 FROM alerts
      WHERE kind = ${kind} AND subject = ${subject} AND resolved_at IS NULL)`;
}

/** Raises an alert for each row of `source` (`subject`, `detail`) unless it is open. */
export function alertRows({ at }: { readonly at: Sql }, kind: AlertKind, source: Sql): Sql {
  return sql`INSERT INTO alerts (kind, subject, detail, at)
    SELECT ${kind}, n.subject, n.detail, ${at} FROM (${source}) n
    WHERE NOT EXISTS (SELECT 1 FROM alerts a
      WHERE a.kind = ${kind} AND a.subject = n.subject AND a.resolved_at IS NULL)`;
}

/** Resolves the alert if it is open. */
export function closedAlert(
  { at }: { readonly at: Sql },
  kind: AlertKind,
  subject: string | Sql,
  when: Sql = TRUE,
): Sql {
  return sql`UPDATE alerts SET resolved_at = ${at} WHERE kind = ${kind}
    AND subject = ${subject} AND resolved_at IS NULL AND ${when}`;
}

/** Raises an alert in a commit of its own, for an observation that changes no record. */
export async function raiseAlert(
  db: D1Database,
  kind: AlertKind,
  subject: string,
  detail: string,
  when: Sql = TRUE,
): Promise<void> {
  const raised = await all(
    db,
    sql`${alertRow({ at: NOW }, kind, subject, detail, when)} RETURNING alert_id`,
  );
  if (raised.length > 0) log("error", `alert.${kind}`, { subject, detail });
}

/** Raises the alert while there is something to say, and resolves it when there is not. */
export function alertWhile(
  db: D1Database,
  kind: AlertKind,
  subject: string,
  detail: string | undefined,
): Promise<void> {
  return detail === undefined
    ? clearAlert(db, kind, subject)
    : raiseAlert(db, kind, subject, detail);
}

/** Resolves an alert whose cause no longer exists. */
export async function clearAlert(db: D1Database, kind: AlertKind, subject: string): Promise<void> {
  await all(db, closedAlert({ at: NOW }, kind, subject));
}
