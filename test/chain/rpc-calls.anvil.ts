/** What one round costs in RPC calls, which providers count and Workers limit. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import costs from "../../docs/costs.md?raw";
import { USDC } from "../../src/assets/asset.ts";
import { readCursor } from "../../src/chain/chain-cursor.ts";
import { trackedHoldings } from "../../src/reconcile/tracked-holdings.ts";
import { watchChain } from "../../src/custody/watcher/watch-chain.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { funded } from "./support/drive.ts";
import { openStage, someone, type Stage } from "./support/stage.ts";

/** The stage's chain behind endpoints that count calls together. */
async function counted(stage: Stage, endpoints = 1) {
  let calls = 0;
  const count = (_: unknown, result: unknown) => {
    calls++;
    return result;
  };
  const rpc_urls: string[] = [];
  while (rpc_urls.length < endpoints) rpc_urls.push(await stage.faultyEndpoint(count));
  const chain = { ...stage.chain, rpc_urls };
  return {
    chain,
    settings: { ...stage.settings, CHAINS: [chain] },
    callsOf: async (work: () => Promise<unknown>): Promise<number> => {
      calls = 0;
      await work();
      return calls;
    },
  };
}

it("a payer round costs as many calls for ten open transactions as for one", async () => {
  const stage = await openStage({ confirmations: 50 });
  const user = await funded(stage);
  const { chain, callsOf } = await counted(stage);
  const payer = await stage.payer({ chain });
  const payOne = async () => {
    await stage.withdraw(user.userId, USDC, 10n, someone());
    await payer.round();
    await stage.mine();
  };
  await payOne();
  const one = await callsOf(payer.round);
  for (let more = 0; more < 9; more++) await payOne();
  expect(
    await all(
      env.DB,
      sql`SELECT 1 FROM chain_transactions WHERE chain = ${stage.chain.chain} AND status = 'open'`,
    ),
  ).toHaveLength(10);
  expect(await callsOf(payer.round)).toBe(one);
});

it("reads 150 balances in a call, of different tokens too", async () => {
  const stage = await openStage();
  await funded(stage);
  await all(
    env.DB,
    sql`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1498)
      INSERT INTO sweepable (chain, asset, address, amount, block_number)
      SELECT ${stage.chain.chain}, 'venue_one:0x5', randomblob(20), 1, 1 FROM n`,
  );
  const { number, hash } = await stage.client.getBlock({
    blockNumber: BigInt((await readCursor(env.DB, stage.chain.chain))?.confirmed.number ?? 0),
  });
  const { settings, callsOf } = await counted(stage);
  let sums: unknown;
  const calls = await callsOf(async () => {
    sums = await trackedHoldings(
      env.DB,
      settings,
    )({
      chain: stage.chain.chain,
      block: Number(number),
      blockHash: hash,
      assets: [USDC, "venue_one:0x5"],
    });
  });
  expect(sums).toEqual(
    new Map([
      [USDC, 2_000n],
      ["venue_one:0x5", 0n],
    ]),
  );
  // 1,498 addresses and the user's, and the vault twice.
  expect(calls).toBe(11);
});

/** docs/costs.md multiplies these by the rounds of a month. */
it("idle rounds with two endpoints make as many calls as docs/costs.md says", async () => {
  const stage = await openStage({ confirmations: 2 });
  await funded(stage);
  const { chain, settings, callsOf } = await counted(stage, 2);
  const watcher = { ...stage.watcher, chain, settings };
  const payer = await stage.payer({ chain, settings });
  await watchChain(watcher);
  await payer.round();
  const still = await callsOf(() => watchChain(watcher));
  await stage.mine();
  const oneBlock = await callsOf(() => watchChain(watcher));
  const paying = await callsOf(payer.round);
  const [, ...stated] =
    /watcher: (\d+) calls, (\d+) with a new block; payer: (\d+)/.exec(costs) ?? [];
  expect([still, oneBlock, paying]).toEqual(stated.map(Number));
});
