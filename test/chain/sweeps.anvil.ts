/** Sweeps: how soon and how often the payer moves deposits to the vault. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { type Address, encodeFunctionData, type Hex } from "viem";
import { USDC } from "../../src/assets/asset.ts";
import { depositFactoryAbi } from "../../contracts/abi/deposit-factory.ts";
import { depositAddressFor } from "../../src/chain/addresses.ts";
import { decodeSweep } from "../../src/chain/vault-calls.ts";
import { resweepAddress } from "../../src/custody/operator-commands.ts";
import { trackedHoldings } from "../../src/reconcile/tracked-holdings.ts";
import { checkHoldings } from "../../src/reconcile/check-holdings.ts";
import { all, blob, sql, uuid } from "../../src/platform/sql.ts";
import { expectRest } from "./support/drive.ts";
import { type Depositor, openStage, someone, type Stage } from "./support/stage.ts";
import { FULL, itDeeper } from "../support/depth.ts";

/** A user with one credited deposit of each amount, at an address each. */
async function depositorOf(stage: Stage, amounts: readonly bigint[]): Promise<Depositor> {
  const user = await stage.user();
  const addresses = [user.address];
  for (let nonce = 1; nonce < amounts.length; nonce++) {
    const { address, salt } = depositAddressFor(stage.settings, stage.chain, user.userId, nonce);
    addresses.push(address);
    await all(
      env.DB,
      sql`INSERT INTO deposit_addresses (chain, address, user_id, nonce, salt, created_at)
        VALUES (${stage.chain.chain}, ${blob(address)}, ${uuid(user.userId)}, ${nonce},
          ${blob(salt)}, 0)`,
    );
  }
  await stage.watch();
  for (const [index, address] of addresses.entries()) {
    await stage.mintUsdc(address, amounts[index] ?? 0n);
    if (index % 50 === 49) await stage.mine();
  }
  await stage.mine(stage.chain.confirmations + 1);
  await stage.watch();
  return user;
}

/** The salts of each sweep that was made, in order of nonces. */
async function sweptSalts(stage: Stage): Promise<Hex[][]> {
  const rows = await all<{ data: string }>(
    env.DB,
    sql`SELECT lower(hex(data)) AS data FROM chain_transactions
      WHERE chain = ${stage.chain.chain} AND kind = 'sweep' ORDER BY nonce`,
  );
  return rows.map(({ data }) => decodeSweep(`0x${data}`).map(({ salt }) => salt));
}

/** Runs rounds, each with a block. */
async function rounds(stage: Stage, payer: { round: () => Promise<unknown> }, count: number) {
  for (let round = 0; round < count; round++) {
    await payer.round();
    await stage.mine();
    await stage.watch();
  }
}

/** The gas limit of a sweep of 75 addresses. */
function sweepGasLimit(stage: Stage): Promise<bigint> {
  return stage.client.readContract({
    address: stage.factory,
    abi: depositFactoryAbi,
    functionName: "sweepGasLimit",
    args: [75n],
  });
}

/** A sweep moves 75 of them. */
const ADDRESSES = FULL ? 300 : 80;

it("pays a withdrawal out of many addresses in under 30 blocks", { timeout: 120_000 }, async () => {
  const stage = await openStage({ confirmations: 20 });
  const user = await depositorOf(
    stage,
    Array.from({ length: ADDRESSES }, () => 10n),
  );
  const { id, paymentId } = await stage.withdraw(
    user.userId,
    USDC,
    10n * BigInt(ADDRESSES),
    someone(),
  );
  const payer = await stage.payer();
  let blocks = 0;
  while (blocks < 30 && (await stage.withdrawal(id))?.status !== "settled") {
    await payer.round();
    await stage.mine();
    await stage.watch();
    blocks++;
  }
  expect(await stage.withdrawal(id)).toMatchObject({ status: "settled" });
  expect(blocks).toBeLessThan(30);
  const salts = await sweptSalts(stage);
  expect(salts).toHaveLength(Math.ceil(ADDRESSES / 75));
  expect(new Set(salts.flat()).size).toBe(ADDRESSES);
  expect(await stage.paidCount(paymentId)).toBe(1);
  await stage.confirm();
  await payer.round();
  await expectRest(stage);
});

