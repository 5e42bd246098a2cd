/** The rules of the grid in which a maker prices requests. */
import type { Quote, QuoteRequest, StreamMessageOf, Ticker } from "@rfq-custody/client";
import { describe, expect, it } from "vitest";
import {
  arrange,
  averages,
  defaultPrice,
  farFrom,
  nextField,
  obstacle,
  priceAfter,
  promiseOf,
  stepFrom,
} from "../../packages/console/src/maker/quoting.ts";
import {
  afterEvents,
  isOfOthers,
  type OwnQuotes,
  receivedAfter,
  withOpened,
} from "../../packages/console/src/live/quote-events.ts";
import { formatCents } from "../../packages/console/src/units.ts";

// Safe casts: the functions below read these members only.
const request = (request_id: string) => ({ request_id }) as QuoteRequest;
const quote = (quote_id: string) => ({ quote_id }) as Quote;
const NONE = { open: [], ended: [] };

describe("the rows of the grid", () => {
  const open = ["a", "b", "c"].map(request);
  const rows = arrange([], open, null);
  const names = (of: typeof rows) =>
    of.map((row) => row.request.request_id + (row.ended ? "!" : ""));

  it("are the open requests while nobody works in it", () => {
    expect(names(arrange(rows, [request("z"), request("b")], null))).toEqual(["z", "b"]);
  });

  it("keep their places while somebody does", () => {
    const next = [request("z"), request("b")];
    expect(names(arrange(rows, next, "b"))).toEqual(["a!", "b", "c!", "z"]);
    expect(names(arrange(rows, next, ""))).toEqual(["a!", "b", "c!", "z"]);
  });

  it("are at most a hundred, and a new one replaces an ended one without the focus", () => {
    const many = Array.from({ length: 100 }, (_, index) => request(`r${index}`));
    const full = arrange([], [...many, request("late")], null);
    expect(full).toHaveLength(100);
    const left = [...many.slice(2), request("late"), request("later")];
    const after = names(arrange(full, left, "r0"));
    expect(after.slice(0, 3)).toEqual(["r0!", "late", "r2"]);
    expect(after).toHaveLength(100);
  });
});

describe("a price", () => {
  it("is by default the last one and the spread, in the maker's favour", () => {
    expect(defaultPrice("Bid", 634_000, 8_000)).toBe(642_000);
    expect(defaultPrice("Ask", 634_000, 8_000)).toBe(626_000);
    expect(defaultPrice("Bid", 634_001, 8_000)).toBe(643_000);
    expect(defaultPrice("Ask", 634_001, 8_000)).toBe(626_000);
    expect(defaultPrice("Bid", 999_000, 8_000)).toBe(999_000);
    expect(defaultPrice("Ask", 2_000, 8_000)).toBe(1_000);
    expect(defaultPrice("Bid", null, 8_000)).toBeNull();
    expect(defaultPrice("Bid", 634_000, null)).toBeNull();
    expect([642_000, 700_000, 642_500].map(formatCents)).toEqual(["64.2", "70.0", "64.25"]);
  });

  it("is not sent beyond what the maker has, or risks above the limit", () => {
    const of = { amount: 100_000_000n };
    const at = (funds: bigint | null, most: bigint, side: "Bid" | "Ask" = "Bid") =>
      obstacle(of, side, 600_000, { funds, most });
    expect(at(100_000_000n, 40_000_000n)).toBeNull();
    expect(at(99_999_999n, 40_000_000n)).toBe("too few tokens");
    expect(at(100_000_000n, 39_000_000n)).toBe("over limit by 1");
    expect(at(100_000_000n, 39_999_999n)).toBe("over limit by 0.000001");
    expect(at(60_000_000n, 60_000_000n, "Ask")).toBeNull();
    expect(at(59_999_999n, 60_000_000n, "Ask")).toBe("too few USDC");
    expect(at(null, 59_500_000n, "Ask")).toBe("over limit by 0.5");
    const inMoney = { usdc_amount: 60_000_000n };
    expect(obstacle(inMoney, "Bid", 600_000, { funds: 99n, most: 1n })).toBe("too few tokens");
  });

  it("is asked for twice if it is far from the last one", () => {
    expect(farFrom(718_000, 990_000, 50_000)).toBe(272_000);
    expect(farFrom(718_000, 768_000, 50_000)).toBeNull();
    expect(farFrom(718_000, 400_000, 50_000)).toBe(318_000);
    expect(farFrom(null, 990_000, 50_000)).toBeNull();
    expect(farFrom(718_000, 990_000, null)).toBeNull();
    expect([stepFrom(642_000, 1), stepFrom(1_000, -1)]).toEqual([643_000, 1_000]);
  });

  it("promises tokens or USDC", () => {
    const of = { amount: 100_000_000n };
    expect(promiseOf(of, "Bid", 600_000)).toBe(100_000_000n);
    expect(promiseOf(of, "Ask", 600_000)).toBe(60_000_000n);
  });

  it("is followed by the next field that is on", () => {
    const off = [false, true, true, false];
    expect(nextField(off, 0, 1)).toBe(3);
    expect(nextField(off, 3, -1)).toBe(0);
    expect(nextField(off, 3, 1)).toBeNull();
    expect(nextField([], -1, 1)).toBeNull();
  });
});

