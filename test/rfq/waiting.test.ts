/** Commands that wait for a batch: how long they may, and what a busy book must not delay. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { config } from "../../src/platform/config.ts";
import { GroupCommitter } from "../../src/rfq/group-committer.ts";
import { command, openMarket, operationOf, outcomeOf, quotedMarket } from "../support/market.ts";
import { withBatch, withStatements } from "../support/slow-database.ts";

function newCommitter(db: D1Database, asset: string, maxWaitMs: number) {
  return new GroupCommitter(db, {
    asset,
    waitMs: 2,
    maxWaitMs,
    maxOperations: 64,
    macKeys: config(env),
    onCommitted: async () => {},
    onFailed: () => {},
    onClockAhead: () => {},
    push: () => Promise.resolve(),
  });
}

describe("a command that waits too long", () => {
  it("is answered while the batch before it hangs, and is never carried out", async () => {
    const { book, maker, request } = await openMarket();
    let stalls = 1;
    const slow = withBatch(env.DB, async (statements) => {
      if (stalls-- > 0) await scheduler.wait(1_500);
      return env.DB.batch(statements);
    });
    const committer = newCommitter(slow, book, 300);
    const sent = [1, 2].map((price) => command.placeQuote(maker, request.request_id, price));
    const [early, late] = await Promise.all(sent.map((quote) => operationOf(quote)));
    const first = committer.submit(early!);
    await scheduler.wait(5);
    const startedAt = Date.now();
    const second = await committer.submit(late!);
    expect(Date.now() - startedAt).toBeLessThan(1_200);
    expect(second).toMatchObject({
      ok: false,
      problem: { code: "unavailable", extensions: { outcome: "none" } },
    });
    await first;
    await committer.expire();
    const quotes = await all(
      env.DB,
      sql`SELECT 1 FROM quotes WHERE request_id = ${uuid(request.request_id)} AND price = 2`,
    );
    expect(quotes).toEqual([]);
  });

  it("is answered when the read of a standing accept hangs", async () => {
    const accept = { price: 500_000, side: "Bid" } as const;
    const { book, maker, request } = await openMarket({ accept });
    const slow = withStatements(env.DB, async (texts) => {
      if (texts.length === 1 && texts[0]?.includes("standing_accepts")) await scheduler.wait(500);
    });
    const quote = await operationOf(command.placeQuote(maker, request.request_id, 400_000));
    expect(outcomeOf(await newCommitter(slow, book, 300).submit(quote))).toBe("unavailable");
    await scheduler.wait(500);
    const quotes = await all(
      env.DB,
      sql`SELECT 1 FROM quotes WHERE request_id = ${uuid(request.request_id)}`,
    );
    expect(quotes).toEqual([]);
  });

  it("is not carried out when a lost batch is repeated", async () => {
    const { book, requester, quote } = await quotedMarket();
    let away = true;
    const lossy = withBatch(env.DB, async (statements) => {
      if (!away) return env.DB.batch(statements);
      away = false;
      await scheduler.wait(500);
      throw new Error("D1_ERROR: Network connection lost.");
    });
    const committer = newCommitter(lossy, book, 300);
    const accept = await operationOf(command.accept(requester, quote.quote_id));
    expect(outcomeOf(await committer.submit(accept))).toBe("unavailable");
    const matches = await all(
      env.DB,
      sql`SELECT 1 FROM matches WHERE quote_id = ${uuid(quote.quote_id)}`,
    );
    expect(matches).toEqual([]);
  });
});

it("expire resolves after the next batch although the book stays busy", async () => {
  const { book, requester, request } = await openMarket();
  const slow = withBatch(env.DB, async (statements) => {
    await scheduler.wait(60);
    return env.DB.batch(statements);
  });
  const committer = newCommitter(slow, book, 60_000);
  const stop = new AbortController();
  const load = (async () => {
    const results: Promise<unknown>[] = [];
    while (!stop.signal.aborted) {
      const cancel = command.cancelRequest(requester, request.request_id);
      results.push(committer.submit(await operationOf(cancel)));
      await scheduler.wait(15);
    }
    await Promise.all(results);
  })();
  await scheduler.wait(100);
  const resolved = await Promise.race([
    committer.expire().then(() => true),
    scheduler.wait(2_000).then(() => false),
  ]);
  stop.abort();
  await load;
  expect(resolved).toBe(true);
});
