import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { AssetKey } from "../../src/assets/asset.ts";
import { config } from "../../src/platform/config.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { commitOperations } from "../../src/rfq/book-group.ts";
import { getProtection, resetProtection, saveProtection } from "../../src/rfq/protection.ts";
import { trimRfq } from "../../src/rfq/trim-rfq.ts";
import { accountStream, bookStream } from "../../src/streams/event-log.ts";
import { rowsReadBy } from "../support/counting-database.ts";
import { apiOf } from "../support/http.ts";
import { balances, newAsset } from "../support/ledger.ts";
import {
  command,
  commitCommand,
  openMarket,
  matchOf,
  openRequest,
  operationOf,
  outcomeOf,
  placeQuote,
  submit,
} from "../support/market.ts";
import { awakeAndEvicted, connect, replay } from "../support/sockets.ts";
import { newUser, type TestUser } from "../support/users.ts";
import { rounds } from "../support/depth.ts";

const OFF = { windowSecs: 60, maxMatches: null, maxUsdc: null, cooldownSecs: null };

/** A maker who quotes 0.5 for 10 tokens on a request of each book. */
async function quotedBooks(count: number, { sameBook = false } = {}) {
  const one = newAsset().key;
  const books = Array.from({ length: count }, () => (sameBook ? one : newAsset().key));
  const requester = await newUser({ usdc: 10_000n });
  const maker = await newUser(Object.fromEntries(books.map((book) => [book, 1_000n])));
  const quotes: Quoted[] = [];
  for (const book of books) {
    const { request_id: requestId } = await openRequest(requester, book, { amount: 10n });
    const { quote_id: quoteId } = await placeQuote(maker, requestId, 500_000);
    quotes.push({ book, requestId, quoteId });
  }
  return { requester, maker, quotes };
}
type Quoted = { readonly book: AssetKey; readonly requestId: string; readonly quoteId: string };

const accept = (requester: TestUser, { quoteId }: Quoted) =>
  submit(command.accept(requester, quoteId));
const requote = (maker: TestUser, { requestId }: Quoted) =>
  submit(command.placeQuote(maker, requestId, 400_000));
const statusesOf = async (quotes: readonly Quoted[]) => {
  const statuses: string[] = [];
  for (const { quoteId } of quotes) {
    const [row] = await all<{ status: string }>(
      env.DB,
      sql`SELECT status FROM quotes WHERE quote_id = ${uuid(quoteId)}`,
    );
    statuses.push(row?.status ?? "none");
  }
  return statuses;
};

awakeAndEvicted("the match that reaches a limit", (maybeEvict) => {
  it("settles, cancels the maker's quotes in all books and blocks new ones", async () => {
    const { requester, maker, quotes } = await quotedBooks(3);
    const [first, second, third] = quotes as [Quoted, Quoted, Quoted];
    await saveProtection(env, maker.actor, { ...OFF, maxMatches: 1, cooldownSecs: 60 });
    const account = accountStream(maker.userId);
    const subscriber = await connect(maker, account);
    await maybeEvict(bookStream(first.book), bookStream(second.book), account);

    const match = matchOf(await accept(requester, first));

    expect(await statusesOf(quotes)).toEqual(["accepted", "cancelled", "cancelled"]);
    expect(await balances(maker.userId, second.book)).toEqual([1_000n, 0n]);
    expect(await balances(maker.userId, third.book)).toEqual([1_000n, 0n]);
    const tripped = await subscriber.until("protection.tripped");
    expect(tripped.data).toMatchObject({ max_matches: 1, match_id: match.match_id });
    const types = subscriber.events().map(({ type }) => type);
    expect(types).toEqual([
      ...Array.from({ length: 3 }, () => "quote.closed"),
      "match.created",
      "protection.tripped",
    ]);
    expect(outcomeOf(await accept(requester, second))).toBe("quote_not_open");
    const closed = subscriber.events().find(({ data }) => data.quote_id === second.quoteId);
    expect(closed?.data.reason).toBe("protection");
    const refused = await requote(maker, third);
    expect(refused).toMatchObject({
      ok: false,
      problem: {
        code: "protection_tripped",
        extensions: { blocked_until: tripped.data.blocked_until },
      },
    });
    const { quotes: seen } = await replay(accountStream(requester.userId));
    expect(seen.get(second.quoteId)).toBe("cancelled");
  });

  it("settles past max_usdc", async () => {
    const { requester, maker, quotes } = await quotedBooks(3);
    await saveProtection(env, maker.actor, { ...OFF, maxUsdc: 6n });
    const [first, second, third] = quotes as [Quoted, Quoted, Quoted];
    await maybeEvict(bookStream(first.book), bookStream(second.book));
    matchOf(await accept(requester, first));
    expect((await getProtection(env.DB, maker.actor)).tripped_at).toBeNull();
    matchOf(await accept(requester, second));
    expect(outcomeOf(await accept(requester, third))).toBe("quote_not_open");
    expect(await getProtection(env.DB, maker.actor)).toMatchObject({
      max_usdc: "0x6",
      blocked_until: null,
    });
    expect(outcomeOf(await requote(maker, third))).toBe("protection_tripped");
  });

  it("ends nothing of other makers, and nothing of the requester's", async () => {
    const { requester, maker, quotes } = await quotedBooks(2);
    const [first, second] = quotes as [Quoted, Quoted];
    await saveProtection(env, maker.actor, { ...OFF, maxMatches: 1 });
    await saveProtection(env, requester.actor, { ...OFF, maxMatches: 1 });
    const other = await newUser({ [second.book]: 10n });
    const { quote_id: others } = await placeQuote(other, second.requestId, 600_000);
    await maybeEvict(bookStream(first.book), bookStream(second.book));
    matchOf(await accept(requester, first));
    expect((await getProtection(env.DB, requester.actor)).tripped_at).toBeNull();
    matchOf(await submit(command.accept(requester, others)));
  });
});

