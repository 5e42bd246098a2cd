/** Rescans of confirmed blocks, and the operator's commands that repair records of a chain. */
import { env } from "cloudflare:workers";
import type { Hex } from "viem";
import { describe, expect, it } from "vitest";
import { USDC } from "../../src/assets/asset.ts";
import {
  forgetDeposit,
  recordRescan,
  resweepAddress,
} from "../../src/custody/operator-commands.ts";
import { readConfirmed } from "../../src/custody/watcher/read-confirmed.ts";
import { recheckOldBlocks, rescanOnCommand } from "../../src/custody/watcher/rescan.ts";
import { watchChain } from "../../src/custody/watcher/watch-chain.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import { all, first, sql } from "../../src/platform/sql.ts";
import { randomHex } from "../support/ledger.ts";
import { funded } from "./support/drive.ts";
import { openStage, type Stage } from "./support/stage.ts";
import { itDeeper } from "../support/depth.ts";

/** A watcher that has missed a deposit, because its only endpoint returned no logs. */
async function openWithMissedDeposit() {
  const stage = await openStage({ chain: { scan_range: 2 } });
  const user = await stage.user();
  const url = await stage.faultyEndpoint((method, result) =>
    method === "eth_getLogs" ? [] : result,
  );
  const chain = { ...stage.chain, rpc_urls: [url] };
  const faulty = { ...stage.watcher, chain, settings: { ...stage.settings, CHAINS: [chain] } };
  await watchChain(faulty);
  await stage.mintUsdc(user.address, 500n);
  await stage.mine(6);
  for (let round = 0; round < 6; round++) await watchChain(faulty);
  return { stage, user };
}

async function confirmedNumber(stage: Stage): Promise<number> {
  const row = await first<{ n: number }>(
    env.DB,
    sql`SELECT confirmed_number AS n FROM chain_cursors WHERE chain = ${stage.chain.chain}`,
  );
  return row?.n ?? 0;
}

const commandsOf = (stage: Stage) =>
  all<{ next: number; result: string | null; done: number }>(
    env.DB,
    sql`SELECT from_block AS next, result, done_group IS NOT NULL AS done FROM chain_commands
      WHERE chain = ${stage.chain.chain} ORDER BY command_id`,
  );

const rescan = (stage: Stage, from: number, to: number) =>
  recordRescan(env.DB, { chain: stage.chain.chain, from, to, actor: "operator:alice" });

describe("chain rescan", () => {
  it("credits a missed deposit once, even if repeated", async () => {
    const { stage, user } = await openWithMissedDeposit();
    expect(await stage.deposits(user.userId)).toEqual([]);
    const to = await confirmedNumber(stage);
    await rescan(stage, 0, to);
    await rescan(stage, 0, to);

    while (await rescanOnCommand(stage.watcher));
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({ available: 500n });
    expect(await stage.deposits(user.userId)).toMatchObject([{ status: "credited" }]);
    expect(await commandsOf(stage)).toEqual([
      { next: to + 1, result: "1", done: 1 },
      { next: to + 1, result: "0", done: 1 },
    ]);
  });

  it("does nothing while the chain is halted", async () => {
    const { stage, user } = await openWithMissedDeposit();
    await rescan(stage, 0, await confirmedNumber(stage));
    await all(
      env.DB,
      sql`UPDATE chain_cursors SET halted_at = 1 WHERE chain = ${stage.chain.chain}`,
    );

    expect(await rescanOnCommand(stage.watcher)).toBe(false);
    expect(await stage.deposits(user.userId)).toEqual([]);
  });

  itDeeper("waits for blocks above the confirmed one", async () => {
    const stage = await openStage();
    await stage.watch();
    await rescan(stage, 0, 1_000_000);

    expect(await rescanOnCommand(stage.watcher)).toBe(false);
    expect(await commandsOf(stage)).toMatchObject([{ next: 0, done: 0 }]);
  });
});

