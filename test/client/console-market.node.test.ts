/** What the console's market pages show, and which quote their button accepts. */
import type { Market, Quote, Ticker } from "@rfq-custody/client";
import { describe, expect, it } from "vitest";
import {
  nextShown,
  NOTHING_SHOWN,
  type ShownQuote,
  totalOf,
} from "../../packages/console/src/market/shown-quote.ts";
import { cardsOf, sparklineOf } from "../../packages/console/src/markets/market-cards.ts";
import { resultOf } from "../../packages/console/src/positions.ts";
import { sceneOf } from "../../packages/console/src/ui/chart-scene.ts";
import {
  compactUnits,
  formatChance,
  formatTokens,
  relative,
  tenths,
  tokensFor,
} from "../../packages/console/src/units.ts";

const NOW = Date.parse("2026-11-24T12:00:00Z");

function quote(
  quote_id: string,
  price: number,
  side: "Bid" | "Ask" = "Bid",
  lives = 60_000,
): Quote {
  // Safe cast: the functions below read these members only.
  return {
    quote_id,
    price,
    side,
    usdc_amount: 10n,
    fee: 1n,
    expires_at: new Date(NOW + lives).toISOString(),
  } as Quote;
}

/** Shows one list of quotes after another, each some milliseconds after the start. */
function play(...steps: readonly (readonly [number, readonly Quote[]])[]): ShownQuote {
  let shown = NOTHING_SHOWN;
  for (const [after, open] of steps) shown = nextShown(shown, open, NOW + after);
  return shown;
}

describe("the shown quote", () => {
  const [good, better, worse] = [
    quote("good", 600_000),
    quote("better", 590_000),
    quote("worse", 610_000),
  ];

  it("is the best one, for a buyer the lowest and for a seller the highest", () => {
    expect(play([0, [worse, good]])).toEqual({ quote: good, deadUntil: null });
    const [low, high] = [quote("low", 1, "Ask"), quote("high", 2, "Ask")];
    expect(play([0, [low, high]]).quote).toBe(high);
    expect(play([0, []])).toBe(NOTHING_SHOWN);
  });

  it("gives way to a better one at once, and never to an equal or a worse one", () => {
    expect(play([0, [good]], [1, [better, good]])).toEqual({ quote: better, deadUntil: null });
    expect(play([0, [good]], [1, [quote("equal", 600_000), good, worse]]).quote).toBe(good);
  });

  it("leaves a dead button for a second when it ends, and then the next one", () => {
    const ended = { quote: good, deadUntil: NOW + 1_001 };
    expect(play([0, [good, worse]], [1, [worse]])).toEqual(ended);
    expect(play([0, [good, worse]], [1, [worse]], [1_000, [better, worse]])).toEqual(ended);
    expect(play([0, [good, worse]], [1, [worse]], [1_001, [worse]])).toEqual({
      quote: worse,
      deadUntil: null,
    });
    expect(play([0, [good]], [1, []], [1_001, []])).toEqual(NOTHING_SHOWN);
  });

  it("ends when its time is over, although nobody said so", () => {
    const short = quote("short", 600_000, "Bid", 500);
    expect(play([0, [short]], [499, [short]]).deadUntil).toBeNull();
    expect(play([0, [short]], [500, [short]])).toEqual({ quote: short, deadUntil: NOW + 1_500 });
  });

  it("costs a buyer the fee, and takes it from a seller", () => {
    expect([totalOf(quote("a", 1)), totalOf(quote("a", 1, "Ask"))]).toEqual([11n, 9n]);
  });
});

