/** Kills workerd at each step of sealing and of releasing. */
import { afterAll, beforeAll, expect, it } from "vitest";
import type { JournalReport } from "../../scripts/operator/verify-archive.ts";
import {
  type FailpointStack,
  openMarket,
  operator,
  quotedBid,
  startFailpointStack,
  untilServing,
} from "../support/node/stack.ts";

const AMOUNT = 1_000_000n;
const STEPS = [
  "seal_chosen",
  "seal_put",
  "seal_proven",
  "seal_stored",
  "seal_delivered",
  "seal_released",
];

let stack: FailpointStack;
beforeAll(async () => {
  stack = await startFailpointStack();
});
afterAll(() => stack?.stop());

/** Runs cron, which wakes the sealer, until something has happened. */
async function cronUntil<Result>(reached: Promise<Result>): Promise<Result> {
  const over = { yes: false };
  const running = (async () => {
    while (!over.yes) {
      await stack.runCron().catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  })();
  try {
    return await reached;
  } finally {
    over.yes = true;
    await running;
  }
}

const verify = () => operator<JournalReport>(stack, "journal verify");

it("seals everything once although it is killed at each step", async () => {
  await stack.restartWorker({ HOT_WINDOWS_DIVISOR: "3600" });
  const market = await openMarket(stack, AMOUNT);
  const { requester, maker } = market;
  for (const step of STEPS) {
    const { quote } = await quotedBid(market, AMOUNT / 10n);
    await requester.client.rfq.accept(quote);
    const stopped = stack.stopAt(step);
    await cronUntil(stopped);
    await stack.killWorkerd();
    await untilServing(stack);
  }
  const entries = await maker.client.custody.ledger().all();
  // A deposit, and for each step the reserve, what was given and what was received.
  expect(entries).toHaveLength(1 + 4 * STEPS.length);
  const sealed = (async () => {
    for (;;) {
      const { verified, transfers } = await verify();
      if (verified > 0 && transfers >= 2 + 4 * STEPS.length) return;
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  })();
  await cronUntil(sealed);
  expect(await maker.client.custody.ledger().all()).toEqual(entries);
  expect(await verify()).toMatchObject({ ok: true, discrepancies: [] });
  expect(await operator(stack, "reconcile")).toMatchObject({ differences: [] });
});
