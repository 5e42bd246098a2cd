/**
 * Every verb with the latency that Cloudflare puts between the Worker, its objects and D1, compared
 * with the same stack without it. Also what Cloudflare bills for each: requests, and rows by D1's
 * own meter. docs/costs.md quotes the counts.
 *
 * The verbs use up each other's results: requests are quoted, the quotes cancelled or accepted.
 */
import { fillDay, QUOTES_OF_A_DAY, QUOTES_OF_A_QUICK_DAY } from "./day.ts";
import { type Bench, type Figure, median, number, percentile } from "./figures.ts";
import { drive, lanesOf } from "./load.ts";
import {
  type Market,
  openMarket,
  quoteFields,
  signedQuote,
  signedRequest,
  streamTargets,
  succeeded,
  WITH_KEY,
} from "./market.ts";
import { type Person, signed } from "./people.ts";
import { type Bill, dollarsOf, type Meter, NOTHING_BILLED } from "./prices.ts";
import { PATIENT } from "./quote-loads.ts";
import { type BenchSocket, driveSockets, openSocket } from "./sockets.ts";
import type { BenchStack } from "./stack.ts";

const BOOKS = 16;
const MAKERS_PER_BOOK = 4;

/** Of the p50, with D1 10 ms and an object 5 ms away. */
const TARGET_MS: ReadonlyMap<string, number> = new Map([
  ["POST quote", 20],
  ["POST accept", 25],
]);

/** Few connections show the time of a call, many show the throughput. */
export type Loads = readonly [light: Load, full: Load];
type Load = { readonly lanes: number; readonly each: number };
type Lane = { readonly market: Market; readonly maker: Person };
type Place = { readonly load: number; readonly lane: number; readonly step: number };
/** Ids by load, lane and step. */
type Ids = readonly (readonly (readonly string[])[])[];
type Measured = {
  readonly verb: string;
  /** Of the light load. */
  readonly latencies: readonly number[];
  /** Of the full load. */
  readonly perSecond: number;
  /** Of both. */
  readonly bill: Bill;
};
type Run = {
  readonly latencies: readonly number[];
  readonly perSecond: number;
  readonly bodies: readonly (readonly Readonly<Record<string, unknown>>[])[];
};

export const benchNetwork: Bench = async ({ quick, say, start, network }) => {
  const [rounds, lightEach, fullEach] = quick ? [1, 3, 2] : [2, 20, 3];
  const loads: Loads = [
    { lanes: 4, each: lightEach },
    { lanes: BOOKS * MAKERS_PER_BOOK, each: fullEach },
  ];
  const stack = await start({ meter: true, settings: PATIENT });
  try {
    await fillDay(stack.db, quick ? QUOTES_OF_A_QUICK_DAY : QUOTES_OF_A_DAY);
    const [far, near]: [Measured[][], Measured[][]] = [[], []];
    for (let round = 0; round < rounds; round++) {
      await stack.setNetwork({ d1Ms: 0, objectMs: 0 });
      near.push(await measureVerbs(stack, loads));
      await stack.setNetwork(network);
      far.push(await measureVerbs(stack, loads));
      say(`  round ${round + 1} of ${rounds}`);
    }
    const [ours, peers] = [merged(far), merged(near)];
    say(`  D1 is ${network.d1Ms} ms away, an object ${network.objectMs} ms.`);
    sayBills(ours, say);
    return ours.flatMap((one, index) => figuresOf(one, peers[index] ?? one, loads));
  } finally {
    for (const failure of stack.failures().slice(0, 3)) say(`  the Worker logged ${failure}`);
  }
};

/** The rounds of each verb as one. */
function merged(rounds: readonly Measured[][]): Measured[] {
  const [first = []] = rounds;
  return first.map((one, index) => {
    const same = rounds.map((round) => round[index] ?? one);
    return {
      verb: one.verb,
      latencies: same.flatMap(({ latencies }) => latencies),
      perSecond: median(same.map(({ perSecond }) => perSecond)),
      bill: {
        calls: sumOf(same, ({ bill }) => bill.calls),
        meter: sumOfMeters(same.map(({ bill }) => bill.meter)),
      },
    };
  });
}

