import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { encodeFunctionData, type Hex, toHex } from "viem";
import { localUsdcAbi } from "../../scripts/stack/abi/local-usdc.ts";
import { USDC } from "../../src/assets/asset.ts";
import { Deposit } from "../../src/custody/schemas.ts";
import { watchChain } from "../../src/custody/watcher/watch-chain.ts";
import { recordRescan } from "../../src/custody/operator-commands.ts";
import { rescanOnCommand } from "../../src/custody/watcher/rescan.ts";
import { readCursor } from "../../src/chain/chain-cursor.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import { all, blob, first, type Sql, sql, uuid } from "../../src/platform/sql.ts";
import { edit } from "../support/ledger.ts";
import { listen, openStage, someone, type Stage } from "./support/stage.ts";
import { itDeeper, some } from "../support/depth.ts";

const NOTHING = { available: 0n, pending: 0n };

/** What is issued on the chain equals credited deposits less settled withdrawals. */
async function expectSound(stage: Stage): Promise<void> {
  const external = `external:${stage.chain.chain}`;
  const rows = await all<{ asset: string; issued: string; credited: string }>(
    env.DB,
    sql`SELECT a.asset, CAST(-a.balance AS TEXT) AS issued, CAST(
        coalesce((SELECT sum(CAST(amount AS INTEGER)) FROM deposits d
          WHERE d.chain = ${stage.chain.chain} AND d.asset = a.asset AND d.status = 'credited'), 0)
        - coalesce((SELECT sum(amount) FROM withdrawals w WHERE w.chain = ${stage.chain.chain}
          AND w.asset = a.asset AND w.status = 'settled'), 0) AS TEXT) AS credited
      FROM accounts a WHERE a.owner = CAST(${external} AS BLOB)`,
  );
  for (const row of rows) expect(row.issued).toBe(row.credited);
}

async function rewind(stage: Stage, block: number): Promise<void> {
  const { hash } = await stage.client.getBlock({ blockNumber: BigInt(block) });
  await all(
    env.DB,
    sql`UPDATE chain_cursors SET confirmed_number = ${block},
      confirmed_hash = unhex(${(hash as Hex).slice(2)}), scanned_number = ${block},
    scanned_hash = unhex(${(hash as Hex).slice(2)}) WHERE chain = ${stage.chain.chain}`,
  );
  await all(env.DB, sql`DELETE FROM chain_blocks WHERE chain = ${stage.chain.chain}`);
}

/** Edits the row of a deposit address, as if somebody had write access to the database. */
const editAddress = (row: { address: string }, change: Sql) =>
  edit(env.DB, "deposit_addresses", [
    sql`UPDATE deposit_addresses SET ${change} WHERE address = ${blob(row.address)}`,
  ]);