describe("the recheck of blocks that are a day old", () => {
  it("credits a missed deposit with an alert", async () => {
    const { stage, user } = await openWithMissedDeposit();
    while (await recheckOldBlocks(stage.watcher));
    expect(await stage.deposits(user.userId)).toEqual([]);

    await stage.rpc("evm_increaseTime", [86_401]);
    await stage.mine(8);
    for (let round = 0; round < 6; round++) await stage.watch();
    while (await recheckOldBlocks(stage.watcher));

    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({ available: 500n });
    await stage.answerAlert("deposit_missed");
  });

  itDeeper("changes nothing if nothing was missed", async () => {
    const stage = await openStage({ chain: { scan_range: 2 } });
    const user = await funded(stage);
    const before = await readBalance(env.DB, user.userId, USDC);
    await stage.rpc("evm_increaseTime", [86_401]);
    await stage.mine(8);
    for (let round = 0; round < 6; round++) await stage.watch();
    while (await recheckOldBlocks(stage.watcher));

    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject(before);
    expect(await stage.alerts()).toEqual([]);
    const rechecked = await first<{ n: number }>(
      env.DB,
      sql`SELECT rechecked_number AS n FROM chain_cursors WHERE chain = ${stage.chain.chain}`,
    );
    expect(rechecked?.n).toBeGreaterThan(0);
  });
});

it("chain forget-deposit orphans a deposit until it is detected again", async () => {
  const stage = await openStage();
  const user = await stage.user();
  await stage.watch();
  await stage.mintUsdc(user.address, 500n);
  await stage.mine();
  await stage.watch();
  expect(await stage.deposits(user.userId)).toMatchObject([{ status: "confirming" }]);
  const [row] = await all<{ id: string }>(
    env.DB,
    sql`SELECT lower(hex(deposit_id)) AS id FROM deposits WHERE chain = ${stage.chain.chain}`,
  );
  const id = (row?.id ?? "").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");

  expect(await forgetDeposit(env.DB, id, "operator:test")).toBe(true);
  expect(await forgetDeposit(env.DB, id, "operator:test")).toBe(false);
  expect(await stage.deposits(user.userId)).toMatchObject([{ status: "orphaned" }]);
  expect(await stage.events(user.userId)).toContain("deposit.orphaned");

  await stage.confirm();
  expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({ available: 500n });
  expect(await forgetDeposit(env.DB, id, "operator:test")).toBe(false);
});

it("chain resweep makes an address sweepable again", async () => {
  const stage = await openStage();
  const user = await funded(stage);
  const listed = () =>
    all<{ asset: string; waits: number }>(
      env.DB,
      sql`SELECT asset, not_before IS NOT NULL AS waits FROM sweepable
        WHERE chain = ${stage.chain.chain}`,
    );
  await all(env.DB, sql`DELETE FROM sweepable WHERE chain = ${stage.chain.chain}`);
  const of = { chain: stage.chain.chain, address: user.address, actor: "operator:test" } as const;

  expect(await resweepAddress(env.DB, of)).toBe(1);
  expect(await listed()).toEqual([{ asset: USDC, waits: 0 }]);

  await all(env.DB, sql`UPDATE sweepable SET not_before = 1 WHERE chain = ${stage.chain.chain}`);
  expect(await resweepAddress(env.DB, of)).toBe(1);
  expect(await listed()).toEqual([{ asset: USDC, waits: 0 }]);
  expect(await resweepAddress(env.DB, { ...of, address: stage.vault })).toBe(0);
});

it.each([
  ["just below it", 4],
  ["above it", 8],
])("a range is read only on the fork of a confirmed block %s", async (_, number) => {
  const stage = await openStage({ confirmations: 2 });
  await stage.mine(12);
  const { hash } = await stage.client.getBlock({ blockNumber: BigInt(number) });
  const read = (anchor: { number: number; hash: Hex }) =>
    readConfirmed(stage.watcher, { from: 5, to: 6 }, anchor);
  expect((await read({ number, hash })).value.scan.last.number).toBe(6);
  await expect(read({ number, hash: randomHex(32) })).rejects.toThrow();
});
