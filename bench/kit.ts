/**
 * What the trading kit costs, each figure with its peer in alternating rounds of one stack: a
 * replace and a quote, 50 quotes in one call and in single calls, and an accept with and without
 * limits and protection.
 */
import { fillDay, QUOTES_OF_A_DAY, QUOTES_OF_A_QUICK_DAY } from "./day.ts";
import { type Bench, type Figure, median, number } from "./figures.ts";
import { drive, FRESH_KEY, type LoadResult } from "./load.ts";
import {
  acceptsOf,
  type Market,
  openMarket,
  openRequests,
  quoteEach,
  quoteFields,
  spread,
  succeeded,
} from "./market.ts";
import { limitPeople, signed } from "./people.ts";
import { type BenchStack, startBenchStack } from "./stack.ts";

/** A busy machine must not end the bench with a 503. One maker has 50 commands in flight. */
const PATIENT = { RFQ_COMMAND_MAX_WAIT_MS: "60000", RFQ_COMMANDS_IN_FLIGHT_PER_USER: "200" };
const MASS = 50;
/** What one user may have in flight: calls of several quotes, and single commands of a book. */
const MASS_CALLS = 2;
const SINGLE_CALLS = 16;
const LANES = 16;
const MAKERS = 4;

type Cost = { readonly perSecond: number; readonly cpuMicros: number };
type Sizes = {
  readonly commands: number;
  /** Makers one after the other, with `MASS` quotes on as many requests in each of 8 calls. */
  readonly massMakers: number;
};
/** So that a maker ends with 400 open quotes, as a busy one has. */
const CALLS_PER_MAKER = 8;

export const benchKit: Bench = async ({ quick, say, onStop }) => {
  const rounds = quick ? 1 : 8;
  const sizes = quick ? { commands: 64, massMakers: 1 } : { commands: 1_024, massMakers: 8 };
  const stack = await startBenchStack({ settings: PATIENT, inMemory: true });
  onStop(stack.stop);
  try {
    await fillDay(stack.db, quick ? QUOTES_OF_A_QUICK_DAY : QUOTES_OF_A_DAY);
    const measured = {
      quote: [] as Cost[],
      replace: [] as Cost[],
      single: [] as Cost[],
      allowed: [] as Cost[],
      mass: [] as Cost[],
      plain: [] as Cost[],
      limited: [] as Cost[],
    };
    for (let round = 0; round < rounds; round++) {
      const { quote, replace } = await quotesAndReplaces(stack, sizes);
      measured.quote.push(quote);
      measured.replace.push(replace);
      // The one that runs first alternates, because the machine is not equally fast all the time.
      const order = round % 2 === 0 ? [false, true] : [true, false];
      for (const mass of order)
        measured[mass ? "mass" : "single"].push(
          await quotesOfOneMaker(
            stack,
            sizes,
            mass ? { mass, lanes: MASS_CALLS } : { lanes: MASS },
          ),
        );
      measured.allowed.push(await quotesOfOneMaker(stack, sizes, { lanes: SINGLE_CALLS }));
      for (const limited of order)
        measured[limited ? "limited" : "plain"].push(await accepts(stack, sizes, limited));
      const last = Object.entries(measured).map(([name, costs]) => {
        const { perSecond, cpuMicros } = costs.at(-1) ?? { perSecond: 0, cpuMicros: 0 };
        return `${name} ${number(perSecond)}/s ${number(cpuMicros)} µs`;
      });
      say(`  round ${round + 1}: ${last.join(", ")}`);
    }
    const failures = stack.failures();
    if (failures.length > 0) say(`  the Worker logged: ${failures[0]?.slice(0, 300)}`);
    return figuresOf(measured);
  } finally {
    await stack.stop();
  }
};

type Measured = Readonly<
  Record<"quote" | "replace" | "single" | "allowed" | "mass" | "plain" | "limited", readonly Cost[]>
>;

function figuresOf(measured: Measured): Figure[] {
  const of = (name: keyof Measured, pick: keyof Cost) =>
    median(measured[name].map((round) => round[pick]));
  const cpu = "cpuMicros";
  return [
    {
      what: "processor time of workerd per replace",
      unit: "µs",
      ours: of("replace", cpu),
      peer: { name: "a quote", value: of("quote", cpu) },
      target: { atMost: 1.2 },
    },
    {
      what: "replaces",
      unit: "/s",
      ours: of("replace", "perSecond"),
      peer: { name: "quotes", value: of("quote", "perSecond") },
    },
    ...(["single", "allowed"] as const).flatMap((single): Figure[] => {
      const calls = single === "single" ? MASS : SINGLE_CALLS;
      const name = `${calls} single calls in flight`;
      return [
        {
          what: `quotes of one maker, ${MASS} a call, ${MASS_CALLS} calls in flight`,
          unit: "/s",
          ours: of("mass", "perSecond"),
          peer: { name, value: of(single, "perSecond") },
          target: { atLeast: 5 },
        },
        {
          what: "  processor time of workerd per quote",
          unit: "µs",
          ours: of("mass", cpu),
          peer: { name, value: of(single, cpu) },
          target: { atMost: 0.2 },
        },
      ];
    }),
    {
      what: "processor time per accept with limits and protection",
      unit: "µs",
      ours: of("limited", cpu),
      peer: { name: "without", value: of("plain", cpu) },
      target: { atMost: 1.05 },
    },
  ];
}

