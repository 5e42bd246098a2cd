/**
 * How large the database gets at 300 quotes a second, sustained. All windows through which data
 * leaves it are shortened by one divisor, so that minutes show what takes days. Quotes carry
 * idempotency keys. Cron and the sealer run as they do deployed, only more often.
 *
 * The size is level when what arrives and what leaves are the same. Its projection multiplies the
 * bytes that each table has of a quote by the quotes that its window contains without the divisor.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Windows, windowsOf } from "../src/platform/windows.ts";
import { TRANSFERS_PER_SEAL } from "../src/archive/choose-range.ts";
import { type Bench, type Figure, number } from "./figures.ts";
import {
  acceptsOf,
  type Market,
  openMarket,
  sendAll,
  signedQuote,
  signedRequest,
  WITH_KEY,
} from "./market.ts";
import { type Sizes, sizesOf } from "./size.ts";
import { type BenchStack, numberIn } from "./stack.ts";

const QUOTES_PER_SEC = 300;
const BOOKS = 8;
const MAKERS_PER_BOOK = 8;
/** Of each second. Half of them end with an accept, the others and their quotes expire. */
const REQUESTS_PER_SEC = 20;
const QUOTES_PER_REQUEST = QUOTES_PER_SEC / REQUESTS_PER_SEC;
const TRANSFERS_PER_QUOTE = 2;
/** Cron runs every minute. The bench cannot run it as often as the divisor says. */
const CRON_MS = 60_000;
const CRON_EVERY_SECS = 5;
/** Several commands of a book are in flight, as with a D1 some 20 ms away. */
const CONNECTIONS = 64;
const QUOTE_LIFE_SECS = 5;
const REQUEST_LIFE_SECS = 30;
const GB = 1e9;
const TARGET_GB = 2;
/** Of the size, from the middle of the run to its end. */
const TARGET_GROWTH = 0.05;

type Plan = { readonly divisor: number; readonly forMs: number; readonly everyMs: number };
const FULL: Plan = { divisor: 720, forMs: 900_000, everyMs: 30_000 };
const QUICK: Plan = { divisor: 3_600, forMs: 180_000, everyMs: 10_000 };

export const benchGrowth: Bench = async ({ quick, say, start }) => {
  const plan = quick ? QUICK : FULL;
  const settings = {
    HOT_WINDOWS_DIVISOR: String(plan.divisor),
    RFQ_COMMAND_MAX_WAIT_MS: "60000",
  };
  const stack = await start({ settings, cron: true });
  const markets = await Promise.all(
    Array.from({ length: BOOKS }, () => openMarket(stack, MAKERS_PER_BOOK)),
  );
  const run = await trade(stack, markets, plan, say);
  for (const failure of stack.failures().slice(0, 5)) say(`  ${failure.slice(0, 300)}`);
  return figuresOf(run, plan);
};

type Sample = { readonly at: number; readonly quotes: number; readonly sizes: Sizes };
type Run = {
  readonly samples: readonly Sample[];
  readonly seals: number;
  /** Mean time between two runs of cron. On a busy machine a second takes longer. */
  readonly cronMs: number;
};

/** Places so many quotes a second, and measures the file now and then. */
async function trade(
  stack: BenchStack,
  markets: readonly Market[],
  { forMs, everyMs }: Plan,
  say: (line: string) => void,
): Promise<Run> {
  const started = performance.now();
  const elapsed = () => performance.now() - started;
  const samples: Sample[] = [];
  let [quotes, crons] = [0, 0];
  let accepts: readonly Uint8Array[] = [];
  for (let second = 0; elapsed() < forMs; second++) {
    accepts = await tradeASecond(stack, markets, second, accepts);
    quotes += QUOTES_PER_SEC;
    await sleep(Math.max(0, (second + 1) * 1_000 - elapsed()));
    if ((second + 1) % CRON_EVERY_SECS !== 0) continue;
    // Before cron, so that a window has its rows of a whole interval too.
    if (elapsed() >= (samples.length + 1) * everyMs) {
      const sample = { at: elapsed(), quotes, sizes: sizesOf(stack) };
      samples.push(sample);
      say(textOf(sample));
    }
    // Between two seconds of trading, because both would wait for the same thread.
    await stack.runCron().catch((error: unknown) => say(`  cron: ${String(error)}`));
    crons++;
  }
  const seals = await numberIn(stack.db, "SELECT count(*) AS n FROM journal_seals");
  return { samples, seals, cronMs: elapsed() / Math.max(1, crons) };
}

function textOf({ at, quotes, sizes }: Sample): string {
  return (
    `  ${number(at / 1_000)} s: ${number(quotes)} quotes ` +
    `(${number((1_000 * quotes) / at)} a second), ` +
    `${number(sizes.inUse / 1e6)} MB in use: ${largest(sizes)}`
  );
}

