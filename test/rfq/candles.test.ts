/** Candles, tickers, and the cron task that writes them. */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, it } from "vitest";
import { Dice } from "../../scripts/actors/dice.ts";
import { addToCandles, CANDLE_STEPS, NOT_IN_CANDLES } from "../../src/archive/candles.ts";
import { config } from "../../src/platform/config.ts";
import { all, first, prepare, raw, sql } from "../../src/platform/sql.ts";
import { listCandles } from "../../src/rfq/candles/list-candles.ts";
import { TickerList } from "../../src/rfq/candles/list-tickers.ts";
import { CANDLES_KEPT, writeCandles } from "../../src/rfq/candles/write-candles.ts";
import { trimRfq } from "../../src/rfq/trim-rfq.ts";
import { listPositions } from "../../src/rfq/list-positions.ts";
import { rounds } from "../support/depth.ts";
import { apiOf } from "../support/http.ts";
import { edit, newAsset } from "../support/ledger.ts";
import { command, openRequest, placeQuote, submit } from "../support/market.ts";
import { withBatch } from "../support/slow-database.ts";
import { newUser } from "../support/users.ts";

const db = env.CANDLES_DB;
const settings = config(env);
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

type Trade = {
  readonly asset: string;
  readonly at: number;
  readonly price: number;
  readonly amount: number;
};
type Candle = {
  asset: string;
  start: number;
  open: number;
  high: number;
  low: number;
  close: number;
  amount: number;
  usdc_amount: number;
  trades: number;
  last_at: number;
};

const assets = ["venue_one:0x1", "venue_one:0x2", "venue_two:0x1"] as const;
let trades: Trade[] = [];

beforeEach(async () => {
  await applyD1Migrations(db, env.TEST_MIGRATIONS);
  trades = [];
  await edit(db, "matches", [sql`DELETE FROM matches`]);
  for (const table of ["candles", "candle_cursor"]) await all(db, sql`DELETE FROM ${raw(table)}`);
});

/** In the order of their instants, as commit groups make them. Ids sort like the calls. */
async function insert(added: readonly Trade[]): Promise<void> {
  const rows = added.map(({ asset, at, price, amount }, index) => {
    const id = (trades.length + index).toString(16).padStart(32, "0");
    return [id, asset, at, price, amount];
  });
  await all(
    db,
    sql`INSERT INTO matches (match_id, request_id, quote_id, requester_id, maker_id, asset, side,
        amount, price, usdc_amount, taker_fee, maker_fee, at, matched_group)
      SELECT unhex(value ->> 0), unhex(value ->> 0), unhex(value ->> 0), x'01', x'02', value ->> 1,
        'Bid', value ->> 4, value ->> 3, value ->> 4, 0, 0, value ->> 2, 1
      FROM json_each(${JSON.stringify(rows)})`,
  );
  trades = [...trades, ...added];
}

/** Computed trade by trade, in the order of time. */
function candlesOf(made: readonly Trade[], step: number): Candle[] {
  const candles = new Map<string, Candle>();
  for (const { asset, at, price, amount } of made) {
    const start = Math.floor(at / MINUTE / step) * step;
    const known = candles.get(`${asset} ${start}`);
    if (known === undefined) {
      const prices = { open: price, high: price, low: price, close: price };
      const sums = { amount, usdc_amount: amount, trades: 1, last_at: at };
      candles.set(`${asset} ${start}`, { asset, start, ...prices, ...sums });
      continue;
    }
    known.high = Math.max(known.high, price);
    known.low = Math.min(known.low, price);
    known.close = price;
    known.amount += amount;
    known.usdc_amount += amount;
    known.trades++;
    known.last_at = at;
  }
  return [...candles.values()].toSorted(
    (one, other) => one.asset.localeCompare(other.asset) || one.start - other.start,
  );
}

const cursor = async () =>
  (await first<{ minute: number }>(db, sql`SELECT minute FROM candle_cursor`))?.minute ?? 0;

async function writeAll(database = db): Promise<void> {
  while (await writeCandles(database, settings));
}

/** Deletes the oldest matches as the release of their seal does. */
async function release(count: number): Promise<void> {
  const oldest = sql`SELECT match_id FROM matches ORDER BY at, match_id LIMIT ${count}`;
  await edit(db, "matches", [
    addToCandles(settings, sql`m.match_id IN (${oldest}) AND ${NOT_IN_CANDLES}`),
    sql`DELETE FROM matches WHERE match_id IN (${oldest})`,
  ]);
}