describe("in one commit group", () => {
  it("an accept after the one that trips finds its quote cancelled", async () => {
    const { requester, maker, quotes } = await quotedBooks(3, { sameBook: true });
    const [first, second, third] = quotes as [Quoted, Quoted, Quoted];
    await saveProtection(env, maker.actor, { ...OFF, maxMatches: 1, cooldownSecs: 60 });
    const before = command.placeQuote(maker, third.requestId, 450_000);
    const operations = await Promise.all(
      [
        before,
        command.accept(requester, first.quoteId),
        command.accept(requester, second.quoteId),
      ].map((sent) => operationOf(sent)),
    );
    const done = await commitOperations(env.DB, first.book, operations);
    if (!done.committed) throw new Error("not committed", { cause: done.cause });
    const results = operations.map((operation) => operation.result(done.effects));
    expect(results.map((result) => result?.ok)).toEqual([true, true, undefined]);
    const placed = { ...first, quoteId: before.quoteId };
    expect(await statusesOf([...quotes, placed])).toEqual([
      "accepted",
      "cancelled",
      "cancelled",
      "cancelled",
    ]);
    expect(await balances(maker.userId, first.book)).toEqual([990n, 0n]);
    const { quotes: seen } = await replay(accountStream(maker.userId));
    expect(seen.get(before.quoteId)).toBe("protection");
  });

  it("two accepts that both fit make two matches and trip once", async () => {
    const { requester, maker, quotes } = await quotedBooks(3, { sameBook: true });
    const [first, second] = quotes as [Quoted, Quoted];
    await saveProtection(env, maker.actor, { ...OFF, maxMatches: 2 });
    const operations = await Promise.all(
      [first, second].map(({ quoteId }) => operationOf(command.accept(requester, quoteId))),
    );
    const done = await commitOperations(env.DB, first.book, operations);
    if (!done.committed) throw new Error("not committed", { cause: done.cause });
    expect(done.effects.matches.size).toBe(2);
    expect(await statusesOf(quotes)).toEqual(["accepted", "accepted", "cancelled"]);
    const tripped = await all(
      env.DB,
      sql`SELECT 1 FROM stream_events e JOIN streams s ON s.stream_id = e.stream_id
        WHERE s.name = ${accountStream(maker.userId)} AND e.type = 'protection.tripped'`,
    );
    expect(tripped).toHaveLength(1);
  });

  it("of two accepts in two books at once, one trips and the other fails", async () => {
    for (let round = 0; round < rounds(3, 10); round++) {
      const { requester, maker, quotes } = await quotedBooks(2);
      await saveProtection(env, maker.actor, { ...OFF, maxMatches: 1 });
      const results = await Promise.all(quotes.map((quoted) => accept(requester, quoted)));
      expect(results.map(outcomeOf).toSorted()).toEqual(["ok", "quote_not_open"]);
      for (const { book } of quotes) expect((await balances(maker.userId, book))[1]).toBe(0n);
    }
  });
});