describe("deposits", () => {
  it("credits nobody at an address that SQL gave to another user", async () => {
    const stage = await openStage();
    const victim = await stage.user();
    const thief = await stage.user();
    await stage.watch();
    await editAddress(victim, sql`user_id = ${uuid(thief.userId)}, nonce = 7`);
    await stage.mintUsdc(victim.address, 5n);
    await stage.confirm();
    expect(await stage.deposits(thief.userId)).toEqual([]);
    const subject = `${stage.chain.chain}:${victim.address.toLowerCase()}`;
    await stage.answerAlert("deposit_address_altered", undefined, { subject });

    await editAddress(victim, sql`user_id = ${uuid(victim.userId)}, nonce = 0`);
    const to = (await readCursor(env.DB, stage.chain.chain))?.confirmed.number ?? 0;
    await recordRescan(env.DB, { chain: stage.chain.chain, from: 0, to, actor: "operator:test" });
    while (await rescanOnCommand(stage.watcher));
    expect(await readBalance(env.DB, victim.userId, USDC)).toMatchObject({ available: 5n });
    expect(await stage.deposits(thief.userId)).toEqual([]);
  });

  it("credits deposits once when a block range is scanned twice", async () => {
    const stage = await openStage();
    const user = await stage.user();
    await stage.watch();
    const start = Number(await stage.client.getBlockNumber());
    await stage.mintUsdc(user.address, 5n);
    await stage.mintUsdc(user.address, 5n);
    await stage.mintTokens(user.address, 0xabn, 7n);
    await stage.confirm();
    await rewind(stage, start);
    await stage.watch();
    await rewind(stage, 0);
    await stage.watch();
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
      available: 10n,
      pending: 0n,
    });
    expect(await readBalance(env.DB, user.userId, "venue_one:0xab")).toMatchObject({
      available: 7n,
      pending: 0n,
    });
    expect(await stage.deposits(user.userId)).toHaveLength(3);
    await expectSound(stage);
  });

  it("credits once when watchers run in parallel", async () => {
    const stage = await openStage();
    const user = await stage.user();
    await stage.watch();
    await stage.mintUsdc(user.address, 5n);
    await stage.mine(3);
    await Promise.allSettled([stage.watch(), stage.watch(), stage.watch()]);
    await stage.watch();
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
      available: 5n,
      pending: 0n,
    });
    await expectSound(stage);
  });

  it("records each transfer of a batch and ignores zero amounts", async () => {
    const stage = await openStage();
    const [one, two] = [await stage.user(), await stage.user()];
    await stage.watch();
    await stage.mintBatch(one.address, [1n, 2n, 1n, 3n], [10n, 20n, 30n, 0n]);
    await stage.mintTokens(two.address, 1n, 4n);
    await stage.mintUsdc(two.address, 0n);
    await stage.confirm();
    expect(await readBalance(env.DB, one.userId, "venue_one:0x1")).toMatchObject({
      available: 40n,
    });
    expect(await readBalance(env.DB, one.userId, "venue_one:0x2")).toMatchObject({
      available: 20n,
    });
    expect(await stage.deposits(one.userId)).toHaveLength(3);
    expect(await stage.deposits(two.userId)).toHaveLength(1);
    await expectSound(stage);
  });

  it("ignores transfers to strangers and between deposit addresses", async () => {
    const stage = await openStage();
    const [one, two] = [await stage.user(), await stage.user()];
    await stage.watch();
    await stage.mintUsdc(someone(), 9n);
    await stage.client.impersonateAccount({ address: one.address });
    await stage.client.setBalance({ address: one.address, value: 10n ** 18n });
    await stage.mintUsdc(one.address, 9n);
    await stage.mine();
    const data = encodeFunctionData({
      abi: localUsdcAbi,
      functionName: "transfer",
      args: [two.address, 4n],
    });
    await stage.client.sendTransaction({
      account: one.address,
      to: stage.usdc,
      data,
      gas: 200_000n,
    });
    await stage.confirm();
    expect(await stage.deposits(two.userId)).toEqual([]);
    expect(await stage.deposits(one.userId)).toHaveLength(1);
  });

  it("quarantines only deposits that the ledger cannot hold", async () => {
    const stage = await openStage();
    const [junk, good] = [await stage.user(), await stage.user()];
    await stage.watch();
    const asset = `venue_one:0x${BigInt(Date.now()).toString(16)}`;
    const id = BigInt(asset.slice(asset.indexOf(":") + 1));
    for (const amount of [
      2n ** 256n - 1n - 2n ** 255n,
      2n ** 63n - 1n,
      2n ** 62n,
      2n ** 62n,
      2n ** 62n - 5n,
    ])
      await stage.mintTokens(junk.address, id, amount);
    await stage.mintTokens(good.address, id + 1n, 3n);
    await stage.confirm();
    const junkDeposits = await stage.deposits(junk.userId);
    expect(junkDeposits.map((row) => row.status).toSorted()).toEqual([
      "credited",
      "quarantined",
      "quarantined",
      "quarantined",
      "quarantined",
    ]);
    const credited = BigInt(junkDeposits.find((row) => row.status === "credited")?.amount ?? 0);
    expect(credited).toBeLessThanOrEqual(2n ** 62n);
    expect(await readBalance(env.DB, junk.userId, asset)).toMatchObject({
      available: credited,
      pending: 0n,
    });
    expect(
      await readBalance(env.DB, good.userId, `venue_one:0x${(id + 1n).toString(16)}`),
    ).toMatchObject({ available: 3n, pending: 0n });
    // One alert per chain for any number of deposits.
    expect(await stage.alerts()).toEqual(["deposit_quarantined"]);
    await stage.answerAlert("deposit_quarantined");
    await expectSound(stage);
  });

  itDeeper("catches up in bounded ranges", async () => {
    const stage = await openStage({ chain: { scan_range: 10 } });
    const user = await stage.user();
    for (let deposit = 0; deposit < 5; deposit++) {
      await stage.mintUsdc(user.address, 1n);
      await stage.mine(30);
    }
    let rounds = 0;
    while ((await stage.watch()).behind) expect(++rounds).toBeLessThan(10);
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
      available: 5n,
      pending: 0n,
    });
  });
});

