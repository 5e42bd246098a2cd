/** The three forms of an alert, by the published shapes of PagerDuty and Slack. */
import { expect, it } from "vitest";
import { alertBody, type AlertEvent } from "../../src/outbound/alert-body.ts";

const KEY = "0123456789abcdef0123456789ABCDEF";
const SECRET = "whsec_bmV3ZXItc2VjcmV0LW9mLTMyLWJ5dGVzLTAxMjM0NTY=";
const RAISED: AlertEvent = {
  event_id: 5,
  resolved: false,
  kind: "payer_halted",
  subject: "polygon",
  detail: "the vault expects batch 8",
  at: Date.parse("2026-01-02T12:00:00.000Z"),
  resolved_at: Date.parse("2026-01-02T12:30:00.000Z"),
};
const RESOLVED = { ...RAISED, event_id: 6, resolved: true };
const DATA = {
  kind: "payer_halted",
  subject: "polygon",
  detail: "the vault expects batch 8",
  urgency: "page",
  next_command: "npm run operator -- chain status --env acme",
  closing_command: "npm run operator -- chain resume polygon --env acme",
  handbook: "docs/handbook.md#payer_halted",
  raised_at: "2026-01-02T12:00:00.000Z",
  resolved_at: null,
};
const ALERT_SECRETS = { webhook: [SECRET], pagerduty: [KEY], slack: [] };

function bodyOf(ALERT_FORMAT: keyof typeof ALERT_SECRETS, event: AlertEvent) {
  const settings = {
    ALERT_FORMAT,
    ALERT_SECRETS: ALERT_SECRETS[ALERT_FORMAT],
    DEPLOYMENT: "acme",
    DEPLOY_ENV: "acme",
  };
  const { headers, body } = alertBody(settings, event, 1_731_705_121_000);
  return { headers, body: JSON.parse(body) };
}

it("tells ours what, how urgent, the next command and where to read", () => {
  const { headers, body } = bodyOf("webhook", RAISED);
  expect(body).toEqual({
    type: "alert.raised",
    timestamp: "2026-01-02T12:00:00.000Z",
    deployment: "acme",
    data: DATA,
  });
  expect(headers).toMatchObject({
    "webhook-id": "alert-event-5",
    "webhook-timestamp": "1731705121",
  });
  expect(bodyOf("webhook", RESOLVED).body).toMatchObject({
    type: "alert.resolved",
    timestamp: "2026-01-02T12:30:00.000Z",
    data: { resolved_at: "2026-01-02T12:30:00.000Z" },
  });
});

it("triggers and resolves one incident of PagerDuty", () => {
  expect(bodyOf("pagerduty", RAISED)).toEqual({
    headers: {},
    body: {
      routing_key: KEY,
      dedup_key: "acme:payer_halted:polygon",
      event_action: "trigger",
      payload: {
        summary: "payer_halted polygon: the vault expects batch 8",
        source: "acme",
        severity: "critical",
        timestamp: "2026-01-02T12:00:00.000Z",
        class: "payer_halted",
        custom_details: DATA,
      },
    },
  });
  expect(bodyOf("pagerduty", RESOLVED).body).toEqual({
    routing_key: KEY,
    dedup_key: "acme:payer_halted:polygon",
    event_action: "resolve",
  });
});

it("keeps to PagerDuty's lengths, and tells long subjects apart", () => {
  const keys = ["a", "b"].map((end) => {
    const event = { ...RAISED, subject: "x".repeat(5_000) + end, detail: "y".repeat(5_000) };
    const { dedup_key, payload } = bodyOf("pagerduty", event).body;
    expect([dedup_key.length <= 255, payload.summary.length <= 1_024]).toEqual([true, true]);
    expect(JSON.stringify(payload).length).toBeLessThan(10_000);
    return dedup_key;
  });
  expect(new Set(keys).size).toBe(2);
});

it("writes a text for Slack, in which a subject is no link and calls no channel", () => {
  expect(bodyOf("slack", RAISED).body).toEqual({
    text:
      "PAGE. acme: payer_halted polygon\nthe vault expects batch 8\n" +
      "Next: npm run operator -- chain status --env acme (docs/handbook.md#payer_halted)\n" +
      "Once you know the cause: npm run operator -- chain resume polygon --env acme",
  });
  expect(bodyOf("slack", RESOLVED).body).toEqual({
    text: "Resolved. acme: payer_halted polygon",
  });
  const { text } = bodyOf("slack", { ...RAISED, kind: "gas_low", subject: "<!channel>" }).body;
  expect(text).toContain("Ticket. acme: gas_low &lt;!channel&gt;");
});

it("quotes a subject in the command, because SQL can choose it", () => {
  const event = { ...RAISED, kind: "withdrawal_dead_letter", subject: "a'; rm -rf ~" };
  expect(bodyOf("webhook", event).body.data.closing_command).toBe(
    "npm run operator -- alerts close --kind withdrawal_dead_letter " +
      String.raw`--subject 'a'\''; rm -rf ~' --env acme --reason`,
  );
});

it("delivers a kind of an earlier release, without a command", () => {
  const { body } = bodyOf("webhook", { ...RAISED, kind: "gas_money" });
  expect(body.data).toMatchObject({ kind: "gas_money", urgency: "ticket", next_command: null });
});
