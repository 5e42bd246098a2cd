/**
 * Quotes and accepts per second with group commit, compared with one commit per command and with
 * bare D1 batches of the same rows.
 */
import { fillDay, QUOTES_OF_A_DAY, QUOTES_OF_A_QUICK_DAY } from "./day.ts";
import { type Bench, type Figure, median, number, percentile } from "./figures.ts";
import { drive, FRESH_KEY, type LoadResult } from "./load.ts";
import {
  acceptsOf,
  type Market,
  openMarket,
  openRequests,
  quoteEach,
  quoteFields,
  requestFields,
  sendAll,
  spread,
  streamTargets,
  succeeded,
} from "./market.ts";
import { fund, newToken, type Person, signed } from "./people.ts";
import { driveSockets, openSocket } from "./sockets.ts";
import { type BenchStack, startBenchStack } from "./stack.ts";

const MAKERS = 64;
/** A request accepts 1 000 open quotes. With so many requests no round fills one. */
const REQUESTS = 64;
const BOOKS = 16;
const MANY_BOOKS = 256;
const REQUESTS_PER_BOOK = 4;
/** Quotes of a `POST /rfq/quotes`, the most that it takes. */
const MASS = 50;
const MASS_MAKERS = 16;
/** Commands of a socket at once, of makers who do not wait for each result. */
const DEEP = 4;

/** A busy machine or a first commit with cold caches must not end the bench with a 503. */
export const PATIENT = { RFQ_COMMAND_MAX_WAIT_MS: "60000" };

type Bare = { readonly perSecond: number; readonly cpuMicros: number };
export type Rate = {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  readonly perCommit: number;
  readonly cpuMicros: number;
};