describe("reorganisations", () => {
  it("orphans a deposit that a reorg removes; restores it when mined again", async () => {
    const stage = await openStage({ confirmations: 4 });
    const user = await stage.user();
    const subscriber = await listen(user);
    await stage.mine(5);
    await stage.watch();
    const snapshot = await stage.client.snapshot();
    await stage.mintUsdc(user.address, 5n);
    await stage.mine();
    await stage.watch();
    expect(await stage.deposits(user.userId)).toMatchObject([{ status: "confirming" }]);
    await stage.client.revert({ id: snapshot });
    await stage.client.setNextBlockTimestamp({
      timestamp: BigInt(Math.floor(Date.now() / 1000) + 100),
    });
    await stage.mine(2);
    await stage.watch();
    expect(await stage.deposits(user.userId)).toMatchObject([{ status: "orphaned" }]);
    const { data: orphaned } = await subscriber.until("deposit.orphaned");
    expect(orphaned).toEqual(Deposit.strict().parse(orphaned));
    expect(orphaned).toMatchObject({
      address: user.address,
      amount: "0x5",
      status: "orphaned",
      credited_at: null,
    });
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject(NOTHING);
    // The same signed bytes again, so the transaction has the same hash.
    await stage.replay();
    await stage.mine();
    await stage.watch();
    expect(await stage.deposits(user.userId)).toMatchObject([{ status: "confirming" }]);
    await stage.confirm();
    await stage.confirm();
    expect(await stage.deposits(user.userId)).toMatchObject([{ status: "credited" }]);
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
      available: 5n,
      pending: 0n,
    });
    const types = ["deposit.detected", "deposit.orphaned", "deposit.detected", "deposit.credited"];
    expect(await stage.events(user.userId)).toEqual(types);
    await subscriber.until("deposit.credited");
    expect(subscriber.events().map(({ type }) => type)).toEqual(types);
  });

  it.each(some([1, 3]))("keeps one deposit when a reorg of %i blocks moves it", async (depth) => {
    const stage = await openStage({ confirmations: 4 });
    const user = await stage.user();
    await stage.mine(10);
    await stage.watch();
    await stage.mintUsdc(user.address, 5n);
    await stage.mine(depth);
    await stage.watch();
    expect(await stage.deposits(user.userId)).toMatchObject([{ status: "confirming" }]);
    await stage.reorg(depth);
    await stage.watch();
    await stage.replay();
    await stage.mintUsdc(someone(), 1n);
    await stage.mine();
    await stage.confirm();
    await stage.confirm();
    const deposits = await stage.deposits(user.userId);
    expect(deposits).toMatchObject([{ status: "credited", amount: "5" }]);
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
      available: 5n,
      pending: 0n,
    });
    await expectSound(stage);
  });

  it("halts on a reorg below the confirmed block until the command of its alert", async () => {
    const stage = await openStage({ confirmations: 2 });
    const [user, later] = [await stage.user(), await stage.user()];
    await stage.mine(10);
    await stage.watch();
    await stage.mintUsdc(user.address, 5n);
    await stage.confirm();
    await stage.confirm();
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({ available: 5n });
    await stage.reorg(6);
    await stage.replay();
    await stage.mine();
    expect(await stage.watch()).toMatchObject({ status: "halted" });
    await stage.mintUsdc(later.address, 7n);
    await stage.confirm();
    expect(await stage.watch()).toMatchObject({ status: "halted" });
    expect(await readBalance(env.DB, later.userId, USDC)).toMatchObject(NOTHING);
    expect(await stage.deposits(user.userId)).toMatchObject([{ status: "credited" }]);
    expect(await stage.alerts()).toEqual(["chain_halted"]);
    await stage.answerAlert("chain_halted", stage.watch);
    await stage.confirm();
    expect(await readBalance(env.DB, later.userId, USDC)).toMatchObject({
      available: 7n,
      pending: 0n,
    });
    // The deposit was mined again above the confirmed height. It is not credited again.
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
      available: 5n,
      pending: 0n,
    });
    expect(await stage.alerts()).toEqual([]);
  });
});

