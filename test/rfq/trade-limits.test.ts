import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { KeyLimits } from "../../src/auth/key-limits.ts";
import { trimTradedHours } from "../../src/auth/exposure.ts";
import { all, first, sql, uuid } from "../../src/platform/sql.ts";
import { apiOf, codeOf } from "../support/http.ts";
import { fund, newAsset } from "../support/ledger.ts";
import { command, matchOf, openRequest, outcomeOf, placeQuote, submit } from "../support/market.ts";
import { newKey, newUser, type TestKey, type TestUser } from "../support/users.ts";

const db = env.DB;
const NONE: KeyLimits = { venues: null, maxUsdcPerTrade: null, maxUsdcPerDay: null };
const keyWith = (user: TestUser, limits: Partial<KeyLimits>) =>
  newKey(user, ["read", "trade"], { limits: { ...NONE, ...limits } });

/** A requester with USDC and tokens, and a maker with both, on a book of their own. */
async function newMarket(venue?: "venue_two") {
  const { key: book, ...asset } = newAsset(venue);
  const funds = { usdc: 1_000_000n, [book]: 1_000_000n };
  return { book, asset, requester: await newUser(funds), maker: await newUser(funds) };
}
type Market = Awaited<ReturnType<typeof newMarket>>;

/** A quote on a request of the requester's session. A Bid at 1 USDC gives as much as an Ask. */
async function quoteOf(
  { book, requester, maker }: Pick<Market, "book" | "requester" | "maker">,
  terms: { amount: bigint; side?: "Bid" | "Ask"; price?: number },
) {
  const request = await openRequest(requester, book, terms);
  return placeQuote(maker, request.request_id, terms.price ?? 1_000_000, 300);
}

const accept = async (by: TestKey | TestUser, quote: { quote_id: string }) =>
  submit(command.accept(by, quote.quote_id));
const usedBy = async (key: TestKey) => (await apiOf(key).get("/auth/whoami")).json["used"];

describe("max_usdc_per_trade", () => {
  it.each([
    { side: "Bid", amount: 200n, price: 500_000 },
    // Sold tokens count as 1 USDC each at any price.
    { side: "Ask", amount: 100n, price: 1 },
  ] as const)("bounds what an accept of a $side gives", async (terms) => {
    const market = await newMarket();
    const quote = await quoteOf(market, terms);
    const below = await keyWith(market.requester, { maxUsdcPerTrade: 99n });
    expect(await accept(below, quote)).toMatchObject({
      ok: false,
      problem: {
        code: "key_limit",
        extensions: { limit: "max_usdc_per_trade", maximum: "0x63", used: "0x0", required: "0x64" },
      },
    });
    const enough = await keyWith(market.requester, { maxUsdcPerTrade: 100n });
    matchOf(await accept(enough, quote));
  });

  it("counts the buyer's fee", async () => {
    const market = await newMarket("venue_two");
    const quote = await quoteOf(market, { amount: 1_000n });
    const taken = async (limit: bigint) =>
      outcomeOf(await accept(await keyWith(market.requester, { maxUsdcPerTrade: limit }), quote));
    expect(await taken(1_009n)).toBe("key_limit");
    expect(await taken(1_010n)).toBe("ok");
  });

  it("leaves quote and request open, and does not bind other credentials", async () => {
    const market = await newMarket();
    const quote = await quoteOf(market, { amount: 100n });
    const key = await keyWith(market.requester, { maxUsdcPerTrade: 0n });
    const response = await apiOf(key).post("/rfq/accept", { quote_id: quote.quote_id });
    expect(await codeOf(response)).toBe("409 key_limit");
    matchOf(await accept(market.requester, quote));
    expect(outcomeOf(await accept(key, quote))).toBe("ok");
  });
});