/** Sends `accepts` too. Returns the accepts of this second's quotes. */
async function tradeASecond(
  stack: BenchStack,
  markets: readonly Market[],
  second: number,
  accepts: readonly Uint8Array[],
): Promise<Uint8Array[]> {
  const turns = Array.from({ length: REQUESTS_PER_SEC }, (_, index) => {
    // Safe: the index is below the length.
    const market = markets[(second + index) % markets.length] as Market;
    return { market, accepted: index % 2 === 0 };
  });
  const requests = await Promise.all(
    turns.map(({ market, accepted }) =>
      signedRequest(market, accepted ? 120 : REQUEST_LIFE_SECS, WITH_KEY),
    ),
  );
  const opened = await sendAll(stack, [...requests, ...accepts], CONNECTIONS);
  const placing = turns.flatMap(({ market, accepted }, turn) =>
    Array.from({ length: QUOTES_PER_REQUEST }, (_, index) =>
      signedQuote(
        market.makers[index % market.makers.length] ?? market.requester,
        String(opened[turn]?.["request_id"]),
        accepted ? 60 : QUOTE_LIFE_SECS,
      ),
    ),
  );
  const placed = await sendAll(stack, await Promise.all(placing), CONNECTIONS);
  const next = turns.flatMap(({ market, accepted }, turn) =>
    accepted ? [acceptsOf(market, [String(placed[turn * QUOTES_PER_REQUEST]?.["quote_id"])])] : [],
  );
  return (await Promise.all(next)).flat();
}

/** The tables with the most bytes, each with its indexes. */
function largest({ whole }: Sizes): string {
  return [...whole]
    .toSorted((a, b) => b[1] - a[1])
    .slice(0, 5)
    .map(([name, bytes]) => `${name} ${number(bytes / 1e6)}`)
    .join(", ");
}

type Stays = Windows & { readonly cron: number };

/** How long rows of each table stay, from their first instant until they are deleted. */
function staysOf(table: string, stays: Stays): number | undefined {
  const { ended, sealEvery, releaseLag, sealerPoll, cron } = stays;
  switch (table) {
    case "transfers":
    case "quotes":
      return QUOTE_LIFE_SECS * 1_000 + ended + sealEvery + releaseLag + sealerPoll + cron;
    case "requests":
      return REQUEST_LIFE_SECS * 1_000 + ended + sealEvery + releaseLag + sealerPoll + cron;
    case "matches":
      return stays.matches + sealEvery + sealerPoll + cron;
    case "event_runs":
    case "stream_events":
      return stays.events + cron;
    case "commit_groups":
      return stays.commitGroups + cron;
    default:
      return undefined;
  }
}

/** How many quotes had been placed at a time of the run, between two samples in proportion. */
function quotesAt(samples: readonly Sample[], at: number): number {
  const after = samples.findIndex((sample) => sample.at >= at);
  const [from, to] = [samples[after - 1] ?? { at: 0, quotes: 0 }, samples[after]];
  if (to === undefined || at <= 0) return 0;
  return from.quotes + ((to.quotes - from.quotes) * (at - from.at)) / (to.at - from.at);
}

function figuresOf({ samples, seals, cronMs }: Run, { divisor }: Plan): Figure[] {
  const last = samples.at(-1);
  const middle = samples[Math.floor(samples.length / 2)];
  if (last === undefined || middle === undefined) throw new Error("nothing was measured");
  const perSecond = (1_000 * last.quotes) / last.at;
  const scaled: Stays = {
    ...windowsOf({ HOT_WINDOWS_DIVISOR: divisor }),
    cron: cronMs,
  };
  const whole: Stays = {
    ...windowsOf({ HOT_WINDOWS_DIVISOR: 1 }),
    // A seal is full long before it is due.
    sealEvery: (1_000 * TRANSFERS_PER_SEAL) / (TRANSFERS_PER_QUOTE * QUOTES_PER_SEC),
    cron: CRON_MS,
  };
  let fixed = 0;
  const projected = new Map<string, number>();
  for (const [table, bytes] of last.sizes.whole) {
    const [short, long] = [staysOf(table, scaled), staysOf(table, whole)];
    if (short === undefined || long === undefined) {
      if (table !== "journal_seals") fixed += bytes;
      continue;
    }
    const quotes = last.quotes - quotesAt(samples, last.at - short);
    projected.set(table, (bytes / quotes) * QUOTES_PER_SEC * (long / 1_000));
  }
  const level = [...projected.values()].reduce((sum, bytes) => sum + bytes, fixed);
  const sealBytes = (last.sizes.whole.get("journal_seals") ?? 0) / Math.max(1, seals);
  const sealsPerMonth = (30 * 86_400 * QUOTES_PER_SEC * TRANSFERS_PER_QUOTE) / TRANSFERS_PER_SEAL;
  return [
    {
      what: "quotes placed, with keys",
      unit: "/s",
      ours: perSecond,
      note: `of ${QUOTES_PER_SEC}; the projection is for ${QUOTES_PER_SEC}`,
    },
    {
      what: `size of D1 after ${number(last.at / 1_000)} s, windows divided by ${divisor}`,
      unit: "MB",
      ours: last.sizes.inUse / 1e6,
    },
    {
      what: "  growth in the second half of the run",
      unit: "",
      ours: last.sizes.inUse / middle.sizes.inUse - 1,
      target: { atMost: TARGET_GROWTH },
      note: "level",
    },
    {
      what: "size of D1 without the divisor, level",
      unit: "GB",
      ours: level / GB,
      target: { atMost: TARGET_GB },
    },
    ...[...projected, ["everything else", fixed] as const].map(([table, bytes]) => ({
      what: `  ${table}`,
      unit: "GB",
      ours: bytes / GB,
    })),
    {
      what: "  what stays: one row a seal, without its audit event",
      unit: "MB a month",
      ours: (sealBytes * sealsPerMonth) / 1e6,
    },
  ];
}