const lost = () => Promise.reject(new Error("Network connection lost."));

it("equals the matches of each closed minute, with late, doubled, killed and overtaken runs", async () => {
  for (let seed = 0; seed < rounds(3, 30); seed++) {
    const dice = new Dice(`candles ${seed}`);
    await edit(db, "matches", [sql`DELETE FROM matches`]);
    for (const table of ["candles", "candle_cursor"]) await all(db, sql`DELETE FROM ${raw(table)}`);
    trades = [];
    let at = Date.now() - dice.between(1, 60) * HOUR;
    let released = 0;
    for (let step = 0; step < 12; step++) {
      const added: Trade[] = [];
      for (let count = dice.between(0, 8); count > 0; count--) {
        at += dice.pick([0, 1, 20_000, MINUTE, 7 * MINUTE, HOUR]);
        // No group commits a match in a minute that is closed.
        at = Math.min(Math.max(at, (await cursor()) * MINUTE), Date.now());
        const [price, amount] = [dice.between(1, 1_000_000), dice.between(1, 1_000)];
        added.push({ asset: dice.pick(assets), at, price, amount });
      }
      await insert(added);
      const run = dice.weighted({
        normal: 3,
        late: 2,
        doubled: 2,
        killed: 2,
        lost: 2,
        released: 2,
      });
      if (run === "normal") await writeCandles(db, settings);
      if (run === "doubled")
        await Promise.all([writeCandles(db, settings), writeCandles(db, settings)]);
      if (run === "killed") await writeCandles(withBatch(db, lost), settings).catch(() => {});
      if (run === "lost")
        await writeCandles(
          withBatch(db, async (statements) => {
            await db.batch(statements);
            return lost();
          }),
          settings,
        ).catch(() => {});
      if (run === "released") {
        const count = dice.between(0, trades.length - released);
        await release(count);
        released += count;
      }
      const closed = (await cursor()) * MINUTE;
      const included = trades.filter((trade, index) => index < released || trade.at < closed);
      for (const length of Object.values(CANDLE_STEPS)) {
        const stored = await all<Candle>(
          db,
          sql`SELECT asset, start, open, high, low, close, amount, usdc_amount, trades, last_at
            FROM candles WHERE step = ${length} ORDER BY asset, start`,
        );
        expect(stored).toEqual(candlesOf(included, length));
      }
    }
    await writeAll();
    expect(await cursor()).toBeGreaterThan((trades.at(-1)?.at ?? 0) / MINUTE - 2);
  }
});

it("continues what is stored with the matches of the open minute, in pages", async () => {
  const now = Date.now();
  const made = Array.from({ length: 30 }, (_, index) => ({
    asset: assets[0],
    at: now - (29 - index) * 40_000,
    price: 100 + ((index * 37) % 50),
    amount: 10 + index,
  }));
  await insert(made.slice(0, 20));
  await writeAll();
  const stored = await cursor();
  // No group commits a match in a minute that is closed.
  await insert(made.slice(20).map((one) => ({ ...one, at: Math.max(one.at, stored * MINUTE) })));
  const token = { venue: "venue_one", assetId: "0x1" } as const;
  for (const [interval, step] of Object.entries(CANDLE_STEPS) as ["1m", number][]) {
    const expected = candlesOf(trades, step)
      .toReversed()
      .map(({ start, open, close, trades: count, amount }) => ({
        start: new Date(start * MINUTE).toISOString(),
        open,
        close,
        trades: count,
        amount: `0x${amount.toString(16)}`,
        final: start + step <= stored,
      }));
    const found = [];
    for (let last_cursor; ;) {
      const page = await listCandles(
        { db, settings },
        { ...token, interval },
        { limit: 3, last_cursor },
      );
      found.push(...page.items);
      if (page.next_cursor === null) break;
      const text = page.next_cursor;
      last_cursor = { text, position: Number(JSON.parse(atob(text))[0]) };
    }
    expect(found).toMatchObject(expected);
  }
  const minute = Math.floor((now - 5 * 40_000) / MINUTE) * MINUTE;
  const period = { ...token, interval: "1m", from: minute, to: minute } as const;
  const { items } = await listCandles({ db, settings }, period, { limit: 50 });
  expect(items.map(({ start }) => Date.parse(start))).toEqual([minute]);
});

