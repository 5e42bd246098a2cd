/**
 * RPC nodes of the simulated chain, behind the `fetch` that the service uses. They lag, follow a
 * fork that was given up, lose answers and go away.
 */
import {
  decodeFunctionData,
  encodeFunctionResult,
  getAddress,
  type Hex,
  multicall3Abi,
  numberToHex,
  parseAbi,
} from "viem";
import { BASE_FEE, type Block, type Chain } from "./chain.ts";
import { Revert } from "./ledger-of-chain.ts";
import type { VirtualTime } from "./virtual-time.ts";
import { CLEAR, fateOf, type Weather } from "./weather.ts";

type Node = {
  /** The block that it takes for the head. */
  tip: Hex;
  awayUntil: number;
};

type Call = { readonly method: string; readonly params: readonly unknown[]; readonly id: number };
type Query = {
  readonly fromBlock: Hex;
  readonly toBlock: Hex;
  readonly address: readonly string[];
  readonly topics: readonly (readonly Hex[])[];
};

const AGGREGATE = "82ad56cb";
const erc20Abi = parseAbi(["function balanceOf(address) view returns (uint256)"]);
const erc1155Abi = parseAbi(["function balanceOf(address, uint256) view returns (uint256)"]);
const MILLISECONDS: readonly [number, number] = [2, 60];

export class Nodes {
  readonly #time: VirtualTime;
  readonly #chain: Chain;
  readonly #nodes = new Map<string, Node>();
  weather: Weather = CLEAR;

  constructor(time: VirtualTime, chain: Chain, hosts: readonly string[]) {
    this.#time = time;
    this.#chain = chain;
    for (const host of hosts) this.#nodes.set(host, { tip: chain.head.hash, awayUntil: 0 });
  }