describe("max_usdc_per_day", () => {
  it("adds up the accepts of the key", async () => {
    const market = await newMarket();
    const key = await keyWith(market.requester, { maxUsdcPerDay: 150n });
    expect(await usedBy(key)).toBe("0x0");
    matchOf(await accept(key, await quoteOf(market, { amount: 100n })));
    expect(await usedBy(key)).toBe("0x64");
    const second = await quoteOf(market, { amount: 51n, side: "Ask" });
    expect(await accept(key, second)).toMatchObject({
      problem: {
        code: "key_limit",
        extensions: { limit: "max_usdc_per_day", maximum: "0x96", used: "0x64", required: "0x33" },
      },
    });
    matchOf(await accept(market.requester, second));
    matchOf(await accept(key, await quoteOf(market, { amount: 50n })));
    expect(await usedBy(key)).toBe("0x96");
  });

  it("counts the matches of the key's own quotes, and not those of other credentials", async () => {
    const market = await newMarket();
    const key = await keyWith(market.maker, { maxUsdcPerDay: 1_000n });
    for (const by of [key, market.maker]) {
      const request = await openRequest(market.requester, market.book, { amount: 100n });
      const quote = await placeQuote(by, request.request_id, 1_000_000, 300);
      expect(await usedBy(key)).toBe("0x64");
      matchOf(await accept(market.requester, quote));
      expect(await usedBy(key)).toBe("0x64");
    }
  });

  it("counts open quotes until they end", async () => {
    const market = await newMarket();
    const key = await keyWith(market.maker, { maxUsdcPerDay: 1_000n });
    const request = await openRequest(market.requester, market.book, { amount: 100n, side: "Ask" });
    const quote = await placeQuote(key, request.request_id, 500_000, 300);
    expect(await usedBy(key)).toBe("0x32");
    expect(outcomeOf(await submit(command.cancelQuote(key, quote.quote_id)))).toBe("ok");
    expect(await usedBy(key)).toBe("0x0");
  });

  it("lets only as many concurrent accepts through as fit", async () => {
    const markets = await Promise.all(Array.from({ length: 6 }, () => newMarket()));
    const requester = await newUser({ usdc: 1_000_000n });
    const key = await keyWith(requester, { maxUsdcPerDay: 250n });
    const quotes = await Promise.all(
      markets.map((market) => quoteOf({ ...market, requester }, { amount: 100n })),
    );
    const outcomes = await Promise.all(
      quotes.map(async (quote) => outcomeOf(await accept(key, quote))),
    );
    expect(outcomes.toSorted()).toEqual([...Array(4).fill("key_limit"), "ok", "ok"]);
    expect(await usedBy(key)).toBe("0xc8");
  });

  it("forgets an hour after 24, and cron deletes it", async () => {
    const market = await newMarket();
    const key = await keyWith(market.requester, { maxUsdcPerDay: 100n });
    matchOf(await accept(key, await quoteOf(market, { amount: 100n })));
    const age = (hours: number) =>
      all(
        db,
        sql`UPDATE traded_hours SET hour = hour - ${BigInt(hours)}
          WHERE subject = ${uuid(key.apiKeyId)}`,
      );
    const hours = async () =>
      first<{ n: number }>(
        db,
        sql`SELECT count(*) AS n FROM traded_hours WHERE subject = ${uuid(key.apiKeyId)}`,
      );
    await age(23);
    await trimTradedHours(db);
    expect(await usedBy(key)).toBe("0x64");
    expect(outcomeOf(await accept(key, await quoteOf(market, { amount: 1n })))).toBe("key_limit");
    await age(1);
    expect(await usedBy(key)).toBe("0x0");
    const asked = await openRequest(market.maker, market.book, { amount: 100n });
    const quote = await placeQuote(key, asked.request_id, 1);
    expect(outcomeOf(await submit(command.cancelQuote(key, quote.quote_id)))).toBe("ok");
    matchOf(await accept(key, await quoteOf(market, { amount: 100n })));
    expect(await hours()).toEqual({ n: 2 });
    await trimTradedHours(db);
    expect(await hours()).toEqual({ n: 1 });
  });

  it("stops at 2^62 instead of overflowing with worthless tokens", async () => {
    const [first_, second] = [newAsset().key, newAsset().key];
    const requester = await newUser({ [first_]: 2n ** 62n, [second]: 2n ** 62n });
    const maker = await newUser();
    await fund(maker.userId, "usdc", 2n ** 45n, { chain: "overflow-test" });
    const key = await keyWith(requester, { maxUsdcPerDay: 2n ** 53n - 1n });
    for (const book of [first_, first_, second, second]) {
      const terms = { amount: 2n ** 61n, side: "Ask", price: 1 } as const;
      const quote = await quoteOf({ book, requester, maker }, terms);
      expect(outcomeOf(await accept(key, quote))).toBe("key_limit");
      matchOf(await accept(requester, quote));
    }
    const hour = await first<{ usdc: string }>(
      db,
      sql`SELECT CAST(usdc AS TEXT) AS usdc FROM traded_hours
        WHERE subject = ${uuid(requester.userId)}`,
    );
    expect(hour).toEqual({ usdc: (2n ** 62n).toString() });
  });
});

