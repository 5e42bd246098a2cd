/** A stack of a test's own, and people on it: tiny builders for journeys. */
import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { Address } from "viem";
import { type Faucet, openFaucet } from "../../../scripts/stack/faucet.ts";
import { freePort } from "../../../scripts/stack/ports.ts";
import { type Stack, type StackOptions, startStack } from "../../../scripts/stack/start-stack.ts";
import {
  Client,
  type MarketAsset,
  type Scope,
  type Venue,
} from "../../../packages/client/src/index.ts";

export type TestStack = Stack & { faucet: Faucet };

export type Trader = {
  email: string;
  password: string;
  userId: string;
  session: Client;
  /** With an API key, scopes read and trade. */
  client: Client;
  depositAddress: Address;
};

const CREDIT_TIMEOUT_MS = 30_000;

/** On free ports, in a directory of its own that goes with it. */
export async function startTestStack(
  options: Pick<StackOptions, "vars" | "keep" | "dir" | "failpointUrl"> = {},
): Promise<TestStack> {
  const dir =
    options.dir ?? join(".stack", `test-${process.pid}-${randomBytes(4).toString("hex")}`);
  const stack = await startStack({
    ...options,
    port: await freePort(),
    rpcPort: await freePort(),
    dir,
  });
  const faucet = await openFaucet({ rpcUrl: stack.rpcUrl, usdc: stack.deployment.usdc });
  const stop = async () => {
    await stack.stop();
    if (options.keep !== true) rmSync(dir, { recursive: true, force: true });
  };
  return { ...stack, faucet, stop };
}

export async function newTrader({ baseUrl }: { baseUrl: string }): Promise<Trader> {
  const email = `user-${randomBytes(6).toString("hex")}@test.example`;
  const password = randomBytes(18).toString("base64url");
  const guest = new Client({ baseUrl });
  const registered = await guest.auth.register({ email, password });
  const session = guest.withSession(registered);
  const key = await session.auth.createApiKey({ label: "test", scopes: ["read", "trade"] });
  const client = session.withApiKey({ apiKeyId: key.api_key_id, secret: key.secret });
  const { address } = await client.custody.createDepositAddress();
  return {
    email,
    password,
    userId: registered.user_id,
    session,
    client,
    depositAddress: address as Address,
  };
}

/** An asset that no other test uses. */
export function newAsset(venue_id: Venue = "venue_one"): MarketAsset {
  return {
    venue_id,
    asset_id: `0x${(BigInt(`0x${randomBytes(16).toString("hex")}`) | 1n).toString(16)}`,
  };
}

export type Funding = {
  trader: Trader;
  usdc?: bigint;
  tokens?: { asset: MarketAsset; amount: bigint };
};

/** Mints to the deposit addresses and resolves when all of it is credited. */
export async function fund(stack: TestStack, fundings: Funding[]): Promise<void> {
  const due = new Map<Trader, string[]>();
  for (const { trader, usdc, tokens } of fundings) {
    const hashes = due.get(trader) ?? [];
    due.set(trader, hashes);
    const to = trader.depositAddress;
    if (usdc !== undefined) hashes.push(await stack.faucet.usdc(to, usdc));
    if (tokens === undefined) continue;
    const { asset, amount } = tokens;
    hashes.push(
      await stack.faucet.outcomeTokens(stack.deployment.outcomeTokens[asset.venue_id], {
        to,
        id: BigInt(asset.asset_id),
        amount,
      }),
    );
  }
  await until(`deposits to be credited, see ${stack.workerLog}`, CREDIT_TIMEOUT_MS, async () => {
    for (const [trader, hashes] of due) {
      const credited = await trader.client.custody.deposits({ status: "credited" }).all();
      if (
        !hashes.every((hash) => credited.some(({ transaction_hash }) => transaction_hash === hash))
      )
        return null;
    }
    return true;
  });
}

/** A key from the operator, the only way to the scope withdraw. */
export async function operatorKey(stack: Stack, trader: Trader, scopes: Scope[]): Promise<Client> {
  const answer = await stack.operator({
    command: ["api-key", "create"],
    options: { email: trader.email, scopes: scopes.join(",") },
    operator: "test",
  });
  if (!answer.ok) throw new Error(`operator: ${JSON.stringify(answer.problem)}`);
  const key = answer.result as { api_key_id: string; secret: string };
  return trader.client.withApiKey({ apiKeyId: key.api_key_id, secret: key.secret });
}

export async function until<T>(
  what: string,
  timeoutMs: number,
  ask: () => Promise<T | null>,
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const answer = await ask();
    if (answer !== null) return answer;
    if (Date.now() > deadline) throw new Error(`Waited ${timeoutMs} ms in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
