/** Many deposit addresses, several chains, and a payer whose RPC nodes fail. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { Hex } from "viem";
import { depositAddressFor } from "../../src/chain/addresses.ts";
import { USDC } from "../../src/assets/asset.ts";
import { payRound } from "../../src/custody/payer/pay-round.ts";
import { watchChain } from "../../src/custody/watcher/watch-chain.ts";
import { withdraw } from "../../src/custody/withdraw.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import type { Config } from "../../src/platform/config.ts";
import { all, blob, sql, uuid } from "../../src/platform/sql.ts";
import { newKey } from "../support/users.ts";
import { drive, expectRest, queuedWithdrawal } from "./support/drive.ts";
import { openStage, someone, type Stage } from "./support/stage.ts";
import { itDeeper, some } from "../support/depth.ts";

const ADDRESSES = 10_000;

/** Counts the RPC calls, by method, of a round that finds a block with deposits. */
async function callsOfRound(stage: Stage, to: readonly Hex[]): Promise<Record<string, number>> {
  const calls: Record<string, number> = {};
  const url = await stage.faultyEndpoint((method, result) => {
    calls[method] = (calls[method] ?? 0) + 1;
    return result;
  });
  for (const address of to) await stage.mintUsdc(address, 1n);
  await stage.mine();
  await watchChain({ ...stage.watcher, chain: { ...stage.chain, rpc_urls: [url] } });
  return calls;
}

it("needs no more RPC calls for 10 000 deposit addresses", async () => {
  const stage = await openStage();
  const users = [];
  for (let n = 0; n < 10; n++) users.push(await stage.user());
  const addresses = users.map(({ address }) => address);
  await stage.watch();
  await callsOfRound(stage, addresses);
  const few = await callsOfRound(stage, addresses);
  await all(
    env.DB,
    sql`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${ADDRESSES})
      INSERT INTO deposit_addresses (chain, address, user_id, nonce, salt, created_at)
      SELECT ${stage.chain.chain}, randomblob(20), randomblob(16), 0, randomblob(32), 0 FROM n`,
  );
  const [watched] = await all<{ n: number }>(
    env.DB,
    sql`SELECT count(*) AS n FROM deposit_addresses WHERE chain = ${stage.chain.chain}`,
  );
  expect(watched?.n).toBe(ADDRESSES + 10);
  expect(await callsOfRound(stage, addresses)).toEqual(few);
  expect(Object.values(few).reduce((sum, n) => sum + n, 0)).toBeLessThan(15);
  await stage.confirm();
  for (const { userId } of users)
    expect(await readBalance(env.DB, userId, USDC)).toMatchObject({ available: 3n, pending: 0n });
});

/** Two chains with their own nodes, contracts and payers, and a user with an address on both. */
async function openTwo() {
  const one = await openStage();
  const two = await openStage({ other: true });
  const settings: Config = {
    ...one.settings,
    CHAINS: [one.chain, two.chain],
    PAYER_KEYS: { ...one.settings.PAYER_KEYS, ...two.settings.PAYER_KEYS },
  };
  const user = await one.user();
  const there = depositAddressFor(settings, two.chain, user.userId, 0);
  await all(
    env.DB,
    sql`INSERT INTO deposit_addresses (chain, address, user_id, nonce, salt, created_at)
      VALUES (${two.chain.chain}, ${blob(there.address)}, ${uuid(user.userId)}, 0,
        ${blob(there.salt)}, 0)`,
  );
  for (const stage of [one, two]) await watchChain({ ...stage.watcher, settings });
  await one.mintUsdc(user.address, 500n);
  await two.mintUsdc(there.address, 300n);
  const confirm = async (stage: Stage) => {
    await stage.mine(stage.chain.confirmations);
    await watchChain({ ...stage.watcher, settings });
  };
  await Promise.all([confirm(one), confirm(two)]);
  return { one, two, settings, user };
}

