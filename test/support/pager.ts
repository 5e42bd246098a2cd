/** An operator who hears of alerts by ALERT_URL only, and runs exactly the command that they name. */
import { expect } from "vitest";
import { deliverAlerts } from "../../src/outbound/deliver-alerts.ts";
import type { AlertKind } from "../../src/platform/alert-kinds.ts";
import type { ChainConfig } from "../../src/platform/config.ts";
import { settings } from "./http.ts";
import { type OperatorResult, orderOf, sendOrder } from "./operator.ts";
import { newReceiver, SECRETS } from "./receiver.ts";

type About = { readonly kind: AlertKind; readonly subject: string };

export async function newPager(db: D1Database) {
  const receiver = newReceiver();
  /** What cron does each minute. */
  const minute = async (url: string) => {
    while (await deliverAlerts(db, settings({ ALERT_URL: url, ALERT_SECRETS: SECRETS })));
  };
  // Another test may have had a pager.
  await minute("");
  await minute(receiver.url);

  /** The messages about an alert, oldest first. */
  const received = async ({ kind, subject }: About) => {
    await minute(receiver.url);
    const all = await receiver.bodies();
    return all.filter(({ data }) => data.kind === kind && data.subject === subject);
  };
  const typesOf = async (about: About) => (await received(about)).map(({ type }) => type);

  return {
    expectRaised: async (about: About) =>
      expect((await typesOf(about)).at(-1)).toBe("alert.raised"),
    expectResolved: async (about: About) =>
      expect((await typesOf(about)).slice(-2)).toEqual(["alert.raised", "alert.resolved"]),
    /** Gives the order that the last message about the alert names. */
    runNamed: async (about: About, changes: object = {}): Promise<OperatorResult> => {
      const { data } = (await received(about)).at(-1) ?? {};
      const words = wordsOf(data.next_command);
      expect([words.slice(0, 4), words.at(-1)]).toEqual([
        ["npm", "run", "operator", "--"],
        "--remote",
      ]);
      const { command, options } = orderIn(words.slice(4, -1));
      return sendOrder(orderOf(command, options), { DB: db, ...changes });
    },
  };
}

/** Bindings of a service of this chain alone, whose objects the test runs itself. */
export function serviceOf(chain: ChainConfig): object {
  const asleep = { getByName: () => ({ wake: async () => {} }) };
  return { CHAINS: JSON.stringify([chain]), VENUES: "[]", CHAIN_WATCHER: asleep, PAYER: asleep };
}

/** The tool's own parser runs in Node only (test/platform/alert-kinds.node.test.ts). */
function orderIn(words: readonly string[]) {
  const flags = words.findIndex((word) => word.startsWith("--"));
  const command = flags < 0 ? [...words] : words.slice(0, flags);
  const options: Record<string, string> = {};
  for (let index = command.length; index < words.length; index += 2)
    options[(words[index] ?? "").slice(2)] = words[index + 1] ?? "";
  // It only changes what is printed.
  delete options["wide"];
  return { command, options };
}

/** As a POSIX shell splits it, without variables. */
function wordsOf(command: string): string[] {
  const words = command.matchAll(/(?:[^\s'\\]|'[^']*'|\\.)+/g);
  return [...words].map(([word]) =>
    word.replaceAll(
      /'([^']*)'|\\(.)/g,
      (_, quoted?: string, escaped?: string) => quoted ?? escaped ?? "",
    ),
  );
}