it("shows a venue's last day by hours, also what is not stored yet", async () => {
  const hour = Math.floor(Date.now() / HOUR) * HOUR;
  await insert([
    { asset: assets[0], at: hour - 24 * HOUR, price: 1, amount: 100 },
    { asset: assets[0], at: hour - 23 * HOUR, price: 200, amount: 5 },
    { asset: assets[0], at: hour - 23 * HOUR + 1, price: 210, amount: 5 },
    { asset: assets[1], at: hour - HOUR, price: 700, amount: 50 },
    { asset: assets[2], at: hour - HOUR, price: 800, amount: 60 },
  ]);
  await writeAll();
  await insert([{ asset: assets[0], at: hour, price: 150, amount: 7 }]);
  const { items } = await new TickerList().page({ DB: db }, settings, {
    venue: "venue_one",
    limit: 50,
  });
  expect(items).toEqual([
    {
      venue_id: "venue_one",
      asset_id: "0x2",
      last_price: 700,
      last_price_at: new Date(hour - HOUR).toISOString(),
      change: 0,
      amount: "0x32",
      usdc_amount: "0x32",
      trades: 1,
      prices: [...Array<null>(22).fill(null), 700, null],
    },
    {
      venue_id: "venue_one",
      asset_id: "0x1",
      last_price: 150,
      last_price_at: new Date(hour).toISOString(),
      change: -50,
      amount: "0x11",
      usdc_amount: "0x11",
      trades: 3,
      prices: [210, ...Array<null>(22).fill(null), 150],
    },
  ]);
});

it("reads a venue's tickers once for a flood of calls", async () => {
  let reads = 0;
  const counted = new Proxy(db, {
    get: (target, name: "prepare") => {
      reads++;
      return target[name].bind(target);
    },
  });
  const [list, bindings] = [new TickerList(), { DB: counted }];
  for (let call = 0; call < 100; call++)
    await list.page(bindings, settings, { venue: "venue_one", limit: 50 });
  expect(reads).toBe(1);
});

it("deletes minutes after two days and hours after 90, and no day", async () => {
  const now = Math.floor(Date.now() / MINUTE);
  const row = (step: number, start: number) => sql`INSERT INTO candles (asset, step, start, open,
    high, low, close, amount, usdc_amount, trades, last_at)
    VALUES (${assets[0]}, ${step}, ${start}, 1, 1, 1, 1, 1, 1, 1, 1)`;
  for (const [step, kept] of [...Object.entries(CANDLES_KEPT), ["1440", 10_000_000]] as const)
    for (const start of [now - kept - 2, now - kept + 2])
      await prepare(db, row(Number(step), start)).run();
  await trimRfq(db);
  const left = await all(
    db,
    sql`SELECT step, ${now} - start AS age FROM candles ORDER BY step, start`,
  );
  expect(left).toEqual([
    { step: 1, age: CANDLES_KEPT[1] - 2 },
    { step: 60, age: CANDLES_KEPT[60] - 2 },
    { step: 1440, age: 10_000_002 },
    { step: 1440, age: 9_999_998 },
  ]);
});

it("values a position at the last price, also after the match has left the database", async () => {
  const { key: book } = newAsset();
  const at = Date.now() - 3 * HOUR;
  const holder = await newUser({ [book]: 1_000_000n }, db);
  await insert([{ asset: book, at, price: 640_000, amount: 1 }]);
  const position = {
    last_price: 640_000,
    last_price_at: new Date(at).toISOString(),
    value: "0x9c400",
  };
  for (const count of [0, 1]) {
    await release(count);
    const { items } = await listPositions({ db, settings }, holder.userId, {}, { limit: 1 });
    expect(items).toMatchObject([position]);
  }
});

it("serves a trade of this minute to any reader", async () => {
  const { key: book } = newAsset();
  const requester = await newUser({ usdc: 1_000n });
  const maker = await newUser({ [book]: 1_000n });
  const request = await openRequest(requester, book, { amount: 10n });
  const quote = await placeQuote(maker, request.request_id, 500_000);
  await submit(command.accept(requester, quote.quote_id));
  const reader = apiOf(await newUser());
  const of = `venue_id=venue_one&asset_id=${book.split(":")[1]}`;
  const [candle] = await reader.list(`/rfq/get-candles?${of}&interval=1m`);
  expect(candle).toMatchObject({ open: 500_000, close: 500_000, trades: 1, final: false });
  const { json } = await reader.get("/rfq/get-tickers?venue_id=venue_one");
  expect(json["items"]).toContainEqual(
    expect.objectContaining({ asset_id: book.split(":")[1], last_price: 500_000, trades: 1 }),
  );
});

