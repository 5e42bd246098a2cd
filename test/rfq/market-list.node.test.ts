/** Pages of the markets in memory. */
import fc from "fast-check";
import { expect, it } from "vitest";
import type { Market } from "../../src/rfq/markets/market.ts";
import {
  byTitle,
  type MarketQuery,
  pageOfMarkets,
  rankedByVolume,
} from "../../src/rfq/markets/market-list.ts";

const NOW = 1_764_551_353_797;

const terms: fc.Arbitrary<Omit<Market, "folded">> = fc.record({
  asset: fc
    .tuple(fc.constantFrom("venue_one", "venue_two"), fc.nat(40))
    .map(([venue, id]) => `${venue}:0x${id.toString(16)}`),
  title: fc.constantFrom("Rain", "Rain in Paris", "Snow"),
  outcome: fc.constantFrom("Yes", "No"),
  url: fc.constant(null),
  eventId: fc.constant(null),
  category: fc.constant(null),
  description: fc.constant(null),
  rulesUrl: fc.constant(null),
  closesAt: fc.constantFrom(null, NOW - 1, NOW, NOW + 1),
  closedAt: fc.constantFrom(null, null, 5),
  test: fc.boolean(),
  changedGroup: fc.nat(9),
  result: fc.constant(null),
  complement: fc.constant(null),
  condition: fc.constant(null),
  slot: fc.constant(null),
  settlesAt: fc.constant(null),
  readAt: fc.constant(null),
});

const market = terms.map((one): Market => ({
  ...one,
  folded: `${one.title}\n${one.outcome}`.toLowerCase(),
}));

const markets = fc
  .array(market, { maxLength: 30 })
  .map((list) => [...new Map(list.map((one) => [one.asset, one])).values()])
  .map((list) => ({
    byAsset: new Map(list.map((one) => [one.asset, one])),
    sorted: list.toSorted(byTitle),
  }));

function every(known: Parameters<typeof pageOfMarkets>[0], query: MarketQuery) {
  const found: string[] = [];
  let after: Pick<MarketQuery, "last_cursor"> = {};
  for (let pages = 0; ; pages++) {
    expect(pages).toBeLessThan(40);
    const page = pageOfMarkets(known, { ...query, ...after }, NOW);
    found.push(...page.items.map((item) => `${item.venue_id}:${item.asset_id}`));
    if (page.next_cursor === null) return found;
    expect(page.items).toHaveLength(query.limit);
    const [asset] = JSON.parse(Buffer.from(page.next_cursor, "base64url").toString()) as [string];
    after = { last_cursor: { text: page.next_cursor, position: asset } };
  }
}

it("pages have every market that fits once, in order", () => {
  fc.assert(
    fc.property(
      markets,
      fc.integer({ min: 1, max: 7 }),
      fc.constantFrom(undefined, "open" as const, "closed" as const),
      fc.constantFrom([], ["rain"], ["paris", "yes"], ["fog"]),
      fc.constantFrom(undefined, true, false),
      (known, limit, status, words, test) => {
        const expected = known.sorted
          .filter((one) => test === undefined || one.test === test)
          .filter(({ title, outcome }) =>
            words.every((word) => `${title} ${outcome}`.toLowerCase().includes(word)),
          )
          .filter(({ closedAt, closesAt }) => {
            const closed = closedAt !== null || (closesAt ?? Infinity) <= NOW;
            return status === undefined || (status === "closed") === closed;
          })
          .map(({ asset }) => asset);
        expect(every(known, { limit, status, words, test })).toEqual(expected);
      },
    ),
  );
});

it("the questions that traded most come first, with all their outcomes together", () => {
  fc.assert(
    fc.property(markets, fc.array(fc.nat(9)), (known, volumes) => {
      const traded = known.sorted.flatMap(({ asset }, index) =>
        volumes[index] === undefined ? [] : [{ asset, usdc_amount: String(volumes[index]) }],
      );
      const sorted = rankedByVolume(known.sorted, traded);
      const question = ({ asset, title }: Market) => `${asset.split(":")[0]} ${title}`;
      const volumeOf = (name: string) =>
        sorted
          .filter((one) => question(one) === name)
          .flatMap(({ asset }) => traded.filter((one) => one.asset === asset))
          .reduce((sum, { usdc_amount }) => sum + Number(usdc_amount), 0);
      const names = sorted.map(question);
      const runs = names.filter((name, index) => name !== names[index - 1]);
      expect(new Set(runs).size).toBe(runs.length);
      expect(runs.map(volumeOf)).toEqual(runs.map(volumeOf).toSorted((one, other) => other - one));
      expect([...sorted].toSorted(byTitle)).toEqual(known.sorted);
      // A page of it has each market once, as one by title has.
      const query = { limit: 3, words: [] };
      expect(every({ ...known, sorted }, query)).toEqual(sorted.map(({ asset }) => asset));
    }),
  );
});

it("a page of no items repeats the cursor it was given", () => {
  const one: Market = {
    asset: "venue_one:0x1",
    title: "Rain",
    folded: "rain\nyes",
    outcome: "Yes",
    url: null,
    eventId: null,
    category: null,
    description: null,
    rulesUrl: null,
    closesAt: null,
    closedAt: null,
    test: false,
    changedGroup: 1,
    result: null,
    complement: null,
    condition: null,
    slot: null,
    settlesAt: null,
    readAt: null,
  };
  const known = { byAsset: new Map([[one.asset, one]]), sorted: [one] };
  const empty = { limit: 0, words: [] };
  expect(pageOfMarkets(known, empty, NOW)).toEqual({ items: [], next_cursor: null });
  const last_cursor = { text: "given", position: one.asset };
  expect(pageOfMarkets(known, { ...empty, last_cursor }, NOW)).toEqual({
    items: [],
    next_cursor: "given",
  });
});
