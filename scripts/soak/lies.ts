/** Wrong results that look right, as a faulty or malicious RPC endpoint returns them. */
import {
  type Address,
  encodeAbiParameters,
  encodeEventTopics,
  type Hex,
  keccak256,
  numberToHex,
  zeroAddress,
} from "viem";
import { localUsdcAbi } from "../stack/abi/local-usdc.ts";

export type Lie =
  /** Each response has one more log: a transfer of USDC in its last block. */
  | { kind: "invented_logs"; usdc: Address; to: Address; amount: bigint }
  /** Every second log is missing. */
  | { kind: "omitted_logs" }
  /** Blocks from `fork` on have other hashes, and the head is `ahead` blocks higher. */
  | { kind: "other_head"; fork: number; ahead: number };

export type Call = { id: unknown; method: string; params?: unknown[] };
/** Sends a call to the real node. */
type Forward = (call: Call) => Promise<{ result?: unknown }>;
type Block = { number: Hex; hash: Hex; parentHash: Hex };
type Log = { blockNumber: Hex; blockHash: Hex };

/** Higher than the index of any real log of a block. */
const INVENTED_LOG_INDEX = 9_999;

/** The response to a call, made wrong. Other calls are forwarded. */
export async function lieAbout(lie: Lie, call: Call, forward: Forward): Promise<unknown> {
  const respond = (result: unknown) => ({ jsonrpc: "2.0", id: call.id, result });
  if (call.method === "eth_getLogs") {
    const response = await forward(call);
    if (!Array.isArray(response.result)) return response;
    const logs = response.result as Log[];
    if (lie.kind === "omitted_logs") return respond(logs.filter((_, index) => index % 2 === 1));
    if (lie.kind === "other_head")
      return respond(logs.map((log) => ({ ...log, ...forkHash(lie.fork, log.blockNumber) })));
    const [filter] = call.params as [{ toBlock: Hex }];
    const block = await readBlock(filter.toBlock, forward);
    return block === null ? response : respond([...logs, invented(lie, block)]);
  }
  if (lie.kind !== "other_head") return forward(call);
  if (call.method !== "eth_blockNumber" && call.method !== "eth_getBlockByNumber")
    return forward(call);
  const { result } = await forward({ id: 0, method: "eth_blockNumber" });
  const [realHead, head] = [Number(result), Number(result) + lie.ahead];
  if (call.method === "eth_blockNumber") return respond(numberToHex(head));
  const number = call.params?.[0] === "latest" ? head : Number(call.params?.[0]);
  if (Number.isNaN(number)) return forward(call);
  if (number > head) return respond(null);
  const block = await readBlock(numberToHex(Math.min(number, realHead)), forward);
  if (block === null || number < lie.fork) return respond(block);
  return respond({
    ...block,
    number: numberToHex(number),
    hash: hashOf(number),
    parentHash: number === lie.fork ? block.parentHash : hashOf(number - 1),
  });
}

async function readBlock(number: Hex, forward: Forward): Promise<Block | null> {
  const call = { id: 0, method: "eth_getBlockByNumber", params: [number, false] };
  return ((await forward(call)).result ?? null) as Block | null;
}

/** The same for each call, so that the blocks form a chain. */
function hashOf(number: number): Hex {
  return keccak256(numberToHex(number, { size: 32 }));
}

function forkHash(fork: number, blockNumber: Hex): Partial<Log> {
  const number = Number(blockNumber);
  return number < fork ? {} : { blockHash: hashOf(number) };
}

function invented(lie: Extract<Lie, { kind: "invented_logs" }>, block: Block) {
  return {
    address: lie.usdc,
    topics: encodeEventTopics({
      abi: localUsdcAbi,
      eventName: "Transfer",
      args: { from: zeroAddress, to: lie.to },
    }),
    data: encodeAbiParameters([{ type: "uint256" }], [lie.amount]),
    blockNumber: block.number,
    blockHash: block.hash,
    transactionHash: keccak256(block.hash),
    transactionIndex: "0x0",
    logIndex: numberToHex(INVENTED_LOG_INDEX),
    removed: false,
  };
}
