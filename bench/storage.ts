/**
 * Bytes that a quote leaves in the database after it has ended and been trimmed. Quotes are placed
 * and ended through the service. Then the deletes of src/rfq/trim-rfq.ts,
 * src/streams/trim-streams.ts and src/platform/trim.ts run without their age condition, as
 * if a week had passed. This also deletes the last thousand events of each stream, which trimming
 * keeps. They are a cost of a user or a book, not of a quote, and have their own figure. Rows are
 * counted by D1's own meter.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Bench, type Figure, number } from "./figures.ts";
import { acceptsOf, type Market, openMarket, openRequests, quoteEach, sendAll } from "./market.ts";
import { signed } from "./people.ts";
import { dollarsOf, NOTHING_BILLED } from "./prices.ts";
import { PATIENT } from "./quote-loads.ts";
import { type Sizes, sizesOf } from "./size.ts";
import { type BenchStack, numberIn } from "./stack.ts";

/** In an ordinary request three makers quote and one quote is accepted. */
const QUOTES_OF_A_TRADE = 3;
const QUOTES_PER_REQUEST = 10;
type Bill = Awaited<ReturnType<BenchStack["readMeter"]>>;
const TARGET_BYTES = 800;
const TARGET_ROWS = 14;
const TARGET_DOLLARS = 15;
const TARGET_ROWS_OF_ACCEPT = { alone: 46, amongThree: 54 };

export const benchStorage: Bench = async ({ quick, say, start }) => {
  const [lost, taken, trades] = quick ? [1_000, 400, 100] : [6_000, 2_000, 500];
  const stack = await start({ meter: true, settings: PATIENT });
  const market = await openMarket(stack, 2);
  // Creates the first rows of every table, index and stream.
  await loseQuotes(stack, market, 200);
  await takeQuotes(stack, market, 200);
  await trim(stack);
  const before = sizesOf(stack);
  const life = await livesOf(stack, market, lost, async () => ({
    event: await eventBytes(stack),
    sizes: sizesOf(stack),
  }));
  sayRows(say, "a quote that is not accepted", life.lived, lost);
  const afterLost = sizesOf(stack);
  await takeQuotes(stack, market, taken);
  await trim(stack);
  const unaccepted = { from: before, to: afterLost, count: lost };
  const accepted = { from: afterLost, to: sizesOf(stack), count: taken };
  const alone = await acceptOneOf(stack, market, { quotes: 1, count: trades });
  const amongThree = await acceptOneOfThree(stack, market, trades);
  sayRows(say, "an accept of one quote among three", amongThree, trades);
  sayTables(say, "unaccepted", unaccepted);
  sayTables(say, "accepted", accepted);
  return [
    ...rowFigures(life, lost),
    {
      what: "rows written by an accept of one quote alone",
      unit: "",
      ours: alone.rowsWritten / trades,
      target: { atMost: TARGET_ROWS_OF_ACCEPT.alone },
    },
    {
      what: `rows written by an accept of one quote among ${QUOTES_OF_A_TRADE}`,
      unit: "",
      ours: amongThree.rowsWritten / trades,
      target: { atMost: TARGET_ROWS_OF_ACCEPT.amongThree },
    },
    {
      what: "  bytes until it is trimmed, with its events and key",
      unit: "bytes",
      ours: eachOf({ ...unaccepted, to: life.kept.sizes }),
    },
    ...byteFigures("a quote that is not accepted leaves", unaccepted),
    ...byteFigures("an accepted quote leaves, with match and entries", accepted),
    {
      what: `a quote of a request with ${QUOTES_OF_A_TRADE}, one accepted`,
      unit: "bytes",
      ours: (eachOf(accepted) + (QUOTES_OF_A_TRADE - 1) * eachOf(unaccepted)) / QUOTES_OF_A_TRADE,
      target: { atMost: TARGET_BYTES },
    },
    {
      what: "an event while it is kept",
      unit: "bytes",
      ours: life.kept.event,
      note: "the last 1 000 of each stream are kept",
    },
  ];
};

