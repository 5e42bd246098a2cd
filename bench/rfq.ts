/** Quotes and accepts per second with group commit, compared with one commit per command. */
import { fillDay, QUOTES_OF_A_DAY, QUOTES_OF_A_QUICK_DAY } from "./day.ts";
import { type Bench, type Figure, number } from "./figures.ts";
import { drive } from "./load.ts";
import {
  acceptsAtPrice,
  acceptsOf,
  fillRequests,
  openMarket,
  openRequests,
  quoteEach,
  QUOTES_PER_SIDE,
  spread,
  succeeded,
} from "./market.ts";
import {
  MAKERS,
  medianOf,
  PATIENT,
  perCommit,
  quotesOverRest,
  quotesOverSockets,
  type Rate,
  rateOf,
  sayFailures,
} from "./quote-loads.ts";
import type { BenchStack } from "./stack.ts";

const BOOKS = 16;
/** The most open quotes of a side. */
const FULL_SIDE = 500;

export const benchRfq: Bench = async ({ quick, say, start }) => {
  const [rounds, forMs] = quick ? [1, 2_000] : [5, 5_000];
  const [acceptsPerBook, fullSides] = quick ? [16, 8] : [64, 32];
  const day = quick ? QUOTES_OF_A_QUICK_DAY : QUOTES_OF_A_DAY;
  const grouped = await start({ settings: PATIENT });
  await fillDay(grouped.db, day);
  const single = await start({
    settings: { ...PATIENT, RFQ_GROUP_MAX_OPERATIONS: "1", RFQ_GROUP_WAIT_MS: "0" },
  });
  await fillDay(single.db, day);
  const rates = {
    rest: [] as Rate[],
    restAlone: [] as Rate[],
    sockets: [] as Rate[],
    accepts: [] as Rate[],
    acceptsAlone: [] as Rate[],
    acceptsAtPrice: [] as Rate[],
    fullSide: [] as Rate[],
    fullSideAtPrice: [] as Rate[],
  };
  for (let round = 0; round < rounds; round++) {
    rates.rest.push(await quotesOverRest(grouped, forMs));
    rates.restAlone.push(await quotesOverRest(single, forMs));
    rates.sockets.push(await quotesOverSockets(grouped, forMs));
    rates.accepts.push(await acceptsOverBooks(grouped, acceptsPerBook));
    rates.acceptsAtPrice.push(await acceptsOverBooks(grouped, acceptsPerBook, "price"));
    rates.acceptsAlone.push(await acceptsOverBooks(single, acceptsPerBook));
    rates.fullSide.push(await acceptsOfFullSides(grouped, fullSides, "id"));
    rates.fullSideAtPrice.push(await acceptsOfFullSides(grouped, fullSides, "price"));
    const last = Object.entries(rates).map(
      ([name, list]) => `${name} ${number(list.at(-1)?.perSecond ?? 0)}/s`,
    );
    say(`  round ${round + 1}: ${last.join(", ")}`);
  }
  for (const stack of [grouped, single]) sayFailures(stack, say);
  return [
    ...figuresOf(`quotes into one book, ${MAKERS} signed REST makers`, "quote", {
      ours: rates.rest,
      alone: rates.restAlone,
      target: { atLeast: 3 },
    }),
    ...figuresOf(`quotes into one book, ${MAKERS} sockets`, "quote", {
      ours: rates.sockets,
      alone: rates.restAlone,
      target: { atLeast: 3 },
    }),
    ...figuresOf(`accepts over ${BOOKS} books, ${MAKERS} connections`, "accept", {
      ours: rates.accepts,
      alone: rates.acceptsAlone,
    }),
    {
      what: "the processor time of an accept",
      unit: "µs",
      ours: medianOf(rates.accepts, "cpuMicros"),
      target: { atMost: 1_400 },
    },
    byPrice("one open quote", rates.acceptsAtPrice, rates.accepts),
    byPrice(`${FULL_SIDE} open quotes`, rates.fullSideAtPrice, rates.fullSide),
  ];
};

function figuresOf(
  what: string,
  command: string,
  of: { ours: readonly Rate[]; alone: readonly Rate[]; target?: { atLeast: number } },
): Figure[] {
  const figure = (name: string, unit: string, pick: keyof Rate): Figure => ({
    what: name,
    unit,
    ours: medianOf(of.ours, pick),
    peer: { name: "one commit per command", value: medianOf(of.alone, pick) },
  });
  return [
    { ...figure(what, "/s", "perSecond"), ...(of.target && { target: of.target }) },
    figure("  p50", "ms", "p50"),
    figure("  p99", "ms", "p99"),
    figure(`  processor time of workerd per ${command}`, "µs", "cpuMicros"),
    figure(`  ${command}s per commit`, "", "perCommit"),
  ];
}

function byPrice(beside: string, ours: readonly Rate[], byId: readonly Rate[]): Figure {
  return {
    what: `the processor time of an accept by price, ${beside}`,
    unit: "µs",
    ours: medianOf(ours, "cpuMicros"),
    peer: { name: "by id", value: medianOf(byId, "cpuMicros") },
    target: { atMost: 1.1 },
  };
}

type By = "id" | "price";

/** In each book one requester accepts `each` quotes once, over four connections. */
async function acceptsOverBooks(stack: BenchStack, each: number, by: By = "id"): Promise<Rate> {
  const books = [];
  for (let book = 0; book < BOOKS; book++) {
    const market = await openMarket(stack, MAKERS / BOOKS);
    const requestIds = await openRequests(stack, market, each);
    const quoteIds = await quoteEach(stack, market, requestIds);
    const accepts = by === "id" ? acceptsOf(market, quoteIds) : acceptsAtPrice(market, requestIds);
    books.push({ market, lanes: spread(await accepts, MAKERS / BOOKS) });
  }
  const lanes = books.flatMap((book) => book.lanes);
  const before = stack.cpuMs();
  const result = succeeded(await drive({ port: stack.port, lanes }));
  const cpuMs = stack.cpuMs() - before;
  const all = books.map(({ market }) => market);
  return rateOf(result, cpuMs, await perCommit(stack, all, "matches"));
}

/** One requester accepts a quote of each full request, one after the other. */
async function acceptsOfFullSides(stack: BenchStack, count: number, by: By): Promise<Rate> {
  const market = await openMarket(stack, FULL_SIDE / QUOTES_PER_SIDE);
  const requestIds = await openRequests(stack, market, count);
  const quoteIds = await fillRequests(stack, market, requestIds);
  const accepts =
    by === "id" ? await acceptsOf(market, quoteIds) : await acceptsAtPrice(market, requestIds);
  const before = stack.cpuMs();
  const result = succeeded(await drive({ port: stack.port, lanes: [accepts] }));
  const cpuMs = stack.cpuMs() - before;
  return rateOf(result, cpuMs, await perCommit(stack, [market], "matches"));
}
