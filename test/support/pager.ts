/** An operator who hears of alerts by ALERT_URL only, and runs exactly the commands that they name. */
import { env } from "cloudflare:workers";
import { expect, inject } from "vitest";
import { carryOut } from "../../scripts/operator/carry-out.ts";
import type { Parsed } from "../../scripts/operator/commands.ts";
import { deliverAlerts } from "../../src/outbound/deliver-alerts.ts";
import { type AlertKind, ALERTS } from "../../src/platform/alert-kinds.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { settings } from "./http.ts";
import { orderOf, sendOrder } from "./operator.ts";
import { newReceiver, SECRETS } from "./receiver.ts";

type Answer = {
  readonly db?: D1Database;
  /** Bindings of the service that carries out the command. */
  readonly bindings?: object;
  /** What ends the cause, if the command alone does not. */
  readonly end?: () => Promise<unknown>;
};

/**
 * Lets an open alert go its whole way: a receiver gets it, the operator runs the command that the
 * message names, which only reads, then the one that closes it if there is one, and the receiver
 * gets its end. Returns the result of the last command. Each kind needs a test that calls it with
 * an alert that the service has raised (alert-kinds.node.test.ts).
 */
export async function answerAlert(
  kind: AlertKind,
  subject: string,
  { db = env.DB, bindings = {}, end }: Answer = {},
): Promise<unknown> {
  const receiver = newReceiver();
  // As after all that was raised before.
  await all(
    db,
    sql`INSERT INTO delivery_cursors (name, position)
      SELECT 'alerts', max(e.event_id) - 1 FROM alert_events e JOIN alerts a USING (alert_id)
        WHERE a.kind = ${kind} AND a.subject = ${subject} AND e.resolved = 0
      ON CONFLICT (name) DO UPDATE SET position = excluded.position`,
  );
  /** The messages about the alert once cron has delivered all. */
  const received = async () => {
    const change = { ALERT_URL: receiver.url, ALERT_SECRETS: SECRETS };
    while (await deliverAlerts(db, settings(change)));
    const bodies = await receiver.bodies();
    return bodies.filter(({ data }) => data.kind === kind && data.subject === subject);
  };
  const { urgency } = ALERTS[kind];
  const raised = await received();
  expect(raised).toMatchObject([{ type: "alert.raised", data: { urgency } }]);
  const { next_command: next, closing_command: close } = raised[0]?.["data"] ?? {};
  let result = await run(String(next), { DB: db, ...bindings });
  if (typeof close === "string")
    // Only a person knows the reason.
    result = await run(/ --(reason|resolve)$/.test(close) ? `${close} reviewed` : close, {
      DB: db,
      ...bindings,
    });
  await end?.();
  const types = (await received()).map(({ type }) => type);
  expect(types).toEqual(["alert.raised", "alert.resolved"]);
  return result;
}

/** As the shell and the operator's tool of another process read it, because workerd has neither. */
async function run(text: string, bindings: object): Promise<unknown> {
  const response = await fetch(`${inject("receiverUrl")}/order`, { method: "POST", body: text });
  const parsed = await response.json<Parsed>();
  if (parsed.help) throw new Error(`${text}: ${parsed.text}`);
  expect(parsed.env).toBe(settings().DEPLOY_ENV);
  const answer = await carryOut(parsed.command, ({ command, options }) =>
    sendOrder(orderOf(command, options), bindings),
  );
  if (!answer.ok) throw new Error(`${text}: ${answer.problem.detail}`);
  return answer.result;
}
