import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { lessFee, quotedAmount, tradeTerms } from "../../src/rfq/trade-terms.ts";

const asset = "venue_one:0x1";
const cases = fc.record({
  amount: fc.bigInt({ min: 1n, max: 2n ** 62n }),
  price: fc.bigInt({ min: 1n, max: 1_000_000n }),
  takerFeeBps: fc.bigInt({ min: 0n, max: 1_000n }),
  makerFeeBps: fc.bigInt({ min: 0n, max: 1_000n }),
});

describe("the terms of a trade", () => {
  it("round the cost up and the fees down", () => {
    expect(
      tradeTerms({
        side: "Ask",
        asset,
        amount: 3n,
        price: 333_334n,
        takerFeeBps: 1n,
        makerFeeBps: 0n,
      }),
    ).toMatchObject({ usdcAmount: 2n, takerFee: 0n, makerFee: 0n });
    expect(
      tradeTerms({
        side: "Bid",
        asset,
        amount: 19_999n,
        price: 1_000_000n,
        takerFeeBps: 1n,
        makerFeeBps: 2n,
      }),
    ).toMatchObject({ usdcAmount: 19_999n, takerFee: 1n, makerFee: 3n });
  });

  it("never give the seller less than the price, nor one unit more than rounding does", () => {
    fc.assert(
      fc.property(cases, (given) => {
        const { usdcAmount } = tradeTerms({ side: "Bid", asset, ...given });
        const exact = given.amount * given.price;
        expect(usdcAmount * 1_000_000n).toBeGreaterThanOrEqual(exact);
        expect((usdcAmount - 1n) * 1_000_000n).toBeLessThan(exact);
      }),
    );
  });

  it("of a request in USDC are the most that the USDC buys", () => {
    const sizes = fc.bigInt({ min: 1n, max: 2n ** 62n });
    fc.assert(
      fc.property(cases, sizes, (given, usdc) => {
        const amount = quotedAmount({ amount: null, usdcAmount: usdc }, given.price);
        const cost = (units: bigint) =>
          tradeTerms({ side: "Ask", asset, ...given, amount: units }).usdcAmount;
        expect(amount).toBeGreaterThanOrEqual(1n);
        expect(cost(amount)).toBeLessThanOrEqual(usdc);
        expect((amount + 1n) * given.price).toBeGreaterThan(usdc * 1_000_000n);
      }),
    );
  });

  it("reserve what the maker gives, with the maker's fee if that is USDC", () => {
    fc.assert(
      fc.property(cases, (given) => {
        const bid = tradeTerms({ side: "Bid", asset, ...given });
        expect([bid.reserveAsset, bid.reserve]).toEqual([asset, given.amount]);
        const ask = tradeTerms({ side: "Ask", asset, ...given });
        expect([ask.reserveAsset, ask.reserve]).toEqual(["usdc", ask.usdcAmount + ask.makerFee]);
      }),
    );
  });

  it("charge no fee above its basis points", () => {
    fc.assert(
      fc.property(cases, (given) => {
        const { usdcAmount, takerFee, makerFee } = tradeTerms({ side: "Ask", asset, ...given });
        expect(takerFee * 10_000n).toBeLessThanOrEqual(usdcAmount * given.takerFeeBps);
        expect(makerFee * 10_000n).toBeLessThanOrEqual(usdcAmount * given.makerFeeBps);
        expect((takerFee + 1n) * 10_000n).toBeGreaterThan(usdcAmount * given.takerFeeBps);
        expect((makerFee + 1n) * 10_000n).toBeGreaterThan(usdcAmount * given.makerFeeBps);
      }),
    );
  });
});

it("what is left without the fee is the most for which both fit", () => {
  const usdc = fc.bigInt(1n, 2n ** 62n);
  const bps = fc.bigInt(0n, 1_000n);
  fc.assert(
    fc.property(usdc, bps, (given, feeBps) => {
      const withFee = (amount: bigint) => amount + (amount * feeBps) / 10_000n;
      const left = lessFee(given, feeBps);
      expect(left).toBeGreaterThan(0n);
      expect(withFee(left) <= given && given < withFee(left + 1n)).toBe(true);
    }),
  );
});
