/** Alerts reach ALERT_URL in order, raised and resolved, although the receiver fails. */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, beforeEach, expect, it } from "vitest";
import { deliverAlerts } from "../../src/outbound/deliver-alerts.ts";
import { clearAlert, raiseAlert } from "../../src/platform/alert.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { settings } from "../support/http.ts";
import { expectSigned, newReceiver, SECRETS } from "../support/receiver.ts";
import { answerAlert } from "../support/pager.ts";

const db = env.OUTBOUND_DB;
const OURS = { ALERT_FORMAT: "webhook", ALERT_SECRETS: SECRETS } as const;

/** What cron does each minute. */
async function minute(ALERT_URL: string, change: object = OURS): Promise<void> {
  while (await deliverAlerts(db, settings({ ALERT_URL, ...change })));
}
const shortly = (bodies: readonly Record<string, any>[]) =>
  bodies.map(({ type, data }) => `${type.replace("alert.", "")} ${data.kind} ${data.subject}`);

beforeAll(() => applyD1Migrations(db, env.TEST_MIGRATIONS));
beforeEach(async () => {
  await all(db, sql`UPDATE alerts SET resolved_at = 1 WHERE resolved_at IS NULL`);
  await minute("");
});

it("delivers what is raised and resolved, once, signed with both secrets", async () => {
  const pager = newReceiver();
  await minute(pager.url);
  await raiseAlert(db, "gas_low", "polygon", "little");
  await raiseAlert(db, "gas_low", "polygon", "less");
  await minute(pager.url);
  await clearAlert(db, "gas_low", "polygon");
  await minute(pager.url);
  await minute(pager.url);
  expect(shortly(await pager.bodies())).toEqual([
    "raised gas_low polygon",
    "resolved gas_low polygon",
  ]);
  const received = await pager.received();
  for (const one of received) expectSigned(one, SECRETS);
  expect(new Set(received.map(({ headers }) => headers["webhook-id"])).size).toBe(2);
});

it.each([500, 429, 0] as const)("loses nothing while the receiver is down (%s)", async (down) => {
  const pager = newReceiver();
  await minute(pager.url);
  await pager.answer(down);
  await raiseAlert(db, "chain_unreachable", "polygon", "one");
  await minute(pager.url);
  await clearAlert(db, "chain_unreachable", "polygon");
  await raiseAlert(db, "gas_low", "polygon", "two");
  await minute(pager.url);
  await raiseAlert(db, "chain_unreachable", "polygon", "three");
  await pager.answer(200);
  const before = (await pager.bodies()).length;
  await minute(pager.url);
  expect(shortly((await pager.bodies()).slice(before))).toEqual([
    "raised chain_unreachable polygon",
    "resolved chain_unreachable polygon",
    "raised gas_low polygon",
    "raised chain_unreachable polygon",
  ]);
});

it("first tells a new receiver what is open, and nothing of what has closed before", async () => {
  await raiseAlert(db, "gas_low", "base", "old");
  await clearAlert(db, "gas_low", "base");
  await raiseAlert(db, "vault_paused", "base", "open");
  const pager = newReceiver();
  await minute(pager.url);
  expect(shortly(await pager.bodies())).toEqual(["raised vault_paused base"]);
});

it("delivers more than a page in one minute", async () => {
  const pager = newReceiver();
  await minute(pager.url);
  const subjects = Array.from({ length: 120 }, (_, index) => `c${index}`);
  for (const subject of subjects) await raiseAlert(db, "gas_low", subject, "little");
  await minute(pager.url);
  expect(shortly(await pager.bodies())).toEqual(subjects.map((one) => `raised gas_low ${one}`));
});

it("resolves the incident that it triggered at PagerDuty", async () => {
  const pager = newReceiver();
  const change = { ALERT_FORMAT: "pagerduty", ALERT_SECRETS: ["0".repeat(32)] };
  await minute(pager.url, change);
  await raiseAlert(db, "payer_failing", "polygon", "no signer");
  await minute(pager.url, change);
  await clearAlert(db, "payer_failing", "polygon");
  await minute(pager.url, change);
  const [trigger, resolve] = await pager.bodies();
  expect([trigger?.["event_action"], resolve?.["event_action"]]).toEqual(["trigger", "resolve"]);
  expect(resolve?.["dedup_key"]).toBe(trigger?.["dedup_key"]);
});

it("raises alerts_late, which itself arrives when the receiver is back", async () => {
  const pager = newReceiver();
  await minute(pager.url);
  await pager.answer(500);
  await raiseAlert(db, "gas_low", "polygon", "little");
  await minute(pager.url);
  await all(db, sql`UPDATE delivery_cursors SET failing_since = failing_since - 900000`);
  await minute(pager.url);
  await answerAlert("alerts_late", "alerts", { db });
});