itDeeper("makes only as many sweeps at once as the account can pay for", async () => {
  const stage = await openStage();
  const user = await depositorOf(
    stage,
    Array.from({ length: 151 }, () => 10n),
  );
  const { id } = await stage.withdraw(user.userId, USDC, 1_510n, someone());
  const payer = await stage.payer();
  const { baseFeePerGas } = await stage.client.getBlock();
  // Enough for one sweep and a half, at twice the base fee and a tip of 1 gwei.
  const maxFee = 2n * (baseFeePerGas ?? 0n) + 10n ** 9n;
  const balance = (await sweepGasLimit(stage)) * maxFee;
  await stage.client.setBalance({ address: stage.operator.address, value: (balance * 3n) / 2n });
  await payer.round();
  expect(await sweptSalts(stage)).toHaveLength(1);
  expect(await stage.alerts()).not.toContain("node_refused");
  await rounds(stage, payer, 10);
  expect(await stage.withdrawal(id)).toMatchObject({ status: "settled" });
  expect(await sweptSalts(stage)).toHaveLength(3);
});

itDeeper("does not sweep an address again while its sweep is open", async () => {
  const stage = await openStage({ confirmations: 10 });
  const user = await depositorOf(stage, [120n, 110n, 100n]);
  const payer = await stage.payer();
  const first = await stage.withdraw(user.userId, USDC, 150n, someone());
  await payer.round();
  await stage.mine();
  // The largest address receives more, which its open sweep does not move.
  await stage.mintUsdc(user.address, 500n);
  await stage.mine();
  const second = await stage.withdraw(user.userId, USDC, 170n, someone());
  for (let round = 0; round < 4; round++) {
    await payer.round();
    await stage.mine();
  }
  const salts = await sweptSalts(stage);
  expect(salts.map((sweep) => sweep.length)).toEqual([2, 1]);
  expect(new Set(salts.flat()).size).toBe(3);
  await stage.confirm();
  for (const { id } of [first, second])
    expect(await stage.withdrawal(id)).toMatchObject({ status: "settled" });
  await payer.round();
  await expectRest(stage);
});

itDeeper("pays what the vault can cover in the round that sweeps for the rest", async () => {
  const stage = await openStage({ confirmations: 10 });
  const user = await depositorOf(stage, [100n, 100n]);
  await stage.mintUsdc(stage.vault, 50n);
  await stage.mine();
  const large = await stage.withdraw(user.userId, USDC, 150n, someone());
  const small = await stage.withdraw(user.userId, USDC, 50n, someone());
  const payer = await stage.payer();
  await payer.round();
  await stage.mine();
  expect(await stage.usdcOf(stage.vault)).toBe(200n);
  await payer.round();
  await stage.mine();
  await stage.confirm();
  for (const { id } of [large, small])
    expect(await stage.withdrawal(id)).toMatchObject({ status: "settled" });
  await payer.round();
  await expectRest(stage);
});

itDeeper("fills up the float in the background, with the largest deposits", async () => {
  const stage = await openStage({ chain: { sweep_float_bps: 1_000 } });
  const user = await depositorOf(stage, [200n, 90n, 110n, 300n, 300n]);
  const payer = await stage.payer();
  await rounds(stage, payer, 8);
  expect(await stage.usdcOf(stage.vault)).toBe(300n);
  const { id } = await stage.withdraw(user.userId, USDC, 290n, someone());
  await rounds(stage, payer, 8);
  expect(await stage.withdrawal(id)).toMatchObject({ status: "settled" });
  expect(await stage.usdcOf(stage.vault)).toBe(10n + 300n);
  expect((await sweptSalts(stage)).map((sweep) => sweep.length)).toEqual([1, 1]);
  await expectRest(stage);
});

itDeeper("makes one background sweep at a time", async () => {
  const stage = await openStage({ confirmations: 6, chain: { sweep_float_bps: 10_000 } });
  await depositorOf(
    stage,
    Array.from({ length: 80 }, () => 10n),
  );
  const payer = await stage.payer();
  await rounds(stage, payer, 5);
  expect((await sweptSalts(stage)).map((sweep) => sweep.length)).toEqual([75]);
  await rounds(stage, payer, 3);
  expect((await sweptSalts(stage)).map((sweep) => sweep.length)).toEqual([75, 5]);
  expect(await stage.usdcOf(stage.vault)).toBe(800n);
});

it("leaves small deposits where they are until a withdrawal needs them", async () => {
  const chain = { sweep_float_bps: 10_000, min_sweep: 100 };
  const stage = await openStage({ chain });
  const user = await depositorOf(stage, [99n, 100n]);
  const payer = await stage.payer();
  await rounds(stage, payer, 8);
  expect(await stage.usdcOf(stage.vault)).toBe(100n);
  const { id } = await stage.withdraw(user.userId, USDC, 150n, someone());
  await rounds(stage, payer, 8);
  expect(await stage.withdrawal(id)).toMatchObject({ status: "settled" });
});