export const benchRfq: Bench = async ({ quick, say, onStop }) => {
  const [rounds, forMs] = quick ? [1, 2_000] : [5, 5_000];
  const acceptsPerBook = quick ? 16 : 64;
  const callsPerMaker = quick ? 4 : 20;
  const day = quick ? QUOTES_OF_A_QUICK_DAY : QUOTES_OF_A_DAY;
  const grouped = await startBenchStack({ peer: "batches", settings: PATIENT });
  onStop(grouped.stop);
  try {
    await fillDay(grouped.db, day);
    await fillDay(grouped.peerDb, day);
    const single = await startBenchStack({
      settings: { ...PATIENT, RFQ_GROUP_MAX_OPERATIONS: "1", RFQ_GROUP_WAIT_MS: "0" },
    });
    onStop(single.stop);
    try {
      await fillDay(single.db, day);
      const rest: Record<"grouped" | "single", Rate[]> = { grouped: [], single: [] };
      const sockets: Rate[] = [];
      const deep: Rate[] = [];
      const mass: Rate[] = [];
      const bareOf: Record<"sockets" | "deep" | "mass", Bare[]> = {
        sockets: [],
        deep: [],
        mass: [],
      };
      const manyBooks: Rate[] = [];
      const accepts: Record<"grouped" | "single", Rate[]> = { grouped: [], single: [] };
      const bare: Record<"each" | "sets", Bare[]> = { each: [], sets: [] };
      for (let round = 0; round < rounds; round++) {
        rest.grouped.push(await quotesOverRest(grouped, forMs));
        rest.single.push(await quotesOverRest(single, forMs));
        sockets.push(await quotesOverSockets(grouped, forMs));
        bareOf.sockets.push(await bareLike(grouped, sockets, 1, forMs));
        deep.push(await quotesOverSockets(grouped, forMs, DEEP));
        bareOf.deep.push(await bareLike(grouped, deep, 1, forMs));
        mass.push(await quotesInCalls(grouped, callsPerMaker));
        bareOf.mass.push(await bareLike(grouped, mass, MASS, forMs));
        manyBooks.push(await quotesOverBooks(grouped, forMs));
        const quotes = Math.max(1, Math.round(rest.grouped.at(-1)?.perCommit ?? 1));
        for (const style of ["each", "sets"] as const)
          bare[style].push(await bareBatches(grouped, { quotes, perMaker: 1, ms: forMs, style }));
        accepts.grouped.push(await acceptsOverBooks(grouped, acceptsPerBook));
        accepts.single.push(await acceptsOverBooks(single, acceptsPerBook));
        const last = (list: readonly Rate[]) =>
          `${number(list.at(-1)?.perSecond ?? 0)}/s (${number(list.at(-1)?.perCommit ?? 0)} ` +
          `per commit)`;
        say(
          `  round ${round + 1}: REST ${last(rest.grouped)}, one at a time ` +
            `${last(rest.single)}, sockets ${last(sockets)}, ${DEEP} in flight ${last(deep)}, ` +
            `${MASS} a call ${last(mass)}, ` +
            `${MANY_BOOKS} books ${last(manyBooks)}, bare ` +
            `${number(bare.each.at(-1)?.perSecond ?? 0)}/s and ` +
            `${number(bare.sets.at(-1)?.perSecond ?? 0)}/s, accepts ${last(accepts.grouped)}, ` +
            `one at a time ${last(accepts.single)}`,
        );
      }
      reportFailures([...grouped.failures(), ...single.failures()], say);
      const of = (list: readonly Rate[], pick: (rate: Rate) => number = (rate) => rate.perSecond) =>
        median(list.map(pick));
      const oneByOne = (value: number) => ({ name: "one commit per command", value });
      const batches = (style: "each" | "sets", pick: (rate: Bare) => number) => ({
        name: "D1 batches",
        value: median(bare[style].map(pick)),
      });
      const batchesLike = (way: keyof typeof bareOf, pick: (rate: Bare) => number) => ({
        name: "D1 batches",
        value: median(bareOf[way].map(pick)),
      });
      const oneBook = (value: number) => ({ name: "one book", value });
      const figures: Figure[] = [
        {
          what: `quotes into one book, ${MAKERS} signed REST makers`,
          unit: "/s",
          ours: of(rest.grouped),
          peer: oneByOne(of(rest.single)),
          target: { atLeast: 3 },
        },
        {
          what: "  p50",
          unit: "ms",
          ours: of(rest.grouped, (rate) => rate.p50),
          peer: oneByOne(of(rest.single, (rate) => rate.p50)),
        },
        {
          what: "  p99",
          unit: "ms",
          ours: of(rest.grouped, (rate) => rate.p99),
          peer: oneByOne(of(rest.single, (rate) => rate.p99)),
        },
        {
          what: "  processor time of workerd per quote",
          unit: "µs",
          ours: of(rest.grouped, (rate) => rate.cpuMicros),
          peer: oneByOne(of(rest.single, (rate) => rate.cpuMicros)),
        },
        {
          what: "  quotes per commit",
          unit: "",
          ours: of(rest.grouped, (rate) => rate.perCommit),
          peer: oneByOne(of(rest.single, (rate) => rate.perCommit)),
        },
        {
          what: `quotes into one book, ${MAKERS} sockets`,
          unit: "/s",
          ours: of(sockets),
          peer: oneByOne(of(rest.single)),
          target: { atLeast: 3 },
        },
        { what: "  p50", unit: "ms", ours: of(sockets, (rate) => rate.p50) },
        { what: "  p99", unit: "ms", ours: of(sockets, (rate) => rate.p99) },
        {
          what: "  processor time of workerd per quote",
          unit: "µs",
          ours: of(sockets, (rate) => rate.cpuMicros),
          peer: oneByOne(of(rest.single, (rate) => rate.cpuMicros)),
        },
        { what: "  quotes per commit", unit: "", ours: of(sockets, (rate) => rate.perCommit) },
        {
          what: `quotes into ${MANY_BOOKS} books, ${MAKERS} connections`,
          unit: "/s",
          ours: of(manyBooks),
          peer: oneBook(of(rest.grouped)),
        },
        {
          what: "  p99",
          unit: "ms",
          ours: of(manyBooks, (rate) => rate.p99),
          peer: oneBook(of(rest.grouped, (rate) => rate.p99)),
        },
        {
          what: "  quotes per commit",
          unit: "",
          ours: of(manyBooks, (rate) => rate.perCommit),
          peer: oneBook(of(rest.grouped, (rate) => rate.perCommit)),
        },
        {
          what: "  processor time of workerd per quote",
          unit: "µs",
          ours: of(manyBooks, (rate) => rate.cpuMicros),
          peer: oneBook(of(rest.grouped, (rate) => rate.cpuMicros)),
        },
        {
          what: "quotes over REST, and their bare rows: an INSERT per row",
          unit: "/s",
          ours: of(rest.grouped),
          peer: batches("each", (rate) => rate.perSecond),
          target: { atLeast: 0.8 },
        },
        {
          what: "quotes over REST, and their bare rows: an INSERT per table",
          unit: "/s",
          ours: of(rest.grouped),
          peer: batches("sets", (rate) => rate.perSecond),
        },
        {
          what: "quotes over sockets, and their bare rows: an INSERT per row",
          unit: "/s",
          ours: of(sockets),
          peer: batchesLike("sockets", (rate) => rate.perSecond),
          target: { atLeast: 1.2 },
        },
        {
          what: `the same, ${DEEP} in flight on each`,
          unit: "/s",
          ours: of(deep),
          peer: batchesLike("deep", (rate) => rate.perSecond),
        },
        {
          what: "  by processor time",
          unit: "µs",
          ours: of(deep, (rate) => rate.cpuMicros),
          peer: batchesLike("deep", (rate) => rate.cpuMicros),
        },
        { what: "  quotes per commit", unit: "", ours: of(deep, (rate) => rate.perCommit) },
        {
          what: `quotes by ${MASS} a call, and their bare rows: an INSERT per row`,
          unit: "/s",
          ours: of(mass),
          peer: batchesLike("mass", (rate) => rate.perSecond),
          target: { atLeast: 1.7 },
        },
        {
          what: "  by processor time",
          unit: "µs",
          ours: of(mass, (rate) => rate.cpuMicros),
          peer: batchesLike("mass", (rate) => rate.cpuMicros),
        },
        { what: "  quotes per commit", unit: "", ours: of(mass, (rate) => rate.perCommit) },
        ...(["REST", "sockets"] as const).map((way) => ({
          what: `  by processor time, over ${way}: an INSERT per row`,
          unit: "µs",
          ours: of(way === "REST" ? rest.grouped : sockets, (rate) => rate.cpuMicros),
          peer:
            way === "REST"
              ? batches("each", (rate) => rate.cpuMicros)
              : batchesLike("sockets", (rate) => rate.cpuMicros),
        })),
        {
          what: `accepts over ${BOOKS} books, ${MAKERS} connections`,
          unit: "/s",
          ours: of(accepts.grouped),
          peer: oneByOne(of(accepts.single)),
        },
        {
          what: "  processor time of workerd per accept",
          unit: "µs",
          ours: of(accepts.grouped, (rate) => rate.cpuMicros),
          target: { atMost: 1_600 },
        },
        {
          what: "  p50",
          unit: "ms",
          ours: of(accepts.grouped, (rate) => rate.p50),
          peer: oneByOne(of(accepts.single, (rate) => rate.p50)),
        },
        {
          what: "  p99",
          unit: "ms",
          ours: of(accepts.grouped, (rate) => rate.p99),
          peer: oneByOne(of(accepts.single, (rate) => rate.p99)),
        },
      ];
      return figures;
    } finally {
      await single.stop();
    }
  } finally {
    await grouped.stop();
  }
};