describe("two chains", () => {
  it("share a USDC balance; each pays at most what it issued", async () => {
    const { one, two, settings, user } = await openTwo();
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
      available: 800n,
      pending: 0n,
    });
    const { actor } = await newKey(user);
    const queue = (stage: Stage, amount: bigint, id: string) =>
      withdraw(env.DB, settings, {
        actor,
        ip: undefined,
        terms: {
          clientWithdrawalId: id,
          amount,
          toAddress: someone(),
          chain: stage.chain.chain,
          asset: USDC,
        },
      });
    await expect(queue(two, 301n, "more")).rejects.toMatchObject({
      data: { code: "chain_liquidity" },
    });
    await queue(one, 450n, "here");
    await queue(two, 250n, "there");
    await expect(queue(two, 51n, "rest")).rejects.toMatchObject({
      data: { code: "chain_liquidity" },
    });
    for (const stage of [one, two]) {
      const rows = await all<{ id: string }>(
        env.DB,
        sql`SELECT hex(withdrawal_id) AS id FROM withdrawals WHERE chain = ${stage.chain.chain}`,
      );
      const payer = await stage.payer({ settings });
      for (let round = 0; round < 10; round++) {
        await payer.round();
        await stage.mine();
        await watchChain({ ...stage.watcher, settings });
      }
      expect(await stage.withdrawal(rows[0]?.id ?? "")).toMatchObject({ status: "settled" });
      await expectRest(stage);
    }
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
      available: 100n,
      pending: 0n,
    });
    expect(await one.usdcOf(one.vault)).toBe(50n);
    expect(await two.usdcOf(two.vault)).toBe(50n);
  });

  itDeeper(
    "are independent: one that is unreachable or halted does not delay the other",
    async () => {
      const { one, two, settings, user } = await openTwo();
      const dead = { ...one.chain, rpc_urls: ["http://127.0.0.1:1"] };
      await expect(watchChain({ ...one.watcher, settings, chain: dead })).rejects.toThrow();
      const { id } = await two.withdraw(user.userId, USDC, 200n, someone());
      expect(await drive(two, id, { settings })).toBe("settled");
      await one.reorg(6);
      expect(await watchChain({ ...one.watcher, settings })).toMatchObject({ status: "halted" });
      await two.mine();
      expect(await watchChain({ ...two.watcher, settings })).toMatchObject({ status: "followed" });
    },
  );
});

/** Faulty nodes. The payer must pay once in the end and never send bytes that are not stored. */
const NODES: readonly [string, () => (method: string, result: unknown) => unknown][] = [
  [
    "accepts every transaction and drops every response",
    () => (method, result) => {
      if (method === "eth_sendRawTransaction") throw new Error("socket hang up");
      return result;
    },
  ],
  [
    "is slow",
    () => async (_, result) => new Promise((resolve) => setTimeout(() => resolve(result), 40)),
  ],
  [
    "fails every other call",
    () => {
      let calls = 0;
      return (_, result) => {
        if (calls++ % 2 === 0) throw new Error("too busy");
        return result;
      };
    },
  ],
  [
    "reports an old nonce",
    () => (method, result) => (method === "eth_getTransactionCount" ? "0x0" : result),
  ],
  [
    "returns garbage for calls",
    () => (method, result) => (method === "eth_call" ? "0xzz" : result),
  ],
];

describe("a payer whose first RPC node", () => {
  it.each(some(NODES, 2))("%s sweeps and pays once", async (name, node) => {
    const stage = await openStage();
    const user = await stage.user();
    await stage.watch();
    await stage.mintUsdc(user.address, 1_000n);
    await stage.confirm();
    await stage.watch();
    const { id, paymentId } = await stage.withdraw(user.userId, USDC, 300n, someone());
    const url = await stage.faultyEndpoint(node());
    // The others have a second node that works.
    const alone = name === "is slow" || name.startsWith("accepts");
    const chain = { ...stage.chain, rpc_urls: alone ? [url] : [url, ...stage.chain.rpc_urls] };
    await drive(stage, id, { chain }, 12);
    // It may delay the payment and keep its transaction from ending, because two nodes must agree.
    if (!alone) await drive(stage, id);
    expect(await stage.withdrawal(id)).toMatchObject({ status: "settled" });
    expect(await stage.paidCount(paymentId)).toBe(1);
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
      available: 700n,
      pending: 0n,
    });
    await expectRest(stage);
  });

  it("is unreachable falls back to the second; throws when none is left", async () => {
    const { stage, id, paymentId } = await queuedWithdrawal();
    const gone = "http://127.0.0.1:1";
    const { context } = await stage.payer();
    await expect(
      payRound({ ...context, chain: { ...stage.chain, rpc_urls: [gone] } }),
    ).rejects.toThrow(/usable RPC endpoint/);
    expect(
      await all(env.DB, sql`SELECT 1 FROM chain_transactions WHERE chain = ${stage.chain.chain}`),
    ).toEqual([]);
    expect(
      await drive(stage, id, {
        chain: { ...stage.chain, rpc_urls: [gone, ...stage.chain.rpc_urls] },
      }),
    ).toBe("settled");
    expect(await stage.paidCount(paymentId)).toBe(1);
    // Two nodes must agree before its transaction ends.
    await drive(stage, id);
    await expectRest(stage);
  });
});
