/** Reads a range of blocks so that the answer can be believed: one endpoint, whose last block is the same before and after. */
import { getAddress, numberToHex, type RpcLog, formatLog } from "viem";
import type { ChainConfig, Config } from "../platform/config.ts";
import {
  type Contracts,
  decodeLogs,
  type Decoded,
  type MinedLog,
  WATCHED_TOPICS,
} from "./decode-logs.ts";
import { type BlockHeader, describe, type Endpoint, NodeDisagrees, readHeader } from "./rpc.ts";
import { tokenContracts } from "./token.ts";

export type Range = { readonly from: number; readonly to: number };
export type Scan = Decoded & { readonly first: BlockHeader; readonly last: BlockHeader };

export function watchedContracts(settings: Config, chain: ChainConfig): Contracts {
  const [erc20, ...erc1155] = tokenContracts(settings, chain);
  if (erc20 === undefined) throw new Error("a chain has a USDC contract");
  return { erc20, erc1155, vault: getAddress(chain.vault), factory: getAddress(chain.factory) };
}

export async function scanRange(
  endpoint: Endpoint,
  range: Range,
  contracts: Contracts,
): Promise<Scan> {
  const last = await readHeader(endpoint, range.to);
  const first = range.from === range.to ? last : await readHeader(endpoint, range.from);
  const logs = await readLogs(endpoint, range, contracts);
  const after = await readHeader(endpoint, range.to);
  if (after.hash !== last.hash)
    throw new NodeDisagrees(`block ${range.to} changed while its logs were read`);
  for (const log of logs) {
    if (log.blockNumber < BigInt(range.from) || log.blockNumber > BigInt(range.to))
      throw new NodeDisagrees("a log outside the range asked for");
    if (log.blockNumber === BigInt(range.to) && log.blockHash !== last.hash)
      throw new NodeDisagrees("a log of another block at the end of the range");
  }
  return { ...decodeLogs(logs, contracts), first, last };
}

/** Providers limit blocks or results in words of their own: whatever the error, a half range is tried, down to one block. */
async function readLogs(
  endpoint: Endpoint,
  range: Range,
  contracts: Contracts,
): Promise<MinedLog[]> {
  try {
    return await getLogs(endpoint, range, contracts);
  } catch (error) {
    if (range.from === range.to || !isRangeError(error)) throw error;
    const middle = Math.floor((range.from + range.to) / 2);
    const lower = await readLogs(endpoint, { from: range.from, to: middle }, contracts);
    return [...lower, ...(await readLogs(endpoint, { from: middle + 1, to: range.to }, contracts))];
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
        address: [contracts.erc20, ...contracts.erc1155, contracts.vault, contracts.factory],
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
    throw new NodeDisagrees("a pending log in a mined range");
  }
  if (log.removed) throw new NodeDisagrees("a removed log in a canonical range");
  return { address, data, topics, blockNumber, blockHash, transactionHash, logIndex };
}

/** Words and codes of the providers: Alchemy, Infura, QuickNode, geth, Ankr, drpc; -32005 is EIP-1474 "limit exceeded". */
function isRangeError(error: unknown): boolean {
  const code = (error as { code?: unknown }).code;
  return (
    code === -32005 ||
    /range|too many|limit|more than|exceed|too large|response size|query returned/i.test(
      describe(error),
    )
  );
}