async function kindsOf(userId: string): Promise<string[]> {
  const rows = await all<{ kind: string }>(
    env.DB,
    sql`SELECT kind FROM audit_events WHERE user_id = ${uuid(userId)}
      AND kind LIKE 'protection%' ORDER BY audit_seq`,
  );
  return rows.map(({ kind }) => kind);
}

describe("a protection", () => {
  it("counts anew after it is saved or reset", async () => {
    const { requester, maker, quotes } = await quotedBooks(4);
    const [first, second, third, fourth] = quotes as [Quoted, Quoted, Quoted, Quoted];
    const terms = { ...OFF, maxMatches: 2 };
    await saveProtection(env, maker.actor, terms);
    matchOf(await accept(requester, first));
    await saveProtection(env, maker.actor, terms);
    matchOf(await accept(requester, second));
    expect((await resetProtection(env, maker.actor)).tripped_at).toBeNull();
    matchOf(await accept(requester, third));
    expect(await statusesOf([fourth])).toEqual(["open"]);
    matchOf(await accept(requester, fourth));
    expect((await getProtection(env.DB, maker.actor)).tripped_at).not.toBeNull();
  });

  it("stays tripped when it is saved again or switched off, until it is reset", async () => {
    const { requester, maker, quotes } = await quotedBooks(2);
    const [first, second] = quotes as [Quoted, Quoted];
    await saveProtection(env, maker.actor, { ...OFF, maxMatches: 1 });
    const account = accountStream(maker.userId);
    matchOf(await accept(requester, first));
    await saveProtection(env, maker.actor, OFF);
    expect(outcomeOf(await requote(maker, second))).toBe("protection_tripped");
    const subscriber = await connect(maker, account);
    await resetProtection(env, maker.actor);
    expect((await subscriber.until("protection.reset")).data).toEqual({
      window_secs: 60,
      max_matches: null,
      max_usdc: null,
      cooldown_secs: null,
      max_deviation: null,
      tripped_at: null,
      blocked_until: null,
      match_id: null,
    });
    expect(outcomeOf(await requote(maker, second))).toBe("ok");
  });

  it("notifies its owner of changed terms and of a reset, once a minute", async () => {
    const { requester, maker, quotes } = await quotedBooks(1);
    const subscriber = await connect(maker, accountStream(maker.userId));
    await saveProtection(env, maker.actor, { ...OFF, maxMatches: 1 });
    await saveProtection(env, maker.actor, { ...OFF, maxMatches: 1 });
    await resetProtection(env, maker.actor);
    expect(await kindsOf(maker.userId)).toEqual([]);
    for (const quoted of quotes) matchOf(await accept(requester, quoted));
    for (const maxMatches of [1_000_000, 1, null])
      await saveProtection(env, maker.actor, { ...OFF, maxMatches });
    await resetProtection(env, maker.actor);
    await resetProtection(env, maker.actor);
    expect(await kindsOf(maker.userId)).toEqual(["protection_changed", "protection_reset"]);
    expect((await subscriber.until("account.notice")).data).toMatchObject({
      kind: "protection_changed",
    });
  });

  it("without limits counts nothing", async () => {
    const { requester, maker, quotes } = await quotedBooks(1);
    await saveProtection(env, maker.actor, OFF);
    for (const quoted of quotes) matchOf(await accept(requester, quoted));
    expect(await countsOf(maker)).toBe(0);
  });

  it("leaves out quotes that are set aside", async () => {
    const { requester, maker, quotes } = await quotedBooks(2);
    const [first, second] = quotes as [Quoted, Quoted];
    await saveProtection(env, maker.actor, { ...OFF, maxMatches: 1 });
    await all(env.DB, sql`UPDATE quotes SET stuck_at = 1 WHERE quote_id = ${uuid(second.quoteId)}`);
    matchOf(await accept(requester, first));
    expect(await statusesOf(quotes)).toEqual(["accepted", "open"]);
  });

  it("trips when its total can grow no further", async () => {
    const { requester, maker, quotes } = await quotedBooks(1);
    await saveProtection(env, maker.actor, { ...OFF, maxUsdc: 2n ** 62n });
    await all(
      env.DB,
      sql`UPDATE protections SET usdc = ${2n ** 62n - 1n} WHERE user_id = ${uuid(maker.userId)}`,
    );
    for (const quoted of quotes) matchOf(await accept(requester, quoted));
    expect((await getProtection(env.DB, maker.actor)).tripped_at).not.toBeNull();
  });

  it("does not trip by a total that it does not limit", async () => {
    const { requester, maker, quotes } = await quotedBooks(1);
    await saveProtection(env, maker.actor, { ...OFF, maxMatches: 9 });
    await all(
      env.DB,
      sql`UPDATE protections SET usdc = ${2n ** 62n} WHERE user_id = ${uuid(maker.userId)}`,
    );
    for (const quoted of quotes) matchOf(await accept(requester, quoted));
    expect((await getProtection(env.DB, maker.actor)).tripped_at).toBeNull();
  });

  it("keeps counts for the longest window and only of its period", async () => {
    const { requester, maker, quotes } = await quotedBooks(3);
    const [first, second, third] = quotes as [Quoted, Quoted, Quoted];
    await saveProtection(env, maker.actor, { ...OFF, maxMatches: 9 });
    matchOf(await accept(requester, first));
    await saveProtection(env, maker.actor, { ...OFF, maxMatches: 9 });
    matchOf(await accept(requester, second));
    matchOf(await accept(requester, third));
    await all(
      env.DB,
      sql`UPDATE protection_counts SET at = at - 3600000
        WHERE user_id = ${uuid(maker.userId)} AND period = 2 AND matches_before = 0`,
    );
    expect(await countsOf(maker)).toBe(3);
    await trimRfq(env.DB);
    expect(await countsOf(maker)).toBe(1);
  });
});