  /** One node after the other learns of the head; some later than others. */
  announce(): void {
    const { dice } = this.#time.current();
    for (const node of this.#nodes.values()) {
      const late = this.weather.late > 0 && dice.chance(0.2) ? dice.between(0, 12_000) : 0;
      const { hash } = this.#chain.head;
      this.#time.after(dice.between(0, 300) + late, () => {
        if (this.#isNewer(hash, node)) node.tip = hash;
      });
    }
  }

  /** All nodes catch up. */
  heal(): void {
    for (const node of this.#nodes.values()) {
      node.tip = this.#chain.head.hash;
      node.awayUntil = 0;
    }
  }

  takeAway(index: number, ms: number): void {
    const node = [...this.#nodes.values()][index % this.#nodes.size];
    if (node !== undefined) node.awayUntil = this.#time.now + ms;
  }

  fetch = (input: unknown, init?: { readonly body?: unknown }): Promise<unknown> => {
    const host = new URL(String(input)).host;
    const node = this.#nodes.get(host);
    const time = this.#time;
    const process = time.current();
    const fate = fateOf(process.dice, this.weather, "database", MILLISECONDS);
    return new Promise((resolve, reject) => {
      const after = (ms: number, done: () => void) =>
        time.after(ms, () => {
          if (process.alive) done();
        });
      const failed = () => reject(new TypeError("fetch failed"));
      if (node === undefined || node.awayUntil > time.now || fate.lost === "request")
        return after(fate.there, failed);
      time.after(fate.there, () => {
        // Safe cast: viem sends one JSON-RPC call as the body.
        const call = JSON.parse(String(init?.body)) as Call;
        const body = this.#answer(node, call);
        time.note(`${host} for ${process.name}: ${call.method}`);
        after(fate.back, fate.lost === "answer" ? failed : () => resolve(responseOf(body)));
      });
    });
  };

  /** A node keeps its head unless the other one is higher, or its own was given up. */
  #isNewer(hash: Hex, node: Node): boolean {
    const [next, own] = [this.#chain.block(hash), this.#chain.block(node.tip)];
    if (next === undefined || own === undefined) return false;
    return next.number > own.number && this.#chain.canonical[next.number]?.hash === hash;
  }

  #answer(node: Node, { method, params, id }: Call): unknown {
    try {
      return { jsonrpc: "2.0", id, result: this.#result(node, method, params) };
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      const revert = error instanceof Revert;
      const data = revert ? { data: "0x" } : {};
      return {
        jsonrpc: "2.0",
        id,
        error: {
          code: revert ? 3 : -32_000,
          message: revert ? `execution reverted: ${message}` : message,
          ...data,
        },
      };
    }
  }

  #result(node: Node, method: string, params: readonly unknown[]): unknown {
    switch (method) {
      case "eth_chainId":
        return numberToHex(137);
      case "eth_getBlockByNumber":
        return rendered(this.#blockAt(node, params[0]));
      case "eth_getLogs":
        // Safe cast: the service's own query.
        return this.#logs(node, params[0] as Query);
      case "eth_call":
        return this.#callAt(node, params[0] as { to?: Hex; data: Hex }, params[1]);
      case "eth_getTransactionCount":
        return numberToHex(this.#existing(node, params[1]).state.nonces);
      case "eth_maxPriorityFeePerGas":
        return numberToHex(26_000_000_000n);
      case "eth_getBalance":
        return numberToHex(10n ** 24n);
      case "eth_sendRawTransaction":
        return this.#chain.send(params[0] as Hex);
      case "eth_getTransactionReceipt":
        return this.#receipt(node, params[0] as Hex);
      default:
        throw new Error(`the method ${method} does not exist`);
    }
  }

  /** By number or tag. Null if the node does not have it. */
  #blockAt(node: Node, at: unknown): Block | null {
    const tip = this.#chain.block(node.tip);
    if (tip === undefined) return null;
    const number =
      at === "latest" || at === "pending" || at === undefined
        ? tip.number
        : at === "finalized"
          ? Math.max(0, tip.number - 4)
          : Number(at);
    let block: Block | undefined = tip;
    while (block !== undefined && block.number > number) {
      const canonical: Block | undefined = this.#chain.canonical[block.number];
      block =
        canonical?.hash === block.hash
          ? this.#chain.canonical[number]
          : this.#chain.block(block.parentHash);
    }
    return block?.number === number ? block : null;
  }

  /** By number, tag or hash (EIP-1898). Throws unless it is canonical for this node. */
  #existing(node: Node, at: unknown): Block {
    const byHash =
      typeof at === "object" && at !== null && "blockHash" in at
        ? this.#chain.block(at.blockHash as Hex)
        : undefined;
    const block = this.#blockAt(node, byHash === undefined ? at : byHash.number);
    if (block === null || (byHash !== undefined && byHash.hash !== block.hash))
      throw new Error("header not found");
    return block;
  }

  #logs(node: Node, { fromBlock, toBlock, address, topics }: Query): unknown[] {
    const contracts = new Set(address.map((one) => one.toLowerCase()));
    const selectors = new Set(topics[0]);
    const found: unknown[] = [];
    for (let number = Number(fromBlock); number <= Number(toBlock); number++) {
      const block = this.#blockAt(node, number);
      block?.logs.forEach((log, index) => {
        if (contracts.has(log.address.toLowerCase()) && selectors.has(log.topics[0]!))
          found.push(renderedLog(block, log, index));
      });
    }
    return found;
  }

  #receipt(node: Node, hash: Hex): unknown {
    const tip = this.#blockAt(node, "latest");
    for (let block = tip; block !== null && block.number > 0;) {
      if (block.transactions.some((transaction) => transaction.hash === hash)) {
        const logs = block.logs
          .map((log, index) => renderedLog(block!, log, index))
          .filter((log) => log.transactionHash === hash);
        return { blockHash: block.hash, blockNumber: numberToHex(block.number), logs };
      }
      block = this.#chain.block(block.parentHash) ?? null;
    }
    return null;
  }

  #callAt(node: Node, { to, data }: { to?: Hex; data: Hex }, at: unknown): Hex {
    const { state, timestamp } = this.#existing(node, at);
    if (to !== undefined) return state.view(getAddress(to), data, timestamp);
    // A contract creation whose constructor is Multicall3: the calls are at its end.
    const calls: Hex = `0x${data.slice(data.lastIndexOf(AGGREGATE))}`;
    const { functionName, args } = decodeFunctionData({ abi: multicall3Abi, data: calls });
    if (functionName !== "aggregate3") throw new Error(`${functionName} is not simulated`);
    const result = args[0].map(({ target, callData }) => ({
      success: true,
      returnData: numberToHex(state.balanceOf(...balanceCall(target, callData)), { size: 32 }),
    }));
    return encodeFunctionResult({ abi: multicall3Abi, functionName, result });
  }
}

function balanceCall(
  token: Hex,
  data: Hex,
): [{ readonly token: Hex; readonly tokenId: bigint }, Hex] {
  // The ERC-1155 call has one argument more.
  if (data.length > 2 + 8 + 64) {
    const [holder, tokenId] = decodeFunctionData({ abi: erc1155Abi, data }).args;
    return [{ token, tokenId }, holder];
  }
  const [holder] = decodeFunctionData({ abi: erc20Abi, data }).args;
  return [{ token, tokenId: 0n }, holder];
}

function rendered(block: Block | null): unknown {
  if (block === null) return null;
  const { number, hash, parentHash, timestamp } = block;
  return {
    number: numberToHex(number),
    hash,
    parentHash,
    timestamp: numberToHex(timestamp),
    baseFeePerGas: numberToHex(BASE_FEE),
    transactions: [],
  };
}

function renderedLog(block: Block, log: Block["logs"][number], index: number) {
  return {
    ...log,
    blockNumber: numberToHex(block.number),
    blockHash: block.hash,
    transactionIndex: "0x0",
    logIndex: numberToHex(index),
    removed: false,
  };
}

function responseOf(body: unknown): unknown {
  return {
    ok: true,
    status: 200,
    headers: { get: () => "application/json" },
    json: async () => body,
    text: async () => JSON.stringify(body),
  };
}
