/** Reads what is new between the confirmed height and the head, block by block, and finds where a reorg began. */
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
      /** Set when the chain's own finality keeps `target` below what the confirmations would allow. */
      readonly awaitsFinality: number | null;
      /** The highest block scanned before that is still in the chain. */
      readonly ancestor: number;
      /** Everything above it has been read anew: `blocks` and `transfers`. */
      readonly base: number;
      readonly blocks: readonly Block[];
      readonly transfers: readonly TokenTransfer[];
    }
  /** The confirmed block itself is no longer in the chain. */
  | { readonly kind: "deep_reorg"; readonly head: BlockHeader; readonly canonical: Hex };

export type KnownBlocks = {
  readonly confirmed: Block;
  readonly headNumber: number;
  /** Highest first, all above `confirmed`. */ readonly blocks: readonly Block[];
};

/** Headers are read one by one, and a Worker may make 1 000 requests in a round. */
const HEADERS_PER_ROUND = 300;

/** One endpoint answers all of it, so that the pieces belong to one chain. */
export async function followHead(
  chain: ChainConfig,
  known: KnownBlocks,
  contracts: Contracts,
): Promise<HeadReading> {
  const reading = await askAny(chain, (endpoint) => readFrom(endpoint, chain, known, contracts));
  if (reading.kind === "deep_reorg") await throwIfDisputed(chain, known);
  return reading;
}

/** Blocks that may become final: `confirmations` counts the block itself. */
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
  // What is about to be confirmed is read then; only the rest is read here.
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
    throw new NodeDisagrees(`block ${to} changed while it was read`);
  for (const transfer of scan.transfers) {
    const block = blocks[transfer.blockNumber - base - 1];
    if (block?.hash !== transfer.blockHash)
      throw new NodeDisagrees(`a log of another block ${transfer.blockNumber}`);
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

/** The highest block that was scanned and is still in the chain. */
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

/** Headers of a range, each the parent of the next, joined to the block below where that one is known. */
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
      throw new NodeDisagrees(`block ${number} does not follow the one before it`);
    parent = header.hash;
    blocks.push({ number, hash: header.hash });
  }
  return blocks;
}

/** One node on a fork must not halt a chain: while another that is as far still has the confirmed block, it is a quarrel of nodes. */
async function throwIfDisputed(chain: ChainConfig, known: KnownBlocks): Promise<void> {
  for (const endpoint of endpoints(chain)) {
    const other = await readHead(endpoint, known.headNumber)
      .then(() => readHeader(endpoint, known.confirmed.number))
      .catch(() => null);
    if (other?.hash === known.confirmed.hash)
      throw new NodeDisagrees(`nodes disagree about the confirmed block ${known.confirmed.number}`);
  }
}