export async function quotesOverRest(stack: BenchStack, forMs: number): Promise<Rate> {
  const market = await openMarket(stack, MAKERS);
  const requestIds = await openRequests(stack, market, REQUESTS);
  const lanes = await Promise.all(
    market.makers.map((maker, index) =>
      // Each maker begins at another request, so that they spread over all of them.
      Promise.all(
        requestIds.map((_, step) =>
          signed(
            maker,
            "POST",
            "/rfq/quote",
            quoteFields(requestIds[(index + step) % REQUESTS] ?? ""),
            { "idempotency-key": FRESH_KEY },
          ),
        ),
      ),
    ),
  );
  const before = stack.cpuMs();
  const result = succeeded(
    await drive({ port: stack.port, lanes, forMs, warmUpMs: 500, freshKeys: true }),
  );
  return rateOf(result, stack.cpuMs() - before, await perCommit(stack, [market], "quotes"));
}

/** Each of as many connections as for one book quotes in books of its own, in turn. */
export async function quotesOverBooks(stack: BenchStack, forMs: number): Promise<Rate> {
  const markets: Market[] = [];
  for (let book = 0; book < MANY_BOOKS; book++) markets.push(await openMarket(stack, 1));
  const targets = markets.flatMap((market) =>
    Array.from({ length: REQUESTS_PER_BOOK }, () => market),
  );
  const opened = await sendAll(
    stack,
    await Promise.all(
      targets.map((market) =>
        signed(market.requester, "POST", "/rfq/request", requestFields(market)),
      ),
    ),
  );
  const quotes = await Promise.all(
    targets.map(({ makers: [maker] }, index) =>
      signed(
        maker as Person,
        "POST",
        "/rfq/quote",
        quoteFields(String(opened[index]?.["request_id"])),
        { "idempotency-key": FRESH_KEY },
      ),
    ),
  );
  // The first quote of a maker reads the key and notes its use, and each book sets its alarm.
  await sendAll(
    stack,
    quotes.filter((_quote, index) => index % REQUESTS_PER_BOOK === 0),
  );
  const before = stack.cpuMs();
  const result = succeeded(
    await drive({
      port: stack.port,
      // A book's quotes are neighbours, so `spread` would give them to different connections.
      lanes: Array.from({ length: MAKERS }, (_, lane) =>
        quotes.filter((_quote, index) => Math.floor(index / REQUESTS_PER_BOOK) % MAKERS === lane),
      ),
      forMs,
      warmUpMs: 500,
      freshKeys: true,
    }),
  );
  return rateOf(result, stack.cpuMs() - before, await perCommit(stack, markets, "quotes"));
}

