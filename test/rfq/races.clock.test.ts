import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { commit, newGroup, NOW } from "../../src/platform/commit.ts";
import { config } from "../../src/platform/config.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { trimGroups } from "../../src/platform/trim.ts";
import { KEPT } from "../../src/platform/windows.ts";
import { commitOperations } from "../../src/rfq/book-group.ts";
import { expireMissed } from "../../src/rfq/expire.ts";
import { GroupCommitter } from "../../src/rfq/group-committer.ts";
import { hexId } from "../../src/rfq/book-operation.ts";
import type { RfqBook } from "../../src/rfq/rfq-book.ts";
import { bookStream } from "../../src/streams/event-log.ts";
import { balances, fund, newAsset } from "../support/ledger.ts";
import {
  advanceClock,
  command,
  inWaves,
  openMarket,
  openRequest,
  operationOf,
  outcomeOf,
  placeQuote,
  quotedMarket,
  rejectionOf,
  submit,
} from "../support/market.ts";
import { withBatch } from "../support/slow-database.ts";
import { awakeAndEvicted } from "../support/sockets.ts";
import { newUser } from "../support/users.ts";
import { rounds } from "../support/depth.ts";

awakeAndEvicted("exactly one wins", (maybeEvict) => {
  it("of an accept and a cancel", async () => {
    const { key: book } = newAsset();
    const requester = await newUser({ usdc: 1_000_000n });
    const maker = await newUser({ [book]: 10_000n });
    for (let round = 0; round < rounds(10, 50); round++) {
      const request = await openRequest(requester, book, { amount: 10n });
      const quote = await placeQuote(maker, request.request_id, 500_000);
      const commands = [
        command.accept(requester, quote.quote_id),
        command.cancelQuote(maker, quote.quote_id),
      ];
      if (round % 2 === 1) commands.reverse();
      await maybeEvict(bookStream(book));
      const results = await Promise.all(commands.map(submit));
      expect(results.map(outcomeOf).toSorted(), `round ${round}`).toEqual(["ok", "quote_not_open"]);
    }
    expect((await balances(maker.userId, book))[1]).toBe(0n);
  }, 30_000);

  it("of two books that spend a maker's last funds", async () => {
    const books = [newAsset().key, newAsset().key];
    const requester = await newUser();
    const maker = await newUser({ usdc: 100n });
    const requests = await Promise.all(
      books.map((book) => openRequest(requester, book, { amount: 100n, side: "Ask" })),
    );
    await maybeEvict(...books.map(bookStream));
    const results = await Promise.all(
      requests.map(({ request_id }) => submit(command.placeQuote(maker, request_id, 1_000_000))),
    );
    expect(results.map(outcomeOf).toSorted()).toEqual(["insufficient_funds", "ok"]);
    expect(await balances(maker.userId, "usdc")).toEqual([0n, 100n]);
  });
});

awakeAndEvicted("concurrent quotes", (maybeEvict) => {
  it("reserve no more than the maker has", async () => {
    const { stream, maker, request } = await openMarket({ maker: { token: 70n } });
    await maybeEvict(stream);
    // None expires while the waves take their time on a busy machine, which would free its reserve.
    const results = await inWaves(200, () =>
      submit(command.placeQuote(maker, request.request_id, 1, 300)),
    );
    const counts = Map.groupBy(results.map(outcomeOf), (outcome) => outcome);
    expect([counts.get("ok")?.length, counts.get("insufficient_funds")?.length]).toEqual([7, 193]);
  });

  it("of one maker leave room for those of others", async () => {
    const { stream, maker, request } = await openMarket({
      requester: { token: 1_000n },
      maker: { usdc: 1_000_000n },
      amount: 1_000n,
      side: "Ask",
    });
    const other = await newUser({ usdc: 1_000_000n });
    const quotes = await inWaves(60, () =>
      submit(command.placeQuote(maker, request.request_id, 1)),
    );
    expect(quotes.filter(({ ok }) => ok)).toHaveLength(20);
    await maybeEvict(stream);
    const result = await submit(command.placeQuote(other, request.request_id, 650_000));
    expect(outcomeOf(result)).toBe("ok");
  });
});

