import { runInDurableObject } from "cloudflare:test";
import { reasonCode } from "../../src/ledger/codes.ts";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { readBalance } from "../../src/ledger/balance.ts";
import { commit, newGroup, NOW } from "../../src/platform/commit.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { config } from "../../src/platform/config.ts";
import { trimGroups } from "../../src/platform/trim-groups.ts";
import { acceptQuote } from "../../src/rfq/accept-quote.ts";
import { commitOperations } from "../../src/rfq/book-group.ts";
import { cancelQuote } from "../../src/rfq/cancel-quote.ts";
import { cancelRequest } from "../../src/rfq/cancel-request.ts";
import { expireMissed } from "../../src/rfq/expire-missed.ts";
import { openRequest as openRequestUnit } from "../../src/rfq/open-request.ts";
import { placeQuote } from "../../src/rfq/place-quote.ts";
import { GroupCommitter } from "../../src/rfq/group-committer.ts";
import { releaseQuotesEndedBy } from "../../src/rfq/release.ts";
import type { RfqBook } from "../../src/rfq/rfq-book.ts";
import { fund } from "../support/ledger.ts";
import {
  accept,
  codeOf,
  newActor,
  newBook,
  openRequest,
  placedQuote,
  quote,
  send,
} from "../support/rfq.ts";

async function moveClock(ms: number): Promise<void> {
  await all(
    env.DB,
    sql`INSERT INTO commit_groups (group_id, at, voided) SELECT ${uuid(uuidv7())}, ${NOW} + ${ms}, 0`,
  );
}

describe("exactly one wins", () => {
  it("accept against cancel, fifty times", async () => {
    const book = newBook();
    const taker = await newActor({ usdc: 1_000_000n });
    const maker = await newActor({ [book]: 10_000n });
    for (let round = 0; round < 50; round++) {
      const request = await openRequest(taker, book, { amount: 10n });
      const placed = await placedQuote(maker, request.request_id, 500_000);
      const cancel = () =>
        send({ op: "cancel_quote", actor: maker, operationId: uuidv7(), quoteId: placed.quote_id });
      const take = () => accept(taker, placed.quote_id);
      const answers = await Promise.all(round % 2 === 0 ? [take(), cancel()] : [cancel(), take()]);
      expect(answers.map(codeOf).toSorted(), `round ${round}`).toEqual(["ok", "quote_not_open"]);
    }
    const { pending } = await readBalance(env.DB, maker.userId, book);
    expect(pending).toBe(0n);
  });

  it("two books that spend one maker's last funds", async () => {
    const [one, two] = [newBook(), newBook()];
    const taker = await newActor();
    const maker = await newActor({ usdc: 100n });
    const requests = await Promise.all(
      [one, two].map((book) => openRequest(taker, book, { amount: 100n, side: "Ask" })),
    );
    const answers = await Promise.all(
      requests.map((request) => quote(maker, request.request_id, 1_000_000)),
    );
    expect(answers.map(codeOf).toSorted()).toEqual(["insufficient_funds", "ok"]);
    expect(await readBalance(env.DB, maker.userId, "usdc")).toEqual({
      available: 0n,
      pending: 100n,
    });
  });

  it("200 parallel quotes with the same money: as many as it covers", async () => {
    const book = newBook();
    const taker = await newActor();
    const maker = await newActor({ [book]: 70n });
    const request = await openRequest(taker, book, { amount: 10n });
    const answers = await Promise.all(
      Array.from({ length: 200 }, () => quote(maker, request.request_id, 1)),
    );
    const counts = Map.groupBy(answers.map(codeOf), (code) => code);
    expect([counts.get("ok")?.length, counts.get("insufficient_funds")?.length]).toEqual([7, 193]);
  });
});