/** Each maker has one socket on the book's stream, with so many commands in flight. */
async function quotesOverSockets(stack: BenchStack, forMs: number, inFlight = 1): Promise<Rate> {
  const market = await openMarket(stack, MAKERS);
  const requestIds = await openRequests(stack, market, REQUESTS);
  const sockets = await Promise.all(
    (await streamTargets(stack, market.makers, market.assetId)).map((target) =>
      openSocket(stack.port, target),
    ),
  );
  const before = stack.cpuMs();
  const result = await driveSockets(sockets, {
    forMs,
    warmUpMs: 500,
    inFlight,
    commandOf: (socket, step) => ({
      op: "quote",
      idempotency_key: `bench-${step}`,
      ...quoteFields(requestIds[(socket + step) % REQUESTS] ?? ""),
    }),
  });
  const cpuMs = stack.cpuMs() - before;
  for (const socket of sockets) socket.close();
  return rateOf(result, cpuMs, await perCommit(stack, [market], "quotes"));
}

/** Each maker sends one call at a time, of a quote on each of as many requests. */
async function quotesInCalls(stack: BenchStack, callsPerMaker: number): Promise<Rate> {
  const market = await openMarket(stack, MASS_MAKERS);
  const requestIds = await openRequests(stack, market, REQUESTS);
  const lanes = await Promise.all(
    market.makers.map((maker, index) =>
      Promise.all(
        Array.from({ length: callsPerMaker }, (_, call) =>
          signed(maker, "POST", "/rfq/quotes", {
            quotes: Array.from({ length: MASS }, (_quote, n) => ({
              ...quoteFields(requestIds[(index + call + n) % REQUESTS] ?? ""),
              idempotency_key: `bench-${call}-${n}`,
            })),
          }),
        ),
      ),
    ),
  );
  const before = stack.cpuMs();
  const result = succeeded(await drive({ port: stack.port, lanes, collect: true }));
  const cpuMs = stack.cpuMs() - before;
  const placed = result.bodies
    .flat()
    .flatMap((body) => (JSON.parse(body) as { results: { quote: object | null }[] }).results);
  if (placed.length !== result.all * MASS || placed.some(({ quote }) => quote === null))
    throw new Error("a quote of several was rejected");
  const rate = rateOf(result, cpuMs, await perCommit(stack, [market], "quotes"));
  return { ...rate, perSecond: rate.perSecond * MASS, cpuMicros: rate.cpuMicros / MASS };
}

