/**
 * The watcher's cost on a busy chain: looking up foreign receivers among many deposit addresses in
 * a real D1, and reading 500 blocks of 150 foreign transfers each after an outage.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import type { TokenTransfer } from "../src/chain/decode-logs.ts";
import { AddressFilter } from "../src/custody/watcher/address-filter.ts";
import { transfersToUs } from "../src/custody/watcher/detect-deposits.ts";
import type { Config } from "../src/platform/config.ts";
import { type Bench, type Figure, median } from "./figures.ts";
import { type BenchStack, startBenchStack } from "./stack.ts";

const RECEIVERS = 5_000;
const BLOCKS = 500;
const TRANSFERS_PER_BLOCK = 150;
const HEAPS_MB = [16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 192, 256];
const ROWS_PER_INSERT = 100_000;
const USDC = `0x${"11".repeat(20)}` as const;
const CHAIN = {
  chain: "bench",
  chain_id: 1,
  rpc_urls: ["http://127.0.0.1:9"],
  factory: `0x${"33".repeat(20)}`,
  vault: `0x${"22".repeat(20)}`,
  usdc: USDC,
  scan_range: BLOCKS,
} as unknown as Config["CHAINS"][number];
const SETTINGS = { CHAINS: [CHAIN], VENUES: [] } as unknown as Config;

export const benchChain: Bench = async ({ quick, say, onStop }) => [
  ...(await lookUps(quick, say, onStop)),
  ...(await catchUp(quick, onStop)),
];

async function lookUps(
  quick: boolean,
  say: (line: string) => void,
  onStop: (stop: () => Promise<void>) => void,
): Promise<Figure[]> {
  const stack = await startBenchStack();
  onStop(stack.stop);
  try {
    const figures: Figure[] = [];
    const smallest: Record<string, number> = {};
    let stored = 0;
    for (const count of quick ? [1_000, 10_000] : [1_000, 100_000, 1_000_000]) {
      await addAddresses(stack, count - stored);
      stored = count;
      const addresses = new AddressFilter();
      const started = performance.now();
      const db = stack.db as unknown as D1Database;
      await addresses.refresh(db, CHAIN.chain);
      const name = count.toLocaleString("en").replaceAll(",", " ");
      say(`  ${name} addresses: filter filled in ${(performance.now() - started).toFixed(0)} ms`);
      for (const [how, context] of [
        ["in D1 alone", {}],
        ["with the filter", { addresses }],
      ] as const) {
        const times: number[] = [];
        for (let round = 0; round < (quick ? 3 : 15); round++) {
          const transfers = foreignTransfers();
          const from = performance.now();
          await transfersToUs(
            { db, settings: SETTINGS, chain: CHAIN, push: async () => {}, ...context },
            transfers,
          );
          times.push(performance.now() - from);
        }
        const ours = median(times);
        const base = (smallest[how] ??= ours);
        figures.push({
          what: `${RECEIVERS} receivers, ${name} addresses, ${how}`,
          unit: "ms",
          ours,
          ...(base === ours
            ? {}
            : { peer: { name: "1 000 addresses", value: base }, target: { atMost: 1.5 } }),
        });
      }
    }
    return figures;
  } finally {
    await stack.stop();
  }
}

async function addAddresses(stack: BenchStack, count: number): Promise<void> {
  for (let added = 0; added < count; added += ROWS_PER_INSERT) {
    await stack.db
      .prepare(
        `INSERT INTO deposit_addresses (chain, address, user_id, nonce, salt, created_at)
          WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < ?)
          SELECT ?, randomblob(20), randomblob(16), 0, randomblob(32), 1 FROM n`,
      )
      .bind(Math.min(ROWS_PER_INSERT, count - added), CHAIN.chain)
      .run();
  }
}

function foreignTransfers(): TokenTransfer[] {
  const hash = `0x${"ab".repeat(32)}` as const;
  return Array.from({ length: RECEIVERS }, (_, ordinal) => ({
    token: USDC,
    from: USDC,
    to: `0x${randomBytes(20).toString("hex")}`,
    tokenId: null,
    amount: 1n,
    position: 0,
    blockNumber: 1,
    blockHash: hash,
    transactionHash: hash,
    ordinal,
    logIndex: ordinal,
  }));
}

/** The peer is one range of all blocks, which is what a fixed `scan_range` of 500 reads. */
async function catchUp(
  quick: boolean,
  onStop: (stop: () => Promise<void>) => void,
): Promise<Figure[]> {
  const node = new Worker(join(import.meta.dirname, "peers", "busy-node.mjs"), {
    workerData: { usdc: USDC, transfersPerBlock: TRANSFERS_PER_BLOCK },
  });
  const stop = async () => void (await node.terminate());
  onStop(stop);
  try {
    const [port] = (await once(node, "message")) as [number];
    const chain = { ...CHAIN, rpc_urls: [`http://127.0.0.1:${port}`] };
    const blocks = quick ? 100 : BLOCKS;
    const [adapted, whole] = [
      await smallestHeap({ chain, blocks, paced: true }),
      await smallestHeap({ chain, blocks, paced: false }),
    ];
    return [
      {
        what: `heap that is enough for ${blocks} blocks of ${TRANSFERS_PER_BLOCK} transfers`,
        unit: "MB",
        ours: adapted.heapMb,
        target: { atMost: 48 },
        note: `one range of all: ${whole.heapMb} MB`,
      },
      { what: "processor time of a log, read and decoded", unit: "µs", ours: adapted.microsPerLog },
    ];
  } finally {
    await stop();
  }
}

type CatchUp = { readonly heapMb: number; readonly microsPerLog: number };

/**
 * Memory in use says little, because V8 collects late. So the heap is limited until it is enough.
 */
async function smallestHeap(work: {
  readonly chain: Config["CHAINS"][number];
  readonly blocks: number;
  readonly paced: boolean;
}): Promise<CatchUp> {
  for (const heapMb of HEAPS_MB) {
    const reader = new Worker(join(import.meta.dirname, "peers", "catch-up.ts"), {
      workerData: work,
      resourceLimits: { maxOldGenerationSizeMb: heapMb, maxYoungGenerationSizeMb: 4 },
    });
    try {
      const [message] = (await once(reader, "message")) as [{ microsPerLog: number }];
      return { heapMb, ...message };
    } catch (error) {
      if ((error as { code?: string }).code !== "ERR_WORKER_OUT_OF_MEMORY") throw error;
    } finally {
      await reader.terminate();
    }
  }
  return { heapMb: Number.POSITIVE_INFINITY, microsPerLog: Number.NaN };
}
