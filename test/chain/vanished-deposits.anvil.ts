/** Deposits that vanish before they are confirmed: invented or dropped by a reorg, any number. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { encodeAbiParameters, type Hex, keccak256, pad, toHex } from "viem";
import { readBalance } from "../../src/ledger/balance.ts";
import { USDC } from "../../src/assets/asset.ts";
import { forgetBlock } from "../../src/custody/operator-commands.ts";
import { MAX_UNCONFIRMED } from "../../src/custody/watcher/detect-deposits.ts";
import { watchChain } from "../../src/custody/watcher/watch-chain.ts";
import { all, raw, sql, uuid } from "../../src/platform/sql.ts";
import { type Node, withNodes } from "./support/nodes.ts";
import { openStage, type Stage } from "./support/stage.ts";
import { itDeeper, some } from "../support/depth.ts";

const TRANSFER = keccak256(toHex("Transfer(address,address,uint256)"));
/** The lowest limit of requests that one invocation of a Worker may have had. */
const REQUEST_LIMIT = 1_000;

/** Runs rounds that fail like a Worker's once all nodes together have had their limit of calls. */
function limited(stage: Stage, nodes: readonly Node[]) {
  const state = { used: 0, peak: 0, rounds: 0 };
  for (const node of nodes) {
    const { lie } = node;
    node.lie = (method, result, params) => {
      if (++state.used > REQUEST_LIMIT) throw new Error("too many subrequests");
      return lie === undefined ? result : lie(method, result, params);
    };
  }
  const round = async () => {
    state.used = 0;
    await watchChain({ ...stage.watcher, firstEndpoint: state.rounds++ });
    state.peak = Math.max(state.peak, state.used);
  };
  return { state, round };
}

/** Answers `eth_getLogs` once with this many transfers to the address in the head. */
async function lieOnce(stage: Stage, to: Hex, count: number): Promise<NonNullable<Node["lie"]>> {
  const { hash: blockHash } = await stage.client.getBlock();
  let lied = false;
  return (method, result, params) => {
    if (lied || method !== "eth_getLogs") return result;
    lied = true;
    const [{ toBlock }] = params as [{ toBlock: Hex }];
    const invented = Array.from({ length: count }, (_, index) => ({
      address: stage.usdc,
      topics: [TRANSFER, pad("0x1234"), pad(to)],
      data: encodeAbiParameters([{ type: "uint256" }], [5n]),
      blockNumber: toBlock,
      blockHash,
      transactionHash: keccak256(toHex(`${to} ${index}`)),
      transactionIndex: "0x0",
      logIndex: toHex(5_000 + index),
      removed: false,
    }));
    return [...(result as object[]), ...invented];
  };
}

const statusesOf = async (stage: Stage, userId: string) =>
  Object.fromEntries(
    [...Map.groupBy(await stage.deposits(userId), ({ status }) => status)].map(
      ([status, { length }]) => [status, length],
    ),
  );

describe("a confirmation costs a few requests", () => {
  it.each(some([1_200, 12_000]))(
    "after an endpoint of three invented %i deposits",
    async (count) => {
      const stage = await openStage({ confirmations: 3 });
      const nodes = await withNodes(stage, 3);
      const [victim, honest] = [await stage.user(), await stage.user()];
      await stage.mine(3);
      await stage.watch();
      await stage.mine();
      const [liar] = nodes;
      if (liar !== undefined) liar.lie = await lieOnce(stage, victim.address, count);
      const { state, round } = limited(stage, nodes);
      await round();
      const recorded = Math.min(count, MAX_UNCONFIRMED);
      expect(await statusesOf(stage, victim.userId)).toEqual({ confirming: recorded });

      await stage.mintUsdc(honest.address, 700n);
      for (let more = 0; more < 5; more++) {
        await stage.mine();
        await round();
      }
      expect(await statusesOf(stage, honest.userId)).toEqual({ credited: 1 });
      expect(await statusesOf(stage, victim.userId)).toEqual({ orphaned: recorded });
      expect(await stage.alerts()).toEqual(["deposit_phantom"]);
      expect(state.peak).toBeLessThan(60);
    },
  );

  itDeeper("after a reorg dropped 1 120 junk deposits while the watcher was away", async () => {
    const stage = await openStage({ confirmations: 3 });
    const nodes = await withNodes(stage, 3);
    const [thief, honest] = [await stage.user(), await stage.user()];
    await stage.mine(3);
    await stage.watch();
    const { state, round } = limited(stage, nodes);
    await stage.rpc("evm_setBlockGasLimit", ["0x3938700"]);
    await stage.mintUsdc(honest.address, 700n);
    await stage.mine();
    const ids = (batch: number) =>
      Array.from({ length: 40 }, (_, index) => BigInt(1_000 + batch * 40 + index));
    for (let batch = 0; batch < 28; batch++)
      await stage.mintBatch(
        thief.address,
        ids(batch),
        Array.from({ length: 40 }, () => 5n),
      );
    await stage.mine();
    await round();
    expect(await statusesOf(stage, thief.userId)).toEqual({ confirming: 1_120 });
    await stage.reorg(1);
    await stage.mine(6);
    await round();
    expect(await statusesOf(stage, thief.userId)).toEqual({ orphaned: 1_120 });
    await stage.mine(3);
    await round();
    expect(await readBalance(env.DB, honest.userId, USDC)).toMatchObject({ available: 700n });
    expect(await stage.alerts()).toEqual([]);
    expect(state.peak).toBeLessThan(60);
  });
});