async function countsOf({ userId }: TestUser): Promise<number> {
  const rows = await all(
    env.DB,
    sql`SELECT 1 FROM protection_counts WHERE user_id = ${uuid(userId)}`,
  );
  return rows.length;
}

describe("an accept", () => {
  /** The rows that D1 reads for an accept of the second of two quotes of a maker. */
  async function rowsOfAccept(protect: (maker: TestUser) => Promise<unknown>): Promise<number> {
    const { requester, maker, quotes } = await quotedBooks(2);
    await protect(maker);
    const [first, second] = quotes as [Quoted, Quoted];
    await commitCommand(first.book, command.accept(requester, first.quoteId));
    return rowsReadBy((db) =>
      commitCommand(second.book, command.accept(requester, second.quoteId), db),
    );
  }

  it("reads at most 5 % more rows with a protection", async () => {
    const without = await rowsOfAccept(() => Promise.resolve());
    const withOne = await rowsOfAccept(({ actor }) =>
      saveProtection(env, actor, { ...OFF, maxMatches: 100, maxUsdc: 1_000_000n }),
    );
    expect(withOne / without).toBeLessThan(1.05);
  });
});

describe("over HTTP", () => {
  it("is saved, read and reset", async () => {
    const api = apiOf(await newUser());
    const never = await api.get("/rfq/get-protection");
    expect(never.json).toEqual({
      window_secs: null,
      max_matches: null,
      max_usdc: null,
      cooldown_secs: null,
      max_deviation: null,
      tripped_at: null,
      blocked_until: null,
      cancel_at: null,
    });
    expect((await api.post("/rfq/reset-protection")).json).toEqual(never.json);
    const saved = await api.post("/rfq/protection", {
      window_secs: 60,
      max_matches: 3,
      max_usdc: "1000",
    });
    expect(saved.json).toEqual({
      ...never.json,
      window_secs: 60,
      max_matches: 3,
      max_usdc: "0x3e8",
    });
    expect((await api.get("/rfq/get-protection")).json).toEqual(saved.json);
  });

  it.each([
    ["window_secs", 0],
    ["window_secs", 3_601],
    ["max_matches", 0],
    ["max_usdc", 0],
    ["max_usdc", String(2n ** 62n + 1n)],
    ["cooldown_secs", 86_401],
  ])("%s of %s is malformed", async (name, value) => {
    const api = apiOf(await newUser());
    const { status, json } = await api.post("/rfq/protection", { window_secs: 60, [name]: value });
    expect(status).toBe(400);
    expect(json["errors"]).toMatchObject([{ path: `body.${name}` }]);
  });
});

