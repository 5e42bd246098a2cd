/**
 * Quotes and accepts per second with group commit, compared with one commit per command and with
 * bare D1 batches of the same rows.
 */
import { type Bench, type Figure, mean, median, number, percentile } from "./figures.ts";
import { drive, type LoadResult } from "./load.ts";
import {
  acceptsOf,
  openMarket,
  openRequests,
  quoteEach,
  quoteFields,
  spread,
  streamTargets,
  succeeded,
} from "./market.ts";
import { fund, newToken, signed } from "./people.ts";
import { openSocket } from "./sockets.ts";
import { type BenchStack, startBenchStack } from "./stack.ts";

const MAKERS = 64;
/** A request accepts 1 000 open quotes. With so many requests no round fills one. */
const REQUESTS = 64;
const BOOKS = 16;

type Rate = {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  readonly perCommit: number;
  readonly cpuMicros: number;
};

export const benchRfq: Bench = async ({ quick, say, onStop }) => {
  const [rounds, forMs] = quick ? [1, 2_000] : [5, 5_000];
  const acceptsPerBook = quick ? 16 : 64;
  const grouped = await startBenchStack({ peer: "batches" });
  onStop(grouped.stop);
  try {
    const single = await startBenchStack({
      settings: { RFQ_GROUP_MAX_OPERATIONS: "1", RFQ_GROUP_WAIT_MS: "0" },
    });
    onStop(single.stop);
    try {
      const rest: Record<"grouped" | "single", Rate[]> = { grouped: [], single: [] };
      const sockets: Rate[] = [];
      const accepts: Record<"grouped" | "single", Rate[]> = { grouped: [], single: [] };
      const bare: Record<"each" | "sets", number[]> = { each: [], sets: [] };
      for (let round = 0; round < rounds; round++) {
        rest.grouped.push(await quotesOverRest(grouped, forMs));
        rest.single.push(await quotesOverRest(single, forMs));
        sockets.push(await quotesOverSockets(grouped, forMs));
        const quotes = Math.max(1, Math.round(rest.grouped.at(-1)?.perCommit ?? 1));
        for (const style of ["each", "sets"] as const)
          bare[style].push(await bareBatches(grouped, { quotes, ms: forMs, style }));
        accepts.grouped.push(await acceptsOverBooks(grouped, acceptsPerBook));
        accepts.single.push(await acceptsOverBooks(single, acceptsPerBook));
        const last = (list: readonly Rate[]) =>
          `${number(list.at(-1)?.perSecond ?? 0)}/s (${number(list.at(-1)?.perCommit ?? 0)} per commit)`;
        say(
          `  round ${round + 1}: REST ${last(rest.grouped)}, one at a time ${last(rest.single)}, sockets ${last(sockets)}, bare ${number(bare.each.at(-1) ?? 0)}/s and ${number(bare.sets.at(-1) ?? 0)}/s, accepts ${last(accepts.grouped)}, one at a time ${last(accepts.single)}`,
        );
      }
      reportFailures([...grouped.failures(), ...single.failures()], say);
      const of = (list: readonly Rate[], pick: (rate: Rate) => number = (rate) => rate.perSecond) =>
        median(list.map(pick));
      const oneByOne = (value: number) => ({ name: "one commit per command", value });
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
          what: "quotes over REST, and their bare rows: an INSERT per row",
          unit: "/s",
          ours: of(rest.grouped),
          peer: { name: "D1 batches", value: median(bare.each) },
        },
        {
          what: "quotes over REST, and their bare rows: an INSERT per table",
          unit: "/s",
          ours: of(rest.grouped),
          peer: { name: "D1 batches", value: median(bare.sets) },
        },
        {
          what: "quotes over sockets, and their bare rows: an INSERT per row",
          unit: "/s",
          ours: of(sockets),
          peer: { name: "D1 batches", value: median(bare.each) },
        },
        {
          what: `accepts over ${BOOKS} books, ${MAKERS} connections`,
          unit: "/s",
          ours: of(accepts.grouped),
          peer: oneByOne(of(accepts.single)),
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

async function quotesOverRest(stack: BenchStack, forMs: number): Promise<Rate> {
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
          ),
        ),
      ),
    ),
  );
  const before = stack.cpuMs();
  const result = succeeded(await drive({ port: stack.port, lanes, forMs, warmUpMs: 500 }));
  return rateOf(
    result,
    stack.cpuMs() - before,
    await perCommit(stack, market.asset, "quotes", "opened_group"),
  );
}

/** Each maker has one socket on the book's stream, with one command in flight. */
async function quotesOverSockets(stack: BenchStack, forMs: number): Promise<Rate> {
  const market = await openMarket(stack, MAKERS);
  const requestIds = await openRequests(stack, market, REQUESTS);
  const sockets = await Promise.all(
    (await streamTargets(stack, market.makers, market.assetId)).map((target) =>
      openSocket(stack.port, target),
    ),
  );
  const latencies: number[] = [];
  let all = 0;
  const before = stack.cpuMs();
  const countFrom = performance.now() + 500;
  const until = countFrom + forMs;
  await Promise.all(
    sockets.map(
      (socket, index) =>
        new Promise<void>((resolve, reject) => {
          let [step, sentAt] = [0, 0];
          const send = () => {
            sentAt = performance.now();
            if (sentAt >= until) return resolve();
            socket.send(
              JSON.stringify({
                id: String(step),
                op: "quote",
                ...quoteFields(requestIds[(index + step++) % REQUESTS] ?? ""),
              }),
            );
          };
          socket.onText = (text) => {
            const { type } = JSON.parse(text) as { type: string };
            if (type === "error") reject(new Error(text));
            if (type !== "result") return;
            const now = performance.now();
            all += 1;
            if (now >= countFrom && now <= until) latencies.push(now - sentAt);
            send();
          };
          send();
        }),
    ),
  );
  const cpuMs = stack.cpuMs() - before;
  for (const socket of sockets) socket.close();
  const result = { perSecond: latencies.length / (forMs / 1_000), all, latencies };
  return rateOf(result, cpuMs, await perCommit(stack, market.asset, "quotes", "opened_group"));
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
  const groups = await Promise.all(
    books.map(({ market }) => perCommit(stack, market.asset, "matches", "matched_group")),
  );
  return rateOf(result, cpuMs, mean(groups));
}

async function bareBatches(
  stack: BenchStack,
  load: { quotes: number; ms: number; style: "each" | "sets" },
): Promise<number> {
  const { asset } = newToken();
  const makers = Array.from({ length: MAKERS }, () => crypto.randomUUID());
  await fund(stack.peerDb, makers, [asset], 10 ** 12);
  const response = await fetch(`http://127.0.0.1:${stack.peerPort}/`, {
    method: "POST",
    body: JSON.stringify({ ...load, makers, asset }),
  });
  if (!response.ok) throw new Error(await response.text());
  const { written, ms } = (await response.json()) as { written: number; ms: number };
  return written / (ms / 1_000);
}

/** The mean number of rows of a book in one commit group. */
async function perCommit(
  stack: BenchStack,
  asset: string,
  table: "quotes" | "matches",
  column: string,
): Promise<number> {
  const row = await stack.db
    .prepare(
      `SELECT 1.0 * count(*) / count(DISTINCT ${column}) AS mean FROM ${table} WHERE asset = ?`,
    )
    .bind(asset)
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
