import { and, desc, eq, gte, isNull, lt } from "drizzle-orm";
import { REVIEWED_ALERTS, alertTermsOf } from "../platform/alert-kinds.ts";
import { raiseAlert } from "../platform/alert.ts";
import { commandText } from "../platform/command-text.ts";
import { closeAlerts } from "./audit-commands.ts";
import { read } from "../platform/read.ts";
import { all, sql } from "../platform/sql.ts";
import { alerts } from "../platform/tables.ts";
import { ageText, toWireTime, toWireTimeOrNull } from "../platform/time.ts";
import {
  badOption,
  flag,
  limitOption,
  type OperatorContext,
  option,
  optional,
  optionalInteger,
  textOption,
} from "./context.ts";
import { listedPage, sinceOption } from "./listed.ts";
import { OperatorRejection } from "./operator-rejection.ts";

type AlertRow = Record<"kind" | "subject" | "detail", string> & { at: number };

/** Open alerts, newest first, or with `--all` those that have closed, too. */
export async function list(context: OperatorContext): Promise<unknown> {
  const kind = optional(context, "kind");
  const since = sinceOption(context);
  const before = optionalInteger(context, "cursor");
  const conditions = [
    flag(context, "all") ? undefined : isNull(alerts.resolvedAt),
    kind === undefined ? undefined : eq(alerts.kind, kind),
    since === undefined ? undefined : gte(alerts.at, since),
    before === undefined ? undefined : lt(alerts.alertId, before),
  ];
  const rows = await read(context.env.DB, ({ select }) =>
    select()
      .from(alerts)
      .where(and(...conditions))
      .orderBy(desc(alerts.alertId))
      .limit(limitOption(context)),
  );
  return listedPage(
    context,
    rows,
    ({ alertId }) => alertId,
    (row) => ({
      kind: row.kind,
      subject: row.subject,
      age: ageText(row.at),
      at: toWireTime(row.at),
      closed_at: toWireTimeOrNull(row.resolvedAt),
      ...commandsOf(context, row),
      detail: row.detail,
    }),
  );
}

/** The commands that the alert names. */
function commandsOf(
  { settings }: OperatorContext,
  { kind, subject, detail }: Omit<AlertRow, "at">,
) {
  const terms = alertTermsOf(kind);
  const textOf = (words: readonly string[] | undefined) =>
    words === undefined ? null : commandText(settings, "operator", ...words);
  return { next: textOf(terms?.next(subject)), close: textOf(terms?.close?.(subject, detail)) };
}

export type ListedAlert = {
  readonly kind: string;
  readonly age: string;
  readonly detail: string;
  readonly next: string | null;
};

/** Open alerts of a chain or one of its withdrawals, that of the withdrawal first. */
export async function openAlertsAbout(
  context: OperatorContext,
  chain: string,
  withdrawalId: string,
): Promise<ListedAlert[]> {
  const rows = await all<AlertRow>(
    context.env.DB,
    sql`SELECT kind, subject, detail, at FROM alerts
      WHERE resolved_at IS NULL AND kind NOT LIKE 'deposit%' AND (subject = ${chain}
        OR instr(subject, ${withdrawalId}) > 0 OR substr(subject, 1, length(${chain}) + 1) = ${chain} || ':')
      ORDER BY instr(subject, ${withdrawalId}) DESC, alert_id`,
  );
  return rows.map((row) => {
    const { at, ...alert } = row;
    const commands = commandsOf(context, row);
    // The reader of the alert has already read the withdrawal.
    const isRead = commands.next?.includes(" withdrawals show ") === true;
    return { ...alert, age: ageText(at), next: isRead ? commands.close : commands.next };
  });
}

/** Raises an alert that means nothing, to see it arrive at ALERT_URL within a minute. */
export async function test({
  env,
  operator: subject,
  settings,
}: OperatorContext): Promise<unknown> {
  if (settings.ALERT_URL === "")
    throw new OperatorRejection("nobody_called", "ALERT_URL is not set, so nobody is called.");
  await raiseAlert(env.DB, "pager_test", subject, "An operator tests who is called.");
  return { kind: "pager_test", subject };
}

/** Closes an alert that nothing else closes, so that the next case of it is reported again. */
export async function close(context: OperatorContext): Promise<unknown> {
  const given = option(context, "kind");
  const subject = option(context, "subject");
  const reason = textOption(context, "reason");
  const kind = REVIEWED_ALERTS.find((known) => known === given);
  if (kind === undefined)
    throw badOption(
      "kind",
      `must be one of ${REVIEWED_ALERTS.join(", ")}. Other alerts close by themselves or by a ` +
        "command of their own (docs/handbook.md)",
    );
  const closed = await closeAlerts(
    context,
    { kind, subject },
    { kind: "alert_closed", reason: `${kind} ${subject}: ${reason}` },
  );
  if (closed.length > 0) return { kind, subject, closed: true };
  throw new OperatorRejection(
    "no_open_alert",
    `No alert ${kind} is open about ${subject}. See alerts list.`,
  );
}
