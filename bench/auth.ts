/**
 * The cost of authentication: signed GET /auth/whoami, compared with the same Worker's public
 * /time, and with a bare Hono app in the same workerd.
 */
import { type Bench, type Figure, median, number, percentile } from "./figures.ts";
import { drive, httpRequest } from "./load.ts";
import { succeeded } from "./market.ts";
import { makePeople, type Person, signed } from "./people.ts";
import { type BenchStack, startBenchStack } from "./stack.ts";

const CONNECTIONS = 32;
/** One key per connection, so that each connection is a caller of its own. */
const KEYS = CONNECTIONS;

export const benchAuth: Bench = async ({ quick, say, onStop }) => {
  const stack = await startBenchStack({ peer: "hono" });
  onStop(stack.stop);
  try {
    const [rounds, forMs] = quick ? [2, 1_500] : [5, 5_000];
    const people = await makePeople(stack, KEYS, []);
    const time = [httpRequest({ method: "GET", target: "/time" })];
    const bare = [httpRequest({ method: "GET", target: "/auth/whoami" })];
    const hono: Measured[] = [];
    const rssAtRest = stack.rssMb();
    const runs: Record<"time" | "whoami", Measured[]> = { time: [], whoami: [] };
    const alone: Record<"time" | "whoami", Measured[]> = { time: [], whoami: [] };
    for (let round = 0; round < rounds; round++) {
      for (const [connections, into] of [
        [CONNECTIONS, runs],
        [1, alone],
      ] as const) {
        into.time.push(
          await measured(stack, { lanes: Array.from({ length: connections }, () => time), forMs }),
        );
        const lanes = await Promise.all(
          people
            .slice(0, connections)
            .map(async (person) => [await signed(person, "GET", "/auth/whoami")]),
        );
        into.whoami.push(await measured(stack, { lanes, forMs }));
      }
      hono.push(
        await measured(
          { ...stack, port: stack.peerPort },
          { lanes: Array.from({ length: CONNECTIONS }, () => bare), forMs },
        ),
      );
      const [ours, peer] = [runs.whoami.at(-1), runs.time.at(-1)];
      say(
        `  round ${round + 1}: whoami ${number(ours?.perSecond ?? 0)}/s, time ` +
          `${number(peer?.perSecond ?? 0)}/s, workerd used ` +
          `${number(100 * (ours?.cpuShare ?? 0))} % and ${number(100 * (peer?.cpuShare ?? 0))} ` +
          `% of a core, holds ${number(stack.rssMb())} MB`,
      );
    }
    const rssLoaded = stack.rssMb();
    await stack.stop();
    const d1 = await countReads(onStop, quick ? 5_000 : 60_000);
    const of = (list: readonly Measured[], pick: (one: Measured) => number) =>
      median(list.map(pick));
    const pair = (from: typeof runs, pick: (one: Measured) => number) => ({
      ours: of(from.whoami, pick),
      peer: { name: "/time", value: of(from.time, pick) },
    });
    const figures: Figure[] = [
      {
        what: `GET /auth/whoami, signed, ${CONNECTIONS} connections`,
        unit: "/s",
        ...pair(runs, (one) => one.perSecond),
        target: { atLeast: 0.6 },
      },
      {
        what: "  by processor time of one core",
        unit: "/s",
        ...pair(runs, (one) => 1_000_000 / one.cpuMicros),
        target: { atLeast: 0.9 },
      },
      {
        what: "  against bare Hono, by processor time",
        unit: "/s",
        ours: of(runs.whoami, (one) => 1_000_000 / one.cpuMicros),
        peer: { name: "bare Hono", value: of(hono, (one) => 1_000_000 / one.cpuMicros) },
        target: { atLeast: 0.55 },
      },
      {
        what: "  processor time of workerd per request",
        unit: "µs",
        ...pair(runs, (one) => one.cpuMicros),
      },
      { what: "  p50", unit: "ms", ...pair(runs, (one) => one.p50) },
      { what: "  p99", unit: "ms", ...pair(runs, (one) => one.p99) },
      { what: "one connection: p50", unit: "ms", ...pair(alone, (one) => one.p50) },
      { what: "one connection: p99", unit: "ms", ...pair(alone, (one) => one.p99) },
      {
        what: "memory of workerd at the end and at the start",
        unit: "MB",
        ours: rssLoaded,
        peer: { name: "at start", value: rssAtRest },
      },
      {
        what: `D1 calls in ${number(d1.requests)} signed requests with a warm key`,
        unit: "calls",
        ours: d1.calls,
        note:
          `over ${number(d1.ms / 1_000)} s; every 3 s one request reads the key again beside ` +
          `its own work`,
      },
    ];
    return figures;
  } finally {
    await stack.stop();
  }
};

type Measured = {
  perSecond: number;
  p50: number;
  p99: number;
  cpuMicros: number;
  cpuShare: number;
};

async function measured(
  stack: BenchStack,
  load: { lanes: Uint8Array[][]; forMs: number },
): Promise<Measured> {
  // Warm up first, so that processor time and requests cover the same interval.
  await drive({ port: stack.port, lanes: load.lanes, forMs: 500 });
  const before = stack.cpuMs();
  const result = succeeded(await drive({ port: stack.port, ...load }));
  const cpuMs = stack.cpuMs() - before;
  return {
    perSecond: result.perSecond,
    p50: percentile(result.latencies, 0.5),
    p99: percentile(result.latencies, 0.99),
    cpuMicros: (1_000 * cpuMs) / result.done,
    cpuShare: cpuMs / result.ms,
  };
}

/** The probe counts every D1 call of the Worker. The key is warm after the first responses. */
async function countReads(
  onStop: (stop: () => Promise<void>) => void,
  requests: number,
): Promise<{ calls: number; requests: number; ms: number }> {
  const stack = await startBenchStack({ probe: true });
  onStop(stack.stop);
  try {
    const [person] = await makePeople(stack, 1, []);
    const request = await signed(person as Person, "GET", "/auth/whoami");
    const lanes = (each: number) =>
      Array.from({ length: 8 }, () => Array.from({ length: each }, () => request));
    succeeded(await drive({ port: stack.port, lanes: lanes(10) }));
    const before = await callsSoFar(stack);
    const result = succeeded(await drive({ port: stack.port, lanes: lanes(requests / 8) }));
    return { calls: (await callsSoFar(stack)) - before, requests: result.done, ms: result.ms };
  } finally {
    await stack.stop();
  }
}

async function callsSoFar(stack: BenchStack): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${stack.port}/bench/d1-calls`);
  const { calls } = (await response.json()) as { calls: number };
  return calls;
}