function figuresOf(ours: Measured, peer: Measured, [light, full]: Loads): Figure[] {
  const figure = (what: string, unit: string, pick: (one: Measured) => number) => ({
    what,
    unit,
    ours: pick(ours),
    peer: { name: "no latency", value: pick(peer) },
  });
  const p50 = figure(`${ours.verb}, ${light.lanes} connections, p50`, "ms", ({ latencies }) =>
    percentile(latencies, 0.5),
  );
  const atMost = TARGET_MS.get(ours.verb);
  return [
    p50,
    ...(atMost === undefined
      ? []
      : [{ what: `${ours.verb}, p50`, unit: "ms", ours: p50.ours, target: { atMost } }]),
    figure("  p99", "ms", ({ latencies }) => percentile(latencies, 0.99)),
    figure(`  throughput of ${full.lanes} connections`, "/s", ({ perSecond }) => perSecond),
  ];
}

/** Measures one verb after the other under both loads. */
class Verbs {
  readonly measured: Measured[] = [];
  readonly #stack: BenchStack;
  readonly #loads: Loads;
  readonly #lanes: readonly Lane[];

  constructor(stack: BenchStack, loads: Loads, lanes: readonly Lane[]) {
    this.#stack = stack;
    this.#loads = loads;
    this.#lanes = lanes;
  }

