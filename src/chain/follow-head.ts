/**
 * Reads the blocks between the confirmed height and the head, and finds where a reorg began. The
 * watcher detects deposits from the result (detect-deposits.ts). It credits nothing yet.
 */
import type { Hex } from "viem";
import type { ChainConfig } from "../platform/config.ts";
import type { Contracts, TokenTransfer } from "./decode-logs.ts";
import {
  askAny,
  type BlockHeader,
  type Endpoint,
  endpoints,
  NodeDisagrees,
  readHead,
  readHeader,
} from "./rpc.ts";
import { scanRange } from "./scan.ts";

export type Block = { readonly number: number; readonly hash: Hex };

export type HeadReading =
  | {
      readonly kind: "read";
      readonly head: BlockHeader;
      /** The highest block that may be confirmed now. */
      readonly target: number;
      /** The finalized block, if it holds `target` below what the confirmations allow. */
      readonly awaitsFinality: number | null;
      /** The highest block of an earlier scan that is still in the chain. */
      readonly ancestor: number;
      /** `blocks` and `transfers` are what was read above this height. */
      readonly base: number;
      readonly blocks: readonly Block[];
      readonly transfers: readonly TokenTransfer[];
    }
  /** The confirmed block is no longer in the chain. */
  | { readonly kind: "deep_reorg"; readonly head: BlockHeader; readonly canonical: Hex };

export type KnownBlocks = {
  readonly confirmed: Block;
  readonly headNumber: number;
  /** Scanned blocks above `confirmed`, highest first. */
  readonly blocks: readonly Block[];
};

/** Each header is one request, and a Worker may make 1 000 requests per invocation. */
const HEADERS_PER_ROUND = 300;

/** Reads everything from one endpoint, so that all blocks belong to the same fork. */
export async function followHead(
  chain: ChainConfig,
  known: KnownBlocks,
  contracts: Contracts,
): Promise<HeadReading> {
  const reading = await askAny(chain, (endpoint) => readFrom(endpoint, chain, known, contracts));
  if (reading.kind === "deep_reorg") await throwIfDisputed(chain, known);
  return reading;
}

/** The highest block with enough confirmations. A block counts as its own first confirmation. */
export function confirmedHeight(
  chain: ChainConfig,
  head: number,
  finalized: number | null,
): number {
  const byCount = head - chain.confirmations + 1;
  return finalized === null ? byCount : Math.min(byCount, finalized);
}

async function readFrom(
  endpoint: Endpoint,
  chain: ChainConfig,
  known: KnownBlocks,
  contracts: Contracts,
): Promise<HeadReading> {
  const head = await readHead(endpoint, known.headNumber);
  const anchor =
    known.confirmed.number === head.number
      ? head
      : await readHeader(endpoint, known.confirmed.number);
  if (anchor.hash !== known.confirmed.hash)
    return { kind: "deep_reorg", head, canonical: anchor.hash };

  const finalized = chain.finalized ? (await readHeader(endpoint, "finalized")).number : null;
  const target = confirmedHeight(chain, head.number, finalized);
  const awaitsFinality =
    finalized !== null && finalized < confirmedHeight(chain, head.number, null) ? finalized : null;
  const ancestor = await commonAncestor(endpoint, known, head);
  // confirmBlocks reads the blocks up to `target`, so only the blocks above are read here.
  const base = Math.max(ancestor, Math.min(target, head.number));
  const to = Math.min(head.number, base + Math.min(chain.scan_range, HEADERS_PER_ROUND));
  if (base >= to)
    return {
      kind: "read",
      head,
      target,
      awaitsFinality,
      ancestor,
      base,
      blocks: [],
      transfers: [],
    };

  const blocks = await readChainOfBlocks(endpoint, { from: base + 1, to }, head, known);
  const scan = await scanRange(endpoint, { from: base + 1, to }, contracts);
  const top = blocks.at(-1);
  if (top === undefined || scan.last.hash !== top.hash)
    throw new NodeDisagrees(`block ${to} changed while its range was read`);
  for (const transfer of scan.transfers) {
    const block = blocks[transfer.blockNumber - base - 1];
    if (block?.hash !== transfer.blockHash)
      throw new NodeDisagrees(`a log has another hash for block ${transfer.blockNumber}`);
  }
  return {
    kind: "read",
    head,
    target,
    awaitsFinality,
    ancestor,
    base,
    blocks,
    transfers: scan.transfers,
  };
}

/** The highest scanned block that is still in the chain. A reorg began above it. */
async function commonAncestor(
  endpoint: Endpoint,
  known: KnownBlocks,
  head: BlockHeader,
): Promise<number> {
  for (const block of known.blocks) {
    if (block.number > head.number) continue;
    const now = block.number === head.number ? head : await readHeader(endpoint, block.number);
    if (now.hash === block.hash) return block.number;
  }
  return known.confirmed.number;
}

/** Reads the headers of a range. Throws unless each is the parent of the next. */
async function readChainOfBlocks(
  endpoint: Endpoint,
  range: { from: number; to: number },
  head: BlockHeader,
  known: KnownBlocks,
): Promise<Block[]> {
  const below =
    range.from - 1 === known.confirmed.number
      ? known.confirmed
      : known.blocks.find((block) => block.number === range.from - 1);
  let parent = below?.hash;
  const blocks: Block[] = [];
  for (let number = range.from; number <= range.to; number++) {
    const header = number === head.number ? head : await readHeader(endpoint, number);
    if (parent !== undefined && header.parentHash !== parent)
      throw new NodeDisagrees(`block ${number} is not a child of block ${number - 1}`);
    parent = header.hash;
    blocks.push({ number, hash: header.hash });
  }
  return blocks;
}

/**
 * Throws if another endpoint that is not behind still has the confirmed block. A single node on a
 * fork must not halt the chain.
 */
async function throwIfDisputed(chain: ChainConfig, known: KnownBlocks): Promise<void> {
  for (const endpoint of endpoints(chain)) {
    const other = await readHead(endpoint, known.headNumber)
      .then(() => readHeader(endpoint, known.confirmed.number))
      .catch(() => null);
    if (other?.hash === known.confirmed.hash)
      throw new NodeDisagrees(
        `endpoints disagree about the confirmed block ${known.confirmed.number}`,
      );
  }
}
