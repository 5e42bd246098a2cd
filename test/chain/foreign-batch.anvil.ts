/** A thief's batch under a number that the payer has used as well. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { type Hex, keccak256, parseEther, toBytes, toHex } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { USDC } from "../../src/assets/asset.ts";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import { acceptPayment } from "../../src/custody/accept-payment.ts";
import { recordResume } from "../../src/custody/operator-commands.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import { first, sql } from "../../src/platform/sql.ts";
import { drive, expectRest, queuedWithdrawal } from "./support/drive.ts";
import type { Stage } from "./support/stage.ts";
import { payerAccount, steal } from "./support/theft.ts";

const FOREIGN: Hex = `0x${"5a".repeat(32)}`;
const PAYER_ROLE = keccak256(toBytes("PAYER_ROLE"));

/** The payer's own key, at the nonce that the payer has just used. */
const withOurKey = async (stage: Stage) => payerAccount(stage);

/** Another account that may pay. */
async function withOtherKey(stage: Stage) {
  const thief = privateKeyToAccount(toHex(crypto.getRandomValues(new Uint8Array(32))));
  await stage.client.setBalance({ address: thief.address, value: parseEther("1") });
  const args = [PAYER_ROLE, thief.address] as const;
  await stage.vaultCall({ abi: vaultAbi, functionName: "grantRole", args });
  await stage.mine();
  return thief;
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
  // Batch 1 is paid before the payer's own transaction of that batch is mined.
  const hash = await steal(stage, { id: FOREIGN, amount: 40n }, { thief });
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
  expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
    available: 700n,
    pending: 300n,
  });

  const acceptance = { kind: "loss", reason: "incident 7", actor: "operator:test" } as const;
  await acceptPayment(env.DB, stage.settings, { ...acceptance, paymentId: FOREIGN });
  await recordResume(env.DB, chain, "operator:test");
  expect(await drive(stage, id)).toBe("settled");
  expect(await stage.paidCount(paymentId)).toBe(1);
  expect(await stage.alerts()).toEqual([]);
  await expectRest(stage);
});
