/** Reads a range of blocks as the watcher does, in a thread whose heap the bench limits. */
import { parentPort, workerData } from "node:worker_threads";
import { getAddress } from "viem";
import { endpoints } from "../../src/chain/rpc.ts";
import { scanRange } from "../../src/chain/scan.ts";
import { ScanPace } from "../../src/chain/scan-pace.ts";
import type { Config } from "../../src/platform/config.ts";

type Work = {
  readonly chain: Config["CHAINS"][number];
  readonly blocks: number;
  /** False: one range of all blocks. */
  readonly paced: boolean;
};

const { chain, blocks, paced } = workerData as Work;
const [endpoint] = endpoints(chain);
if (endpoint === undefined) throw new Error("the chain has no endpoint");
const contracts = {
  erc20: getAddress(chain.usdc),
  erc1155: [],
  vaults: [getAddress(chain.vault)],
  factory: getAddress(chain.factory),
};
const pace = paced ? new ScanPace() : undefined;
const before = process.threadCpuUsage();
let logs = 0;
for (let from = 1; from <= blocks;) {
  const length = Math.min(pace?.limit(blocks) ?? blocks, blocks - from + 1);
  const range = { from, to: from + length - 1 };
  const scan = await scanRange(endpoint, range, contracts);
  pace?.read({ blocks: length, logs: scan.logs, fits: scan.fits });
  logs += scan.logs;
  from += length;
}
const { user, system } = process.threadCpuUsage(before);
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
parentPort?.postMessage({ microsPerLog: (user + system) / logs });
