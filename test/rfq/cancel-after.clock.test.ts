/** What becomes of a credential's quotes when its cancel-after timer runs out. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { revokeApiKey } from "../../src/auth/revoke-key.ts";
import { Feed } from "../../src/feeds/feed.ts";
import type { Actor } from "../../src/platform/actor.ts";
import { Problem } from "../../src/platform/problem.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { cancelAfter, closeMissedTimers } from "../../src/rfq/cancel-after.ts";
import { accountStream } from "../../src/streams/event-log.ts";
import { balances, newAsset } from "../support/ledger.ts";
import {
  advanceClock,
  command,
  openRequest,
  outcomeOf,
  placeQuote,
  submit,
} from "../support/market.ts";
import { withBatch } from "../support/slow-database.ts";
import { connect, replay } from "../support/sockets.ts";
import { newKey, newUser } from "../support/users.ts";
import { rounds } from "../support/depth.ts";

type Party = { readonly actor: Actor };

/** A maker with two keys, each of which has quoted. Keys, because sessions end by the clock. */
async function quotedByKeys() {
  await advanceClock(0);
  const { key: book } = newAsset();
  const requester = await newKey(await newUser({ usdc: 10_000n }));
  const maker = await newUser({ [book]: 1_000n });
  const [bot, other] = [await newKey(maker), await newKey(maker)];
  const request = async () => (await openRequest(requester, book, { amount: 10n })).request_id;
  const quote = async (party: Party) =>
    (await placeQuote(party, await request(), 500_000, 300)).quote_id;
  const tryQuote = async (party: Party) =>
    outcomeOf(await submit(command.placeQuote(party, await request(), 500_000, 300)));
  const accept = async (quoteId: string) =>
    outcomeOf(await submit(command.accept(requester, quoteId)));
  return { book, requester, maker, bot, other, quote, tryQuote, accept };
}

const setTimer = ({ actor }: Party, secs: number) => cancelAfter(env, actor, secs);

async function closedAs(quoteId: string) {
  const [row] = await all<{ status: string; reason: string | null }>(
    env.DB,
    sql`SELECT status, cancel_reason AS reason FROM quotes WHERE quote_id = ${uuid(quoteId)}`,
  );
  return [row?.status, row?.reason];
}

describe.each(["awake", "evicted"])("a timer that runs out (%s)", (state) => {
  it("ends the quotes of its credential and of no other", async () => {
    const { book, requester, maker, bot, other, quote, tryQuote, accept } = await quotedByKeys();
    const [mine, others] = [await quote(bot), await quote(other)];
    await setTimer(bot, 10);
    const feed = env.FEED.getByName(accountStream(maker.userId));
    const subscriber = await connect(bot, accountStream(maker.userId));
    await advanceClock(9_000);
    expect(await tryQuote(bot)).toBe("ok");
    await advanceClock(1_500);

    // The guards need no alarm.
    expect(await accept(mine)).toBe("quote_not_open");
    expect(await tryQuote(bot)).toBe("cancel_after_passed");
    expect(await closedAs(mine)).toEqual(["open", null]);

    if (state === "evicted") await evictDurableObject(feed);
    expect(await runDurableObjectAlarm(feed)).toBe(true);
    expect(await closedAs(mine)).toEqual(["cancelled", "timeout"]);
    const closed = await subscriber.until(({ data }) => data.quote_id === mine);
    expect(closed.data.reason).toBe("timeout");
    const { quotes } = await replay(accountStream(requester.actor.userId));
    expect(quotes.get(mine)).toBe("cancelled");
    expect(await tryQuote(bot)).toBe("cancel_after_passed");
    expect(await tryQuote(other)).toBe("ok");
    expect(await accept(others)).toBe("ok");
    expect(await balances(maker.userId, book)).toEqual([980n, 10n]);
  });

  it("is closed by cron if the alarm was lost", async () => {
    const { maker, bot, quote } = await quotedByKeys();
    const mine = await quote(bot);
    await setTimer(bot, 5);
    await advanceClock(5_500);
    if (state === "evicted")
      await evictDurableObject(env.FEED.getByName(accountStream(maker.userId)));
    await closeMissedTimers(env);
    expect(await closedAs(mine)).toEqual(["open", null]);
    await advanceClock(5_000);
    await closeMissedTimers(env);
    expect(await closedAs(mine)).toEqual(["cancelled", "timeout"]);
  });
});

