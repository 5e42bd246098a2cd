import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { USDC } from "../../src/assets/asset.ts";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import { recordResume } from "../../src/custody/operator-commands.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { drive, expectRest, funded } from "./support/drive.ts";
import { openStage, someone } from "./support/stage.ts";
import { itDeeper } from "../support/depth.ts";

/** A settled withdrawal whose payment a reorg below the confirmed block has removed. */
async function openRemoved() {
  const stage = await openStage();
  const user = await funded(stage);
  await stage.mine(5);
  await stage.watch();
  const before = await stage.client.getBlockNumber();
  const to = someone();
  const settled = await stage.withdraw(user.userId, USDC, 100n, to);
  expect(await drive(stage, settled.id)).toBe("settled");
  const depth = Number((await stage.client.getBlockNumber()) - before);
  await stage.reorg(depth, depth + 2);
  expect(await stage.paidCount(settled.paymentId)).toBe(0);
  expect(await stage.watch()).toMatchObject({ status: "halted" });
  return { stage, user, settled, to };
}

it("sends a settled payment again that a deep reorg removed", async () => {
  const { stage, user, settled, to } = await openRemoved();
  const attempts = () =>
    all(
      env.DB,
      sql`SELECT hex(a.signed) AS signed FROM transaction_attempts a
        JOIN chain_transactions t ON t.transaction_id = a.transaction_id
        WHERE t.chain = ${stage.chain.chain} AND t.nonce = 0`,
    );
  const signed = await attempts();
  await recordResume(env.DB, stage.chain.chain, "operator:test");
  // The payer comes first, while the chain is still halted.
  const payer = await stage.payer();
  expect(await payer.round()).toEqual({ status: "busy" });
  await stage.watch();
  const later = await stage.withdraw(user.userId, USDC, 20n, someone());
  expect(await drive(stage, later.id)).toBe("settled");
  expect(await attempts()).toEqual(signed);
  expect(await stage.paidCount(settled.paymentId)).toBe(1);
  expect(await stage.paidCount(later.paymentId)).toBe(1);
  expect(await stage.usdcOf(to)).toBe(100n);
  expect(await stage.alerts()).toEqual([]);
  expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
    available: 880n,
    pending: 0n,
  });
  await expectRest(stage);
});

itDeeper("fills the nonce of a payment whose batch number was used again", async () => {
  const stage = await openStage();
  const user = await funded(stage);
  await stage.mine(5);
  await stage.watch();
  const before = await stage.client.getBlockNumber();
  const to = someone();
  const { id, paymentId } = await stage.withdraw(user.userId, USDC, 100n, to);
  const payer = await stage.payer();
  await payer.round();
  // The payment of nonce 0 reverts, because the vault is paused before it is mined.
  await stage.rpc("anvil_dropAllTransactions", []);
  await stage.vaultCall({ abi: vaultAbi, functionName: "pause" });
  await stage.mine();
  await payer.round();
  await stage.mine();
  await stage.vaultCall({ abi: vaultAbi, functionName: "unpause" });
  await stage.mine();
  expect(await drive(stage, id)).toBe("settled");
  const transactions = () =>
    all(
      env.DB,
      sql`SELECT nonce, kind, batch_no AS batch, status FROM chain_transactions
        WHERE chain = ${stage.chain.chain} ORDER BY nonce`,
    );
  expect(await transactions()).toEqual([
    { nonce: 0, kind: "pay", batch: 1, status: "unused" },
    { nonce: 1, kind: "pay", batch: 1, status: "done" },
  ]);

  const depth = Number((await stage.client.getBlockNumber()) - before);
  await stage.reorg(depth, depth + 2);
  expect(await stage.paidCount(paymentId)).toBe(0);
  expect(await stage.watch()).toMatchObject({ status: "halted" });
  await recordResume(env.DB, stage.chain.chain, "operator:test");
  await stage.watch();
  const later = await stage.withdraw(user.userId, USDC, 20n, someone());
  expect(await drive(stage, later.id)).toBe("settled");
  expect(await transactions()).toEqual([
    { nonce: 0, kind: "cancel", batch: 1, status: "unused" },
    { nonce: 1, kind: "pay", batch: 1, status: "done" },
    { nonce: 2, kind: "pay", batch: 2, status: "done" },
  ]);
  expect(await stage.paidCount(paymentId)).toBe(1);
  expect(await stage.usdcOf(to)).toBe(100n);
  expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
    available: 880n,
    pending: 0n,
  });
  expect(await stage.alerts()).toEqual([]);
  await expectRest(stage);
});

itDeeper("resumes once even if the node fails at first", async () => {
  const { stage, user, settled } = await openRemoved();
  await recordResume(env.DB, stage.chain.chain, "operator:test");
  await stage.watch();
  const [url = ""] = stage.chain.rpc_urls;
  const down = await stage.faultyEndpoint((method, result) => {
    if (method === "eth_getTransactionCount") throw new Error("unavailable");
    return result;
  });
  const payer = await stage.payer();
  Object.assign(stage.chain, { rpc_urls: [down] });
  await expect(payer.round()).rejects.toThrow();
  Object.assign(stage.chain, { rpc_urls: [url] });
  const later = await stage.withdraw(user.userId, USDC, 20n, someone());
  expect(await drive(stage, later.id)).toBe("settled");
  expect(await stage.paidCount(settled.paymentId)).toBe(1);
  await expectRest(stage);
});

itDeeper("resumes in its first round although the watcher goes on meanwhile", async () => {
  const { stage, settled } = await openRemoved();
  await recordResume(env.DB, stage.chain.chain, "operator:test");
  await stage.watch();
  const chain = {
    ...stage.chain,
    rpc_urls: [
      await stage.faultyEndpoint(async (method, result) => {
        if (method === "eth_getTransactionCount") await stage.mine();
        if (method === "eth_getTransactionCount") await stage.watch();
        return result;
      }),
    ],
  };
  const payer = await stage.payer({ chain });
  await payer.round();
  const open = sql`SELECT kind FROM chain_commands
    WHERE chain = ${stage.chain.chain} AND done_group IS NULL`;
  expect(await all(env.DB, open)).toEqual([]);
  await stage.mine();
  expect(await stage.paidCount(settled.paymentId)).toBe(1);
});

it("halts if the payment is not made again", async () => {
  const { stage, settled } = await openRemoved();
  await stage.client.increaseTime({ seconds: 2 * 86_400 });
  await stage.mine();
  await recordResume(env.DB, stage.chain.chain, "operator:test");
  await stage.watch();
  const payer = await stage.payer();
  for (let round = 0; round < 6; round++) {
    await payer.round();
    await stage.mine();
    await stage.watch();
  }
  expect(await stage.paidCount(settled.paymentId)).toBe(0);
  expect(await payer.round()).toEqual({ status: "halted" });
  expect(await stage.alerts()).toContain("payer_halted");
  await expectRest(stage);
});
