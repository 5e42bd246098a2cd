/** The chain of the soak: deposits, reorganisations, and what the chain contains at the end. */
import {
  type Address,
  createTestClient,
  encodeFunctionData,
  getAddress,
  type Hex,
  http,
  keccak256,
  type PublicClient,
  publicActions,
} from "viem";
import { setTimeout as sleep } from "node:timers/promises";
import { foundry } from "viem/chains";
import { privateKeyToAccount } from "viem/accounts";
import { localOutcomeTokensAbi } from "../stack/abi/local-outcome-tokens.ts";
import { localUsdcAbi } from "../stack/abi/local-usdc.ts";
import { type Deployment, readArtifact, tokensOfVenue } from "../stack/deploy-contracts.ts";
import { ANVIL_ACCOUNT_KEYS } from "../stack/faucet.ts";
import { type Asset, USDC } from "./assets.ts";
import type { Dice } from "./dice.ts";

const GAS = 200_000n;
const DEPLOY_GAS = 2_000_000n;
/** Higher than any spike of the base fee. */
const MAX_FEE = 2_000n * 10n ** 9n;
const TIP = 10n ** 9n;
const REVERTS = 1;
const BLOCK_TIME_SECS = 1;
/** How long a block may still take that was being mined when mining stopped. */
const SETTLE_MS = 100;

type Transaction = { to?: Address; data: Hex; gas?: bigint; maxFee?: bigint };

export type Chain = Awaited<ReturnType<typeof openChain>>;

export async function openChain(rpcUrl: string, deployment: Deployment, dice: Dice) {
  const client = createTestClient({
    mode: "anvil",
    chain: foundry,
    transport: http(rpcUrl),
    cacheTime: 0,
  }).extend(publicActions);
  const rpc = (method: string, params: unknown[] = []): Promise<unknown> =>
    client.request({ method: method as never, params: params as never });
  const account = privateKeyToAccount(ANVIL_ACCOUNT_KEYS.faucet);
  const firstNonce = await client.getTransactionCount({
    address: account.address,
    blockTag: "pending",
  });
  /** By nonce. Transactions that a reorg or an emptied mempool removed are sent again. */
  const signed: Hex[] = [];

  const sign = (nonce: number, { maxFee = MAX_FEE, ...transaction }: Transaction) =>
    account.signTransaction({
      gas: GAS,
      ...transaction,
      type: "eip1559",
      chainId: foundry.id,
      nonce,
      maxFeePerGas: maxFee,
      maxPriorityFeePerGas: maxFee < TIP ? maxFee : TIP,
    });
  // Callers get their nonces one after the other.
  let turn: Promise<unknown> = Promise.resolve();
  const send = (transaction: Transaction): Promise<Hex> => {
    const mine = turn.then(async () => {
      const raw = await sign(firstNonce + signed.length, transaction);
      signed.push(raw);
      await client.sendRawTransaction({ serializedTransaction: raw }).catch(() => {});
      return keccak256(raw);
    });
    turn = mine.catch(() => {});
    return mine;
  };
  const mintCall = (asset: Asset, to: Address, amount: bigint): { to: Address; data: Hex } =>
    asset === USDC
      ? {
          to: deployment.usdc,
          data: encodeFunctionData({ abi: localUsdcAbi, functionName: "mint", args: [to, amount] }),
        }
      : {
          to: tokensOfVenue(deployment.outcomeTokens, asset.venue_id),
          data: encodeFunctionData({
            abi: localOutcomeTokensAbi,
            functionName: "mint",
            args: [to, BigInt(asset.asset_id), amount],
          }),
        };

  const sendAgain = async (): Promise<void> => {
    const used = await client.getTransactionCount({ address: account.address });
    for (const raw of signed.slice(used - firstNonce))
      await client.sendRawTransaction({ serializedTransaction: raw }).catch(() => {});
  };

  // anvil 1.7.1 loses blocks from its index if it mines during a reorg, so mining stops meanwhile.
  let stillness = 0;
  const still = async (hold: () => Promise<unknown>): Promise<void> => {
    stillness++;
    try {
      await rpc("evm_setIntervalMining", [0]);
      await hold();
    } finally {
      if (--stillness === 0) await rpc("evm_setIntervalMining", [BLOCK_TIME_SECS]);
    }
  };
  let turnAlone: Promise<unknown> = Promise.resolve();
  /** One caller after the other, without mining. */
  const alone = (work: () => Promise<unknown>): Promise<void> => {
    const mine = turnAlone.then(() =>
      still(async () => {
        await sleep(SETTLE_MS);
        await work();
      }),
    );
    turnAlone = mine.catch(() => {});
    return mine;
  };

  return {
    client,
    rpc,
    sendAgain,
    still,
    alone,
    /** Returns the hash. anvil orders the transactions of a block by `maxFee`. */
    mint: (asset: Asset, to: Address, amount: bigint, maxFee = MAX_FEE): Promise<Hex> =>
      send({ ...mintCall(asset, to, amount), maxFee }),
    /** A token recipient that rejects every transfer. */
    deployRefuser: async (): Promise<Address> => {
      const { abi, bytecode } = readArtifact("HostileRecipient");
      const hash = await send({ data: bytecode, gas: DEPLOY_GAS });
      const { contractAddress } = await until(() =>
        client.getTransactionReceipt({ hash }).catch(() => null),
      );
      if (contractAddress === null || contractAddress === undefined)
        throw new Error("the recipient was not deployed");
      await send({
        to: contractAddress,
        data: encodeFunctionData({ abi, functionName: "setMode", args: [REVERTS] }),
      });
      return getAddress(contractAddress);
    },
    /** Replaces the last blocks. Their transactions return, or others with the same nonce do. */
    reorg: (
      depth: number,
      rival: { asset: Asset; to: Address; amount: bigint } | null,
    ): Promise<void> =>
      alone(async () => {
        // Another miner, because equal blocks would change nothing.
        await rpc("anvil_setCoinbase", [dice.hex(20)]);
        await rpc("anvil_reorg", [depth, []]);
        await requireWhole(client, depth);
        const used = (await client.getTransactionCount({ address: account.address })) - firstNonce;
        if (rival !== null && used < signed.length) {
          signed[used] = await sign(
            firstNonce + used,
            mintCall(rival.asset, rival.to, rival.amount),
          );
        }
        await sendAgain();
      }),
    holding: (asset: Asset, holder: Address): Promise<bigint> =>
      asset === USDC
        ? client.readContract({
            address: deployment.usdc,
            abi: localUsdcAbi,
            functionName: "balanceOf",
            args: [holder],
          })
        : client.readContract({
            address: tokensOfVenue(deployment.outcomeTokens, asset.venue_id),
            abi: localOutcomeTokensAbi,
            functionName: "balanceOf",
            args: [holder, BigInt(asset.asset_id)],
          }),
  };
}

/** Missing blocks are a fault of anvil. Such a run proves nothing, so it must not pass. */
async function requireWhole(
  client: Pick<PublicClient, "getBlockNumber" | "getBlock">,
  depth: number,
): Promise<void> {
  const head = await client.getBlockNumber();
  for (let back = 0n; back <= BigInt(depth) + 1n; back++)
    await client.getBlock({ blockNumber: head - back });
}

async function until<T>(ask: () => Promise<T | null>): Promise<T> {
  for (let tries = 0; tries < 100; tries++) {
    const result = await ask();
    if (result !== null) return result;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("a transaction of the soak's own was not mined");
}