  /** Returns the bodies of both loads. */
  async measure(verb: string, runOf: (load: number) => Promise<Run>): Promise<Run["bodies"][]> {
    await this.#stack.readMeter();
    const runs: Run[] = [];
    for (const load of this.#loads.keys()) runs.push(await runOf(load));
    this.measured.push({
      verb,
      latencies: runs[0]?.latencies ?? [],
      perSecond: runs.at(-1)?.perSecond ?? 0,
      bill: {
        calls: sumOf(runs, ({ latencies }) => latencies.length),
        meter: await this.#stack.readMeter(),
      },
    });
    return runs.map(({ bodies }) => bodies);
  }

  /** Of a verb over REST. */
  rest(verb: string, requestOf: (lane: Lane, at: Place) => Promise<Uint8Array>) {
    return this.measure(verb, async (load) => {
      const { lanes: count, each } = this.#loads[load] ?? { lanes: 0, each: 0 };
      const lanes = await lanesOf(this.#lanes.slice(0, count), each, (of, lane, step) =>
        requestOf(of, { load, lane, step }),
      );
      const { latencies, perSecond, bodies } = succeeded(
        await drive({ port: this.#stack.port, lanes, collect: true, freshKeys: true }),
      );
      return { latencies, perSecond, bodies: bodies.map((lane) => lane.map(bodyOf)) };
    });
  }
}

export async function measureVerbs(stack: BenchStack, loads: Loads): Promise<Measured[]> {
  const markets = await Promise.all(
    Array.from({ length: BOOKS }, () => openMarket(stack, MAKERS_PER_BOOK)),
  );
  // Neighbouring lanes are of different books.
  const lanes = Array.from({ length: MAKERS_PER_BOOK }, (_, maker) =>
    markets.map((market): Lane => ({ market, maker: market.makers[maker] as Person })),
  ).flat();
  const verbs = new Verbs(stack, loads, lanes);
  await verbs.rest("GET whoami", ({ maker }) => signed(maker, "GET", "/auth/whoami"));
  await verbs.rest("GET get-usdc-balance", ({ maker }) =>
    signed(maker, "GET", "/custody/get-usdc-balance"),
  );
  const requests = idsOf(
    await verbs.rest("POST request", ({ market }) => signedRequest(market, undefined, WITH_KEY)),
    "request_id",
  );
  const cancelled = idsOf(
    await verbs.rest("POST quote", ({ maker }, at) => signedQuote(maker, idAt(requests, at))),
    "quote_id",
  );
  await verbs.rest("DELETE quote", ({ maker }, at) =>
    signed(maker, "DELETE", `/rfq/quote?quote_id=${idAt(cancelled, at)}`),
  );
  const sockets: BenchSocket[][] = [];
  await verbs.measure("ticket and socket", async (load) => {
    const opened = await openSockets(stack, lanes.slice(0, loads[load]?.lanes));
    sockets.push(opened.sockets);
    return { ...opened, bodies: [] };
  });
  const accepted = idsOf(
    await verbs.measure("quote over a socket", async (load) => {
      const commandOf = (lane: number, step: number) => ({
        op: "quote",
        idempotency_key: `bench-${load}-${step}`,
        ...quoteFields(idAt(requests, { load, lane, step })),
      });
      const each = loads[load]?.each ?? 0;
      const run = await driveSockets(sockets[load] ?? [], { commandOf, each });
      return { ...run, bodies: run.results };
    }),
    "quote_id",
  );
  for (const socket of sockets.flat()) socket.close();
  await verbs.rest("GET quotes of a request", ({ market }, at) =>
    signed(market.requester, "GET", `/rfq/quote?request_id=${idAt(requests, at)}`),
  );
  await verbs.rest("POST accept", ({ market }, at) =>
    signed(market.requester, "POST", "/rfq/accept", { quote_id: idAt(accepted, at) }),
  );
  await verbs.rest("GET get-ledger", ({ maker }) => signed(maker, "GET", "/custody/get-ledger"));
  return verbs.measured;
}

/** Tickets are fetched first. The time is that of the upgrade until the snapshot is complete. */
async function openSockets(stack: BenchStack, lanes: readonly Lane[]) {
  const targets = await Promise.all(
    lanes.map(({ market, maker }) => streamTargets(stack, [maker], market.assetId)),
  );
  const started = performance.now();
  const latencies: number[] = [];
  const sockets = await Promise.all(
    targets.flat().map(async (target) => {
      const from = performance.now();
      const socket = await openSocket(stack.port, target);
      await new Promise<void>((resolve) => {
        socket.onText = (text) => {
          const { type, data } = JSON.parse(text) as { type: string; data?: { more?: boolean } };
          if (type === "snapshot" && data?.more !== true) resolve();
        };
      });
      latencies.push(performance.now() - from);
      return socket;
    }),
  );
  const seconds = (performance.now() - started) / 1_000;
  return { sockets, latencies, perSecond: sockets.length / seconds };
}

function bodyOf(text: string): Record<string, unknown> {
  return JSON.parse(text) as Record<string, unknown>;
}

function idsOf(runs: readonly Run["bodies"][], name: string): Ids {
  return runs.map((lanes) => lanes.map((bodies) => bodies.map((body) => String(body[name]))));
}

function idAt(ids: Ids, at: Place): string {
  const id = ids[at.load]?.[at.lane]?.[at.step];
  if (id === undefined) throw new Error(`nothing at ${JSON.stringify(at)}`);
  return id;
}

function sumOf<T>(items: readonly T[], pick: (item: T) => number): number {
  return items.reduce((sum, item) => sum + pick(item), 0);
}

function sumOfMeters(meters: readonly Meter[]): Meter {
  const sum = { ...NOTHING_BILLED };
  // Safe cast: these are its keys.
  for (const name of Object.keys(sum) as (keyof Meter)[])
    sum[name] = sumOf(meters, (meter) => meter[name]);
  return sum;
}

function sayBills(verbs: readonly Measured[], say: (line: string) => void): void {
  say("  What Cloudflare bills for a call, and dollars for a million of them:");
  for (const { verb, bill } of verbs) {
    const each = (name: keyof Meter) => bill.meter[name] / bill.calls;
    say(
      `  ${verb}: ${number(each("requests"))} requests, ${number(each("objectCalls"))} ` +
        `object calls, ${number(each("frames"))} frames, ${number(each("d1Calls"))} D1 ` +
        `calls, ${number(each("rowsRead"))} rows read, ${number(each("rowsWritten"))} ` +
        `written, $${dollarsOf(bill).toFixed(2)}`,
    );
  }
}