awakeAndEvicted("expiry", (maybeEvict) => {
  it("rejects an accept even before the alarm runs", async () => {
    const { book, stream, requester, maker, quote } = await quotedMarket();
    await advanceClock(31_000);
    await maybeEvict(stream);
    const result = await submit(command.accept(requester, quote.quote_id));
    expect(outcomeOf(result)).toBe("quote_expired");
    expect(await balances(maker.userId, book)).toEqual([1_000n, 0n]);
  });

  it("ends a promise once when alarm, cron, a command and a cancel race", async () => {
    const { book, stream, requester, maker, quote } = await quotedMarket();
    await advanceClock(40_000);
    await maybeEvict(stream);
    await Promise.all([
      env.RFQ_BOOK.getByName(book).expireDue(),
      expireMissed(env),
      openRequest(requester, book, { amount: 1n }),
      submit(command.cancelQuote(maker, quote.quote_id)),
      commitOperations(env.DB, book, []),
    ]);
    expect(await balances(maker.userId, book)).toEqual([1_000n, 0n]);
  });
});

describe("a book that has missed a quote", () => {
  it("ends it when cron calls", async () => {
    const { book, maker, request } = await openMarket();
    // After this one the book knows its open quotes.
    await placeQuote(maker, request.request_id, 500_000, 30);
    await scheduler.wait(100);
    // As another instance of the book would.
    const quote = command.placeQuote(maker, request.request_id, 400_000, 30);
    await commitOperations(env.DB, book, [await operationOf(quote)]);
    await advanceClock(40_000);
    await expireMissed(env);
    expect(await balances(maker.userId, book)).toEqual([1_000n, 0n]);
  });

  it("ends it by its alarm after a batch has failed", async () => {
    const { book, maker, request } = await openMarket();
    let fails = false;
    const DB = withBatch(env.DB, (statements) =>
      fails ? Promise.reject(new Error("D1_ERROR: refused")) : env.DB.batch(statements),
    );
    const broken = new Proxy(env, {
      get: (target, name) => (name === "DB" ? DB : Reflect.get(target, name)),
    });
    await runInDurableObject(env.RFQ_BOOK.getByName(book), async (instance: RfqBook, state) => {
      const again = new (instance.constructor as typeof RfqBook)(state, broken);
      await again.submit(command.placeQuote(maker, request.request_id, 500_000, 30));
      await scheduler.wait(100);
      const quote = command.placeQuote(maker, request.request_id, 400_000, 30);
      await commitOperations(env.DB, book, [await operationOf(quote)]);
      fails = true;
      await again.submit(command.placeQuote(maker, request.request_id, 300_000, 30));
      fails = false;
      await advanceClock(40_000);
      await again.alarm();
    });
    expect(await balances(maker.userId, book)).toEqual([1_000n, 0n]);
  });
});

describe("each guard", () => {
  it("rejects what is due, even if nothing has ended it yet", async () => {
    const { book, requester, maker, request: short } = await openMarket({ expiresInSecs: 20 });
    const long = await openRequest(requester, book, { amount: 10n });
    const quote = await placeQuote(maker, long.request_id, 1, 20);
    await advanceClock(21_000);
    const operations = await Promise.all(
      [
        command.accept(requester, quote.quote_id),
        command.cancelQuote(maker, quote.quote_id),
        command.cancelRequest(requester, short.request_id),
        command.placeQuote(maker, short.request_id, 1),
      ].map((sent) => operationOf(sent)),
    );
    // Without the statements with which a book's group ends what is due.
    const group = newGroup();
    const statements = operations.flatMap((operation) => operation.statements(group));
    expect((await commit(env.DB, group, statements)).committed).toBe(true);
    const statuses = await all(
      env.DB,
      sql`SELECT status FROM quotes WHERE asset = ${book}
        UNION ALL SELECT status FROM requests WHERE asset = ${book}`,
    );
    expect(statuses).toEqual([{ status: "open" }, { status: "open" }, { status: "open" }]);
    expect(await balances(maker.userId, book)).toEqual([990n, 10n]);
  });
});

describe("an operation", () => {
  it("changes nothing if its group was voided before the batch", async () => {
    const { book, maker, quote } = await quotedMarket();
    const group = newGroup();
    const operation = await operationOf(command.cancelQuote(maker, quote.quote_id));
    await all(
      env.DB,
      sql`INSERT INTO commit_groups (group_id, at, voided) VALUES (${uuid(group.id)}, ${NOW}, 1)`,
    );
    const late = await commit(env.DB, group, [...operation.statements(group)]);
    expect(late.committed).toBe(false);
    expect(await balances(maker.userId, book)).toEqual([990n, 10n]);
  });

  it("reports what D1 committed when D1's response is lost", async () => {
    const { book, maker, quote } = await quotedMarket();
    const cancel = command.cancelQuote(maker, quote.quote_id);
    const lossy = losingFirstBatch(env.DB, "after");
    const done = await commitOperations(lossy, book, [await operationOf(cancel)]);
    expect(done.committed && done.effects.endedBy.has(hexId(cancel.operationId))).toBe(true);
    const again = await commitOperations(losingFirstBatch(env.DB, "before"), book, []);
    expect(again).toMatchObject({ committed: false, reason: "lost" });
  });
});