/** What quotes that are not accepted cost, until they are trimmed and their seal is released. */
export async function livesOf<T>(
  stack: BenchStack,
  market: Market,
  count: number,
  whileKept: () => Promise<T>,
) {
  const before = await transfersIn(stack);
  await stack.readMeter();
  await loseQuotes(stack, market, count);
  const lived = await stack.readMeter();
  // Each is deleted when its seal is released, long after this bench.
  const released = (await transfersIn(stack)) - before;
  const kept = await whileKept();
  const trimmed = await trim(stack);
  const rowsWritten = lived.rowsWritten + trimmed.rowsWritten + released;
  return {
    kept,
    lived,
    released,
    trimmed,
    rowsWritten,
    rowsRead: lived.rowsRead + trimmed.rowsRead,
  };
}

type Life = Omit<Awaited<ReturnType<typeof livesOf>>, "kept">;

function rowFigures({ rowsWritten, rowsRead, trimmed, released }: Life, lost: number): Figure[] {
  return [
    {
      what: "rows written in the life of a quote that is not accepted",
      unit: "",
      ours: rowsWritten / lost,
      target: { atMost: TARGET_ROWS },
      note:
        `${number(trimmed.rowsWritten / lost)} of them by trimming, ` +
        `${number(released / lost)} by releasing its transfers; with a key and a tenth of a ` +
        `request`,
    },
    {
      what: "  rows read",
      unit: "",
      ours: rowsRead / lost,
      note: `${number(trimmed.rowsRead / lost)} of them by trimming`,
    },
    {
      what: "  dollars for a million of them over sockets",
      unit: "$",
      ours: dollarsOf({
        calls: lost,
        meter: { ...NOTHING_BILLED, frames: lost, rowsWritten, rowsRead },
      }),
      target: { atMost: TARGET_DOLLARS },
    },
  ];
}

/** What so many quotes have added to the database. */
type Growth = { readonly from: Sizes; readonly to: Sizes; readonly count: number };

function eachOf({ from, to, count }: Growth): number {
  return (to.inUse - from.inUse) / count;
}

function byteFigures(what: string, growth: Growth): Figure[] {
  const { from, to, count } = growth;
  return [
    {
      what,
      unit: "bytes",
      ours: eachOf(growth),
      target: { atMost: TARGET_BYTES },
      note: `${number(count)} of them, pages in use`,
    },
    {
      what: "  after a VACUUM of a copy",
      unit: "bytes",
      ours: (to.vacuumed - from.vacuumed) / count,
    },
  ];
}

function sayTables(say: (line: string) => void, name: string, { from, to, count }: Growth): void {
  const parts = [...to.tables]
    .map(([table, bytes]) => [table, (bytes - (from.tables.get(table) ?? 0)) / count] as const)
    .filter(([, bytes]) => Math.abs(bytes) >= 1)
    .toSorted((a, b) => b[1] - a[1])
    .map(([table, bytes]) => `${table} ${number(bytes)}`);
  say(`  ${name}: ${parts.join(", ")}`);
}

/** Places quotes that expire after a second, ten per request, and cancels the requests. */
export async function loseQuotes(stack: BenchStack, market: Market, count: number): Promise<void> {
  const requestIds = await openRequests(stack, market, count / QUOTES_PER_REQUEST, 60);
  // In lots, so that no signature and no request expires.
  for (let done = 0; done < count; done += 1_000) {
    const lot = Math.min(1_000, count - done);
    const quoted = Array.from(
      { length: lot },
      (_, index) => requestIds[(done + index) % requestIds.length] ?? "",
    );
    await quoteEach(stack, market, quoted, 1);
  }
  await untilNoneOpen(stack, "quotes");
  // Cancelled, because they would expire only after a minute.
  const cancels = requestIds.map((id) =>
    signed(market.requester, "DELETE", `/rfq/request?request_id=${id}`),
  );
  await sendAll(stack, await Promise.all(cancels));
  await untilNoneOpen(stack, "requests");
}