describe("own quotes", () => {
  const closed = (quote_id: string, winning_price: number | null = null) =>
    ({
      type: "quote.closed",
      at: "later",
      data: { quote_id, reason: "rejected", winning_price },
    }) as StreamMessageOf<"quote.closed">;

  it("open once, end once, and do not come back after a late response", () => {
    const open = withOpened(withOpened(NONE, quote("a")), quote("b"));
    expect(withOpened(open, quote("a"))).toEqual(open);
    const after = afterEvents(open, [closed("unknown"), closed("a", 640_000), closed("a")]);
    expect(after.open).toEqual([quote("b")]);
    expect(after.ended).toMatchObject([{ quote_id: "a", winning_price: 640_000 }]);
    expect(withOpened(after, quote("a"))).toEqual(after);
  });

  it("end once, although a late reading has opened them again", () => {
    const open = withOpened(NONE, quote("a"));
    const { ended } = afterEvents(open, [closed("a")]);
    expect(afterEvents({ open: open.open, ended }, [closed("a")])).toMatchObject({
      open: [],
      ended: [{ quote_id: "a" }],
    });
  });

  it("keep only the newest that have ended", () => {
    let quotes: OwnQuotes = NONE;
    for (let count = 1; count <= 101; count++)
      quotes = afterEvents(withOpened(quotes, quote(`${count}`)), [closed(`${count}`)]);
    expect(quotes.ended).toHaveLength(100);
    expect(quotes.ended.at(0)).toMatchObject({ quote_id: "101" });
  });
});

describe("quotes on one's request", () => {
  const received = (quote_id: string) =>
    ({ type: "quote.received", data: quote(quote_id) }) as StreamMessageOf<"quote.received">;
  const closed = (quote_id: string, more: object = {}) =>
    ({ type: "quote.closed", data: { quote_id, ...more } }) as StreamMessageOf<"quote.closed">;

  it("come and go by events, which may be applied twice", () => {
    const events = [received("b"), received("c"), closed("a"), closed("unknown")];
    const after = receivedAfter([quote("a")], events);
    expect(after).toEqual([quote("b"), quote("c")]);
    expect(receivedAfter([...after, quote("a")], events)).toEqual(after);
  });

  it("differ from own ones by the winning price, which only a maker receives", () => {
    expect(isOfOthers(closed("a"))).toBe(true);
    expect(isOfOthers(closed("a", { winning_price: null }))).toBe(false);
    expect(isOfOthers(received("a"))).toBe(true);
  });
});

describe("results", () => {
  const NOW = Date.parse("2026-11-24T12:30:00Z");
  const prices = Array.from({ length: 24 }, (_, hour) => (hour === 22 ? null : hour * 1_000));
  const ticker = { prices, last_price: 99_000 } as Ticker;

  it("take the price at the end of the hour after a trade", () => {
    expect(priceAfter(ticker, "2026-11-24T12:10:00Z", NOW)).toBe(99_000);
    expect(priceAfter(ticker, "2026-11-24T11:59:00Z", NOW)).toBe(99_000);
    // Nobody traded in the hour after it, so the price before that stands.
    expect(priceAfter(ticker, "2026-11-24T10:01:00Z", NOW)).toBe(21_000);
    expect(priceAfter(ticker, "2026-11-24T09:59:00Z", NOW)).toBe(21_000);
    expect(priceAfter(ticker, "2026-11-23T12:59:00Z", NOW)).toBeNull();
  });

  it("are averaged in groups", () => {
    expect(averages([1, 3, 5, 7, 10], 3)).toEqual([2, 6, 10]);
    expect(averages([1, 2], 12)).toEqual([1, 2]);
    expect(averages([], 12)).toEqual([]);
  });
});
