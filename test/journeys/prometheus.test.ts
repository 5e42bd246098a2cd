/**
 * A real Prometheus scrapes the service with the files of ops/, and has a sample for every
 * expression of rules and dashboard. Then the chain goes away: ALERT_URL gets a page, a rule fires
 * and GET /status shows it, within two minutes.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { parse } from "yaml";
import { Client } from "../../packages/client/src/index.ts";
import { freePort } from "../../scripts/stack/ports.ts";
import {
  openMarket,
  quotedBid,
  startTestStack,
  type TestStack,
  until,
} from "../support/node/stack.ts";
import { startTcpProxy, type TcpProxy } from "../support/node/tcp-proxy.ts";
import { newReceiver, SECRETS } from "../support/receiver.ts";

const TOKEN = "a-token-of-this-test-0123456789abcdef";
const hasPrometheus = ["prometheus", "promtool"].every(
  (tool) => spawnSync(tool, ["--version"]).status === 0,
);
if (!hasPrometheus) console.warn("skipped: install prometheus and promtool (Debian: prometheus)");

type Rule = { readonly alert: string; readonly expr: string };
const rules = (
  parse(readFileSync("ops/rules.yml", "utf8")) as { groups: { rules: Rule[] }[] }
).groups.flatMap((group) => group.rules);
const dashboard = JSON.parse(readFileSync("ops/dashboard.json", "utf8")) as {
  panels: { targets: { expr: string }[] }[];
};
/** A healthy service has no sample of a whole rule, so its left side is asked. */
const leftSide = (expr: string) => expr.replace(/ [<>] [\d.]+$/, "");
/** There is a sample only while an alert is open. */
const needsAlert = (expr: string) => expr.includes("rfq_alerts_open");

const expressions = [
  ...rules.map(({ expr }) => leftSide(expr)),
  ...dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
];

let stack: TestStack;
let proxy: TcpProxy;
let prometheus: ChildProcess;
let prometheusUrl: string;
const pager = newReceiver();

beforeAll(async () => {
  if (!hasPrometheus) return;
  stack = await startTestStack();
  proxy = await startTcpProxy(stack.rpcUrl);
  const RPC_URLS = JSON.stringify({ local: [proxy.baseUrl] });
  const alerts = { ALERT_URL: pager.url, ALERT_SECRETS: JSON.stringify(SECRETS) };
  await stack.restartWorker({ METRICS_TOKEN: TOKEN, RPC_URLS, ...alerts });
  await startPrometheus();
});
afterAll(async () => {
  if (!hasPrometheus) return;
  if (prometheus?.exitCode === null) {
    prometheus.kill("SIGKILL");
    await once(prometheus, "exit");
  }
  await stack?.stop();
  await proxy?.stop();
});

async function startPrometheus(): Promise<void> {
  const folder = resolve(stack.dir, "prometheus");
  mkdirSync(folder);
  const token = join(folder, "token");
  writeFileSync(token, TOKEN);
  const text = readFileSync("ops/prometheus.yml", "utf8")
    .replace("scheme: https", "scheme: http")
    .replace("scrape_interval: 30s", "scrape_interval: 1s")
    .replace("/etc/prometheus/rfq-token", token)
    .replace("rfq.example.com", new URL(stack.baseUrl).host)
    .replace("rules.yml", resolve("ops/rules.yml"))
    .replace(/^alerting:.*/ms, "global: { evaluation_interval: 1s }\n");
  const config = join(folder, "prometheus.yml");
  writeFileSync(config, text);
  expect(spawnSync("promtool", ["check", "config", config]).status).toBe(0);
  const listen = `127.0.0.1:${await freePort()}`;
  prometheusUrl = `http://${listen}`;
  prometheus = spawn(
    "prometheus",
    [
      `--config.file=${config}`,
      `--storage.tsdb.path=${join(folder, "data")}`,
      `--web.listen-address=${listen}`,
    ],
    { stdio: "ignore" },
  );
}

async function samplesOf(query: string): Promise<{ metric: Record<string, string> }[]> {
  const url = `${prometheusUrl}/api/v1/query?query=${encodeURIComponent(query)}`;
  const response = await fetch(url).catch(() => null);
  if (response === null) return [];
  const answer = (await response.json()) as { status: string; error?: string; data?: any };
  if (answer.status !== "success") throw new Error(`${query}: ${answer.error}`);
  return answer.data.result;
}

async function withoutSample(queries: readonly string[]): Promise<string[]> {
  const found = await Promise.all(queries.map(async (one) => (await samplesOf(one)).length > 0));
  return queries.filter((_, index) => !found[index]);
}

it.skipIf(!hasPrometheus)("has a sample for each expression of rules and dashboard", async () => {
  const market = await openMarket(stack, 1_000_000n);
  const { quote } = await quotedBid(market, 1_000_000n);
  await market.requester.client.rfq.accept({ quote_id: quote.quote_id });
  let missing: string[] = [];
  await until("samples of all expressions", 90_000, async () => {
    await stack.runCron();
    missing = await withoutSample(expressions.filter((expr) => !needsAlert(expr)));
    return missing.length === 0 ? true : null;
  }).catch(() => {});
  expect(missing).toEqual([]);
  expect(await new Client({ baseUrl: stack.baseUrl }).status()).toMatchObject({
    trading: "ok",
    deposits: "ok",
    withdrawals: "ok",
  });
});

it.skipIf(!hasPrometheus)("pages and shows it within two minutes of a lost chain", async () => {
  await proxy.stop();
  const guest = new Client({ baseUrl: stack.baseUrl });
  const firing = 'ALERTS{alertname="RfqChainStopped",alertstate="firing",severity="page"}';
  await until("a page, a ticket and the status", 120_000, async () => {
    const { deposits } = await guest.status();
    const pages = (await pager.bodies()).filter(({ data }) => data.urgency === "page");
    const isPaged = pages.some(({ data }) => data.kind === "chain_unreachable");
    const missing = await withoutSample([firing, ...expressions.filter(needsAlert)]);
    return isPaged && deposits === "slow" && missing.length === 0 ? true : null;
  });
  expect((await samplesOf("rfq_alerts_open")).map(({ metric }) => metric["kind"])).toContain(
    "chain_unreachable",
  );
});
