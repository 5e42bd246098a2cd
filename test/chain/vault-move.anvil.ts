import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { encodeFunctionData, type Hex } from "viem";
import vaultArtifact from "../../contracts/artifacts/Vault.json" with { type: "json" };
import { localUsdcAbi } from "../../scripts/stack/abi/local-usdc.ts";
import { USDC } from "../../src/assets/asset.ts";
import { depositFactoryAbi } from "../../contracts/abi/deposit-factory.ts";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import {
  recordWithdrawalCommand,
  setWithdrawalsPaused,
} from "../../src/custody/operator-commands.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { drive, expectRest, funded } from "./support/drive.ts";
import { openStage, type Stage, someone } from "./support/stage.ts";
import { itDeeper } from "../support/depth.ts";

/** Announces the move to a new vault, as contracts/README.md says. */
async function prepareMove(stage: Stage): Promise<Hex> {
  const { admin, operator, usdc, vault: old } = stage;
  const next = await stage.deploy(vaultArtifact, [
    0,
    admin.address,
    operator.address,
    admin.address,
    0,
    old,
  ]);
  await stage.mine();
  await stage.asAdmin(
    next,
    encodeFunctionData({
      abi: vaultAbi,
      functionName: "setLimit",
      args: [usdc, 0, 0n, 1n << 90n],
    }),
  );
  await stage.vaultCall({ abi: vaultAbi, functionName: "scheduleMigration", args: [next] });
  await stage.asAdmin(
    stage.factory,
    encodeFunctionData({ abi: depositFactoryAbi, functionName: "scheduleVault", args: [next] }),
  );
  await stage.mine();
  return next;
}

/** Hands the old vault's holdings and the factory to the new one. */
async function executeMove(stage: Stage): Promise<void> {
  const { usdc } = stage;
  await stage.vaultCall({ abi: vaultAbi, functionName: "pause" });
  await stage.asAdmin(
    stage.factory,
    encodeFunctionData({ abi: depositFactoryAbi, functionName: "executeVault" }),
  );
  await stage.vaultCall({
    abi: vaultAbi,
    functionName: "migrate",
    args: [[{ kind: 0, token: usdc, tokenId: 0n }]],
  });
  await stage.mine();
}

it("settles what the old vault paid and pays the rest from the new one", async () => {
  const stage = await openStage();
  const user = await funded(stage);
  const old = stage.vault;
  const withdrawal = (amount: bigint) => stage.withdraw(user.userId, USDC, amount, someone());
  const first = await withdrawal(100n);
  expect(await drive(stage, first.id)).toBe("settled");

  // Mined by the old vault before it retires, but not confirmed.
  const mined = await withdrawal(50n);
  const payer = await stage.payer();
  await payer.round();
  await stage.mine();
  // Sent to the old vault, and mined only after it has retired.
  const late = await withdrawal(30n);
  await payer.round();
  await stage.rpc("anvil_dropAllTransactions", []);
  const queued = await withdrawal(20n);

  const next = await prepareMove(stage);
  Object.assign(stage.chain, { vault: next, previous_vaults: [old] });
  await executeMove(stage);
  expect(await drive(stage, queued.id)).toBe("settled");
  expect(await drive(stage, late.id)).toBe("settled");
  expect(await stage.withdrawal(mined.id)).toMatchObject({ status: "settled" });
  expect(
    await all(
      env.DB,
      sql`SELECT nonce, batch_no, status, to_address = unhex(${next.slice(2)}) AS new
        FROM chain_transactions WHERE chain = ${stage.chain.chain} AND kind = 'pay' ORDER BY nonce`,
    ),
  ).toEqual([
    { nonce: 0, batch_no: 1, status: "done", new: 0 },
    { nonce: 1, batch_no: 2, status: "done", new: 0 },
    { nonce: 2, batch_no: 3, status: "unused", new: 0 },
    { nonce: 3, batch_no: 1, status: "done", new: 1 },
    { nonce: 4, batch_no: 2, status: "done", new: 1 },
  ]);
  expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
    available: 800n,
    pending: 0n,
  });
  expect(await stage.usdcOf(next)).toBe(800n);
  expect(await stage.alerts()).toEqual([]);
  await expectRest(stage);
});

it("voids nothing while the old vault is in force, and then once", async () => {
  const stage = await openStage();
  const user = await funded(stage);
  const { vault: old } = stage;
  const { id } = await stage.withdraw(user.userId, USDC, 100n, someone());
  await setWithdrawalsPaused(env.DB, true, "operator:test");
  const next = await prepareMove(stage);
  Object.assign(stage.chain, { vault: next, previous_vaults: [old] });
  await recordWithdrawalCommand(env.DB, { kind: "fail", withdrawalId: id, actor: "operator:test" });
  const payer = await stage.payer();
  const voids = () =>
    all(
      env.DB,
      sql`SELECT status FROM chain_transactions WHERE chain = ${stage.chain.chain} AND kind = 'void'`,
    );
  for (let round = 0; round < 3; round++) {
    await payer.round();
    await stage.mine();
    await stage.watch();
  }
  expect(await voids()).toEqual([]);
  expect(await stage.alerts()).toEqual(["payment_refused"]);
  const [alert] = await all<{ detail: string }>(
    env.DB,
    sql`SELECT detail FROM alerts WHERE kind = 'payment_refused'
      AND subject = ${`${stage.chain.chain}:void`}`,
  );
  // The contract's own error, not its bytes.
  expect(alert?.detail).toMatch(/^\w+\(.*\)$/);

  await executeMove(stage);
  expect(await drive(stage, id)).toBe("failed");
  expect(await voids()).toEqual([{ status: "done" }]);
  expect(await stage.alerts()).toEqual([]);
  expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
    available: 1_000n,
    pending: 0n,
  });
  await setWithdrawalsPaused(env.DB, false, "operator:test");
  await expectRest(stage);
});

itDeeper("credits no transfer from a previous vault", async () => {
  const stage = await openStage();
  const user = await funded(stage);
  const { vault: old } = stage;
  Object.assign(stage.chain, { vault: someone(), previous_vaults: [old] });
  await stage.client.impersonateAccount({ address: old });
  await stage.client.setBalance({ address: old, value: 10n ** 18n });
  await stage.client.sendTransaction({
    account: old,
    to: stage.usdc,
    data: encodeFunctionData({
      abi: localUsdcAbi,
      functionName: "transfer",
      args: [user.address, 5n],
    }),
  });
  await stage.confirm();
  expect(await stage.deposits(user.userId)).toHaveLength(1);
});

it("halts when the vault has counted fewer batches than were made", async () => {
  const stage = await openStage();
  const user = await funded(stage);
  const { id } = await stage.withdraw(user.userId, USDC, 100n, someone());
  const payer = await stage.payer();
  await all(
    env.DB,
    sql`UPDATE payer_leases SET batch_floor = 5, floor_vault = unhex(${stage.vault.slice(2)})
      WHERE chain = ${stage.chain.chain}`,
  );
  await payer.round();
  expect(await payer.round()).toEqual({ status: "halted" });
  expect(await stage.alerts()).toEqual(["payer_halted"]);
  expect(await stage.withdrawal(id)).toMatchObject({ status: "queued" });
});
