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
import { ANVIL_CHAIN } from "../stack/anvil-chain.ts";
import { privateKeyToAccount } from "viem/accounts";
import { type Deployment, readArtifact } from "../stack/deploy-contracts.ts";
import { ANVIL_ACCOUNT_KEYS } from "../stack/faucet.ts";
import { heldBy, mintCall } from "../stack/tokens.ts";
import { until } from "../stack/until.ts";
import { type Asset, tokenOfAsset } from "./assets.ts";
import type { Dice } from "../actors/dice.ts";

const GAS = 200_000n;
const DEPLOY_GAS = 2_000_000n;
/** Higher than any spike of the base fee. */
const MAX_FEE = 2_000n * 10n ** 9n;
const TIP = 10n ** 9n;
const REVERTS = 1;
const BLOCK_TIME_SECS = 1;
/** How long a block may still take that was being mined when mining stopped. */
const SETTLE_MS = 100;
const DEPLOY_TIMEOUT_MS = 10_000;

type Transaction = { to?: Address; data: Hex; gas?: bigint; maxFee?: bigint };

export type Chain = Awaited<ReturnType<typeof openChain>>;

export async function openChain(rpcUrl: string, deployment: Deployment, dice: Dice) {
  const client = createTestClient({
    mode: "anvil",
    chain: ANVIL_CHAIN,
    transport: http(rpcUrl),
    cacheTime: 0,
  }).extend(publicActions);
  const rpc = (method: string, params: unknown[] = []): Promise<unknown> =>
    client.request({ method: method as never, params: params as never });
  const { send, sendAgain, replaceNext } = await openSender(client);
  const { still, alone } = miningOf(rpc);
  const mintOf = (asset: Asset, to: Address, amount: bigint) =>
    mintCall(tokenOfAsset(deployment, asset), to, amount);
  return {
    client,
    rpc,
    sendAgain,
    still,
    alone,
    /** Returns the hash. anvil orders the transactions of a block by `maxFee`. */
    mint: (asset: Asset, to: Address, amount: bigint, maxFee = MAX_FEE): Promise<Hex> =>
      send({ ...mintOf(asset, to, amount), maxFee }),
    /** A token recipient that rejects every transfer. */
    deployRefuser: async (): Promise<Address> => {
      const { abi, bytecode } = readArtifact("HostileRecipient");
      const hash = await send({ data: bytecode, gas: DEPLOY_GAS });
      const { contractAddress: to } = await until("the recipient", DEPLOY_TIMEOUT_MS, () =>
        client.getTransactionReceipt({ hash }).catch(() => null),
      );
      if (to === null || to === undefined) throw new Error("the recipient was not deployed");
      await send({
        to,
        data: encodeFunctionData({ abi, functionName: "setMode", args: [REVERTS] }),
      });
      return getAddress(to);
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
        if (rival !== null) await replaceNext(mintOf(rival.asset, rival.to, rival.amount));
        await sendAgain();
      }),
    holding: (asset: Asset, holder: Address): Promise<bigint> =>
      heldBy(client, tokenOfAsset(deployment, asset), holder),
  };
}

/** Sends from the faucet's account, and keeps what it has signed. */
async function openSender(
  client: Pick<PublicClient, "getTransactionCount" | "sendRawTransaction">,
) {
  const account = privateKeyToAccount(ANVIL_ACCOUNT_KEYS.faucet);
  const { address } = account;
  const firstNonce = await client.getTransactionCount({ address, blockTag: "pending" });
  /** By nonce. Transactions that a reorg or an emptied mempool removed are sent again. */
  const signed: Hex[] = [];
  const sign = (index: number, { maxFee = MAX_FEE, ...transaction }: Transaction) =>
    account.signTransaction({
      gas: GAS,
      ...transaction,
      type: "eip1559",
      chainId: ANVIL_CHAIN.id,
      nonce: firstNonce + index,
      maxFeePerGas: maxFee,
      maxPriorityFeePerGas: maxFee < TIP ? maxFee : TIP,
    });
  const used = async () => (await client.getTransactionCount({ address })) - firstNonce;
  const submit = (raw: Hex) =>
    client.sendRawTransaction({ serializedTransaction: raw }).catch(() => {});
  const takeTurns = inTurn();
  return {
    // Callers get their nonces one after the other.
    send: (transaction: Transaction): Promise<Hex> =>
      takeTurns(async () => {
        const raw = await sign(signed.length, transaction);
        signed.push(raw);
        await submit(raw);
        return keccak256(raw);
      }),
    sendAgain: async (): Promise<void> => {
      for (const raw of signed.slice(await used())) await submit(raw);
    },
    /** The next transaction that is not mined yet becomes another one. */
    replaceNext: async (transaction: Transaction): Promise<void> => {
      const next = await used();
      if (next < signed.length) signed[next] = await sign(next, transaction);
    },
  };
}

/** anvil 1.7.1 loses blocks from its index if it mines during a reorg, so mining stops meanwhile. */
function miningOf(rpc: (method: string, params: unknown[]) => Promise<unknown>) {
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
  const takeTurns = inTurn();
  /** One caller after the other, without mining. */
  const alone = (work: () => Promise<unknown>): Promise<void> =>
    takeTurns(() =>
      still(async () => {
        await sleep(SETTLE_MS);
        await work();
      }),
    );
  return { still, alone };
}

/** Runs one piece of work after the other. */
function inTurn(): <T>(work: () => Promise<T>) => Promise<T> {
  let turn: Promise<unknown> = Promise.resolve();
  return (work) => {
    const mine = turn.then(work);
    turn = mine.catch(() => {});
    return mine;
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