/** Every request gets one quote. Then each quote is replaced. */
async function quotesAndReplaces(
  stack: BenchStack,
  { commands }: Sizes,
): Promise<{ quote: Cost; replace: Cost }> {
  const market = await openMarket(stack, MAKERS);
  const requestIds = await openRequests(stack, market, commands);
  const quote = await cost(stack, requestIds.length, await quotesOn(market, requestIds));
  const quoteIds = quote.bodies.map((body) => String(body["quote_id"]));
  const replaces = await quotesOn(market, requestIds, quoteIds);
  return { quote, replace: await cost(stack, requestIds.length, replaces) };
}

/** One quote of the makers in turn on each request. It replaces the one of the same index. */
function quotesOn(
  market: Market,
  requestIds: readonly string[],
  replaced: readonly string[] = [],
): Promise<Uint8Array[]> {
  return Promise.all(
    requestIds.map((requestId, index) => {
      const maker = market.makers[index % market.makers.length];
      if (maker === undefined) throw new Error("the market has no makers");
      const replaces = replaced[index];
      const fields = { ...quoteFields(requestId), ...(replaces === undefined ? {} : { replaces }) };
      return signed(maker, "POST", "/rfq/quote", fields, { "idempotency-key": FRESH_KEY });
    }),
  );
}

/** The same quotes with keys, either in calls of 50 or in single calls. */
async function quotesOfOneMaker(
  stack: BenchStack,
  sizes: Sizes,
  { lanes, mass = false }: { lanes: number; mass?: boolean },
): Promise<Cost> {
  const market = await openMarket(stack, sizes.massMakers);
  const requestIds = await openRequests(stack, market, MASS);
  const calls = market.makers.flatMap((maker) =>
    Array.from({ length: CALLS_PER_MAKER }, (_, call) => ({ maker, call })),
  );
  const quotes = calls.length * MASS;
  if (!mass) {
    const singles = calls.flatMap(({ maker }) =>
      requestIds.map((id) =>
        signed(maker, "POST", "/rfq/quote", quoteFields(id), { "idempotency-key": FRESH_KEY }),
      ),
    );
    return cost(stack, quotes, await Promise.all(singles), lanes);
  }
  const bodies = calls.map(({ maker, call }) =>
    signed(maker, "POST", "/rfq/quotes", {
      quotes: requestIds.map((id, n) => ({
        ...quoteFields(id),
        idempotency_key: `bench-${call}-${n}`,
      })),
    }),
  );
  const done = await cost(stack, quotes, await Promise.all(bodies), lanes);
  const placed = done.bodies.flatMap((body) => body["results"] as { quote: object | null }[]);
  if (placed.length !== quotes || placed.some(({ quote }) => quote === null))
    throw new Error("a quote of several was rejected");
  return done;
}

/**
 * One requester accepts one quote on each request. With limits, the keys of both sides and their
 * accounts have all limits, and the makers have protection. None is reached.
 */
async function accepts(stack: BenchStack, { commands }: Sizes, limited: boolean): Promise<Cost> {
  const market = await openMarket(stack, MAKERS, { limited });
  if (limited) await limitPeople(stack.db, [market.requester, ...market.makers]);
  const requestIds = await openRequests(stack, market, commands);
  const quoteIds = await quoteEach(stack, market, requestIds);
  return cost(stack, commands, await acceptsOf(market, quoteIds));
}

/** Sends each request once, over several connections. The bodies have the order of the requests. */
async function cost(
  stack: BenchStack,
  commands: number,
  requests: readonly Uint8Array[],
  lanes = LANES,
): Promise<Cost & { bodies: readonly Record<string, unknown>[] }> {
  const before = stack.cpuMs();
  const result: LoadResult = succeeded(
    await drive({
      port: stack.port,
      lanes: spread(requests, lanes),
      collect: true,
      freshKeys: true,
    }),
  );
  const cpuMs = stack.cpuMs() - before;
  const bodies = requests.map((_, index) => {
    const body = result.bodies[index % lanes]?.[Math.floor(index / lanes)] ?? "null";
    return JSON.parse(body) as Record<string, unknown>;
  });
  return {
    perSecond: commands / (result.ms / 1_000),
    cpuMicros: (1_000 * cpuMs) / commands,
    bodies,
  };
}
