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
import { type BenchStack, startBenchStack } from "./stack.ts";
import { eachText, QUOTE_TEXTS } from "../src/rfq/own-texts.ts";

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
/** A reserve of the oldest seal, far below all others. */
const TINY = 777;
/** Amounts within those of every seal: of a reserve in two seals, and of none. */
const [SCARCE, ABSENT] = [250_000_001, 250_000_003];

export const benchArchive: Bench = async ({ entries, quick, say, onStop }) => {
  const stack = await startBenchStack({});
  onStop(stack.stop);
  try {
    const [reader, newcomer] = (await makePeople(stack, 2, ["usdc"])) as [Person, Person];
    const wanted = entries ?? (quick ? QUICK_ENTRIES : DEFAULT_ENTRIES);
    const seals = Math.max(1, Math.round(wanted / ENTRIES_PER_SEAL));
    const started = Date.now() - DAY_MS - seals * QUOTES_PER_SEAL * EVERY_MS;
    const writing = performance.now();
    const bytes = await writeSeals(stack, reader, { seals, started });
    const took = (performance.now() - writing) / 1_000;
    say(
      `  ${number(seals * ENTRIES_PER_SEAL)} entries in ${seals} seals of ` +
        `${number(bytes / seals / 1_000)} kB, written in ${number(took)} s`,
    );
    const last = await addHotEntries(stack, [reader, newcomer], seals * TRANSFERS_PER_SEAL);
    const ask = (person: Person, query: string) => timed(stack, person, query);
    const following = performance.now();
    await followAll(stack, reader, { seals, cursor: 2 * seals * TRANSFERS_PER_SEAL });
    say(
      `  its history has read all footers after ` +
        `${number((performance.now() - following) / 1_000)} s`,
    );
    const hot: number[] = [];
    const hotPeer: number[] = [];
    const across: number[] = [];
    const cold: number[] = [];
    const mark = 2 * (seals * TRANSFERS_PER_SEAL + 1);
    for (let step = 0; step < HOT_ROUNDS * PAGES; step++) {
      // Each goes first in turn, and no page of the archive comes between.
      const pair = [
        { times: hot, person: reader },
        { times: hotPeer, person: newcomer },
      ];
      for (const { times, person } of step % 2 === 0 ? pair : pair.toReversed())
        times.push(await ask(person, `limit=50&last_cursor=${last - (step % PAGES)}`));
    }
    for (let step = 0; step < PAGES; step++) {
      across.push(await ask(reader, `limit=50&last_cursor=${mark + 100 + step}`));
      const place = Math.floor(mark * ((step * 0.618) % 1)) + 200;
      cold.push(await ask(reader, `limit=50&last_cursor=${place}`));
    }
    const filtered = async (query: string) => {
      const times: number[] = [];
      for (let step = 0; step < 5; step++) times.push(await ask(reader, `limit=50&${query}`));
      return times;
    };
    const tiny = await filtered(`max_amount=${TINY}`);
    const belowAll = await filtered(`max_amount=${TINY - 1}`);
    const scarce = await filtered(`min_amount=${SCARCE}&max_amount=${SCARCE}`);
    const absent = await filtered(`min_amount=${ABSENT}&max_amount=${ABSENT}`);
    const p50 = (list: readonly number[]) => percentile(list, 0.5);
    const figures: Figure[] = [
      {
        what: "ledger page, hot",
        unit: "ms",
        ours: p50(hot),
        peer: { name: "reader without an archive", value: p50(hotPeer) },
        target: { atMost: 1.1 },
      },
      {
        what: "ledger page across the mark: one more hop",
        unit: "ms",
        ours: p50(across),
        peer: { name: "hot", value: p50(hot) },
      },
      {
        what: `ledger page, cold at ${number(seals * ENTRIES_PER_SEAL)} entries`,
        unit: "ms",
        ours: p50(cold),
        target: { atMost: 150 },
        note: `p99 ${number(percentile(cold, 0.99))} ms`,
      },
      ...[
        { which: "one reserve of the oldest seal fits", times: tiny },
        { which: "below every amount", times: belowAll },
        { which: "within every seal's amounts, two reserves fit", times: scarce },
        { which: "within every seal's amounts, nothing fits", times: absent },
      ].map(({ which, times }) => ({
        what: `amount filter, ${which}`,
        unit: "ms",
        ours: p50(times),
        target: { atMost: 1_500 },
      })),
    ];
    return figures;
  } finally {
    await stack.stop();
  }
};

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
async function writeSeals(
  stack: BenchStack,
  reader: Person,
  { seals, started }: { seals: number; started: number },
): Promise<number> {
  const owner = reader.userId.replaceAll("-", "");
  const writer = new SealWriter(stack);
  for (let place = 1; place <= seals; place++) {
    const after = (place - 1) * TRANSFERS_PER_SEAL;
    const content = contentOf(owner, after, {
      at: started + after * (EVERY_MS / 2),
      planted: [
        ...(place === 1 ? [TINY] : []),
        ...(place === 1 || place === Math.ceil(seals / 2) ? [SCARCE] : []),
      ],
    });
    await writer.add(content);
  }
  await writer.finish([owner]);
  return writer.bytes;
}

/** When a seal's content starts, and its first amounts. The others are random. */
type Place = { readonly at: number; readonly planted: readonly number[] };

/** Quotes that are each reserved, and released at once. */
function contentOf(owner: string, after: number, { at: start, planted }: Place) {
  const random = randomBytes(26 * QUOTES_PER_SEAL);
  const transfers: SealedTransfer[] = [];
  const quotes: SealedQuote[] = [];
  const idOf = (at: number, from: number) =>
    at.toString(16).padStart(12, "0") + random.toString("hex", from, from + 10);
  const funds = 10n ** 15n;
  for (let n = 0; n < QUOTES_PER_SEAL; n++) {
    const at = start + n * EVERY_MS;
    const units = SMALLEST + 2 * (random.readUInt32LE(26 * n) % ((LARGEST - SMALLEST) / 2));
    const reserve = BigInt(planted[n] ?? units);
    const quoteId = idOf(at, 26 * n + 4);
    const shared = {
      from_owner: owner,
      to_owner: owner,
      asset: "usdc",
      amount: reserve,
      line: 0,
      ref: quoteId,
      match_id: null,
    };
    transfers.push(
      {
        ...shared,
        transfer_id: after + 2 * n + 1,
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
        transfer_id: after + 2 * n + 2,
        from_kind: "pending",
        to_kind: "available",
        reason: reasonNumber("release"),
        step: stepNumber("end"),
        at: at + EVERY_MS / 2,
        from_balance: 0n,
        to_balance: funds,
      },
    );
    quotes.push({
      quote_id: quoteId,
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
      ...eachText(QUOTE_TEXTS, () => null),
      cancel_reason: null,
      replaced_by: null,
      ended_by: idOf(at, 26 * n + 14),
      ended_group: after + 2 * n + 2,
      stuck_at: null,
    });
  }
  return { transfers, quotes };
}