describe("expiry", () => {
  it("an expired quote cannot be accepted even before the alarm runs", async () => {
    const book = newBook();
    const taker = await newActor({ usdc: 1_000n });
    const maker = await newActor({ [book]: 100n });
    const request = await openRequest(taker, book, { amount: 10n });
    const placed = await placedQuote(maker, request.request_id, 1);
    await moveClock(31_000);
    expect(codeOf(await accept(taker, placed.quote_id))).toBe("quote_expired");
    expect(await readBalance(env.DB, maker.userId, book)).toEqual({ available: 100n, pending: 0n });
  });

  it("is held by each guard alone, where no group's start has ended what is due", async () => {
    const book = newBook();
    const taker = await newActor({ usdc: 1_000n });
    const maker = await newActor({ [book]: 100n });
    const short = await openRequest(taker, book, { amount: 10n, expiresInSecs: 20 });
    const long = await openRequest(taker, book, { amount: 10n });
    const placed = await placedQuote(maker, long.request_id, 1, 20);
    await moveClock(21_000);
    const terms = { asset: book, amount: "10", side: "Bid" } as const;
    const operations = [
      acceptQuote({ op: "accept", actor: taker, matchId: uuidv7(), quoteId: placed.quote_id }),
      cancelQuote({
        op: "cancel_quote",
        actor: maker,
        operationId: uuidv7(),
        quoteId: placed.quote_id,
      }),
      cancelRequest({
        op: "cancel_request",
        actor: taker,
        operationId: uuidv7(),
        requestId: short.request_id,
      }),
      placeQuote(
        {
          op: "place_quote",
          actor: maker,
          quoteId: uuidv7(),
          requestId: short.request_id,
          price: 1,
          expiresInSecs: 30,
        },
        terms,
        config(env),
      ),
    ];
    const group = newGroup();
    expect(
      (
        await commit(
          env.DB,
          group,
          operations.flatMap((operation) => [...operation.statements(group)]),
        )
      ).committed,
    ).toBe(true);
    const statuses = await all(
      env.DB,
      sql`SELECT status FROM quotes WHERE asset = ${book} UNION ALL SELECT status FROM requests WHERE asset = ${book}`,
    );
    expect(statuses).toEqual([{ status: "open" }, { status: "open" }, { status: "open" }]);
    expect(await readBalance(env.DB, maker.userId, book)).toEqual({ available: 90n, pending: 10n });
  });

  it("alarm, cron, a group's start and a cancel at once release once", async () => {
    const book = newBook();
    const taker = await newActor();
    const maker = await newActor({ [book]: 100n });
    const request = await openRequest(taker, book, { amount: 10n });
    const placed = await placedQuote(maker, request.request_id, 1);
    await moveClock(40_000);
    const stub = env.RFQ_BOOK.getByName(book);
    await Promise.all([
      stub.expireDue(),
      expireMissed(env),
      openRequest(taker, book, { amount: 1n }),
      send({ op: "cancel_quote", actor: maker, operationId: uuidv7(), quoteId: placed.quote_id }),
      commitOperations(env.DB, book, []),
    ]);
    expect(await readBalance(env.DB, maker.userId, book)).toEqual({ available: 100n, pending: 0n });
    const releases = await all<{ n: number }>(
      env.DB,
      sql`SELECT count(*) AS n FROM transfers WHERE ref = ${uuid(placed.quote_id)} AND reason = ${reasonCode("release")}`,
    );
    expect(releases).toEqual([{ n: 1 }]);
  });
});

describe("an operation", () => {
  it("that releases three times pays once", async () => {
    const book = newBook();
    const taker = await newActor();
    const maker = await newActor({ [book]: 100n });
    const request = await openRequest(taker, book, { amount: 10n });
    const placed = await placedQuote(maker, request.request_id, 1);
    const operationId = uuidv7();
    const operation = cancelQuote({
      op: "cancel_quote",
      actor: maker,
      operationId,
      quoteId: placed.quote_id,
    });
    const first = newGroup();
    expect((await commit(env.DB, first, [...operation.statements(first)])).committed).toBe(true);
    for (let round = 0; round < 2; round++) {
      const group = newGroup();
      expect(await commit(env.DB, group, [releaseQuotesEndedBy(group, operationId)])).toMatchObject(
        {
          committed: false,
          reason: "constraint",
        },
      );
    }
    expect(await readBalance(env.DB, maker.userId, book)).toEqual({ available: 100n, pending: 0n });
  });

  it("whose batch lands after its group was voided changes nothing", async () => {
    const book = newBook();
    const taker = await newActor();
    const maker = await newActor({ [book]: 100n });
    const request = await openRequest(taker, book, { amount: 10n });
    const placed = await placedQuote(maker, request.request_id, 1);
    const group = newGroup();
    const operation = cancelQuote({
      op: "cancel_quote",
      actor: maker,
      operationId: uuidv7(),
      quoteId: placed.quote_id,
    });
    await all(
      env.DB,
      sql`INSERT INTO commit_groups (group_id, at, voided) VALUES (${uuid(group.id)}, ${NOW}, 1)`,
    );
    const late = await commit(env.DB, group, [...operation.statements(group)]);
    expect(late.committed).toBe(false);
    expect(await readBalance(env.DB, maker.userId, book)).toEqual({ available: 90n, pending: 10n });
  });

  it("answers truthfully when D1 commits but its answer is lost", async () => {
    const book = newBook();
    const taker = await newActor();
    const maker = await newActor({ [book]: 100n });
    const request = await openRequest(taker, book, { amount: 10n });
    const placed = await placedQuote(maker, request.request_id, 1);
    const operationId = uuidv7();
    const lossy = losingFirstBatch(env.DB, "after");
    const done = await commitOperations(lossy, book, [
      cancelQuote({ op: "cancel_quote", actor: maker, operationId, quoteId: placed.quote_id }),
    ]);
    expect(
      done.committed && done.effects.endedBy.has(operationId.replaceAll("-", "").toUpperCase()),
    ).toBe(true);
    const again = await commitOperations(losingFirstBatch(env.DB, "before"), book, []);
    expect(again).toMatchObject({ committed: false, reason: "lost" });
  });
});