describe("nodes", () => {
  itDeeper("rejects a head behind one already seen", async () => {
    const stage = await openStage();
    const user = await stage.user();
    await stage.mine(10);
    await stage.watch();
    await stage.reorg(1, 0);
    await expect(stage.watch()).rejects.toThrow(/behind/);
    await stage.mintUsdc(user.address, 2n);
    await stage.mine(3);
    await stage.watch();
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({ available: 2n });
  });

  it("neither loses nor invents deposits when nodes fail or lag", async () => {
    const stage = await openStage();
    const user = await stage.user();
    await stage.watch();
    await stage.mintUsdc(user.address, 2n);
    await stage.mine();
    await stage.watch();
    await stage.mine();
    // The second reading comes from an endpoint that no longer returns the logs.
    const empty = await stage.faultyEndpoint((method, result) =>
      method === "eth_getLogs" ? [] : result,
    );
    const lagging = { ...stage.watcher, chain: { ...stage.chain, rpc_urls: [empty] } };
    await expect(watchChain(lagging)).rejects.toThrow(/lack a transfer of its receipts/);
    expect(await stage.deposits(user.userId)).toMatchObject([{ status: "confirming" }]);
    const garbage = await stage.faultyEndpoint((method, result) =>
      method === "eth_getBlockByNumber" ? "0xnothing" : result,
    );
    await expect(
      watchChain({ ...stage.watcher, chain: { ...stage.chain, rpc_urls: [garbage] } }),
    ).rejects.toThrow();
    // Two endpoints that agree are enough.
    const working = await stage.faultyEndpoint((_, result) => result);
    const both = {
      ...stage.watcher,
      chain: {
        ...stage.chain,
        rpc_urls: [garbage, "http://127.0.0.1:1", empty, working, ...stage.chain.rpc_urls],
      },
    };
    await watchChain(both);
    expect(await stage.deposits(user.userId)).toMatchObject([{ status: "credited" }]);
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
      available: 2n,
      pending: 0n,
    });
  });

  itDeeper("counts repeated logs once and halves ranges that are too large", async () => {
    const stage = await openStage({ chain: { scan_range: 100 } });
    const user = await stage.user();
    await stage.mintUsdc(user.address, 2n);
    await stage.mine(60);
    let refused = 0;
    const picky = await stage.faultyEndpoint((method, result, params) => {
      if (method !== "eth_getLogs") return result;
      const [{ fromBlock, toBlock }] = params as [{ fromBlock: Hex; toBlock: Hex }];
      if (Number(toBlock) - Number(fromBlock) > 20) {
        refused++;
        throw new Error("query returned more than 10000 results");
      }
      return Array.isArray(result) ? [...result, ...result] : result;
    });
    await watchChain({ ...stage.watcher, chain: { ...stage.chain, rpc_urls: [picky] } });
    expect(refused).toBeGreaterThan(0);
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
      available: 2n,
      pending: 0n,
    });
    const row = await first<{ n: number }>(
      env.DB,
      sql`SELECT count(*) AS n FROM deposits WHERE user_id = ${uuid(user.userId)}`,
    );
    expect(row?.n).toBe(1);
  });

  it("credits only finalized blocks on chains with finality", async () => {
    const stage = await openStage({ chain: { finalized: true } });
    const user = await stage.user();
    await stage.watch();
    let finalized = Number(await stage.client.getBlockNumber());
    const url = await stage.faultyEndpoint(async (method, result, params) => {
      if (method !== "eth_getBlockByNumber" || (params as string[])[0] !== "finalized")
        return result;
      return stage.rpc("eth_getBlockByNumber", [`0x${finalized.toString(16)}`, false]);
    });
    const context = { ...stage.watcher, chain: { ...stage.chain, rpc_urls: [url] } };
    await stage.mintUsdc(user.address, 2n);
    await stage.mine(10);
    await watchChain(context);
    expect(await stage.deposits(user.userId)).toMatchObject([{ status: "confirming" }]);
    finalized += 5;
    await watchChain(context);
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
      available: 2n,
      pending: 0n,
    });
  });

  itDeeper("finds a deep reorg by few calls while finality stalls", async () => {
    const stage = await openStage({ chain: { finalized: true } });
    const user = await stage.user();
    await stage.watch();
    const finalized = await stage.client.getBlockNumber();
    const counted = { headers: 0 };
    const url = await stage.faultyEndpoint(async (method, result, params) => {
      if (method !== "eth_getBlockByNumber") return result;
      counted.headers++;
      if ((params as string[])[0] !== "finalized") return result;
      return stage.rpc("eth_getBlockByNumber", [toHex(finalized), false]);
    });
    const context = { ...stage.watcher, chain: { ...stage.chain, rpc_urls: [url] } };
    const follow = async () => {
      for (let round = 0; round < 4; round++) await watchChain(context);
    };
    await stage.mine(400);
    await stage.mintUsdc(user.address, 2n);
    await stage.mine(460);
    await follow();
    const scanned = async () =>
      (
        await first<{ number: number }>(
          env.DB,
          sql`SELECT scanned_number AS number FROM chain_cursors
            WHERE chain = ${stage.chain.chain}`,
        )
      )?.number;
    const heard = await listen(user);
    await stage.reorg(455, 456);
    counted.headers = 0;
    await watchChain(context);
    // The 300 that it reads again, the heads, and those that it compares.
    expect(counted.headers).toBeLessThan(330);
    const head = Number(await stage.client.getBlockNumber());
    // From the last block that the reorg has left.
    expect(await scanned()).toBe(head - 456 + 300);
    await follow();
    expect(await stage.deposits(user.userId)).toMatchObject([{ status: "confirming" }]);
    expect(heard.events()).toEqual([]);
    expect(await scanned()).toBe(head);
  });

  itDeeper("alerts only when finality stalls, not when it is far behind the head", async () => {
    const stage = await openStage({ chain: { finalized: true } });
    let finalized = Number(await stage.client.getBlockNumber());
    const url = await stage.faultyEndpoint(async (method, result, params) => {
      if (method !== "eth_getBlockByNumber" || (params as string[])[0] !== "finalized")
        return result;
      return stage.rpc("eth_getBlockByNumber", [`0x${finalized.toString(16)}`, false]);
    });
    const context = { ...stage.watcher, chain: { ...stage.chain, rpc_urls: [url] } };
    const pass = (secs: number) =>
      all(
        env.DB,
        sql`UPDATE chain_cursors SET finalized_at = finalized_at - ${secs * 1_000}
          WHERE chain = ${stage.chain.chain}`,
      );
    await stage.mine(400);
    await watchChain(context);
    await pass(600);
    await watchChain(context);
    expect(await stage.alerts()).toEqual([]);
    finalized += 1;
    await watchChain(context);
    await pass(600);
    await watchChain(context);
    expect(await stage.alerts()).toEqual([]);
    await pass(301);
    await watchChain(context);
    finalized += 1;
    await stage.answerAlert("finality_stalled", () => watchChain(context));
  });
});
