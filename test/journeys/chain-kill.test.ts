/** Kills workerd at each step of a withdrawal. The next one continues, and the vault pays once. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { randomBytes } from "node:crypto";
import type { Client } from "../../packages/client/src/index.ts";
import {
  type FailpointStack,
  fund,
  newAddress,
  newTrader,
  withdrawalClient,
  paymentsOf,
  startFailpointStack,
  type Trader,
  until,
  untilServing,
  usdcOf,
} from "../support/node/stack.ts";
import { FULL } from "../support/depth.ts";

/** "queued" is right after the 202. At the failpoints the Worker waits until it is killed. */
const POINTS = FULL
  ? (["queued", "taken", "signed", "stored", "sent", "mined", "confirmed"] as const)
  : (["signed", "sent"] as const);

let stack: FailpointStack;
let trader: Trader;
let client: Client;

beforeAll(async () => {
  stack = await startFailpointStack();
  trader = await newTrader(stack);
  client = await withdrawalClient(stack, trader);
  await fund(stack, [{ trader, usdc: 1_000_000n }]);
});
afterAll(() => stack?.stop());

describe("a withdrawal", () => {
  it.each(POINTS)("is paid once when workerd is killed while it is %s", async (point) => {
    const to = newAddress();
    const clientId = `kill-${point}-${randomBytes(4).toString("hex")}`;
    const reached = point === "queued" ? undefined : stack.stopAt(point);
    const queued = await client.custody.withdraw({
      client_withdrawal_id: clientId,
      amount: 1_000n,
      to_address: to,
    });
    await reached;
    await stack.killWorkerd();
    await untilServing(stack);
    // Cron runs every minute, which the test does not wait for.
    await stack.runCron();
    const settled = await until("the withdrawal to settle", 60_000, async () => {
      const now = await client.custody
        .withdrawal({ withdrawal_id: queued.withdrawal_id })
        .catch(() => null);
      return now?.status === "settled" ? now : null;
    });
    const paid = await paymentsOf(stack, stack.paymentId(trader.userId, clientId));
    expect(paid).toHaveLength(1);
    expect(settled.transaction_hash).toBe(paid[0]?.transactionHash);
    expect(await usdcOf(stack, to)).toBe(1_000n);
  });

  it("leaves no amount pending after all kills", async () => {
    const balance = await client.custody.usdcBalance();
    expect(balance.balance).toBe(1_000_000n - 1_000n * BigInt(POINTS.length));
    expect(balance.pending_balance).toBe(0n);
  });
});