describe("one maker", () => {
  it("cannot keep the others off a request with worthless quotes", async () => {
    const book = newBook();
    const taker = await newActor({ [book]: 1_000n });
    const griefer = await newActor({ usdc: 1_000_000n });
    const honest = await newActor({ usdc: 1_000_000n });
    const request = await openRequest(taker, book, { amount: 1_000n, side: "Ask" });
    const answers = await Promise.all(
      Array.from({ length: 60 }, () => quote(griefer, request.request_id, 1)),
    );
    expect(answers.filter(({ ok }) => ok)).toHaveLength(50);
    expect(codeOf(await quote(honest, request.request_id, 650_000))).toBe("ok");
  });
});

describe("an explanation", () => {
  it("is not made up: what no longer stands in the way is tried again", async () => {
    const book = newBook();
    const taker = await newActor({ usdc: 1n });
    const maker = await newActor({ [book]: 100n });
    const request = await openRequest(taker, book, { amount: 10n });
    const placed = await placedQuote(maker, request.request_id, 1_000_000);
    const operation = acceptQuote({
      op: "accept",
      actor: taker,
      matchId: uuidv7(),
      quoteId: placed.quote_id,
    });
    await commitOperations(env.DB, book, [operation]);
    await fund(taker.userId, "usdc", 1_000n);
    expect(await operation.rejection(env.DB)).toBeUndefined();
  });

  it("says expired for what is due, even before anything has ended it", async () => {
    const book = newBook();
    const taker = await newActor();
    const maker = await newActor({ [book]: 100n });
    const request = await openRequest(taker, book, { amount: 10n, expiresInSecs: 20 });
    const placed = await placedQuote(maker, request.request_id, 1);
    await moveClock(21_000);
    const cancels = [
      cancelRequest({
        op: "cancel_request",
        actor: taker,
        operationId: uuidv7(),
        requestId: request.request_id,
      }),
      cancelQuote({
        op: "cancel_quote",
        actor: maker,
        operationId: uuidv7(),
        quoteId: placed.quote_id,
      }),
    ];
    const [ofRequest, ofQuote] = await Promise.all(
      cancels.map((operation) => operation.rejection(env.DB)),
    );
    expect(ofRequest).toMatchObject({ problem: { code: "request_expired" } });
    expect(ofQuote).toMatchObject({
      problem: { code: "quote_not_open", extensions: { quote_status: "expired" } },
    });
  });
});

describe("a book whose batch fails", () => {
  it("arms its alarm again", async () => {
    const book = newBook();
    const taker = await newActor();
    await openRequest(taker, book, { amount: 10n });
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
    const book = newBook();
    const taker = await newActor();
    const settings = { ...config(env), RFQ_OPEN_REQUESTS_PER_USER: 1 };
    const committer = new GroupCommitter(losingFirstBatch(env.DB, "before"), {
      asset: book,
      waitMs: 20,
      maxOperations: 64,
      onCommitted: async () => {},
      onFailed: () => {},
    });
    const one = () =>
      committer.submit(
        openRequestUnit(
          {
            op: "open_request",
            actor: taker,
            requestId: uuidv7(),
            asset: book,
            amount: "1",
            side: "Bid",
            disclosed: false,
            expiresInSecs: 60,
          },
          settings,
        ),
      );
    const answers = await Promise.all([one(), one(), one()]);
    expect(answers.map(codeOf)).toEqual(["ok", "open_request_limit", "open_request_limit"]);
  });
});

describe("trimming", () => {
  it("looks at no more groups than it may delete, and keeps the latest", async () => {
    await all(
      env.DB,
      sql`INSERT INTO commit_groups (group_id, at, voided)
      WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 20000) SELECT randomblob(16), ${NOW}, 0 FROM n`,
    );
    const { meta } = await env.DB.prepare(
      "SELECT seq FROM (SELECT seq, at FROM commit_groups ORDER BY seq LIMIT 5000) WHERE at < 1",
    ).run();
    expect(meta.rows_read).toBeLessThan(6_000);
    await trimGroups(env.DB);
    expect(await all(env.DB, sql`SELECT 1 FROM commit_groups LIMIT 1`)).toHaveLength(1);
  });
});

function failingBatches(db: D1Database): D1Database {
  return new Proxy(db, {
    get(target, name) {
      if (name === "batch")
        return async () => Promise.reject(new Error("D1_ERROR: Network connection lost."));
      return typeof target[name as "prepare"] === "function"
        ? target[name as "prepare"].bind(target)
        : undefined;
    },
  });
}

/** D1 whose first batch loses its answer, after it committed or before it was carried out. */
function losingFirstBatch(db: D1Database, when: "before" | "after"): D1Database {
  let lost = false;
  return new Proxy(db, {
    get(target, name) {
      if (name !== "batch")
        return typeof target[name as "prepare"] === "function"
          ? target[name as "prepare"].bind(target)
          : undefined;
      return async (statements: D1PreparedStatement[]) => {
        if (lost) return target.batch(statements);
        lost = true;
        if (when === "after") await target.batch(statements);
        throw new Error("D1_ERROR: Network connection lost.");
      };
    },
  });
}
