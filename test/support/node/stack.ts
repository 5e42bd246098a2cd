/** A stack of a test's own and the traders on it. They use the client, as real traders do. */
import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { inject } from "vitest";
import { type Address, createPublicClient, getAddress, type Hex, http, toHex } from "viem";
import { order } from "../../../scripts/operator/carry-out.ts";
import { type Faucet, openFaucet } from "../../../scripts/stack/faucet.ts";
import { freePort } from "../../../scripts/stack/ports.ts";
import { type Stack, startStack } from "../../../scripts/stack/start-stack.ts";
import { withdrawKey } from "../../../scripts/actors/withdraw-key.ts";
import {
  Client,
  type MarketAsset,
  type Quote,
  type QuoteRequest,
  type Venue,
} from "../../../packages/client/src/index.ts";
import { vaultAbi } from "../../../contracts/abi/vault.ts";
import { bundledWorker } from "./bundles.ts";
import { type FailpointServer, startFailpointServer } from "./failpoint-server.ts";
import { heldBy, tokenOf } from "../../../scripts/stack/tokens.ts";
import { until } from "../../../scripts/stack/until.ts";
import { fund as mintAll, newUser, withKey } from "../../../scripts/actors/users.ts";

export { until };

export type TestStack = Stack & { readonly faucet: Faucet };
export type FailpointStack = TestStack & Pick<FailpointServer, "stopAt">;

export type Trader = {
  readonly email: string;
  readonly password: string;
  readonly userId: string;
  readonly session: Client;
  /** With an API key that has the scopes read and trade. */
  readonly client: Client;
  readonly depositAddress: Address;
};

/** A deposit waits for several blocks. */
const BLOCK_TIME_SECS = 0.25;
const RESTART_TIMEOUT_MS = 30_000;

/** On free ports and in a directory of its own, which `stop` removes. */
export async function startTestStack(failpointUrl?: string): Promise<TestStack> {
  const dir = join(inject("bundlesDir"), `stack-${process.pid}-${randomBytes(4).toString("hex")}`);
  const stack = await startStack({
    port: await freePort(),
    rpcPort: await freePort(),
    dir,
    blockTimeSecs: BLOCK_TIME_SECS,
    modules: await bundledWorker({ failpoints: failpointUrl !== undefined }),
    ...(failpointUrl === undefined ? {} : { failpointUrl }),
  });
  const faucet = await openFaucet(stack);
  const stop = async () => {
    await stack.stop();
    rmSync(dir, { recursive: true, force: true });
  };
  return { ...stack, faucet, stop };
}

let shared: Promise<TestStack> | undefined;

/**
 * The stack of this worker of vitest, whose journeys run one after the other. A journey may kill or
 * restart the Worker, and leaves it healthy, with its settings and without open requests. The stack
 * ends with the worker.
 */
export function sharedStack(): Promise<TestStack> {
  return (shared ??= startTestStack());
}

/** A stack whose Worker waits at the failpoints that `stopAt` names. */
export async function startFailpointStack(): Promise<FailpointStack> {
  const failpoints = await startFailpointServer();
  const stack = await startTestStack(failpoints.url);
  const stop = async () => {
    await stack.stop();
    failpoints.close();
  };
  return { ...stack, stopAt: failpoints.stopAt, stop };
}

/** Waits until the Worker responds again after workerd was killed. */
export function untilServing({ baseUrl }: Stack): Promise<true> {
  return until("the Worker to respond again", RESTART_TIMEOUT_MS, async () => {
    const response = await fetch(`${baseUrl}/health`).catch(() => null);
    return response?.ok === true ? true : null;
  });
}

export async function newTrader({ baseUrl }: { baseUrl: string }): Promise<Trader> {
  const email = `user-${randomBytes(6).toString("hex")}@test.example`;
  const { address: depositAddress, ...user } = await newUser(new Client({ baseUrl }), email);
  return { ...user, client: await withKey(user.session, "test"), depositAddress };
}

