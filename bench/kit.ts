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
const LANES = 16;
const MAKERS = 4;
const SLICES = 8;

type Cost = { readonly perSecond: number; readonly cpuMicros: number };
type Sizes = {
  readonly commands: number;
  /** Each has `MASS` quotes on as many requests in each of `CALLS_PER_MAKER` calls. */
  readonly massMakers: number;
};
/** So that a maker ends with 400 open quotes, as a busy one has. */
const CALLS_PER_MAKER = 8;

/** How the same quotes of 8 makers are sent. */
type Sending = {
  /** In calls of `MASS`, else in single calls. */
  readonly mass: boolean;
  /** The makers send one after the other, else in turn. */
  readonly alone: boolean;
  readonly inFlight: number;
};
const SENDINGS = {
  mass: { mass: true, alone: false, inFlight: 8 },
  single: { mass: false, alone: false, inFlight: MASS },
  // What the service lets one user have in flight.
  massAlone: { mass: true, alone: true, inFlight: 2 },
  singleAlone: { mass: false, alone: true, inFlight: 16 },
  massInTurn: { mass: true, alone: true, inFlight: 1 },
  singleInTurn: { mass: false, alone: true, inFlight: 1 },
} as const satisfies Record<string, Sending>;
type SendingName = keyof typeof SENDINGS;
const names = (table: typeof SENDINGS) => Object.keys(table) as SendingName[];

