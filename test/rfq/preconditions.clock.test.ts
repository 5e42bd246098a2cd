/** Preconditions whose loss another one would hide, each alone against the guard. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { AssetKey } from "../../src/assets/asset.ts";
import { config } from "../../src/platform/config.ts";
import { first, sql, uuid } from "../../src/platform/sql.ts";
import { commitOperations } from "../../src/rfq/book-group.ts";
import { cancelQuotes } from "../../src/rfq/cancel-quotes.ts";
import { KEY_LIFE_MS, OLDEST_READ } from "../../src/platform/windows.ts";
import { balances, fund, newAsset } from "../support/ledger.ts";
import {
  advanceClock,
  command,
  commitCommand,
  openMarket,
  openRequest,
  operationOf,
  outcomeOf,
  placeQuote,
  quotedMarket,
} from "../support/market.ts";
import { now } from "../../src/platform/time.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import type { OpenRequest, PlaceQuote } from "../../src/rfq/command.ts";
import { newKey, newUser } from "../support/users.ts";

const statusOf = async (table: "quotes" | "requests", id: string) => {
  const column = { text: table === "quotes" ? "quote_id" : "request_id", params: [] };
  const row = await first<{ status: string }>(
    env.DB,
    sql`SELECT status FROM ${{ text: table, params: [] }} WHERE ${column} = ${uuid(id)}`,
  );
  return row?.status;
};

describe("an accept", () => {
  it("spends no funds that are reserved elsewhere or of another asset", async () => {
    const { book, requester, quote } = await quotedMarket({ requester: { usdc: 5n } });
    await fund(requester.userId, newAsset().key, 1_000n);
    // A quote on somebody else's Ask reserves all that the requester has.
    const other = await newUser();
    const ask = await openRequest(other, book, { amount: 5n, side: "Ask" });
    await placeQuote(requester, ask.request_id, 1_000_000);
    expect(await balances(requester.userId, "usdc")).toEqual([0n, 5n]);
    const result = await commitCommand(book, command.accept(requester, quote.quote_id));
    expect(outcomeOf(result)).toBe("insufficient_funds");
  });

  it("closes the request, so nobody quotes or accepts on it again", async () => {
    const { book, requester, maker, request, quote } = await quotedMarket();
    const loser = await placeQuote(maker, request.request_id, 600_000);
    await commitCommand(book, command.accept(requester, quote.quote_id));
    expect(await statusOf("requests", request.request_id)).toBe("matched");
    const late = [
      command.placeQuote(maker, request.request_id, 1),
      command.accept(requester, loser.quote_id),
    ];
    for (const sent of late)
      expect(outcomeOf(await commitCommand(book, sent))).toMatch(/^(request|quote)_not_open$/);
  });
});

describe("the limit of open quotes", () => {
  it("counts the quotes that are open, and none that has expired", async () => {
    const { book, maker, request } = await openMarket();
    const settings = { ...config(env), RFQ_OPEN_QUOTES_PER_USER: 2 };
    const place = async (secs: number) => {
      const operation = await operationOf(
        command.placeQuote(maker, request.request_id, 1, secs),
        settings,
      );
      const done = await commitOperations(env.DB, book, [operation]);
      return done.committed && operation.result(done.effects)?.ok === true;
    };
    expect([await place(10), await place(100), await place(100)]).toEqual([true, true, false]);
    await advanceClock(11_000);
    expect([await place(100), await place(100)]).toEqual([true, false]);
  });

  // Each quote states a bound of the number, so it must hold for any order of quotes and ends.
  it("places as many as are left, in groups of any size and in any book", async () => {
    const limit = 4;
    const settings = { ...config(env), RFQ_OPEN_QUOTES_PER_USER: limit };
    const markets = [await openMarket(), await openMarket()];
    const maker = await newUser(Object.fromEntries(markets.map(({ book }) => [book, 1_000_000n])));
    const open: { book: AssetKey; quoteId: string }[] = [];
    for (let step = 0; step < 60; step++) {
      const { book, request } = markets[step % 5 === 0 ? 1 : 0] as (typeof markets)[number];
      const sent = Array.from({ length: 1 + ((step * 7) % 4) }, () =>
        command.placeQuote(maker, request.request_id, 1, 300),
      );
      const operations = await Promise.all(sent.map((one) => operationOf(one, settings)));
      const done = await commitOperations(env.DB, book, operations);
      const placed = sent.filter(
        (_, index) => done.committed && operations[index]?.result(done.effects)?.ok === true,
      );
      expect(placed).toHaveLength(Math.min(sent.length, limit - open.length));
      open.push(...placed.map(({ quoteId }) => ({ book, quoteId })));
      for (let ended = (step * 5) % 4; ended > 0 && open.length > 0; ended--) {
        const [quote] = open.splice((step * 3) % open.length, 1);
        if (quote !== undefined)
          await commitCommand(quote.book, command.cancelQuote(maker, quote.quoteId));
      }
    }
  });
});

it("a cancel reports an accepted quote as accepted, also past its time", async () => {
  const { book, requester, maker, quote } = await quotedMarket({ quoteSecs: 10 });
  await commitCommand(book, command.accept(requester, quote.quote_id));
  await advanceClock(11_000);
  const result = await commitCommand(book, command.cancelQuote(maker, quote.quote_id));
  expect(result).toMatchObject({ problem: { extensions: { quote_status: "accepted" } } });
});

describe("cancelling all quotes", () => {
  it("of a request leaves those on others, also with the venue named", async () => {
    const { book, requester, maker, request, quote } = await quotedMarket();
    const other = await openRequest(requester, book, { amount: 10n });
    const kept = await placeQuote(maker, other.request_id, 500_000);
    const filter = { venue: "venue_one" as const, requestId: request.request_id };
    expect(await cancelQuotes(env, maker.actor, filter)).toBe(1);
    expect(await statusOf("quotes", quote.quote_id)).toBe("cancelled");
    expect(await statusOf("quotes", kept.quote_id)).toBe("open");
  });

  it("leaves those that have expired to their expiry", async () => {
    const { maker, quote } = await quotedMarket({ quoteSecs: 10 });
    // Nothing ends the quote meanwhile: it is due, and still open.
    await advanceClock(11_000);
    expect(await cancelQuotes(env, maker.actor, {})).toBe(0);
    expect(await statusOf("quotes", quote.quote_id)).not.toBe("cancelled");
  });
});

describe("an expiry", () => {
  it("frees the maker's reserves in every book before the maker's next command", async () => {
    const { maker } = await quotedMarket({ maker: { usdc: 10n, token: 10n }, quoteSecs: 10 });
    const { key: elsewhere } = newAsset();
    const asker = await newUser();
    const ask = await openRequest(asker, elsewhere, { amount: 10n, side: "Ask" });
    const reserving = command.placeQuote(maker, ask.request_id, 1_000_000, 10);
    expect(outcomeOf(await commitCommand(elsewhere, reserving))).toBe("ok");
    await advanceClock(11_000);
    // Another book, so only the expiry of the maker's own quotes can free the funds.
    const { key: third } = newAsset();
    const again = await openRequest(asker, third, { amount: 10n, side: "Ask" });
    const second = command.placeQuote(maker, again.request_id, 1_000_000, 10);
    expect(outcomeOf(await commitCommand(third, second))).toBe("ok");
  });

  it("ends a request only after its last quote", async () => {
    const { book, request } = await openMarket({ expiresInSecs: 100 });
    // 260 quotes, of which one group ends 200. All are due when the request is.
    for (let count = 0; count < 13; count++) {
      const maker = await newUser({ [book]: 1_000n });
      const placed = Array.from({ length: 20 }, () =>
        operationOf(command.placeQuote(maker, request.request_id, 1, 100)),
      );
      await commitOperations(env.DB, book, await Promise.all(placed));
    }
    await advanceClock(101_000);
    const expireNext = async () => {
      await commitOperations(env.DB, book, []);
      return first(
        env.DB,
        sql`SELECT r.status, (SELECT count(*) FROM quotes q
            WHERE q.request_id = r.request_id AND q.status = 'open') AS quotes
          FROM requests r WHERE r.request_id = ${uuid(request.request_id)}`,
      );
    };
    expect(await expireNext()).toEqual({ quotes: 60, status: "open" });
    expect(await expireNext()).toEqual({ quotes: 0, status: "expired" });
  });
});

// Last, because no session outlives it.
describe("an idempotency key", () => {
  const idempotency = { key: "once", terms: "terms" };
  const { key: book } = newAsset();
  /** The Worker makes the id when it receives the command, up to a minute before the commit. */
  const earlyId = () => uuidv7(now() - 60_000);

  async function sendTwice(make: () => OpenRequest | PlaceQuote) {
    const results = [];
    for (let time = 0; time < 2; time++) {
      const result = await commitCommand(book, make());
      if (!result.ok || !("replayed" in result)) throw new Error(JSON.stringify(result));
      results.push(result.replayed);
    }
    return results;
  }

  it("repeats a command within a day and carries out another one afterwards", async () => {
    const requester = await newKey(await newUser());
    const maker = await newKey(await newUser({ [book]: 10n }));
    const send = async () => {
      const sent = command.openRequest(requester, book, { amount: 1n });
      const { request_id: requestId } = await openRequest(requester, book, { amount: 1n });
      const quote = command.placeQuote(maker, requestId, 500_000);
      return [
        await sendTwice(() => ({ ...sent, requestId: earlyId(), idempotency })),
        await sendTwice(() => ({ ...quote, quoteId: earlyId(), idempotency })),
      ];
    };
    const [done, repeated] = [
      [false, true],
      [true, true],
    ];
    expect(await send()).toEqual([done, done]);
    await advanceClock(OLDEST_READ.replayByKey.ms);
    expect(await send()).toEqual([repeated, repeated]);
    // The rows have expired, but are not trimmed yet.
    await advanceClock(KEY_LIFE_MS - OLDEST_READ.replayByKey.ms);
    expect(await send()).toEqual([done, done]);
  });
});
