/** A thief's batch under a number that the payer has used as well. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { encodeFunctionData, type Hex, keccak256, parseEther, toBytes, toHex } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { USDC } from "../../src/assets/asset.ts";
import { vaultAbi } from "../../src/chain/abi/vault.ts";
import { acceptPayment } from "../../src/custody/accept-payment.ts";
import { recordResume } from "../../src/custody/operator-commands.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import { first, sql } from "../../src/platform/sql.ts";
import { drive, expectRest, queuedWithdrawal } from "./support/drive.ts";
import { someone, type Stage } from "./support/stage.ts";

const FOREIGN: Hex = `0x${"5a".repeat(32)}`;
const PAYER_ROLE = keccak256(toBytes("PAYER_ROLE"));

/** The payer's own key, at the nonce that the payer has just used. */
async function withOurKey(stage: Stage) {
  return privateKeyToAccount(stage.settings.PAYER_KEYS[stage.chain.chain] as Hex);
}

/** Another account that may pay. */
async function withOtherKey(stage: Stage) {
  const thief = privateKeyToAccount(toHex(crypto.getRandomValues(new Uint8Array(32))));
  await stage.client.setBalance({ address: thief.address, value: parseEther("1") });
  const args = [PAYER_ROLE, thief.address] as const;
  await stage.vaultCall({ abi: vaultAbi, functionName: "grantRole", args });
  await stage.mine();
  return thief;
}

/** Pays batch 1 before the payer's own transaction of that batch is mined. */
async function stealBatch(stage: Stage, thief: Awaited<ReturnType<typeof withOurKey>>, id: Hex) {
  const payment = { id, kind: 0, token: stage.usdc, tokenId: 0n, amount: 40n, to: someone() };
  const raw = await thief.signTransaction({
    type: "eip1559",
    chainId: 31_337,
    to: stage.vault,
    data: encodeFunctionData({
      abi: vaultAbi,
      functionName: "pay",
      args: [1n, 2n ** 40n, [payment]],
    }),
    nonce: 0,
    gas: 1_000_000n,
    maxFeePerGas: 10n ** 11n,
    maxPriorityFeePerGas: 1n,
  });
  await stage.client.sendRawTransaction({ serializedTransaction: raw });
  return keccak256(raw);
}

it.each([
  ["the payer's key", withOurKey],
  ["another account that may pay", withOtherKey],
] as const)("halts the payer after a theft under its batch number by %s", async (_, key) => {
  const { stage, user, id, paymentId } = await queuedWithdrawal();
  const { chain } = stage.chain;
  const thief = await key(stage);
  const payer = await stage.payer();
  await payer.round();
  await stage.rpc("anvil_dropAllTransactions", []);
  const hash = await stealBatch(stage, thief, FOREIGN);
  await stage.mine();
  for (let round = 0; round < 4; round++) {
    await payer.round();
    await stage.mine();
    await stage.watch();
  }

  expect(await payer.round()).toEqual({ status: "halted" });
  expect(await stage.alerts()).toEqual(expect.arrayContaining(["payer_halted", "payment_unknown"]));
  const alert = await first<{ detail: string }>(
    env.DB,
    sql`SELECT detail FROM alerts WHERE kind = 'payer_halted' AND subject = ${chain}`,
  );
  expect(alert?.detail).toContain(`batch 1 of the vault is ${hash}`);
  expect(await stage.withdrawal(id)).toMatchObject({ status: "queued" });
  expect(await readBalance(env.DB, user.userId, USDC)).toEqual({ available: 700n, pending: 300n });

  const acceptance = { kind: "loss", reason: "incident 7", actor: "operator:test" } as const;
  await acceptPayment(env.DB, stage.settings, { ...acceptance, paymentId: FOREIGN });
  await recordResume(env.DB, chain, "operator:test");
  expect(await drive(stage, id)).toBe("settled");
  expect(await stage.paidCount(paymentId)).toBe(1);
  expect(await stage.alerts()).toEqual([]);
  await expectRest(stage);
});