/** In each book one requester accepts `each` quotes once, over four connections. */
async function acceptsOverBooks(stack: BenchStack, each: number): Promise<Rate> {
  const books = [];
  for (let book = 0; book < BOOKS; book++) {
    const market = await openMarket(stack, MAKERS / BOOKS);
    books.push({
      market,
      quoteIds: await quoteEach(stack, market, await openRequests(stack, market, each)),
    });
  }
  const lanes = (
    await Promise.all(books.map(({ market, quoteIds }) => acceptsOf(market, quoteIds)))
  ).flatMap((ofBook) => spread(ofBook, MAKERS / BOOKS));
  const before = stack.cpuMs();
  const result = succeeded(await drive({ port: stack.port, lanes }));
  const cpuMs = stack.cpuMs() - before;
  const all = books.map(({ market }) => market);
  return rateOf(result, cpuMs, await perCommit(stack, all, "matches"));
}

/** Batches with as many quotes as the commits of the latest of these rounds. */
function bareLike(
  stack: BenchStack,
  rounds: readonly Rate[],
  perMaker: number,
  ms: number,
): Promise<Bare> {
  const quotes = Math.max(1, Math.round(rounds.at(-1)?.perCommit ?? 1));
  return bareBatches(stack, { quotes, perMaker, ms, style: "each" });
}

async function bareBatches(
  stack: BenchStack,
  load: { quotes: number; perMaker: number; ms: number; style: "each" | "sets" },
): Promise<Bare> {
  const { asset } = newToken();
  const makers = Array.from({ length: MAKERS }, () => crypto.randomUUID());
  await fund(stack.peerDb, makers, [asset], 10 ** 12);
  const before = stack.cpuMs();
  const response = await fetch(`http://127.0.0.1:${stack.peerPort}/`, {
    method: "POST",
    body: JSON.stringify({ ...load, makers, asset }),
  });
  if (!response.ok) throw new Error(await response.text());
  const { written, ms } = (await response.json()) as { written: number; ms: number };
  return {
    perSecond: written / (ms / 1_000),
    cpuMicros: (1_000 * (stack.cpuMs() - before)) / written,
  };
}

/** The mean number of rows that a commit group wrote for one of these books. */
async function perCommit(
  stack: BenchStack,
  markets: readonly Market[],
  table: "quotes" | "matches",
): Promise<number> {
  const column = table === "quotes" ? "opened_group" : "matched_group";
  const row = await stack.db
    .prepare(
      `SELECT 1.0 * count(*) / count(DISTINCT ${column}) AS mean FROM ${table}
        WHERE asset IN (SELECT value FROM json_each(?))`,
    )
    .bind(JSON.stringify(markets.map(({ asset }) => asset)))
    .first<{ mean: number }>();
  return row?.mean ?? Number.NaN;
}

function rateOf(
  result: Pick<LoadResult, "perSecond" | "latencies" | "all">,
  cpuMs: number,
  commitSize: number,
): Rate {
  return {
    perSecond: result.perSecond,
    p50: percentile(result.latencies, 0.5),
    p99: percentile(result.latencies, 0.99),
    perCommit: commitSize,
    cpuMicros: (1_000 * cpuMs) / result.all,
  };
}

function reportFailures(failures: readonly string[], say: (line: string) => void): void {
  if (failures.length > 0)
    say(
      `  the Worker logged ${failures.length} failures, the first: ${failures[0]?.slice(0, 300)}`,
    );
}
