/**
 * A chain's RPC endpoints. Each call names the endpoint it used, because answers of different nodes must not be mixed:
 * a lagging node answers `[]` to a range of logs that it has not seen, without an error.
 */
import { createPublicClient, type Hex, hexToNumber, http, type PublicClient } from "viem";
import type { ChainConfig } from "../platform/config.ts";

export type { Hex };
export type BlockHeader = {
  readonly number: number;
  readonly hash: Hex;
  readonly parentHash: Hex;
  readonly baseFee: bigint;
  readonly timestamp: bigint;
};
export type Endpoint = { readonly url: string; readonly client: PublicClient };

/** Every endpoint failed; the causes are in `errors`. */
class RpcUnavailable extends Error {
  readonly errors: readonly unknown[];
  constructor(chain: string, errors: readonly unknown[]) {
    super(`No RPC endpoint of ${chain} gave a usable answer: ${errors.map(describe).join(" | ")}`);
    this.name = "RpcUnavailable";
    this.errors = errors;
  }
}

/** A node said something that cannot be true together with what it, or another one, said before. */
export class NodeDisagrees extends Error {
  override readonly name = "NodeDisagrees";
}

const TIMEOUT_MS = 10_000;
/** Rounds over all endpoints before giving up until the next alarm. */
const ROUNDS = 2;
const BACKOFF_MS = 200;

const clients = new Map<string, PublicClient>();

export function endpoints(chain: ChainConfig): Endpoint[] {
  return chain.rpc_urls.map((url) => ({ url, client: clientOf(url) }));
}

/**
 * Asks the endpoints in turn until one gives a usable answer; `ask` throws to refuse its endpoint. `preferred` is the
 * index of the first to ask, so that what one node said can be read again from another.
 */
export async function askAny<T>(
  chain: ChainConfig,
  ask: (endpoint: Endpoint) => Promise<T>,
  preferred = 0,
): Promise<T> {
  const all = endpoints(chain);
  const errors: unknown[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    if (round > 0) await pause(BACKOFF_MS * 2 ** round);
    for (let index = 0; index < all.length; index++) {
      const endpoint = all[(index + preferred) % all.length];
      if (endpoint === undefined) continue;
      try {
        return await ask(endpoint);
      } catch (error) {
        errors.push(error);
      }
    }
  }
  throw new RpcUnavailable(chain.chain, errors);
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
    throw new NodeDisagrees("a mined block without hash or number");
  if (typeof at === "number" && Number(block.number) !== at)
    throw new NodeDisagrees(`asked for block ${at}, got ${block.number}`);
  return {
    number: Number(block.number),
    hash: block.hash,
    parentHash: block.parentHash,
    baseFee: block.baseFeePerGas ?? 0n,
    timestamp: block.timestamp,
  };
}

/** The head of an endpoint that is not behind what was already seen; others are refused as lagging. */
export async function readHead(endpoint: Endpoint, seen: number): Promise<BlockHeader> {
  const head = await readHeader(endpoint, "latest");
  if (head.number < seen)
    throw new NodeDisagrees(`${hostOf(endpoint.url)} is at block ${head.number}, behind ${seen}`);
  return head;
}

/** eth_call against the state after one certain block (EIP-1898): a number alone could mean another block by now. */
export async function callAtBlock(
  { client }: Endpoint,
  call: { readonly to: Hex; readonly data: Hex },
  blockHash: Hex,
): Promise<Hex> {
  const { data } = await client.call({ ...call, blockHash, requireCanonical: true });
  if (data === undefined) throw new NodeDisagrees(`no code at ${call.to} in block ${blockHash}`);
  return data;
}

/** Nonces that an account had used after one certain block (EIP-1898); of the wrong block it would end the wrong transactions. */
export async function noncesAtBlock(
  { client }: Endpoint,
  address: Hex,
  blockHash: Hex,
): Promise<number> {
  return hexToNumber(
    await client.request({
      method: "eth_getTransactionCount",
      params: [address, blockObject(blockHash)],
    }),
  );
}

/** viem's types of this method lack EIP-1898's block object, which nodes take wherever they take a number. */
function blockObject(blockHash: Hex): Hex {
  return { blockHash, requireCanonical: true } as unknown as Hex;
}

/** The host only: URLs of RPC providers carry keys. */
function hostOf(url: string): string {
  return new URL(url).host;
}

/** One line about an error, without the URLs and bodies that viem adds. */
export function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const short = (error as { shortMessage?: unknown }).shortMessage;
  const details = (error as { details?: unknown }).details;
  const text =
    typeof short === "string"
      ? typeof details === "string"
        ? `${short} ${details}`
        : short
      : error.message;
  return text
    .replaceAll(/https?:\/\/\S+/g, "<url>")
    .replaceAll(/\s+/g, " ")
    .slice(0, 300);
}

function clientOf(url: string): PublicClient {
  let client = clients.get(url);
  if (client === undefined) {
    // Retries are ours, over all endpoints; a cached head would hide that a node lags.
    client = createPublicClient({
      transport: http(url, { timeout: TIMEOUT_MS, retryCount: 0 }),
      cacheTime: 0,
    });
    clients.set(url, client);
  }
  return client;
}

/** Full jitter, so that chains that failed together do not come back together. */
function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.random() * ms));
}