it("sets no price by a trade below the venue's minimum, stored or not", async () => {
  const { key: book, ...asset } = newAsset();
  const venues = settings.VENUES.map((venue) => ({ ...venue, min_priced_trade: 1_000 }));
  const priced = { db, settings: { ...settings, VENUES: venues } };
  const holder = await newUser({ [book]: 1_000_000n }, db);
  const at = Math.floor(Date.now() / MINUTE - 10) * MINUTE;
  const token = { venue: asset.venue_id, assetId: asset.asset_id };
  const shown = async () => {
    const { items: candles } = await listCandles(
      priced,
      { ...token, interval: "1d" },
      { limit: 2 },
    );
    const { items: tickers } = await new TickerList().page({ DB: db }, priced.settings, {
      limit: 50,
    });
    const { items: positions } = await listPositions(priced, holder.userId, {}, { limit: 1 });
    return [candles, tickers, positions.map(({ last_price }) => last_price)];
  };
  await insert([{ asset: book, at, price: 1_000_000, amount: 999 }]);
  expect(await shown()).toEqual([[], [], [null]]);
  await insert([{ asset: book, at: at + 1, price: 600_000, amount: 1_000 }]);
  await insert([{ asset: book, at: at + 2, price: 1, amount: 999 }]);
  const one = { high: 600_000, low: 600_000, open: 600_000, close: 600_000, trades: 1 };
  const expected = [[one], [{ last_price: 600_000, trades: 1 }], [600_000]];
  expect(await shown()).toMatchObject(expected);
  while (await writeCandles(db, priced.settings));
  expect(await shown()).toMatchObject(expected);
});

it("shows listed markets first, of all venues, in pages without a gap", async () => {
  const at = Date.now() - MINUTE;
  const unlisted = Array.from({ length: 5 }, (_, n) => `venue_one:0x9${n}`);
  await insert([
    ...unlisted.map((asset, n) => ({ asset, at, price: 1, amount: 10_000 - n })),
    { asset: assets[2], at, price: 2, amount: 7 },
    { asset: assets[0], at, price: 2, amount: 5 },
  ]);
  const listed = JSON.stringify([assets[0], assets[2]]);
  await edit(db, "markets", [
    sql`INSERT INTO markets (asset, title, outcome, changed_group)
      SELECT value, value, 'Yes', 1 FROM json_each(${listed}) WHERE true
      ON CONFLICT (asset) DO UPDATE SET test = false`,
  ]);
  const list = new TickerList();
  const pages = async (venue: string | undefined, limit: number) => {
    const found: string[] = [];
    for (let last_cursor; ;) {
      const page = await list.page({ DB: db }, settings, { venue, limit, last_cursor });
      found.push(...page.items.map(({ venue_id, asset_id }) => `${venue_id}:${asset_id}`));
      if (page.next_cursor === null) return found;
      const text = page.next_cursor;
      last_cursor = { text, position: JSON.parse(atob(text)) };
    }
  };
  const expected = [assets[2], assets[0], ...unlisted];
  for (const limit of [1, 2, 7, 50]) expect(await pages(undefined, limit)).toEqual(expected);
  expect(await pages("venue_two", 1)).toEqual([assets[2]]);
});

it("leaves out trades in a market for tests", async () => {
  const [asset] = assets;
  const at = Math.floor(Date.now() / MINUTE) * MINUTE - MINUTE;
  const trade = { asset, at, price: 500_000, amount: 10 };
  const mark = (test: number) =>
    edit(db, "markets", [
      sql`INSERT INTO markets (asset, title, outcome, test, changed_group)
        VALUES (${asset}, 'A', 'Yes', ${test}, 1)
        ON CONFLICT (asset) DO UPDATE SET test = excluded.test`,
    ]);
  await mark(1);
  await insert([trade]);
  const hours = () =>
    listCandles(
      { db, settings },
      { venue: "venue_one", assetId: "0x1", interval: "1h" },
      { limit: 5 },
    );
  expect((await hours()).items).toEqual([]);
  expect(
    (await new TickerList().page({ DB: db }, settings, { venue: "venue_one", limit: 50 })).items,
  ).toEqual([]);
  await writeCandles(db, settings);
  expect(await all(db, sql`SELECT * FROM candles`)).toEqual([]);
  await mark(0);
  await insert([{ ...trade, at: at + MINUTE }]);
  expect((await hours()).items).toMatchObject([{ trades: 1 }]);
});
