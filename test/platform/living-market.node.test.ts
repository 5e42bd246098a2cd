/** The fair prices of `npm run dev -- --makers`. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { FairPrices } from "../../scripts/living-market.ts";
import { EXAMPLE_MARKETS } from "../../scripts/stack/example-markets.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("the outcomes of a question cost one USDC together, also after a day", async () => {
  const fair = new FairPrices(EXAMPLE_MARKETS);
  const questions = [...Map.groupBy(EXAMPLE_MARKETS, ({ title }) => title).values()];
  for (const hours of [0, 1, 23]) {
    await vi.advanceTimersByTimeAsync(hours * 3_600_000);
    for (const outcomes of questions.filter(({ length }) => length > 1)) {
      const sum = outcomes.reduce((total, asset) => total + (fair.of(asset) ?? 0), 0);
      expect(Math.abs(sum - 1_000_000), outcomes[0]?.title).toBeLessThan(30_000);
    }
  }
  fair.stop();
});