describe("market cards", () => {
  const market = (title: string, outcome: string, asset_id: string): Market => ({
    venue_id: "venue_one",
    asset_id,
    title,
    outcome,
    url: null,
    event_id: null,
    category: null,
    description: null,
    rules_url: null,
    closes_at: null,
    status: "open",
    result: null,
    resolved_by: "venue",
    complement_asset_id: null,
    condition: null,
    withdrawable: null,
    issued: null,
    settles_at: null,
  });
  // Safe cast: the cards read these members only.
  const ticker = (last_price: number, usdc_amount: bigint) =>
    ({ last_price, usdc_amount }) as Ticker;

  it("groups the outcomes of a title, the likeliest first, the most traded card first", () => {
    const tickers = new Map([
      ["venue_one 0x1", ticker(300_000, 5n)],
      ["venue_one 0x2", ticker(600_000, 6n)],
      ["venue_one 0x4", ticker(900_000, 10n)],
    ]);
    const cards = cardsOf(
      [
        market("Cup", "A", "0x1"),
        market("Cup", "B", "0x2"),
        market("Quiet", "Yes", "0x3"),
        market("Rain", "Yes", "0x4"),
      ],
      tickers,
    );
    expect(cards.map(({ title, volume }) => [title, volume])).toEqual([
      ["Cup", 11n],
      ["Rain", 10n],
      ["Quiet", 0n],
    ]);
    expect(cards[0]?.outcomes.map(({ outcome }) => outcome)).toEqual(["B", "A"]);
  });

  it("draws a line through the hours, and keeps the last price where nobody traded", () => {
    const box = { width: 100, height: 10 };
    expect(sparklineOf({ prices: [null, 0, null, 100], last_price: 50 }, box)).toEqual({
      path: "M0.0 10.0L33.3 10.0L66.7 0.0L100.0 5.0",
      startY: "10.0",
      endY: "5.0",
    });
    expect(sparklineOf({ prices: [null, 7], last_price: 7 }, box)).toBeNull();
  });
});

describe("a position", () => {
  const of = { amount: 1_200_000_000n, average_price: 594_000, realized: 0n };

  it("has won or lost what it is worth less what it cost, and what its sales brought", () => {
    expect(resultOf({ ...of, value: 760_800_000n })).toBe(48_000_000n);
    expect(resultOf({ ...of, value: 760_800_000n, realized: -50_000_000n })).toBe(-2_000_000n);
    expect(resultOf({ ...of, amount: 0n, value: null, realized: 7n })).toBe(7n);
    expect(resultOf({ ...of, value: null })).toBeNull();
    expect(resultOf({ ...of, value: 1n, average_price: null, realized: null })).toBeNull();
  });
});

describe("a chart", () => {
  const at = (minute: number) => new Date(NOW + minute * 60_000).toISOString();
  const points = [0, 1, 2, 3].map((minute) => ({
    at: at(minute),
    value: 50 + minute,
    volume: minute,
  }));
  const box = { unit: "%", width: 600, height: 280 } as const;

  it("has room for its highest and lowest value, and marks round ones", () => {
    const scene = sceneOf([{ name: "", points }], box);
    expect(scene).toMatchObject({ low: 48, high: 55 });
    expect(scene?.ys).toEqual([48, 50, 52, 54]);
    expect(scene?.paths[0]?.match(/[ML]/g)).toHaveLength(4);
    expect(scene?.bars.match(/M/g)).toHaveLength(3);
    expect(sceneOf([{ name: "", points: points.slice(0, 1) }], box)).toBeNull();
  });

  it("reads the nearest instant, and older values of the other lines", () => {
    const scene = sceneOf(
      [
        { name: "a", points },
        { name: "b", points: points.slice(1, 2) },
      ],
      box,
    );
    expect(scene?.read(0)).toEqual({ at: Date.parse(at(0)), values: [50, null] });
    expect(scene?.read(10_000)).toEqual({ at: Date.parse(at(3)), values: [53, 51] });
  });
});

describe("words and numbers", () => {
  it.each([
    [-12_000, "12 s ago"],
    [-240_000, "4 min ago"],
    [-7_200_000, "2 h ago"],
    [-172_800_000, "2 d ago"],
    [10_800_000, "in 3 h"],
  ])("says %s ms as %s", (difference, text) => {
    expect(relative(new Date(NOW + difference).toISOString(), NOW)).toBe(text);
  });

  it("shows chances, points, tokens and volumes without useless digits", () => {
    expect([634_000, 1_000_000, 499, 999_950].map(formatChance)).toEqual([
      "63.4%",
      "100.0%",
      "0.0%",
      "100.0%",
    ]);
    expect(tenths(41_000)).toBe("4.1");
    expect([100_000_000n, 1_234_500_000n, 10_000_000n].map(formatTokens)).toEqual([
      "100",
      "1,234.5",
      "10",
    ]);
    expect(
      [0n, 999_000_000n, 1_200_000_000n, 842_310_000_000n, 1_200_000_000_000n].map(compactUnits),
    ).toEqual(["under 1", "999", "1.2k", "842k", "1.2M"]);
    expect(tokensFor(10_000_000n, 333_333)).toBe(30_000_030n);
  });
});
