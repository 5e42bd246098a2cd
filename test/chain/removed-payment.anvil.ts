import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { USDC } from "../../src/assets/asset.ts";
import { recordResume } from "../../src/custody/operator-commands.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { drive, expectRest, funded } from "./support/drive.ts";
import { openStage, someone } from "./support/stage.ts";

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
  // The payer carries out its part while the chain is still halted.
  const payer = await stage.payer();
  await payer.round();
  await stage.watch();
  const later = await stage.withdraw(user.userId, USDC, 20n, someone());
  await payer.round();
  expect(await payer.round()).toEqual({ status: "halted" });
  expect(await stage.alerts()).toEqual(["payer_halted"]);
  expect(await stage.withdrawal(later.id)).toMatchObject({ status: "queued" });

  await recordResume(env.DB, stage.chain.chain, "operator:test");
  expect(await drive(stage, later.id)).toBe("settled");
  expect(await attempts()).toEqual(signed);
  expect(await stage.paidCount(settled.paymentId)).toBe(1);
  expect(await stage.paidCount(later.paymentId)).toBe(1);
  expect(await stage.usdcOf(to)).toBe(100n);
  expect(await stage.alerts()).toEqual([]);
  expect(await readBalance(env.DB, user.userId, USDC)).toEqual({ available: 880n, pending: 0n });
  await expectRest(stage);
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
