/**
 * Calls a chain's RPC endpoints. Each call names its endpoint, because results of different nodes
 * must not be mixed. A lagging node returns `[]`, without an error, for logs it has not seen yet.
 */
import { BaseError, createPublicClient, type Hex, type PublicClient } from "viem";
import type { ChainConfig } from "../platform/config.ts";
import { pauseBeforeRetry, sleep } from "../platform/time.ts";
import { type Patience, rests, rpcTransport } from "./rpc-transport.ts";

export type { Hex };
export type BlockHeader = {
  readonly number: number;
  readonly hash: Hex;
  readonly parentHash: Hex;
  readonly baseFee: bigint;
  readonly timestamp: bigint;
};
export type Endpoint = { readonly url: string; readonly client: PublicClient };

/** The last error of each endpoint, by its URL. */
export type Failures = Map<string, unknown>;

export class RpcUnavailable extends Error {
  override readonly name = "RpcUnavailable";
  constructor(chain: string, failures: Failures, needed = 1, usable = 0) {
    const hosts = Array.from(failures, ([url, error]) => `${hostOf(url)}: ${describe(error)}`);
    super(
      `${chain} needs ${needed} usable RPC endpoint${needed === 1 ? "" : "s"} and has ${usable}: ` +
        hosts.join(" | "),
    );
  }
}

/** A result of a node contradicts an earlier result of the same or another node. */
export class InconsistentNode extends Error {
  override readonly name = "InconsistentNode";
}

/** Longest wait before the endpoints are asked once more. Then the alarm loop retries. */
const BACKOFF_MS = 400;
const NEXT_AFTER_MS = 1_000;

const clients = new Map<string, PublicClient>();

/**
 * The chain's endpoints, from index `first` on, then the others. Quick ones that rest come last. A
 * single one is always patient, because no other can be asked.
 */
export function endpoints(
  { rpc_urls }: ChainConfig,
  patience: Patience = "quick",
  first = 0,
): Endpoint[] {
  const index = first % Math.max(rpc_urls.length, 1);
  const urls = [...rpc_urls.slice(index), ...rpc_urls.slice(0, index)];
  if (patience === "quick") urls.sort((one, other) => Number(rests(one)) - Number(rests(other)));
  const granted = urls.length === 1 ? "patient" : patience;
  return urls.map((url) => ({ url, client: clientOf(url, granted) }));
}

/**
 * Calls `ask` for one endpoint after the other until it returns. `ask` throws to reject a result.
 * `preferred` is the index of the first endpoint, so that a caller can verify with another node.
 * The patient calls overlap: the next endpoint is asked after a second.
 */
export async function askAny<T>(
  chain: ChainConfig,
  ask: (endpoint: Endpoint) => Promise<T>,
  preferred = 0,
): Promise<T> {
  const failures: Failures = new Map();
  for (const endpoint of endpoints(chain, "quick", preferred)) {
    try {
      return await ask(endpoint);
    } catch (error) {
      failures.set(endpoint.url, error);
    }
  }
  await jitteredPause(BACKOFF_MS);
  const found: T[] = [];
  const asks: Promise<void>[] = [];
  for (const endpoint of endpoints(chain, "patient", preferred)) {
    const asked = ask(endpoint).then(
      (value) => void found.push(value),
      (error: unknown) => void failures.set(endpoint.url, error),
    );
    asks.push(asked);
    await gather([asked, sleep(NEXT_AFTER_MS)], () => true);
    if (found.length > 0) break;
  }
  await gather(asks, () => found.length > 0);
  if (found.length === 0) throw new RpcUnavailable(chain.chain, failures);
  // Safe cast: there is a result, which may be undefined.
  return found[0] as T;
}

export async function readHeader(
  { client }: Endpoint,
  at: number | "latest" | "finalized",
): Promise<BlockHeader> {
  const block =
    typeof at === "number"
      ? await client.getBlock({ blockNumber: BigInt(at) })
      : await client.getBlock({ blockTag: at });
  if (block.hash === null || block.number === null)
    throw new InconsistentNode("a mined block has no hash or number");
  if (typeof at === "number" && Number(block.number) !== at)
    throw new InconsistentNode(`requested block ${at}, received ${block.number}`);
  return {
    number: Number(block.number),
    hash: block.hash,
    parentHash: block.parentHash,
    baseFee: block.baseFeePerGas ?? 0n,
    timestamp: block.timestamp,
  };
}

/** Throws unless this block is still in the endpoint's chain. `read` is its header, if known. */
export async function requireConfirmed(
  endpoint: Endpoint,
  { number, hash }: Pick<BlockHeader, "number" | "hash">,
  read?: BlockHeader,
): Promise<void> {
  const header = read?.number === number ? read : await readHeader(endpoint, number);
  requireHash({ number, hash }, header.hash);
}

/** Throws unless this is the hash of the confirmed block. */
export function requireHash(confirmed: Pick<BlockHeader, "number" | "hash">, hash: Hex): void {
  if (confirmed.hash !== hash)
    throw new InconsistentNode(`block ${confirmed.number} is not the confirmed block`);
}

/** Reads the head. Throws if the endpoint is behind `seen`, the highest head seen so far. */
export async function readHead(endpoint: Endpoint, seen: number): Promise<BlockHeader> {
  const head = await readHeader(endpoint, "latest");
  if (head.number < seen)
    throw new InconsistentNode(
      `${hostOf(endpoint.url)} is at block ${head.number}, behind ${seen}`,
    );
  return head;
}

/**
 * Number of nonces that an account has used after a block. EIP-1898 names the block by hash,
 * because the count of another fork would end transactions that are still open.
 */
export function noncesAtBlock({ client }: Endpoint, address: Hex, blockHash: Hex): Promise<number> {
  return client.getTransactionCount({ address, blockHash, requireCanonical: true });
}

/** The host only, because URLs of RPC providers contain keys. */
export function hostOf(url: string): string {
  return new URL(url).host;
}

/** Describes an error in one line, without the URLs and bodies that viem adds. */
export function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const text =
    error instanceof BaseError ? [error.shortMessage, error.details].join(" ") : error.message;
  const line = text.replaceAll(/https?:\/\/\S+/g, "<url>").replaceAll(/\s+/g, " ");
  return line.trim().slice(0, 300);
}

function clientOf(url: string, patience: Patience): PublicClient {
  const key = `${patience} ${url}`;
  let client = clients.get(key);
  if (client === undefined) {
    // `askAny` retries over all endpoints. A cached head would hide a lagging node.
    const transport = rpcTransport(url, patience, { retryCount: 0 });
    client = createPublicClient({ transport, cacheTime: 0 });
    clients.set(key, client);
  }
  return client;
}

/** Waits for all of the asks, or until `isEnough` says so after one of them. None may reject. */
export function gather(asks: readonly Promise<void>[], isEnough: () => boolean): Promise<unknown> {
  const enough = new Promise<void>((resolve) => {
    for (const ask of asks) void ask.then(() => (isEnough() ? resolve() : undefined));
  });
  return Promise.race([Promise.all(asks), enough]);
}

/** Full jitter, so that chains that failed together do not come back together. */
export function jitteredPause(ms: number): Promise<void> {
  return pauseBeforeRetry(Math.random() * ms);
}