describe("max_deviation", () => {
  it("refuses a quote far from the last price, unless the maker confirms it", async () => {
    const { book, requester, maker, request } = await openMarket();
    const save = { window_secs: 60, max_deviation: 50_000 };
    expect((await apiOf(maker).post("/rfq/protection", save)).json).toMatchObject(save);
    const quoteAt = (requestId: string, price: number, confirm = {}) =>
      submit({ ...command.placeQuote(maker, requestId, price), ...confirm });
    // Nobody has traded, so there is no price to compare with.
    const first = await placeQuote(maker, request.request_id, 500_000);
    await submit(command.accept(requester, first.quote_id));
    const { request_id: id } = await openRequest(requester, book, { amount: 1n });
    for (const price of [449_999, 550_001])
      expect(await quoteAt(id, price)).toMatchObject({
        problem: {
          code: "price_out_of_range",
          extensions: { last_price: 500_000, max_deviation: 50_000 },
        },
      });
    for (const price of [450_000, 550_000])
      expect(await quoteAt(id, price)).toMatchObject({ ok: true });
    expect(await quoteAt(id, 50_000, { confirmPrice: true })).toMatchObject({ ok: true });
    const posted = { request_id: id, price: 40_000 };
    expect((await apiOf(maker).post("/rfq/quote", posted)).status).toBe(409);
    const confirmed = { ...posted, confirm_price: true };
    expect((await apiOf(maker).post("/rfq/quote", confirmed)).status).toBe(201);
    await saveProtection(env, maker.actor, OFF);
    expect(await quoteAt(id, 1)).toMatchObject({ ok: true });
  });

  it("compares with trades and days of the asset itself, and only large ones", async () => {
    const { key: book, asset_id } = newAsset();
    const twin: AssetKey = `venue_two:${asset_id}`;
    const quiet = newAsset().key;
    const funds = { usdc: 1_000n, [book]: 100n, [twin]: 100n, [quiet]: 100n };
    const [requester, maker, narrow] = [
      await newUser(funds),
      await newUser(funds),
      await newUser(funds),
    ];
    const { VENUES, ...settings } = config(env);
    const venues = VENUES.map((venue) => ({ ...venue, min_priced_trade: 2 }));
    const limitTo = (who: TestUser, max_deviation: number) =>
      apiOf(who).post("/rfq/protection", { window_secs: 60, max_deviation });
    await limitTo(narrow, 50_000);
    await limitTo(await newUser(), 1);
    for (const [asset, amount, price] of [
      [book, 2n, 500_000],
      [book, 1n, 900_000],
      [twin, 2n, 900_000],
    ] as const) {
      const { request_id } = await openRequest(requester, asset, { amount });
      const { quote_id } = await placeQuote(maker, request_id, price);
      matchOf(await submit(command.accept(requester, quote_id)));
    }
    for (const [asset, step, start, close] of [
      [quiet, 1_440, 1, 900_000],
      [quiet, 1_440, 2, 500_000],
      [quiet, 60, 3, 900_000],
      [newAsset().key, 1_440, 4, 900_000],
    ] as const)
      await all(
        env.DB,
        sql`INSERT INTO candles (asset, step, start, open, high, low, close, amount, usdc_amount,
            trades, last_at) VALUES (${asset}, ${step}, ${start}, 1, 1, 1, ${close}, 2, 2, 1, 1)`,
      );
    for (const asset of [book, quiet]) {
      const { request_id } = await openRequest(requester, asset, { amount: 2n });
      const places = async (who: TestUser, price: number) => {
        const quote = command.placeQuote(who, request_id, price);
        const operation = await operationOf(quote, { ...settings, VENUES: venues });
        const group = await commitOperations(env.DB, asset, [operation]);
        return group.committed && group.effects.quotes.size === 1;
      };
      expect(await places(narrow, 550_000)).toBe(true);
      expect(await places(narrow, 900_000)).toBe(false);
      expect(await places(maker, 900_000)).toBe(true);
    }
  });
});
