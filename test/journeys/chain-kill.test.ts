/** workerd is killed at each step of a withdrawal. The next one continues, and the vault pays once. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Address, createPublicClient, getAddress, http, toHex } from "viem";
import { randomBytes } from "node:crypto";
import { vaultAbi } from "../../src/chain/abi/vault.ts";
import { localUsdcAbi } from "../../scripts/stack/abi/local-usdc.ts";
import { paymentId } from "../../src/chain/payment-id.ts";
import type { Client } from "../../packages/client/src/index.ts";
import { type FailpointServer, startFailpointServer } from "../support/node/failpoint-server.ts";
import {
  fund,
  newTrader,
  operatorKey,
  startTestStack,
  type TestStack,
  type Trader,
  until,
} from "../support/node/stack.ts";

/** "queued" is right after the 202. The others are failpoints, at which the Worker waits to be killed. */
const POINTS = ["queued", "taken", "signed", "stored", "sent", "mined", "confirmed"] as const;

let failpoints: FailpointServer;
let stack: TestStack;
let trader: Trader;
let client: Client;

beforeAll(async () => {
  failpoints = await startFailpointServer();
  stack = await startTestStack({ failpointUrl: failpoints.url });
  trader = await newTrader(stack);
  client = await operatorKey(stack, trader, ["read", "withdraw"]);
  await fund(stack, [{ trader, usdc: 1_000_000n }]);
});

afterAll(async () => {
  await stack?.stop();
  failpoints?.close();
});

describe("a withdrawal", () => {
  it.each(POINTS)("survives a kill when it is %s", async (point) => {
    const chain = createPublicClient({ transport: http(stack.rpcUrl) });
    const to: Address = getAddress(toHex(randomBytes(20)));
    const clientId = `kill-${point}-${randomBytes(4).toString("hex")}`;
    const reached = point === "queued" ? undefined : failpoints.stopAt(point);
    const queued = await client.custody.withdraw({
      client_withdrawal_id: clientId,
      amount: 1_000n,
      to_address: to,
    });
    await reached;
    await stack.killWorkerd();
    await until(
      "the Worker to be back",
      30_000,
      async () =>
        (await fetch(`${stack.baseUrl}/health`)
          .then((answer) => answer.ok)
          .catch(() => false)) || null,
    );
    // What cron would do within a minute.
    await stack.runCron();
    const settled = await until("the withdrawal to settle", 60_000, async () => {
      const now = await client.custody
        .withdrawal({ withdrawal_id: queued.withdrawal_id })
        .catch(() => null);
      return now?.status === "settled" ? now : null;
    });
    const id = paymentId(trader.userId, clientId);
    const paid = await chain.getContractEvents({
      address: stack.deployment.vault,
      abi: vaultAbi,
      eventName: "Paid",
      args: { id },
      fromBlock: 0n,
    });
    expect(paid).toHaveLength(1);
    expect(settled.transaction_hash).toBe(paid[0]?.transactionHash);
    expect(
      await chain.readContract({
        address: stack.deployment.usdc,
        abi: localUsdcAbi,
        functionName: "balanceOf",
        args: [to],
      }),
    ).toBe(1_000n);
  });

  it("leaves the books whole after all of it", async () => {
    const balance = await client.custody.usdcBalance();
    expect(balance.balance).toBe(1_000_000n - 1_000n * BigInt(POINTS.length));
    expect(balance.pending_balance).toBe(0n);
  });
});