it("keeps recorded deposits while no more can be recorded, and recovers in a day", async () => {
  const stage = await openStage({ confirmations: 8 });
  const [liar] = await withNodes(stage, 3);
  const [victim, honest] = [await stage.user(), await stage.user()];
  await stage.watch();
  await stage.mintUsdc(honest.address, 700n);
  await stage.mine();
  await stage.watch();
  await stage.mine();
  if (liar !== undefined) liar.lie = await lieOnce(stage, victim.address, MAX_UNCONFIRMED + 1);
  await watchChain({ ...stage.watcher, firstEndpoint: 0 });
  expect(await statusesOf(stage, victim.userId)).toEqual({ confirming: MAX_UNCONFIRMED - 1 });
  await stage.reorg(2, 0);
  await stage.replay();
  await stage.mine(3);
  await stage.watch();
  expect(await statusesOf(stage, victim.userId)).toEqual({ orphaned: MAX_UNCONFIRMED - 1 });
  expect(await statusesOf(stage, honest.userId)).toEqual({ confirming: 1 });

  const detected = async () => {
    await stage.mintUsdc(honest.address, 5n);
    await stage.mine();
    await stage.watch();
    return (await stage.deposits(honest.userId)).length;
  };
  expect(await detected()).toBe(1);
  await all(
    env.DB,
    sql`UPDATE deposits SET detected_at = detected_at - 86400001
      WHERE user_id = ${uuid(victim.userId)}`,
  );
  expect(await detected()).toBe(2);
});

itDeeper("detects through another endpoint in each round", async () => {
  const stage = await openStage();
  const nodes = await withNodes(stage, 3);
  await stage.watch();
  const scans = nodes.map(() => 0);
  nodes.forEach((node, index) => {
    node.lie = (method, result) => {
      if (method === "eth_getLogs") scans[index] = (scans[index] ?? 0) + 1;
      return result;
    };
  });
  for (let round = 0; round < 6; round++) {
    await stage.mine();
    await watchChain({ ...stage.watcher, firstEndpoint: round });
  }
  expect(Math.max(...scans) - Math.min(...scans)).toBeLessThanOrEqual(1);
});

it("deletes orphaned deposits after a week, and nothing else", async () => {
  const stage = await openStage();
  const user = await stage.user();
  await stage.watch();
  await stage.mintUsdc(user.address, 500n);
  await stage.confirm();
  for (let lost = 0; lost < 2; lost++) await stage.mintUsdc(user.address, 5n);
  await stage.mine();
  await stage.watch();
  await stage.reorg(1, 2);
  await stage.watch();
  expect(await statusesOf(stage, user.userId)).toEqual({ credited: 1, orphaned: 2 });
  const [old] = await all<{ id: string }>(
    env.DB,
    sql`UPDATE deposits SET detected_at = detected_at - 8 * 86400000, ended_group = 0
      WHERE deposit_id = (SELECT min(deposit_id) FROM deposits
        WHERE user_id = ${uuid(user.userId)} AND status = 'orphaned')
      RETURNING hex(deposit_id) AS id`,
  );
  expect(old).toBeDefined();
  await stage.mine();
  await stage.watch();
  expect(await statusesOf(stage, user.userId)).toEqual({ credited: 1, orphaned: 1 });
  const ofUser = sql`DELETE FROM deposits WHERE user_id = ${uuid(user.userId)}`;
  await expect(all(env.DB, sql`${ofUser} AND ${raw("status = 'credited'")}`)).rejects.toThrow(
    "append-only: deposit",
  );
});

it("chain forget-deposit --block orphans a block's unconfirmed deposits", async () => {
  const stage = await openStage({ confirmations: 5 });
  const user = await stage.user();
  await stage.watch();
  for (const amount of [1n, 2n]) await stage.mintUsdc(user.address, amount);
  await stage.mine();
  await stage.mintUsdc(user.address, 3n);
  await stage.mine();
  await stage.watch();
  const [first] = await stage.deposits(user.userId);
  const block = first?.block_number ?? 0;
  const of = { chain: stage.chain.chain, block, actor: "operator:test" } as const;
  expect(await forgetBlock(env.DB, of)).toEqual({ forgotten: true, left: 0 });
  expect(await forgetBlock(env.DB, of)).toEqual({ forgotten: false, left: 0 });
  expect(await statusesOf(stage, user.userId)).toEqual({ orphaned: 2, confirming: 1 });
  await stage.confirm();
  await stage.mine(5);
  await stage.watch();
  expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({ available: 6n });
});