describe("a rejection", () => {
  it("is undefined when its reason no longer holds, so that the book retries", async () => {
    const { book, requester, quote } = await quotedMarket({
      requester: { usdc: 1n },
      price: 1_000_000,
    });
    const operation = await operationOf(command.accept(requester, quote.quote_id));
    await commitOperations(env.DB, book, [operation]);
    await fund(requester.userId, "usdc", 1_000n);
    expect(await rejectionOf(operation)).toBeUndefined();
  });

  it("says expired for what is due, even before anything has ended it", async () => {
    const { requester, maker, request, quote } = await quotedMarket({ expiresInSecs: 20 });
    await advanceClock(21_000);
    const [ofRequest, ofQuote] = await Promise.all(
      [
        command.cancelRequest(requester, request.request_id),
        command.cancelQuote(maker, quote.quote_id),
      ].map(async (sent) => rejectionOf(await operationOf(sent))),
    );
    expect(ofRequest).toMatchObject({ problem: { code: "request_expired" } });
    expect(ofQuote).toMatchObject({
      problem: { code: "quote_not_open", extensions: { quote_status: "expired" } },
    });
  });
});

describe("a book whose batch fails", () => {
  it("arms its alarm again", async () => {
    const { book } = await openMarket();
    const armed = await runInDurableObject(
      env.RFQ_BOOK.getByName(book),
      async (instance: RfqBook, state) => {
        await state.storage.deleteAlarm();
        const broken = new Proxy(env, {
          get: (target, name) =>
            name === "DB" ? failingBatches(env.DB) : Reflect.get(target, name),
        });
        const again = new (instance.constructor as typeof RfqBook)(state, broken);
        await again.alarm();
        return state.storage.getAlarm();
      },
    );
    expect(armed).not.toBeNull();
  });

  it("keeps the order of its commands when they run again", async () => {
    const { key: book } = newAsset();
    const requester = await newUser();
    const settings = { ...config(env), RFQ_OPEN_REQUESTS_PER_USER: 1 };
    const committer = new GroupCommitter(losingFirstBatch(env.DB, "before"), {
      asset: book,
      waitMs: 20,
      maxWaitMs: 60_000,
      maxOperations: 64,
      macKeys: settings,
      onCommitted: async () => {},
      onFailed: () => {},
      onClockAhead: () => {},
      push: () => Promise.resolve(),
    });
    const operations = await Promise.all(
      Array.from({ length: 3 }, () =>
        operationOf(command.openRequest(requester, book, { amount: 1n }), settings),
      ),
    );
    const results = await Promise.all(operations.map((operation) => committer.submit(operation)));
    expect(results.map(outcomeOf)).toEqual(["ok", "open_request_limit", "open_request_limit"]);
  });
});

describe("trimming", () => {
  it("reads no more groups than it may delete, and keeps the latest", async () => {
    await all(
      env.DB,
      sql`INSERT INTO commit_groups (group_id, at, voided)
        WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 20000)
        SELECT randomblob(16), ${NOW}, 0 FROM n`,
    );
    const { meta } = await env.DB.prepare(
      `SELECT seq FROM (SELECT seq, at FROM commit_groups ORDER BY seq LIMIT 5000) WHERE at < 1`,
    ).run();
    expect(meta.rows_read).toBeLessThan(6_000);
    await trimGroups(env.DB, KEPT.commitGroups);
    expect(await all(env.DB, sql`SELECT 1 FROM commit_groups LIMIT 1`)).toHaveLength(1);
  });
});

function failingBatches(db: D1Database): D1Database {
  return withBatch(db, async () => Promise.reject(new Error("D1_ERROR: Network connection lost.")));
}

/** D1 that loses the response to its first batch, which it has committed or has not received. */
function losingFirstBatch(db: D1Database, when: "before" | "after"): D1Database {
  let lost = false;
  return withBatch(db, async (statements) => {
    if (lost) return db.batch(statements);
    lost = true;
    if (when === "after") await db.batch(statements);
    throw new Error("D1_ERROR: Network connection lost.");
  });
}
