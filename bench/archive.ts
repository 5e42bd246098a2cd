/**
 * Ledger pages of a reader whose old entries are in the archive. The sealed objects are written by
 * the service's own writer and read by the real `History` object from Miniflare's R2.
 */
import { randomBytes } from "node:crypto";
import type { SealedQuote, SealedTransfer } from "../src/archive/sealed-columns.ts";
import { reasonNumber, stepNumber } from "../src/ledger/codes.ts";
import { skipTransfers } from "../src/ledger/skip-transfers.ts";
import { type Bench, type Figure, number, percentile } from "./figures.ts";
import { makePeople, type Person } from "./people.ts";
import { followAll, SealWriter, timed } from "./seals.ts";
import type { BenchStack } from "./stack.ts";

/** As the sealer makes them while it is behind. */
const TRANSFERS_PER_SEAL = 10_000;
const QUOTES_PER_SEAL = TRANSFERS_PER_SEAL / 2;
/** Both sides of a reserve and of a release are the reader's. */
const ENTRIES_PER_SEAL = 2 * TRANSFERS_PER_SEAL;
const DEFAULT_ENTRIES = 1_000_000;
const QUICK_ENTRIES = 100_000;
const HOT_TRANSFERS = 200;
const PAGES = 60;
const HOT_ROUNDS = 4;
/** Milliseconds between two quotes of the reader. */
const EVERY_MS = 100;
const DAY_MS = 86_400_000;
/** Native units of the reserves, which are even and spread evenly. */
const [SMALLEST, LARGEST] = [1_000_000, 500_000_000];

export const benchArchive: Bench = async ({ entries, quick, say, start }) => {
  const stack = await start();
  const [reader, newcomer] = (await makePeople(stack, 2, ["usdc"])) as [Person, Person];
  const wanted = entries ?? (quick ? QUICK_ENTRIES : DEFAULT_ENTRIES);
  const seals = Math.max(1, Math.round(wanted / ENTRIES_PER_SEAL));
  const writing = performance.now();
  const bytes = await writeSeals(stack, reader, seals);
  say(
    `  ${number(seals * ENTRIES_PER_SEAL)} entries in ${seals} seals of ` +
      `${number(bytes / seals / 1_000)} kB, written in ${secondsSince(writing)} s`,
  );
  const last = await addHotEntries(stack, [reader, newcomer], seals * TRANSFERS_PER_SEAL);
  const following = performance.now();
  await followAll(stack, reader, 2 * seals * TRANSFERS_PER_SEAL);
  say(`  its history has taken all in after ${secondsSince(following)} s`);
  return [
    ...(await pageFigures(stack, [reader, newcomer], { seals, last })),
    ...(await filterFigures(stack, reader)),
  ];
};

const p50 = (times: readonly number[]) => percentile(times, 0.5);

function secondsSince(started: number): string {
  return number((performance.now() - started) / 1_000);
}

/** Pages of hot entries, across the mark where the archive begins, and anywhere in the archive. */
async function pageFigures(
  stack: BenchStack,
  [reader, newcomer]: readonly [Person, Person],
  { seals, last }: { seals: number; last: number },
): Promise<Figure[]> {
  const page = (person: Person, cursor: number) =>
    timed(stack, person, `limit=50&last_cursor=${cursor}`);
  const hot = { person: reader, times: [] as number[] };
  const hotPeer = { person: newcomer, times: [] as number[] };
  for (let step = 0; step < HOT_ROUNDS * PAGES; step++)
    // Each goes first in turn, and no page of the archive comes between.
    for (const { times, person } of step % 2 === 0 ? [hot, hotPeer] : [hotPeer, hot])
      times.push(await page(person, last - (step % PAGES)));
  const [across, cold]: [number[], number[]] = [[], []];
  const mark = 2 * (seals * TRANSFERS_PER_SEAL + 1);
  for (let step = 0; step < PAGES; step++) {
    across.push(await page(reader, mark + 100 + step));
    cold.push(await page(reader, Math.floor(mark * ((step * 0.618) % 1)) + 200));
  }
  return [
    {
      what: "ledger page, hot",
      unit: "ms",
      ours: p50(hot.times),
      peer: { name: "reader without an archive", value: p50(hotPeer.times) },
      target: { atMost: 1.1 },
    },
    {
      what: "ledger page across the mark: one more hop",
      unit: "ms",
      ours: p50(across),
      peer: { name: "hot", value: p50(hot.times) },
    },
    {
      what: `ledger page, cold at ${number(seals * ENTRIES_PER_SEAL)} entries`,
      unit: "ms",
      ours: p50(cold),
      target: { atMost: 150 },
      note: `p99 ${number(percentile(cold, 0.99))} ms`,
    },
  ];
}