export const benchKit: Bench = async ({ quick, say, onStop }) => {
  const rounds = quick ? 1 : 8;
  const sizes = { commands: quick ? 64 : 1_024, massMakers: 8 };
  const stack = await startBenchStack({ settings: PATIENT, inMemory: true });
  onStop(stack.stop);
  try {
    await fillDay(stack.db, quick ? QUOTES_OF_A_QUICK_DAY : QUOTES_OF_A_DAY);
    const measured = {
      quote: [] as Cost[],
      replace: [] as Cost[],
      mass: [] as Cost[],
      single: [] as Cost[],
      massAlone: [] as Cost[],
      singleAlone: [] as Cost[],
      massInTurn: [] as Cost[],
      singleInTurn: [] as Cost[],
      plain: [] as Cost[],
      limited: [] as Cost[],
    };
    for (let round = 0; round < rounds; round++) {
      const [quote, replace] = await quotesAndReplaces(stack, sizes);
      measured.quote.push(quote);
      measured.replace.push(replace);
      const [plain, limited] = await acceptsInTurn(stack, sizes);
      measured.plain.push(plain);
      measured.limited.push(limited);
      // The one that runs first alternates, because the machine is not equally fast all the time.
      for (const name of round % 2 === 0 ? names(SENDINGS) : names(SENDINGS).toReversed())
        measured[name].push(await quotesOfMakers(stack, sizes, SENDINGS[name]));
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
  Record<"quote" | "replace" | "plain" | "limited" | SendingName, readonly Cost[]>
>;

function figuresOf(measured: Measured): Figure[] {
  const of = (name: keyof Measured, pick: keyof Cost) =>
    median(measured[name].map((round) => round[pick]));
  const cpu = "cpuMicros";
  const massFigures = (row: { what: string; ours: SendingName; peer: SendingName }): Figure[] => {
    const { inFlight } = SENDINGS[row.peer];
    const name = inFlight === 1 ? "calls in turn" : `${inFlight} single calls`;
    return [
      {
        what: row.what,
        unit: "/s",
        ours: of(row.ours, "perSecond"),
        peer: { name, value: of(row.peer, "perSecond") },
        target: { atLeast: 5 },
      },
      {
        what: "  processor time of workerd per quote",
        unit: "µs",
        ours: of(row.ours, cpu),
        peer: { name, value: of(row.peer, cpu) },
        target: { atMost: 0.2 },
      },
    ];
  };
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
    ...massFigures({
      what: `quotes of 8 makers, ${MASS} a call, one call of each`,
      ours: "mass",
      peer: "single",
    }),
    ...massFigures({
      what: `quotes of one maker, ${MASS} a call, 2 calls`,
      ours: "massAlone",
      peer: "singleAlone",
    }),
    ...massFigures({
      what: `quotes of one maker, ${MASS} a call, 1 call`,
      ours: "massInTurn",
      peer: "singleInTurn",
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

/** One quote on each of new requests, and replaces of quotes on as many others. */
async function quotesAndReplaces(stack: BenchStack, { commands }: Sizes): Promise<[Cost, Cost]> {
  const market = await openMarket(stack, MAKERS);
  const requestIds = await openRequests(stack, market, commands);
  const quoteIds = await quoteEach(stack, market, requestIds);
  const others = await openRequests(stack, market, commands);
  return inTurn(stack, [
    await quotesOn(market, others),
    await quotesOn(market, requestIds, quoteIds),
  ]);
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

async function quotesOfMakers(
  stack: BenchStack,
  { massMakers }: Sizes,
  { mass, alone, inFlight }: Sending,
): Promise<Cost> {
  const market = await openMarket(stack, massMakers);
  const requestIds = await openRequests(stack, market, MASS);
  const rounds = Array.from({ length: CALLS_PER_MAKER }, (_, call) => call);
  const calls = alone
    ? market.makers.flatMap((maker) => rounds.map((call) => ({ maker, call })))
    : rounds.flatMap((call) => market.makers.map((maker) => ({ maker, call })));
  const quotes = calls.length * MASS;
  if (!mass) {
    const singles = calls.flatMap(({ maker }) =>
      requestIds.map((id) =>
        signed(maker, "POST", "/rfq/quote", quoteFields(id), { "idempotency-key": FRESH_KEY }),
      ),
    );
    return cost(stack, quotes, await Promise.all(singles), inFlight);
  }
  const bodies = calls.map(({ maker, call }) =>
    signed(maker, "POST", "/rfq/quotes", {
      quotes: requestIds.map((id, n) => ({
        ...quoteFields(id),
        idempotency_key: `bench-${call}-${n}`,
      })),
    }),
  );
  const done = await cost(stack, quotes, await Promise.all(bodies), inFlight);
  const placed = done.bodies.flatMap((body) => body["results"] as { quote: object | null }[]);
  if (placed.length !== quotes || placed.some(({ quote }) => quote === null))
    throw new Error("a quote of several was rejected");
  return done;
}

/**
 * In each of two markets one requester accepts one quote on each request. In the second, the keys
 * of both sides and their accounts have all limits, and the makers have protection.
 */
async function acceptsInTurn(stack: BenchStack, { commands }: Sizes): Promise<[Cost, Cost]> {
  const prepare = async (limited: boolean) => {
    const market = await openMarket(stack, MAKERS, { limited });
    if (limited) await limitPeople(stack.db, [market.requester, ...market.makers]);
    const requestIds = await openRequests(stack, market, commands);
    return { market, quoteIds: await quoteEach(stack, market, requestIds) };
  };
  const [plain, limited] = [await prepare(false), await prepare(true)];
  return inTurn(stack, [
    await acceptsOf(plain.market, plain.quoteIds),
    await acceptsOf(limited.market, limited.quoteIds),
  ]);
}

/** Sends two lists of requests in slices by turns, so that both meet the same machine. */
async function inTurn(
  stack: BenchStack,
  lists: readonly [readonly Uint8Array[], readonly Uint8Array[]],
): Promise<[Cost, Cost]> {
  const [first, second]: [Cost[], Cost[]] = [[], []];
  for (let slice = 0; slice < SLICES; slice++) {
    const part = (list: readonly Uint8Array[]) => {
      const size = list.length / SLICES;
      return list.slice(slice * size, (slice + 1) * size);
    };
    const both = [
      { costs: first, requests: part(lists[0]) },
      { costs: second, requests: part(lists[1]) },
    ];
    for (const { costs, requests } of slice % 2 === 0 ? both : both.toReversed())
      costs.push(await cost(stack, requests.length, requests));
  }
  const mean = (costs: readonly Cost[]): Cost => ({
    perSecond: SLICES / sum(costs.map(({ perSecond }) => 1 / perSecond)),
    cpuMicros: sum(costs.map(({ cpuMicros }) => cpuMicros)) / SLICES,
  });
  return [mean(first), mean(second)];
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

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
