/** However accepts race with what ends requests and quotes, a request matches at most once. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import type { Result } from "../../src/rfq/command.ts";
import { rounds } from "../support/depth.ts";
import { balances } from "../support/ledger.ts";
import {
  advanceClock,
  command,
  openMarket,
  openRequest,
  placeQuote,
  submit,
} from "../support/market.ts";

const PRICES = [300_000, 400_000, 500_000] as const;
const RACERS = 6;
const pick = <Of>(of: readonly Of[]): Of => of[Math.floor(Math.random() * of.length)]!;

/** Sessions end while the clock advances, so each market has people of its own. */
const RACES_A_MARKET = 500;

it("a request matches at most once, never beyond the price", async () => {
  const races = rounds(60, 600);
  for (let done = 0; done < races; done += RACES_A_MARKET) {
    await race(Math.min(RACES_A_MARKET, races - done));
  }
}, 3_600_000);

async function race(races: number): Promise<void> {
  const rich = { usdc: 1_000_000n, token: 1_000_000n };
  const { book, requester, maker } = await openMarket({ requester: rich, maker: rich });
  const setFrozen = (at: number | null) =>
    all(env.DB, sql`UPDATE users SET frozen_at = ${at} WHERE user_id = ${uuid(requester.userId)}`);
  for (let number = 0; number < races; number++) {
    await advanceClock(0);
    const { request_id: id } = await openRequest(requester, book, {
      amount: 10n,
      ...(Math.random() < 0.3 ? { accept: { price: 400_000, side: "Bid" } } : {}),
    });
    const quotes = [await placeQuote(maker, id, 500_000), await placeQuote(maker, id, 600_000)];
    const quoteId = () => pick(quotes).quote_id;
    const limits = new Map<Promise<Result>, number>();
    const within = (price: number, sent: Promise<Result>) => {
      limits.set(sent, price);
      return sent;
    };
    const racers: (() => Promise<unknown>)[] = [
      () => submit(command.accept(requester, quoteId())),
      () => {
        const price = pick(PRICES);
        return within(price, submit(command.acceptPrice(requester, id, price)));
      },
      () => {
        const price = pick(PRICES);
        return within(price, submit(command.setAcceptPrice(requester, id, price)));
      },
      () => submit(command.placeQuote(maker, id, pick(PRICES))),
      () => submit({ ...command.placeQuote(maker, id, pick(PRICES)), replaces: quoteId() }),
      () => submit(command.cancelQuote(maker, quoteId())),
      () => submit(command.cancelRequest(requester, id)),
      () => setFrozen(1).then(() => setFrozen(null)),
      () => (number % 20 === 0 ? advanceClock(31_000) : Promise.resolve()),
    ];
    await Promise.all(Array.from({ length: RACERS }, () => pick(racers)()));
    await setFrozen(null);
    const matches = await all<{ match_id: string; price: number }>(
      env.DB,
      sql`SELECT hex(match_id) AS match_id, price FROM matches WHERE request_id = ${uuid(id)}`,
    );
    expect(matches.length).toBeLessThanOrEqual(1);
    for (const [sent, limit] of limits) {
      const result = await sent;
      const row = !result.ok
        ? null
        : result.kind === "match"
          ? result.row
          : result.kind === "accept_price"
            ? result.row.match
            : null;
      if (row === null) continue;
      expect(row.match_id).toBe(matches[0]?.match_id);
      if (result.ok && result.kind === "match") expect(row.price).toBeLessThanOrEqual(limit);
    }
    await submit(command.cancelRequest(requester, id));
  }
  const held = await Promise.all([
    balances(requester.userId, "usdc"),
    balances(maker.userId, "usdc"),
    balances(requester.userId, book),
    balances(maker.userId, book),
  ]);
  const [usdc, token] = [held.slice(0, 2), held.slice(2)].map((parts) =>
    parts.flat().reduce((sum, part) => sum + part, 0n),
  );
  expect([usdc, token]).toEqual([2_000_000n, 2_000_000n]);
}