async function takeQuotes(stack: BenchStack, market: Market, count: number): Promise<void> {
  for (let done = 0; done < count; done += 500) {
    const requestIds = await openRequests(stack, market, Math.min(500, count - done));
    const quoteIds = await quoteEach(stack, market, requestIds);
    await sendAll(stack, await acceptsOf(market, quoteIds));
  }
}

/** Returns the bill of the accepts alone. */
export function acceptOneOfThree(stack: BenchStack, market: Market, count: number): Promise<Bill> {
  return acceptOneOf(stack, market, { quotes: QUOTES_OF_A_TRADE, count });
}

async function acceptOneOf(
  stack: BenchStack,
  market: Market,
  { quotes, count }: { quotes: number; count: number },
): Promise<Bill> {
  const requestIds = await openRequests(stack, market, count);
  const quoteIds = await quoteEach(stack, market, requestIds);
  for (let other = 1; other < quotes; other++) await quoteEach(stack, market, requestIds);
  const accepts = await acceptsOf(market, quoteIds);
  await stack.readMeter();
  await sendAll(stack, accepts);
  return stack.readMeter();
}

/** Which statements wrote the rows, per quote or accept. */
function sayRows(
  say: (line: string) => void,
  what: string,
  { statements }: Bill,
  count: number,
): void {
  say(`  rows written of ${what}, by statement:`);
  for (const { name, calls, rowsWritten } of statements.toSorted(
    (a, b) => b.rowsWritten - a.rowsWritten,
  ))
    if (rowsWritten / count >= 0.05)
      say(
        `    ${(rowsWritten / count).toFixed(2).padStart(6)} in ` +
          `${(calls / count).toFixed(3)} calls: ${name}`,
      );
}

async function untilNoneOpen(stack: BenchStack, table: "quotes" | "requests"): Promise<void> {
  const deadline = Date.now() + 60_000;
  for (;;) {
    const open = await numberIn(
      stack.db,
      `SELECT count(*) AS n FROM ${table} WHERE status = 'open'`,
    );
    if (open === 0) return;
    if (Date.now() > deadline) throw new Error(`${open} ${table} did not end`);
    await sleep(200);
  }
}

/** Returns what D1 bills for it. */
export async function trim({
  db,
}: BenchStack): Promise<{ readonly rowsRead: number; readonly rowsWritten: number }> {
  // Nothing is sealed here, so the guards of these tables would refuse it.
  for (const table of ["quotes", "requests"])
    await db.prepare(`DROP TRIGGER IF EXISTS ${table}_delete`).run();
  const results = await db.batch([
    db.prepare("DELETE FROM quotes WHERE status <> 'open'"),
    db.prepare(
      `DELETE FROM requests WHERE status <> 'open' AND NOT EXISTS (SELECT 1 FROM quotes q
        WHERE q.request_id = requests.request_id)`,
    ),
    db.prepare(
      `DELETE FROM event_runs WHERE last_seq < (SELECT s.last_seq FROM streams s
        WHERE s.stream_id = event_runs.stream_id)`,
    ),
    db.prepare(
      `UPDATE streams SET first_seq = (SELECT min(r.first_seq) FROM event_runs r
        WHERE r.stream_id = streams.stream_id)`,
    ),
    db.prepare("DELETE FROM commit_groups WHERE seq < (SELECT max(seq) FROM commit_groups)"),
  ]);
  return results.reduce(
    (sum, { meta }) => ({
      rowsRead: sum.rowsRead + meta.rows_read,
      rowsWritten: sum.rowsWritten + meta.rows_written,
    }),
    { rowsRead: 0, rowsWritten: 0 },
  );
}

function transfersIn({ db }: BenchStack): Promise<number> {
  return numberIn(db, "SELECT count(*) AS n FROM transfers");
}

async function eventBytes(stack: BenchStack): Promise<number> {
  const { tables } = sizesOf(stack);
  const events = await numberIn(stack.db, "SELECT count(*) AS n FROM stream_events");
  const bytes = [...tables]
    .filter(([name]) => name.includes("event_runs"))
    .reduce((sum, [, size]) => sum + size, 0);
  return bytes / events;
}
