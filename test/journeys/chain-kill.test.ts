/** workerd is killed at each step of a withdrawal; whatever comes up again finds its way, and the vault pays once. */
import { createServer, type Server } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Address, createPublicClient, getAddress, http, toHex } from "viem";
import { randomBytes } from "node:crypto";
import { vaultAbi } from "../../src/chain/abi/vault.ts";
import { localUsdcAbi } from "../../scripts/stack/abi/local-usdc.ts";
import { paymentId } from "../../src/chain/payment-id.ts";
import type { Client } from "../../packages/client/src/index.ts";
import {
  fund,
  newTrader,
  operatorKey,
  startTestStack,
  type TestStack,
  type Trader,
  until,
} from "../support/node/stack.ts";

/** "queued" is cut from outside, right after the 202; at the others the Worker asks the hook, and is killed while it waits. */
const POINTS = ["queued", "taken", "signed", "stored", "sent", "mined", "confirmed"] as const;

let hook: Server;
let hookUrl: string;
let waitFor: { point: string; reached: () => void } | null = null;
let stack: TestStack;
let trader: Trader;
let client: Client;

beforeAll(async () => {
  hook = createServer((request, response) => {
    const point = new URL(request.url ?? "/", "http://hook").searchParams.get("point");
    if (waitFor?.point !== point) return response.end();
    // Never answered: the caller dies with its question open.
    const { reached } = waitFor;
    waitFor = null;
    reached();
    return undefined;
  });
  hookUrl = await new Promise((resolve) =>
    hook.listen(0, "127.0.0.1", () =>
      resolve(`http://127.0.0.1:${(hook.address() as { port: number }).port}/`),
    ),
  );
  stack = await startTestStack({ vars: { FAULT_HOOK_URL: hookUrl } });
  trader = await newTrader(stack);
  client = await operatorKey(stack, trader, ["read", "withdraw"]);
  await fund(stack, [{ trader, usdc: 1_000_000n }]);
});

afterAll(async () => {
  await stack?.stop();
  hook?.closeAllConnections();
  hook?.close();
});

describe("a withdrawal", () => {
  it.each(POINTS)("survives a kill when it is %s", async (point) => {
    const chain = createPublicClient({ transport: http(stack.rpcUrl) });
    const to: Address = getAddress(toHex(randomBytes(20)));
    const clientId = `kill-${point}-${randomBytes(4).toString("hex")}`;
    const reached = new Promise<void>((resolve) => {
      waitFor = point === "queued" ? null : { point, reached: resolve };
    });
    const queued = await client.custody.withdraw({
      client_withdrawal_id: clientId,
      amount: 1_000n,
      to_address: to,
    });
    if (point !== "queued") await reached;
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
