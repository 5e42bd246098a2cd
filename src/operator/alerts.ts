import type { AlertKind } from "../platform/alert.ts";
import { REVIEWED_ALERTS } from "../platform/reviewed-alerts.ts";
import { closeAlerts } from "./audit-commands.ts";
import { badOption, type OperatorContext, option } from "./context.ts";
import { OperatorRejection } from "./operator-rejection.ts";

const KINDS: readonly AlertKind[] = REVIEWED_ALERTS;

/** Closes an alert that nothing else closes, so that the next case of it is reported again. */
export async function close(context: OperatorContext): Promise<unknown> {
  const given = option(context, "kind");
  const subject = option(context, "subject");
  const reason = option(context, "reason");
  const kind = KINDS.find((known) => known === given);
  if (kind === undefined)
    throw badOption(
      "kind",
      `must be one of ${KINDS.join(", ")}. Other alerts close by themselves or by a ` +
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
    `No alert ${kind} is open about ${subject}. See chain status --wide.`,
  );
}
