/** GET /metrics: the sums of all isolates, and the levels of cron's row. */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, it } from "vitest";
import { near } from "../../src/platform/near.ts";
import { MAX_SERIES } from "../../src/platform/metrics-object.ts";
import { raiseAlert } from "../../src/platform/alert.ts";
import { measure } from "../../src/operator/measure.ts";
import { setClock } from "../../src/platform/time.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { testSettings } from "../support/settings.ts";
import { bearer, send } from "../support/http.ts";
import { command, quotedMarket, submit } from "../support/market.ts";

const TOKEN = testSettings()["METRICS_TOKEN"] ?? "";

afterEach(() => setClock({}));

async function scrape(): Promise<Map<string, number>> {
  const response = await send("/metrics", { headers: bearer(TOKEN) });
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toContain("version=0.0.4");
  const lines = (await response.text()).split("\n").filter((line) => /^[^#]/.test(line));
  return new Map(
    lines.map((line) => {
      const [, series = "", value = ""] = /^(\S+) (\S+)$/.exec(line) ?? [];
      return [series, value === "+Inf" ? Number.POSITIVE_INFINITY : Number(value)] as const;
    }),
  );
}

it("an evicted payer still says what its last round has seen", async () => {
  const payer = env.PAYER.getByName(uuidv7());
  await runInDurableObject(payer, (_, { storage }) => storage.put("levels", { gasWei: 7 }));
  await evictDurableObject(payer);
  expect(await payer.levels()).toEqual({ gasWei: 7 });
});

let elapsed = 0;
/** The next work of this isolate sends what it has added. */
const tenSecondsLater = () => {
  elapsed += 10_001;
  setClock({ now: () => Date.now() + elapsed });
};
it("is 404 without the setting, and 401 without the right token", async () => {
  const off = { METRICS_TOKEN: "" };
  expect((await send("/metrics", { headers: bearer(TOKEN), env: off })).status).toBe(404);
  expect((await send("/metrics", { headers: bearer(""), env: off })).status).toBe(404);
  for (const headers of [{}, bearer("x"), bearer(`${TOKEN}x`), { authorization: TOKEN }]) {
    const response = await send("/metrics", { headers });
    expect(response.status).toBe(401);
    expect(await response.text()).not.toContain("rfq_");
  }
  expect((await send("/metrics", { method: "POST" })).status).toBe(405);
});

/** Objects of earlier files may take what was added, so it is asked for until it has arrived. */
async function grown(series: string, before: Map<string, number>): Promise<Map<string, number>> {
  for (let tries = 0; ; tries++) {
    tenSecondsLater();
    await send("/time");
    const after = await scrape();
    const by = new Map([...after].map(([name, sum]) => [name, sum - (before.get(name) ?? 0)]));
    if ((by.get(series) ?? 0) > 0 || tries === 20) return by;
    await scheduler.wait(20);
  }
}

it("counts requests by operation and problem, and nothing that a caller makes up", async () => {
  const before = await scrape();
  for (let call = 0; call < 3; call++) await send("/health");
  await send("/health?never=1");
  await send("/made-up?x=1");
  await send("/health", { method: "PATCH" });
  const by = await grown('rfq_requests_total{verb="getHealth",outcome="ok"}', before);
  expect(by.get('rfq_requests_total{verb="getHealth",outcome="ok"}')).toBe(3);
  expect(by.get('rfq_requests_total{verb="getHealth",outcome="invalid_request"}')).toBe(1);
  expect(by.get('rfq_requests_total{verb="none",outcome="route_unknown"}')).toBeGreaterThan(0);
  expect(by.get('rfq_requests_total{verb="none",outcome="method_not_allowed"}')).toBeGreaterThan(0);
  expect(by.get('rfq_request_seconds_count{verb="getHealth"}')).toBe(4);
  expect(by.get('rfq_request_seconds_bucket{verb="getHealth",le="+Inf"}')).toBe(4);
  expect([...by.keys()].join()).not.toMatch(/made|PATCH/);
});

it("counts commands of books by venue, without book or user", async () => {
  const before = await scrape();
  // Commands of a clock that is ahead are refused.
  setClock({});
  const { book, requester, quote } = await quotedMarket();
  await submit(command.accept(requester, quote.quote_id));
  const [venue = ""] = book.split(":");
  const of = (verb: string) => `rfq_commands_total{verb="${verb}",outcome="ok",venue="${venue}"}`;
  const by = await grown(of("accept"), before);
  expect([by.get(of("place_quote")), by.get(of("accept"))]).toEqual([1, 1]);
  expect(by.get('rfq_command_seconds_count{verb="accept"}')).toBe(1);
  const groups = by.get(`rfq_commit_groups_total{outcome="ok",venue="${venue}"}`);
  expect(groups).toBeGreaterThanOrEqual(3);
  expect([...by.keys()].join()).not.toContain("0x");
});

it("lets no counter fall when its object is reset at any time", async () => {
  const name = uuidv7();
  const metrics = () => near(env, env.METRICS, name);
  const shown = async () => (await metrics().read()).get("a") ?? 0;
  await metrics().add([["a", 2]]);
  expect(await shown()).toBe(2);
  await evictDurableObject(metrics());
  expect(await shown()).toBe(2);
  await metrics().add([["a", 3]]);
  // Never shown, so it may be lost.
  await evictDurableObject(metrics());
  expect(await shown()).toBeGreaterThanOrEqual(2);
  await metrics().add([["a", 1]]);
  tenSecondsLater();
  elapsed += 60_000;
  await metrics().add([["a", 1]]);
  const stored = 2 + 2;
  await evictDurableObject(metrics());
  expect(await shown()).toBe(stored);
});

it("keeps a bounded number of series, in a value that a row can have", async () => {
  const metrics = near(env, env.METRICS, uuidv7());
  const series = (index: number) =>
    `rfq_requests_total{verb="${"v".repeat(60)}${index}",outcome="${"o".repeat(30)}",chain="c"}`;
  await metrics.add(Array.from({ length: MAX_SERIES + 10 }, (_, index) => [series(index), 1]));
  const kept = await metrics.read();
  expect(kept.size).toBe(MAX_SERIES);
  expect(JSON.stringify([...kept]).length).toBeLessThan(1_000_000);
});

it("shows the levels of cron's row", async () => {
  await raiseAlert(env.DB, "gas_low", uuidv7(), "a test");
  await measure(env, new Map([["watch_clock", Date.now() - 90_000]]));
  const levels = await scrape();
  expect(levels.get('rfq_alerts_open{kind="gas_low",urgency="ticket"}')).toBeGreaterThan(0);
  expect(levels.get('rfq_withdrawals{chain="local",status="queued"}')).toBeGreaterThanOrEqual(0);
  const age = levels.get('rfq_cron_task_age_seconds{task="watch_clock"}') ?? 0;
  expect(Math.abs(age - 90)).toBeLessThan(30);
  expect(levels.get("rfq_database_bytes")).toBeGreaterThan(100_000);
  expect(levels.get("rfq_measured_timestamp_seconds")).toBeGreaterThan(1_700_000_000);
});
