/** Reads the blocks up to the head and finds where a reorg began. It credits nothing yet. */
import type { Hex } from "viem";
import { type ChainConfig, witnessesOf } from "../platform/config.ts";
import type { Contracts, TokenTransfer } from "./decode-logs.ts";
import {
  type BlockHeader,
  type Endpoint,
  endpoints,
  hostOf,
  InconsistentNode,
  readHead,
  readHeader,
  requireConfirmed,
} from "./rpc.ts";
import { scanRange } from "./scan.ts";
import { askHighest } from "./witnesses.ts";

export type Block = { readonly number: number; readonly hash: Hex };

export type HeadReading = {
  /** The highest block that was read, or that was known and is still in the chain. */
  readonly readUpTo: number;
  /** The highest block of an earlier scan that is still in the chain. */
  readonly ancestor: number;
  /** `blocks` and `transfers` are what was read above this height. */
  readonly base: number;
  readonly blocks: readonly Block[];
  readonly transfers: readonly TokenTransfer[];
};

/** Heights that enough endpoints have reached (witnesses.ts). */
export type Heights = {
  readonly head: number;
  /** The chain's `finalized` block. Null if the chain does not support that tag. */
  readonly finalized: number | null;
  /** The highest block that may be confirmed now. */
  readonly target: number;
  /** Blocks from the highest head of an endpoint to `head`. */
  readonly witnessLag: number;
};

export async function readHeights(chain: ChainConfig): Promise<Heights> {
  const numberOf = (tag: "latest" | "finalized") =>
    askHighest(chain, async (endpoint) => (await readHeader(endpoint, tag)).number);
  const { height: head, highest } = await numberOf("latest");
  const finalized = chain.finalized ? (await numberOf("finalized")).height : null;
  const target = confirmedHeight(chain, head, finalized);
  return { head, finalized, target, witnessLag: highest - head };
}

export type KnownBlocks = {
  readonly confirmed: Block;
  /** Endpoints with a lower head lag and are not used. */
  readonly headNumber: number;
  /** The highest scanned blocks between `confirmed` and a height, highest first. */
  readonly blocksBelow: (height: number) => Promise<readonly Block[]>;
};

/** Each header is one request, and a Worker may make 1 000 requests per invocation. */
const HEADERS_PER_ROUND = 300;

/** The highest block with enough confirmations. A block counts as its own first confirmation. */
export function confirmedHeight(
  chain: ChainConfig,
  head: number,
  finalized: number | null,
): number {
  const byCount = head - chain.confirmations + 1;
  return finalized === null ? byCount : Math.min(byCount, finalized);
}

/**
 * Reads blocks up to the head from one endpoint, so that they belong to one fork. They are
 * provisional, because confirm-blocks.ts reads them again from enough endpoints. Throws if the
 * endpoint lacks the confirmed block.
 */
export async function followHead(
  endpoint: Endpoint,
  known: KnownBlocks,
  { target, contracts, range }: { target: number; contracts: Contracts; range: number },
): Promise<HeadReading> {
  const head = await readHead(endpoint, known.headNumber);
  await requireConfirmed(endpoint, known.confirmed, head);

  const ancestor = await commonAncestor(endpoint, known, head);
  // confirmBlocks reads the blocks up to `target`, so only the blocks above are read here.
  const base = Math.max(ancestor.number, Math.min(target, head.number));
  const to = Math.min(head.number, base + Math.min(range, HEADERS_PER_ROUND));
  const read = { ancestor: ancestor.number, base };
  if (base >= to) return { ...read, readUpTo: base, blocks: [], transfers: [] };

  const parent = base === ancestor.number ? ancestor.hash : undefined;
  const blocks = await readChainOfBlocks(endpoint, { from: base + 1, to }, head, parent);
  const scan = await scanRange(endpoint, { from: base + 1, to }, contracts);
  const top = blocks.at(-1);
  if (top === undefined || scan.last.hash !== top.hash)
    throw new InconsistentNode(`block ${to} changed while its range was read`);
  for (const transfer of scan.transfers) {
    const block = blocks[transfer.blockNumber - base - 1];
    if (block?.hash !== transfer.blockHash)
      throw new InconsistentNode(`a log has another hash for block ${transfer.blockNumber}`);
  }
  return { ...read, readUpTo: to, blocks, transfers: scan.transfers };
}

/**
 * The highest scanned block that is still in the chain. A reorg began above it. While crediting
 * waits, thousands are stored, so only some are compared: those below the fork are the same.
 */
async function commonAncestor(
  endpoint: Endpoint,
  { confirmed, blocksBelow }: KnownBlocks,
  head: BlockHeader,
): Promise<Block> {
  const isSame = async ({ number, hash }: Block) =>
    hash === (number === head.number ? head : await readHeader(endpoint, number)).hash;
  let blocks = await blocksBelow(head.number + 1);
  for (let lowest = blocks.at(-1); lowest !== undefined; lowest = blocks.at(-1)) {
    const [highest = lowest] = blocks;
    if (await isSame(highest)) return highest;
    if (await isSame(lowest)) return bisect(blocks, lowest, isSame);
    blocks = await blocksBelow(lowest.number);
  }
  return confirmed;
}

/** The highest block that is the same, if the first of `blocks` is not and the last one is. */
async function bisect(
  blocks: readonly Block[],
  lowest: Block,
  isSame: (block: Block) => Promise<boolean>,
): Promise<Block> {
  let found = lowest;
  let [from, to] = [1, blocks.length - 1];
  while (from < to) {
    const middle = Math.floor((from + to) / 2);
    const block = blocks[middle];
    if (block !== undefined && (await isSame(block))) [found, to] = [block, middle];
    else from = middle + 1;
  }
  return found;
}

/** Reads the headers of a range. Throws unless each is the child of the one before. */
async function readChainOfBlocks(
  endpoint: Endpoint,
  range: { from: number; to: number },
  head: BlockHeader,
  below: Hex | undefined,
): Promise<Block[]> {
  let parent = below;
  const blocks: Block[] = [];
  for (let number = range.from; number <= range.to; number++) {
    const header = number === head.number ? head : await readHeader(endpoint, number);
    if (parent !== undefined && header.parentHash !== parent)
      throw new InconsistentNode(`block ${number} is not a child of block ${number - 1}`);
    parent = header.hash;
    blocks.push({ number, hash: header.hash });
  }
  return blocks;
}

export type SeenHash = { readonly host: string; readonly hash: Hex };

/** The hash of a block at each endpoint whose head is not below `headNumber`. */
export async function hashesAt(
  chain: ChainConfig,
  number: number,
  headNumber: number,
): Promise<SeenHash[]> {
  const seen = await Promise.allSettled(
    endpoints(chain, "patient").map(async (endpoint) => {
      await readHead(endpoint, headNumber);
      const { hash } = await readHeader(endpoint, number);
      return { host: hostOf(endpoint.url), hash };
    }),
  );
  return seen.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
}

/**
 * The hash that replaced the confirmed block in a deep reorg, which halts the chain. Enough
 * endpoints must deny the confirmed block, and more than still show it, so that one that lies can
 * neither halt the chain nor prevent the halt.
 */
export function replacementOf(
  chain: ChainConfig,
  confirmed: Hex,
  seen: readonly SeenHash[],
): Hex | undefined {
  const deny = seen.filter(({ hash }) => hash !== confirmed);
  const enough = deny.length >= witnessesOf(chain) && 2 * deny.length > seen.length;
  return enough ? deny[0]?.hash : undefined;
}
