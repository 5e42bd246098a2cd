/**
 * The proof of liabilities of a million users: what it takes, what it is billed, and quotes beside
 * it. All of it runs in one thread here, D1 too, so the quotes are few: four makers, one at a time.
 */
import { randomUUID } from "node:crypto";
import { type Bench, type Figure, median } from "./figures.ts";
import { drive, lanesOf } from "./load.ts";
import { openMarket, openRequests, signedQuote, succeeded } from "./market.ts";
import { fund } from "./people.ts";
import { PRICE, R2_GB } from "./prices.ts";
import { PATIENT } from "./quote-loads.ts";
import type { BenchStack } from "./stack.ts";

const USERS = 1_000_000;
const CHUNK = 5_000;
const MAKERS = 4;
const REQUESTS = 250;
const TASK = "prove_liabilities";
/** A leaf in R2. */
const LEAF_BYTES = 48;
/** A slice has two objects. */
const SLICE_LEAVES = 4_000;

/** No chain, because there is no node to read holdings from. */
const SETTINGS = {
  ...PATIENT,
  CHAINS: "[]",
  VENUES: JSON.stringify([{ venue_id: "venue_one", min_request: 1 }]),
};

export const benchLiabilities: Bench = async ({ quick, say, start }) => {
  const [users, rounds, forMs] = quick ? [20_000, 1, 2_000] : [USERS, 5, 12_000];
  const stack = await start({ meter: true, settings: SETTINGS });
  for (let count = 0; count < users; count += CHUNK)
    await fund(stack.db, Array.from({ length: CHUNK }, randomUUID), ["usdc"], 1_000_000);
  say(`  ${users} users`);
  await stack.readMeter();
  const [began, cpu, rss] = [performance.now(), stack.cpuMs(), stack.rssMb()];
  let [calls, longest, peak] = [0, 0, rss];
  for (let more = true; more; calls++) {
    const at = performance.now();
    more = await stack.runTask(TASK);
    longest = Math.max(longest, performance.now() - at);
    peak = Math.max(peak, stack.rssMb());
  }
  const seconds = (performance.now() - began) / 1_000;
  const cpuSeconds = (stack.cpuMs() - cpu) / 1_000;
  const own = (await stack.readMeter()).statements;
  const rows = (name: "rowsRead" | "rowsWritten") => own.reduce((sum, one) => sum + one[name], 0);
  const slices = users / SLICE_LEAVES;
  const daily =
    calls * PRICE.objectCalls +
    rows("rowsRead") * PRICE.rowsRead +
    rows("rowsWritten") * PRICE.rowsWritten +
    (2 * slices + 4) * PRICE.r2Writes +
    (slices + 2) * PRICE.r2Reads;
  const yearGb = (users * LEAF_BYTES * 365) / 1e9;
  const beside = await quotesBeside(stack, rounds, forMs);
  const figure = (what: string, unit: string, ours: number): Figure => ({ what, unit, ours });
  return [
    figure(`a proof of ${users} users`, "s", seconds),
    figure("  processor time", "s", cpuSeconds),
    figure("  calls of the task", "", calls),
    figure("  the longest", "s", longest / 1_000),
    figure("  memory above what was used before", "MB", peak - rss),
    figure("  rows read", "", rows("rowsRead")),
    figure("  rows written", "", rows("rowsWritten")),
    {
      ...figure("  dollars a month, as if nothing were included", "$", (30 * daily) / 1e6),
      target: { atMost: 5 },
    },
    figure("  and for the objects of a year", "$", yearGb * R2_GB),
    {
      ...figure("p50 of a quote beside it", "ms", median(beside.building)),
      peer: { name: "without", value: median(beside.alone) },
      target: { atMost: 1.05 },
    },
  ];
};

/** The p50 of quotes in alternating rounds, without the task and beside it. */
async function quotesBeside(stack: BenchStack, rounds: number, forMs: number) {
  const found: { alone: number[]; building: number[] } = { alone: [], building: [] };
  for (let round = 0; round < rounds; round++) {
    found.alone.push(await p50Of(stack, forMs));
    await stack.db.prepare("DELETE FROM liability_proofs").run();
    const stop = new AbortController();
    const building = (async () => {
      while (!stop.signal.aborted && (await stack.runTask(TASK)));
    })();
    found.building.push(await p50Of(stack, forMs));
    stop.abort();
    await building;
  }
  return found;
}

async function p50Of(stack: BenchStack, forMs: number): Promise<number> {
  const market = await openMarket(stack, MAKERS);
  const requestIds = await openRequests(stack, market, REQUESTS);
  const lanes = await lanesOf(market.makers, REQUESTS, (maker, index, step) =>
    signedQuote(maker, requestIds[(index + step) % REQUESTS] ?? ""),
  );
  const load = { port: stack.port, lanes, forMs, warmUpMs: 500, freshKeys: true };
  return median(succeeded(await drive(load)).latencies);
}
