/** What time does to a protection: the window slides, and the cooldown ends. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { getProtection, saveProtection } from "../../src/rfq/protection.ts";
import { newAsset } from "../support/ledger.ts";
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
  return { maker, trade, quote, tripped };
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