/** An asset that no other test uses. */
export function newAsset(venue_id: Venue = "venue_one"): MarketAsset {
  return {
    venue_id,
    asset_id: `0x${(BigInt(`0x${randomBytes(16).toString("hex")}`) | 1n).toString(16)}`,
  };
}

/** An address on the chain that no other test uses. */
export function newAddress(): Address {
  return getAddress(toHex(randomBytes(20)));
}

export type Funding = {
  trader: Pick<Trader, "client" | "depositAddress">;
  usdc?: bigint;
  tokens?: { asset: MarketAsset; amount: bigint };
};

/** Mints to the deposit addresses and resolves when all of it is credited. */
export async function fund(stack: TestStack, fundings: readonly Funding[]): Promise<void> {
  await mintAll(
    stack.faucet,
    fundings.flatMap(({ trader: { client, depositAddress: to }, usdc, tokens }) => [
      ...(usdc === undefined ? [] : [{ client, to, asset: null, amount: usdc }]),
      ...(tokens === undefined ? [] : [{ client, to, ...tokens }]),
    ]),
  );
}

export type Market = {
  readonly requester: Trader;
  readonly maker: Trader;
  readonly asset: MarketAsset;
};

/** A requester with this much USDC and a maker with as much of an asset, in native units. */
export async function openMarket(stack: TestStack, amount: bigint): Promise<Market> {
  const [requester, maker] = await Promise.all([newTrader(stack), newTrader(stack)]);
  const asset = newAsset();
  await fund(stack, [
    { trader: requester, usdc: amount },
    { trader: maker, tokens: { asset, amount } },
  ]);
  return { requester, maker, asset };
}

/** Options of a quote on a machine that runs other tests at the same time. */
export const SLOW_MACHINE = { maxAgeMs: 30_000 };

/** A Bid of the requester with a quote of the maker at 0.5 USDC a token. */
export async function quotedBid(
  { requester, maker, asset }: Market,
  amount: bigint,
): Promise<{ request: QuoteRequest; quote: Quote }> {
  const request = await requester.client.rfq.request({ ...asset, amount, side: "Bid" });
  const { request_id } = request;
  const terms = { request_id, price: 500_000, expires_in_secs: 120 };
  return { request, quote: await maker.client.rfq.quote(terms, SLOW_MACHINE) };
}

/** A key that reads and withdraws, which the trader asked for and the operator approved. */
export async function withdrawalClient(stack: Stack, trader: Trader): Promise<Client> {
  const key = await withdrawKey(stack, trader.session, { scopes: ["read", "withdraw"] });
  return trader.client.withApiKey({ apiKeyId: key.api_key_id, secret: key.secret });
}

/** The USDC that an address holds on the chain. */
export function usdcOf({ rpcUrl, deployment }: Stack, holder: Address): Promise<bigint> {
  const client = createPublicClient({ transport: http(rpcUrl) });
  return heldBy(client, tokenOf(deployment, null), holder);
}

/** The result of an operator's command, such as `user freeze`. Throws if it is rejected. */
export async function operator<Result>(
  stack: Pick<Stack, "operator">,
  words: string,
  options: Record<string, string> = {},
): Promise<Result> {
  // Safe cast: the test names the result of the command.
  return (await order(stack, words, options)) as Result;
}

/** The vault's payments, oldest first: those of one payment id, or all. */
export function paymentsOf(
  { rpcUrl, deployment }: Stack,
  id?: Hex,
): Promise<readonly { transactionHash: Hex; args: { id?: Hex | undefined } }[]> {
  return createPublicClient({ transport: http(rpcUrl) }).getContractEvents({
    address: deployment.vault,
    abi: vaultAbi,
    eventName: "Paid",
    fromBlock: 0n,
    ...(id === undefined ? {} : { args: { id } }),
  });
}
