/** Alerts in the forms that receivers take: ours, Events v2 of PagerDuty, and of Slack. */
import { createHash } from "node:crypto";
import { handbookOf, alertTermsOf } from "../platform/alert-kinds.ts";
import { commandText, type Deployed } from "../platform/command-text.ts";
import type { Config } from "../platform/config.ts";
import { toWireTime, toWireTimeOrNull } from "../platform/time.ts";
import { signedHeaders } from "./sign.ts";

/** An alert as it was raised or resolved. Times are Unix milliseconds. */
export type AlertEvent = {
  readonly event_id: number;
  readonly resolved: boolean;
  readonly kind: string;
  readonly subject: string;
  readonly detail: string;
  readonly at: number;
  readonly resolved_at: number | null;
};

type Sent = { readonly headers: Readonly<Record<string, string>>; readonly body: string };
type Receiver = Pick<Config, "ALERT_FORMAT" | "ALERT_SECRETS" | "DEPLOYMENT"> & Deployed;

/** PagerDuty takes 1 024 characters of a summary. Details are written for people and are shorter. */
const MAX_TEXT = 1_000;
const MAX_DEDUP_KEY = 255;

/** `now`: the time of the attempt, in Unix milliseconds. */
export function alertBody(settings: Receiver, event: AlertEvent, now: number): Sent {
  if (settings.ALERT_FORMAT === "pagerduty")
    return { headers: {}, body: forPagerDuty(settings, event) };
  if (settings.ALERT_FORMAT === "slack") return { headers: {}, body: forSlack(settings, event) };
  const body = JSON.stringify({
    type: event.resolved ? "alert.resolved" : "alert.raised",
    timestamp: toWireTime((event.resolved ? event.resolved_at : null) ?? event.at),
    deployment: settings.DEPLOYMENT,
    data: dataOf(settings, event),
  });
  const id = `alert-event-${event.event_id}`;
  return { headers: signedHeaders(settings.ALERT_SECRETS, { id, at: now, body }), body };
}

function dataOf(settings: Deployed, event: AlertEvent) {
  const { kind, subject, detail, at, resolved_at, resolved } = event;
  const terms = alertTermsOf(kind);
  const commandOf = (words: readonly string[] | undefined) =>
    words === undefined ? null : commandText(settings, "operator", ...words);
  return {
    kind,
    subject: cut(subject),
    detail: cut(detail),
    urgency: terms?.urgency ?? "ticket",
    next_command: commandOf(terms?.next(subject)),
    closing_command: commandOf(terms?.close?.(subject, detail)),
    handbook: handbookOf(kind),
    raised_at: toWireTime(at),
    // A later event says so.
    resolved_at: resolved ? toWireTimeOrNull(resolved_at) : null,
  };
}

/** https://developer.pagerduty.com/docs/events-api-v2/trigger-events/ */
function forPagerDuty(settings: Receiver, event: AlertEvent): string {
  const { ALERT_SECRETS, DEPLOYMENT } = settings;
  const common = { routing_key: ALERT_SECRETS[0], dedup_key: dedupKey(DEPLOYMENT, event) };
  if (event.resolved) return JSON.stringify({ ...common, event_action: "resolve" });
  const data = dataOf(settings, event);
  return JSON.stringify({
    ...common,
    event_action: "trigger",
    payload: {
      summary: cut(`${event.kind} ${event.subject}: ${event.detail}`),
      source: DEPLOYMENT,
      severity: data.urgency === "page" ? "critical" : "warning",
      timestamp: data.raised_at,
      class: event.kind,
      custom_details: data,
    },
  });
}

/** The alert, and not its row, because a restored database may raise it again as another row. */
function dedupKey(deployment: string, { kind, subject }: AlertEvent): string {
  const key = `${deployment}:${kind}:${subject}`;
  if (key.length <= MAX_DEDUP_KEY) return key;
  return `${deployment}:${kind}:${createHash("sha256").update(subject).digest("hex")}`;
}

/** https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks */
function forSlack(settings: Receiver, event: AlertEvent): string {
  const { urgency, next_command, closing_command, handbook } = dataOf(settings, event);
  const about = `${settings.DEPLOYMENT}: ${event.kind} ${event.subject}`;
  const text = event.resolved
    ? `Resolved. ${cut(about)}`
    : [
        `${urgency === "page" ? "PAGE" : "Ticket"}. ${cut(about)}`,
        cut(event.detail),
        `Next: ${next_command ?? "none"} (${handbook})`,
        ...(closing_command === null ? [] : [`Once you know the cause: ${closing_command}`]),
      ].join("\n");
  return JSON.stringify({ text: text.replaceAll(/[&<>]/g, (sign) => ESCAPED[sign] ?? "") });
}

/** Escapes text, because a subject could be a link or call a whole channel. */
const ESCAPED: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };

function cut(text: string): string {
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT)}…`;
}
