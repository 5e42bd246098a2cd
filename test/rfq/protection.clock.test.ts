/** What time does to a protection: the window slides, and the cooldown ends. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { first, sql, uuid } from "../../src/platform/sql.ts";
import { getProtection, saveProtection } from "../../src/rfq/protection.ts";
import { fund, newAsset } from "../support/ledger.ts";
import {
  advanceClock,
  command,
  matchOf,
  openRequest,
  outcomeOf,
  placeQuote,
  submit,
} from "../support/market.ts";
import { newKey, newUser } from "../support/users.ts";

async function newMaker() {
  // Brings the Worker's clock to that of D1.
  await advanceClock(0);
  const { key: book } = newAsset();
  // Keys, because sessions end by the Worker's clock.
  const requester = await newKey(await newUser({ usdc: 10_000n }));
  const maker = await newKey(await newUser({ [book]: 1_000n }));
  const trade = async () => {
    const { request_id: id } = await openRequest(requester, book, { amount: 10n });
    const { quote_id: quoteId } = await placeQuote(maker, id, 500_000);
    return matchOf(await submit(command.accept(requester, quoteId)));
  };
  const quote = async () => {
    const { request_id: id } = await openRequest(requester, book, { amount: 10n });
    return outcomeOf(await submit(command.placeQuote(maker, id, 500_000)));
  };
  const tripped = async () => (await getProtection(env.DB, maker.actor)).tripped_at !== null;
  return { requester, maker, trade, quote, tripped };
}

it("a match that has left the window is not counted", async () => {
  const { maker, trade, tripped } = await newMaker();
  const terms = { windowSecs: 10, maxMatches: 3, maxUsdc: 15n, cooldownSecs: 60 };
  await saveProtection(env, maker.actor, terms);
  await trade();
  await advanceClock(6_000);
  await trade();
  await advanceClock(6_000);
  await trade();
  expect(await tripped()).toBe(false);
  await trade();
  expect(await tripped()).toBe(true);
});

it("the cooldown blocks quotes until it ends, and counting starts again", async () => {
  const { maker, trade, quote, tripped } = await newMaker();
  const terms = { windowSecs: 3_600, maxMatches: 2, maxUsdc: null, cooldownSecs: 5 };
  await saveProtection(env, maker.actor, terms);
  await trade();
  await trade();
  expect(await quote()).toBe("protection_tripped");
  await advanceClock(4_000);
  expect(await quote()).toBe("protection_tripped");
  await advanceClock(1_500);
  expect(await tripped()).toBe(false);
  expect(await quote()).toBe("ok");
  await trade();
  expect(await tripped()).toBe(false);
  await trade();
  expect(await tripped()).toBe(true);
});

it("a quote elsewhere that has passed its time ends as expired", async () => {
  const { requester, maker } = await newMaker();
  const quoteOf = async (expiresInSecs: number) => {
    const { key: book } = newAsset();
    await fund(maker.actor.userId, book, 10n);
    const { request_id: id } = await openRequest(requester, book, { amount: 10n });
    return (await placeQuote(maker, id, 500_000, expiresInSecs)).quote_id;
  };
  const [short, long] = [await quoteOf(3), await quoteOf(30)];
  const terms = { windowSecs: 3_600, maxMatches: 1, maxUsdc: null, cooldownSecs: 5 };
  await saveProtection(env, maker.actor, terms);
  await advanceClock(4_000);
  matchOf(await submit(command.accept(requester, long)));
  const row = sql`SELECT status, cancel_reason AS reason FROM quotes
    WHERE quote_id = ${uuid(short)}`;
  expect(await first(env.DB, row)).toEqual({ status: "expired", reason: null });
});