describe("venues", () => {
  const ofVenueOne = { venues: ["venue_one" as const] };

  it("bind the requests of the key", async () => {
    const { requester, book, asset } = await newMarket("venue_two");
    const key = await keyWith(requester, ofVenueOne);
    const response = await apiOf(key).post("/rfq/request", { ...asset, amount: 1, side: "Bid" });
    expect(response.json).toMatchObject({
      code: "key_limit",
      limit: "venues",
      maximum: null,
      used: null,
    });
    const allowed = await openRequest(key, newAsset().key, { amount: 1n });
    expect(allowed.status).toBe("open");
    expect(book).toContain("venue_two");
  });

  it("bind the accepts of the key", async () => {
    const market = await newMarket("venue_two");
    const quote = await quoteOf(market, { amount: 100n });
    const key = await keyWith(market.requester, ofVenueOne);
    expect(outcomeOf(await accept(key, quote))).toBe("key_limit");
    const both = await keyWith(market.requester, { venues: ["venue_one", "venue_two"] });
    expect(outcomeOf(await accept(both, quote))).toBe("ok");
  });
});

describe("the quotes of a key", () => {
  it("are bound when they are placed, by each of its limits", async () => {
    const market = await newMarket();
    const request = await openRequest(market.requester, market.book, { amount: 100n });
    const quoted = async (limits: Partial<KeyLimits>) =>
      submit(command.placeQuote(await keyWith(market.maker, limits), request.request_id, 1, 300));
    expect(await quoted({ maxUsdcPerTrade: 99n })).toMatchObject({
      problem: {
        code: "key_limit",
        extensions: { limit: "max_usdc_per_trade", maximum: "0x63", required: "0x64" },
      },
    });
    expect(await quoted({ maxUsdcPerDay: 99n })).toMatchObject({
      problem: { code: "key_limit", extensions: { limit: "max_usdc_per_day", used: "0x0" } },
    });
    expect(await quoted({ venues: ["venue_three"] })).toMatchObject({
      problem: { code: "key_limit", extensions: { limit: "venues" } },
    });
    const enough = { venues: ["venue_one" as const], maxUsdcPerTrade: 100n, maxUsdcPerDay: 100n };
    expect(outcomeOf(await quoted(enough))).toBe("ok");
  });

  it("share the room of a day, also in one commit group", async () => {
    const market = await newMarket();
    const key = await keyWith(market.maker, { maxUsdcPerDay: 250n });
    const request = await openRequest(market.requester, market.book, { amount: 100n });
    const outcomes = await Promise.all(
      Array.from({ length: 4 }, async () =>
        outcomeOf(await submit(command.placeQuote(key, request.request_id, 1, 300))),
      ),
    );
    expect(outcomes.toSorted()).toEqual(["key_limit", "key_limit", "ok", "ok"]);
    expect(await usedBy(key)).toBe("0xc8");
  });

  it("may use the room of the quote that they replace", async () => {
    const market = await newMarket();
    const key = await keyWith(market.maker, { maxUsdcPerDay: 100n });
    const request = await openRequest(market.requester, market.book, { amount: 100n });
    const quote = await placeQuote(key, request.request_id, 2, 300);
    const again = command.placeQuote(key, request.request_id, 1, 300);
    expect(outcomeOf(await submit(again))).toBe("key_limit");
    expect(outcomeOf(await submit({ ...again, replaces: quote.quote_id }))).toBe("ok");
    expect(await usedBy(key)).toBe("0x64");
  });

  it("stay firm when they are accepted", async () => {
    const market = await newMarket();
    const key = await keyWith(market.maker, { maxUsdcPerDay: 100n });
    const request = await openRequest(market.requester, market.book, { amount: 100n });
    const quote = await placeQuote(key, request.request_id, 1, 300);
    matchOf(await accept(market.requester, quote));
    expect(await usedBy(key)).toBe("0x64");
  });
});