async function filterFigures(stack: BenchStack, reader: Person): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const [which, query] of [
    ["amounts, nothing fits", `min_amount=${SMALLEST + 1}&max_amount=${SMALLEST + 1}`],
    ["amounts, half fits", `min_amount=${LARGEST / 2}`],
    ["a reason", "reasons=release"],
    ["a day long ago", `to=${new Date(Date.now() - DAY_MS).toISOString()}`],
    ["USDC", "usdc=true&direction=credit"],
  ]) {
    const times: number[] = [];
    for (let step = 0; step < 5; step++)
      times.push(await timed(stack, reader, `limit=50&${query}`));
    figures.push({
      what: `filter, ${which}`,
      unit: "ms",
      ours: p50(times),
      target: { atMost: 300 },
    });
  }
  return figures;
}

/** Deposits of one unit to each. Returns the last entry's number. */
async function addHotEntries(
  stack: BenchStack,
  people: readonly Person[],
  upTo: number,
): Promise<number> {
  const skip = skipTransfers(upTo).map(({ text, params }) =>
    stack.db.prepare(text).bind(...params),
  );
  await stack.db.batch([
    ...skip,
    stack.db
      .prepare(
        `WITH RECURSIVE v(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM v WHERE n < ${HOT_TRANSFERS})
        INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at)
        SELECT e.account_id, t.account_id, 1, ${reasonNumber("deposit")}, randomblob(16),
          ${stepNumber("credit")}, 0, ? FROM v CROSS JOIN json_each(?) u
        CROSS JOIN accounts e ON e.owner = CAST('external:local' AS BLOB) AND e.asset = 'usdc'
          AND e.kind = 'external'
        CROSS JOIN accounts t ON t.owner = unhex(u.value, '-') AND t.asset = 'usdc'
          AND t.kind = 'available'`,
      )
      .bind(Date.now(), JSON.stringify(people.map(({ userId }) => userId))),
  ]);
  return 2 * (upTo + HOT_TRANSFERS * people.length) + 2;
}

/** Seals of nothing but the reader's quotes, each reserved and released. Returns their bytes. */
async function writeSeals(stack: BenchStack, reader: Person, seals: number): Promise<number> {
  const started = Date.now() - DAY_MS - seals * QUOTES_PER_SEAL * EVERY_MS;
  const owner = reader.userId.replaceAll("-", "");
  const writer = new SealWriter(stack);
  for (let place = 1; place <= seals; place++) {
    const after = (place - 1) * TRANSFERS_PER_SEAL;
    await writer.add(contentOf(owner, after, started + after * (EVERY_MS / 2)));
  }
  await writer.finish([owner]);
  return writer.bytes;
}

/** Quotes that are each reserved, and released at once. */
function contentOf(owner: string, after: number, start: number) {
  const random = randomBytes(26 * QUOTES_PER_SEAL);
  const idOf = (at: number, from: number) =>
    at.toString(16).padStart(12, "0") + random.toString("hex", from, from + 10);
  const quotes = Array.from({ length: QUOTES_PER_SEAL }, (_, n): SealedQuote => {
    const at = start + n * EVERY_MS;
    const reserve = BigInt(
      SMALLEST + 2 * (random.readUInt32LE(26 * n) % ((LARGEST - SMALLEST) / 2)),
    );
    return {
      quote_id: idOf(at, 26 * n + 4),
      request_id: idOf(start, 26 * (n - (n % 10)) + 14),
      maker_id: owner,
      credential: owner,
      asset: `venue_one:0x${(n % 20).toString(16)}`,
      amount: 2n * reserve,
      side: "Bid",
      price: 500_000,
      usdc_amount: reserve,
      taker_fee: 0n,
      maker_fee: 0n,
      reserve_asset: "usdc",
      reserve,
      status: "cancelled",
      opened_at: at,
      expires_at: at + 60_000,
      opened_group: after + 2 * n + 1,
      label: null,
      cancel_reason: null,
      replaced_by: null,
      ended_by: idOf(at, 26 * n + 14),
      ended_group: after + 2 * n + 2,
      stuck_at: null,
      complement: null,
    };
  });
  return { quotes, transfers: quotes.flatMap((quote) => transfersOf(quote)) };
}

/** Of a quote that is reserved and released. */
function transfersOf(quote: SealedQuote): SealedTransfer[] {
  const { reserve, opened_at: at } = quote;
  // What `makePeople` gives, because a page must continue the balances of the older one.
  const funds = 10n ** 12n;
  const shared = {
    from_owner: quote.maker_id,
    to_owner: quote.maker_id,
    asset: "usdc",
    amount: reserve,
    line: 0,
    ref: quote.quote_id,
    match_id: null,
  };
  return [
    {
      ...shared,
      transfer_id: quote.opened_group,
      from_kind: "available",
      to_kind: "pending",
      reason: reasonNumber("reserve_rfq"),
      step: stepNumber("reserve"),
      at,
      from_balance: funds - reserve,
      to_balance: reserve,
    },
    {
      ...shared,
      transfer_id: quote.ended_group ?? 0,
      from_kind: "pending",
      to_kind: "available",
      reason: reasonNumber("release"),
      step: stepNumber("end"),
      at: at + EVERY_MS / 2,
      from_balance: 0n,
      to_balance: funds,
    },
  ];
}
