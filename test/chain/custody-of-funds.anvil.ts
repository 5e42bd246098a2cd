import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { depositFactoryAbi } from "../../contracts/abi/deposit-factory.ts";
import { depositAddressFor } from "../../src/chain/addresses.ts";
import { verifyFactory } from "../../src/chain/verify-factory.ts";
import { USDC } from "../../src/assets/asset.ts";
import { trackedHoldings } from "../../src/reconcile/tracked-holdings.ts";
import { checkHoldings } from "../../src/reconcile/check-holdings.ts";
import { all, first, sql } from "../../src/platform/sql.ts";
import { openStage, someone } from "./support/stage.ts";
import { itDeeper } from "../support/depth.ts";

it("issues only addresses that a verified factory computes", async () => {
  const stage = await openStage();
  const { address, salt } = depositAddressFor(stage.settings, stage.chain, crypto.randomUUID(), 3);
  expect(
    await stage.client.readContract({
      address: stage.factory,
      abi: depositFactoryAbi,
      functionName: "addressOf",
      args: [salt],
    }),
  ).toBe(address);
  await verifyFactory(env, stage.chain);
  expect(
    await all(env.DB, sql`SELECT 1 FROM chain_factories WHERE chain = ${stage.chain.chain}`),
  ).toHaveLength(1);
  await expect(
    verifyFactory(env, { ...stage.chain, chain: `${stage.chain.chain}x`, factory: stage.vault }),
  ).rejects.toThrow(/unavailable/);
  await expect(
    verifyFactory(env, {
      ...stage.chain,
      chain: `${stage.chain.chain}y`,
      rpc_urls: ["http://127.0.0.1:1"],
    }),
  ).rejects.toThrow(/unavailable/);
  await expect(
    verifyFactory(env, { ...stage.chain, chain: `${stage.chain.chain}z`, chain_id: 1 }),
  ).rejects.toThrow(/unavailable/);
});

it("holdings equal what is issued through a sweep and a payment", async () => {
  const stage = await openStage();
  const users = [await stage.user(), await stage.user(), await stage.user()];
  await stage.watch();
  for (const user of users) await stage.mintUsdc(user.address, 100n);
  await stage.mintTokens(users[0]?.address ?? "0x", 5n, 9n);
  await stage.confirm();
  await stage.watch();
  const holdings = trackedHoldings(env.DB, stage.settings);
  const check = () => checkHoldings(env.DB, stage.chain.chain, holdings);
  const at = await first<{ block: number; hash: string }>(
    env.DB,
    sql`SELECT confirmed_number AS block, lower(hex(confirmed_hash)) AS hash FROM chain_cursors
      WHERE chain = ${stage.chain.chain}`,
  );
  const sums = await holdings({
    chain: stage.chain.chain,
    block: at?.block ?? 0,
    blockHash: `0x${at?.hash}`,
    assets: [USDC, "venue_one:0x5"],
  });
  expect([...sums]).toEqual([
    [USDC, 300n],
    ["venue_one:0x5", 9n],
  ]);
  expect(await check()).toMatchObject({ block: at?.block, differences: [] });
  const { id } = await stage.withdraw(users[0]?.userId ?? "", USDC, 70n, someone());
  const payer = await stage.payer();
  for (let round = 0; round < 8; round++) {
    await payer.round();
    await stage.mine();
    await stage.watch();
    expect(await check()).toMatchObject({ differences: [] });
  }
  expect(await stage.withdrawal(id)).toMatchObject({ status: "settled" });
  await expect(
    holdings({
      chain: stage.chain.chain,
      block: at?.block ?? 0,
      blockHash: `0x${at?.hash}`,
      assets: [USDC],
    }),
  ).rejects.toThrow(/no longer/);
});

itDeeper("raises fees with the market up to max_fee_gwei", async () => {
  const stage = await openStage({ chain: { replace_after_secs: 1, max_fee_gwei: 15 } });
  const user = await stage.user();
  await stage.watch();
  await stage.mintUsdc(user.address, 100n);
  await stage.mintUsdc(stage.vault, 100n);
  await stage.confirm();
  await stage.watch();
  const { id, paymentId } = await stage.withdraw(user.userId, USDC, 70n, someone());
  const payer = await stage.payer();
  await payer.round();
  const wait = () => new Promise((resolve) => setTimeout(resolve, 1_050));
  for (const gwei of [10n, 40n, 40n]) {
    await stage.client.setNextBlockBaseFeePerGas({ baseFeePerGas: gwei * 10n ** 9n });
    await stage.rpc("anvil_dropAllTransactions", []);
    await stage.mine(2);
    await stage.watch();
    await wait();
    await payer.round();
  }
  const highest = await first<{ fee: string }>(
    env.DB,
    sql`SELECT CAST(max(a.max_fee) AS TEXT) AS fee FROM transaction_attempts a
    JOIN chain_transactions t ON t.transaction_id = a.transaction_id
      WHERE t.chain = ${stage.chain.chain}`,
  );
  expect(BigInt(highest?.fee ?? 0)).toBeLessThanOrEqual(15n * 10n ** 9n);
  expect(await stage.withdrawal(id)).toMatchObject({ status: "submitted" });
  const ended = async () => {
    await stage.client.setNextBlockBaseFeePerGas({ baseFeePerGas: 10n ** 9n });
    for (let round = 0; round < 4; round++) {
      await payer.round();
      await stage.mine();
      await stage.watch();
    }
  };
  await stage.answerAlert("fee_ceiling", ended, { subject: `${stage.chain.chain}:0` });
  expect(await stage.withdrawal(id)).toMatchObject({ status: "settled" });
  expect(await stage.paidCount(paymentId)).toBe(1);
});