it("sweeps nothing while the factory names another vault, with an alert", async () => {
  const stage = await openStage();
  const user = await depositorOf(stage, [100n]);
  const factoryCall = (call: Parameters<typeof encodeFunctionData<typeof depositFactoryAbi>>[0]) =>
    stage.asAdmin(stage.factory, encodeFunctionData(call));
  const name = async (vault: Address) => {
    await factoryCall({ abi: depositFactoryAbi, functionName: "scheduleVault", args: [vault] });
    await factoryCall({ abi: depositFactoryAbi, functionName: "executeVault" });
    await stage.mine();
  };
  await name(stage.usdc);
  const { id } = await stage.withdraw(user.userId, USDC, 60n, someone());
  const payer = await stage.payer();
  await rounds(stage, payer, 2);
  expect(await sweptSalts(stage)).toEqual([]);
  const ended = async () => {
    await name(stage.vault);
    await rounds(stage, payer, 6);
  };
  const subject = `${stage.chain.chain}:sweep`;
  await stage.answerAlert("payment_refused", ended, { subject });
  expect(await stage.withdrawal(id)).toMatchObject({ status: "settled" });
});

itDeeper("makes no background sweep with sweep_float_bps 0", async () => {
  const stage = await openStage({ chain: { sweep_float_bps: 0 } });
  await depositorOf(stage, [100n]);
  await rounds(stage, await stage.payer(), 3);
  expect(await sweptSalts(stage)).toEqual([]);
});

it.each(["before", "signed"])("stores no sweep if withdrawals are paused: %s", async (when) => {
  const stage = await openStage({ chain: { sweep_float_bps: 10_000 } });
  await depositorOf(stage, [100n]);
  const pause = () =>
    all(
      env.DB,
      sql`INSERT INTO kill_switches (name, reason, since) VALUES ('withdrawals_paused', 'test', 0)`,
    );
  let signed = 0;
  const payer = await stage.payer({
    failpoint: async (at) => {
      if (at === "signed") signed++;
      if (at === when) await pause();
    },
  });
  if (when === "before") await pause();
  try {
    await rounds(stage, payer, 2);
    expect(await sweptSalts(stage)).toEqual([]);
    expect(signed).toBe(when === "signed" ? 1 : 0);
  } finally {
    await all(env.DB, sql`DELETE FROM kill_switches WHERE name = 'withdrawals_paused'`);
  }
});

it("deletes the row of an empty address once two endpoints agree", async () => {
  const stage = await openStage();
  const [url = ""] = stage.chain.rpc_urls;
  const user = await depositorOf(stage, [100n, 50n]);
  const listed = () =>
    all(
      env.DB,
      sql`SELECT amount FROM sweepable WHERE chain = ${stage.chain.chain} ORDER BY amount`,
    );
  const { id } = await stage.withdraw(user.userId, USDC, 100n, someone());
  await rounds(stage, await stage.payer(), 8);
  expect(await stage.withdrawal(id)).toMatchObject({ status: "settled" });
  expect(await listed()).toEqual([{ amount: 50 }]);
  // As after a sweep in the deposit's block, or a deposit that is credited after its sweep.
  await resweepAddress(env.DB, {
    chain: stage.chain.chain,
    address: user.address,
    actor: "operator:test",
  });
  expect(await listed()).toEqual([{ amount: 50 }, { amount: 100 }]);

  const check = () =>
    checkHoldings(env.DB, stage.chain.chain, trackedHoldings(env.DB, stage.settings));
  const solvent = { block: expect.any(Number) as number, differences: [] };
  expect(await check()).toMatchObject(solvent);
  expect(await listed()).toEqual([{ amount: 50 }, { amount: 100 }]);
  const lying = await stage.faultyEndpoint((method, result) =>
    method === "eth_call" ? `0x${"0".repeat(String(result).length - 2)}` : result,
  );
  Object.assign(stage.chain, { rpc_urls: [url, lying] });
  expect(await check()).toMatchObject({ block: null });
  expect(await listed()).toEqual([{ amount: 50 }, { amount: 100 }]);
  const other = await stage.faultyEndpoint((_, result) => result);
  Object.assign(stage.chain, { rpc_urls: [url, other] });
  expect(await check()).toMatchObject(solvent);
  expect(await listed()).toEqual([{ amount: 50 }]);

  await stage.mintUsdc(user.address, 7n);
  await stage.confirm();
  await stage.watch();
  expect(await check()).toMatchObject(solvent);
  expect(await listed()).toEqual([{ amount: 7 }, { amount: 50 }]);
});
