/**
 * Reads the logs of a block range. All requests go to one endpoint, and the last block must have
 * the same hash before and after, so that the logs belong to one fork.
 */
import { getAddress, numberToHex, type RpcLog, formatLog } from "viem";
import { type ChainConfig, type Config, vaultsOf } from "../platform/config.ts";
import { type Contracts, decodeLogs, type MinedLog, WATCHED_TOPICS } from "./decode-logs.ts";
import { type BlockHeader, describe, type Endpoint, InconsistentNode, readHeader } from "./rpc.ts";

export type Range = { readonly from: number; readonly to: number };
export type Scan = ReturnType<typeof decodeLogs> & {
  readonly first: BlockHeader;
  readonly last: BlockHeader;
  readonly logs: number;
  /** Blocks of the longest request that the provider has not refused as too large. */
  readonly fits: number;
};

export function watchedContracts(settings: Config, chain: ChainConfig): Contracts {
  return {
    erc20: getAddress(chain.usdc),
    erc1155: settings.VENUES.flatMap(({ chain: home, outcome_tokens: token }) =>
      home === chain.chain && token !== undefined ? [getAddress(token)] : [],
    ),
    vaults: vaultsOf(chain).map((vault) => getAddress(vault)),
    factory: getAddress(chain.factory),
  };
}

export async function scanRange(
  endpoint: Endpoint,
  range: Range,
  contracts: Contracts,
): Promise<Scan> {
  const last = await readHeader(endpoint, range.to);
  const first = range.from === range.to ? last : await readHeader(endpoint, range.from);
  let fits = range.to - range.from + 1;
  const logs = await readLogs(endpoint, range, contracts, (refused) => {
    fits = Math.min(fits, Math.max(1, Math.floor(refused / 2)));
  });
  const after = await readHeader(endpoint, range.to);
  if (after.hash !== last.hash)
    throw new InconsistentNode(`block ${range.to} changed while its logs were read`);
  for (const log of logs) {
    if (log.blockNumber < BigInt(range.from) || log.blockNumber > BigInt(range.to))
      throw new InconsistentNode("a log is outside the requested range");
    if (log.blockNumber === BigInt(range.to) && log.blockHash !== last.hash)
      throw new InconsistentNode(`a log has another hash for block ${range.to}`);
  }
  return { ...decodeLogs(logs, contracts), first, last, logs: logs.length, fits };
}

/** Halves the range, down to one block, when a provider rejects it as too large. */
async function readLogs(
  endpoint: Endpoint,
  range: Range,
  contracts: Contracts,
  onRefused: (blocks: number) => void,
): Promise<MinedLog[]> {
  try {
    return await getLogs(endpoint, range, contracts);
  } catch (error) {
    if (range.from === range.to || !isRangeError(error)) throw error;
    onRefused(range.to - range.from + 1);
    const middle = Math.floor((range.from + range.to) / 2);
    const lower = { from: range.from, to: middle };
    const upper = { from: middle + 1, to: range.to };
    const logs = await readLogs(endpoint, lower, contracts, onRefused);
    return logs.concat(await readLogs(endpoint, upper, contracts, onRefused));
  }
}

async function getLogs(
  { client }: Endpoint,
  range: Range,
  contracts: Contracts,
): Promise<MinedLog[]> {
  const logs: RpcLog[] = await client.request({
    method: "eth_getLogs",
    params: [
      {
        address: [contracts.erc20, ...contracts.erc1155, ...contracts.vaults, contracts.factory],
        topics: [[...WATCHED_TOPICS]],
        fromBlock: numberToHex(range.from),
        toBlock: numberToHex(range.to),
      },
    ],
  });
  return logs.map((log) => mined(formatLog(log)));
}

function mined(log: ReturnType<typeof formatLog>): MinedLog {
  const { address, data, topics, blockNumber, blockHash, transactionHash, logIndex } = log;
  if (blockNumber === null || blockHash === null || transactionHash === null || logIndex === null) {
    throw new InconsistentNode("a log in a mined range is pending");
  }
  if (log.removed) throw new InconsistentNode("a log in a canonical range is marked as removed");
  return { address, data, topics, blockNumber, blockHash, transactionHash, logIndex };
}

/** A limit of requests in a time, which shorter ranges only reach sooner. */
const RATE_LIMIT = /too many requests|rate.?limit|request (count|limit)|per second|compute units/i;

/** Matches the errors of Alchemy, Infura, QuickNode, geth, Ankr and drpc. -32005: EIP-1474. */
function isRangeError(error: unknown): boolean {
  const code = (error as { code?: unknown }).code;
  const text = describe(error);
  if (RATE_LIMIT.test(text)) return false;
  return (
    code === -32005 ||
    /range|too many|limit|more than|exceed|too large|response size|query returned/i.test(text)
  );
}
