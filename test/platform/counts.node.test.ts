/** What an isolate adds up for GET /metrics, and when it sends it. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { Counts } from "../../src/platform/counts.ts";
import { setClock } from "../../src/platform/time.ts";
import { testSettings } from "../support/settings.ts";

type Sent = readonly (readonly [series: string, by: number])[];
let at = 0;
let sent: Sent[] = [];
let away = false;
let pending: Promise<unknown>[] = [];
const metrics = {
  add: async (added: Sent) => {
    if (away) throw new Error("away");
    sent.push(added);
  },
};
const env = (changes: object = {}) =>
  ({ ...testSettings(), METRICS: { getByName: () => metrics }, ...changes }) as unknown as Env;

beforeEach(() => {
  [at, sent, away, pending] = [1_000_000, [], false, []];
  setClock({ now: () => at });
});
afterEach(() => setClock({}));

async function send(counts: Counts, changes?: object): Promise<void> {
  counts.send(env(changes), (work) => pending.push(work));
  await Promise.all(pending);
}
const SERIES = 'rfq_requests_total{verb="getTime",outcome="ok"}';
const count = (counts: Counts) =>
  counts.count("rfq_requests_total", { verb: "getTime", outcome: "ok" });

it("sends the first count at once, and the next ones after ten seconds in one call", async () => {
  const counts = new Counts();
  count(counts);
  await send(counts);
  expect(sent).toEqual([[[SERIES, 1]]]);
  for (let call = 0; call < 5; call++) {
    count(counts);
    at += 1_999;
    await send(counts);
  }
  expect(sent).toHaveLength(1);
  at += 5;
  await send(counts);
  expect(sent[1]).toEqual([[SERIES, 5]]);
  at += 10_000;
  await send(counts);
  expect(sent).toHaveLength(2);
});

it("sends again what was not taken, and never makes the caller wait or fail", async () => {
  const counts = new Counts();
  away = true;
  count(counts);
  await send(counts);
  away = false;
  count(counts);
  at += 10_000;
  await send(counts);
  expect(sent).toEqual([[[SERIES, 2]]]);
});

it("keeps and sends nothing without the setting", async () => {
  const counts = new Counts();
  count(counts);
  await send(counts, { METRICS_TOKEN: "" });
  expect(pending).toEqual([]);
  at += 10_000;
  count(counts);
  await send(counts);
  expect(sent).toEqual([[[SERIES, 1]]]);
});

it("makes cumulative buckets of durations", async () => {
  const counts = new Counts();
  for (const ms of [5, 10, 11, 2_500, 60_000]) counts.observe("rfq_command_seconds", "accept", ms);
  await send(counts);
  const sums = new Map(sent.flat());
  const of = (le: string) => sums.get(`rfq_command_seconds_bucket{verb="accept",le="${le}"}`);
  expect(["0.01", "0.03", "0.1", "1", "3", "10", "+Inf"].map(of)).toEqual([2, 3, 3, 3, 4, 4, 5]);
  expect(sums.get('rfq_command_seconds_count{verb="accept"}')).toBe(5);
  expect(sums.get('rfq_command_seconds_sum{verb="accept"}')).toBeCloseTo(62.526);
});