describe("a call", () => {
  it("in time moves the timer", async () => {
    const { maker, bot, quote, accept } = await quotedByKeys();
    const mine = await quote(bot);
    await setTimer(bot, 10);
    await advanceClock(8_000);
    await setTimer(bot, 10);
    await advanceClock(8_000);
    await runDurableObjectAlarm(env.FEED.getByName(accountStream(maker.userId)));
    expect(await accept(mine)).toBe("ok");
  });

  it.each([10, 0])("of %s seconds after it ran out revives no quote", async (secs) => {
    const { bot, quote, tryQuote, accept } = await quotedByKeys();
    const mine = await quote(bot);
    await setTimer(bot, 5);
    await advanceClock(6_000);
    await setTimer(bot, secs);
    expect(await closedAs(mine)).toEqual(["cancelled", "timeout"]);
    expect(await accept(mine)).toBe("quote_not_open");
    expect(await tryQuote(bot)).toBe("ok");
  });

  it("of 0 seconds removes the timer", async () => {
    const { bot, quote, accept } = await quotedByKeys();
    const mine = await quote(bot);
    await setTimer(bot, 5);
    expect(await setTimer(bot, 0)).toEqual({ cancel_at: null });
    await advanceClock(6_000);
    expect(await accept(mine)).toBe("ok");
  });

  it("of a revoked key is rejected, and its timer runs on", async () => {
    const { maker, bot, quote } = await quotedByKeys();
    const mine = await quote(bot);
    await setTimer(bot, 5);
    await revokeApiKey(env.DB, { apiKeyId: bot.apiKeyId, operator: "test" });
    await expect(setTimer(bot, 60)).rejects.toThrow(Problem);
    await expect(setTimer(bot, 0)).rejects.toThrow(Problem);
    await advanceClock(6_000);
    await runDurableObjectAlarm(env.FEED.getByName(accountStream(maker.userId)));
    expect(await closedAs(mine)).toEqual(["cancelled", "timeout"]);
  });
});

it("an accept and a late call never make both a match and a live timer", async () => {
  for (let round = 0; round < rounds(4, 12); round++) {
    const { maker, bot, quote, accept } = await quotedByKeys();
    const mine = await quote(bot);
    await setTimer(bot, 5);
    await advanceClock(round % 2 === 0 ? 5_001 : 4_900);
    const both = [() => accept(mine), () => setTimer(bot, 60)];
    if (round % 4 < 2) both.reverse();
    const results = await Promise.all(both.map((call) => call()));
    const accepted = results.includes("ok");
    const [status] = await closedAs(mine);
    expect(status).toBe(accepted ? "accepted" : "cancelled");
    if (round % 2 === 0) expect(accepted).toBe(false);
    const { FEED } = env;
    await runDurableObjectAlarm(FEED.getByName(accountStream(maker.userId)));
  }
}, 30_000);

it("a timer that is set while the alarm closes another one is not forgotten", async () => {
  const { maker, bot, other, quote } = await quotedByKeys();
  const [mine, others] = [await quote(bot), await quote(other)];
  await setTimer(bot, 5);
  await advanceClock(6_000);
  const feed = env.FEED.getByName(accountStream(maker.userId));
  await runInDurableObject(feed, async (_instance, ctx) => {
    let armed: Promise<unknown> | undefined;
    const db = withBatch(env.DB, async (statements) => {
      const done = await env.DB.batch(statements);
      armed ??= object.closeQuotesAt(Date.now() + 100_000_000);
      return done;
    });
    const object: Feed = new Feed(ctx, { ...env, DB: db });
    await object.alarm();
    await armed;
    expect(ctx.storage.kv.get("timer")).toBeGreaterThan(Date.now());
    ctx.storage.kv.delete("timer");
  });
  expect(await closedAs(mine)).toEqual(["cancelled", "timeout"]);
  expect(await closedAs(others)).toEqual(["open", null]);
});

it("a timer that is set again just before it is closed runs on", async () => {
  const { bot, quote } = await quotedByKeys();
  await setTimer(bot, 5);
  await advanceClock(11_000);
  let set: Promise<unknown> | undefined;
  const db = withBatch(env.DB, async (statements) => {
    set ??= setTimer(bot, 60);
    await set;
    return env.DB.batch(statements);
  });
  await closeMissedTimers({ ...env, DB: db });
  const mine = await quote(bot);
  await advanceClock(70_000);
  await closeMissedTimers(env);
  expect(await closedAs(mine)).toEqual(["cancelled", "timeout"]);
});

it("expired quotes end as expired", async () => {
  const { maker, bot, tryQuote } = await quotedByKeys();
  await setTimer(bot, 10);
  expect(await tryQuote(bot)).toBe("ok");
  await advanceClock(600_000);
  await runDurableObjectAlarm(env.FEED.getByName(accountStream(maker.userId)));
  const rows = await all<{ status: string; reason: string | null }>(
    env.DB,
    sql`SELECT status, cancel_reason AS reason FROM quotes WHERE maker_id = ${uuid(maker.userId)}`,
  );
  expect(rows).toEqual([{ status: "expired", reason: null }]);
});
