import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { encodeFunctionData, type Hex, parseEther } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import recipientArtifact from "../../contracts/artifacts/HostileRecipient.json" with { type: "json" };
import { vaultAbi } from "../../src/chain/abi/vault.ts";
import { USDC } from "../../src/assets/asset.ts";
import { Withdrawal } from "../../src/custody/schemas.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import { all, first, sql, uuid } from "../../src/platform/sql.ts";
import { drive, expectRest, funded } from "./support/drive.ts";
import { listen, openStage, someone } from "./support/stage.ts";

class Cut extends Error {}

describe("a payment", () => {
  it.each(["signed", "stored", "sent"])(
    "whose payer ends right after it was %s is made once by the next payer",
    async (point) => {
      const stage = await openStage();
      const user = await funded(stage);
      const to = someone();
      const { id, paymentId } = await stage.withdraw(user.userId, USDC, 300n, to);
      const dying = await stage.payer({
        failpoint: async (at) => {
          if (at === point) throw new Cut();
        },
      });
      await expect(dying.round()).rejects.toThrow(Cut);
      expect(await drive(stage, id)).toBe("settled");
      expect(await stage.paidCount(paymentId)).toBe(1);
      expect(await stage.usdcOf(to)).toBe(300n);
      expect(await readBalance(env.DB, user.userId, USDC)).toEqual({
        available: 700n,
        pending: 0n,
      });
      await expectRest(stage);
    },
  );

  it.each(["mined", "confirmed"])(
    "whose payer ends when it is %s settles without it",
    async (when) => {
      const stage = await openStage();
      const user = await funded(stage);
      const { id, paymentId } = await stage.withdraw(user.userId, USDC, 300n, someone());
      await (await stage.payer()).round();
      await stage.mine();
      if (when === "confirmed") await stage.confirm();
      expect(await drive(stage, id)).toBe("settled");
      expect(await stage.paidCount(paymentId)).toBe(1);
      await expectRest(stage);
    },
  );

  it("two payers at once pay once; the older one's guards do not fire", async () => {
    const stage = await openStage();
    const user = await funded(stage);
    const { id, paymentId } = await stage.withdraw(user.userId, USDC, 300n, someone());
    const old = await stage.payer();
    const young = await stage.payer();
    const rounds = await Promise.all([young.round(), old.round(), young.round()]);
    expect(rounds.map((round) => round.status)).toContain("lease_lost");
    expect(
      await all(env.DB, sql`SELECT 1 FROM chain_transactions WHERE chain = ${stage.chain.chain}`),
    ).toHaveLength(1);
    expect(await drive(stage, id)).toBe("settled");
    expect(await stage.paidCount(paymentId)).toBe(1);
    await expectRest(stage);
  });

  it("that is not mined is replaced with 12.5 % higher fees; the hash changes, the effect does not", async () => {
    const stage = await openStage({ chain: { replace_after_secs: 1 } });
    const user = await funded(stage);
    const { id, paymentId } = await stage.withdraw(user.userId, USDC, 300n, someone());
    const payer = await stage.payer();
    await payer.round();
    const before = await stage.withdrawal(id);
    await stage.rpc("anvil_dropAllTransactions", []);
    await stage.client.setNextBlockBaseFeePerGas({ baseFeePerGas: 20_000_000_000n });
    await stage.mine();
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    await payer.round();
    const after = await stage.withdrawal(id);
    expect(after?.hash).not.toBe(before?.hash);
    const attempts = await all<{ max: string; tip: string }>(
      env.DB,
      sql`SELECT CAST(a.max_fee AS TEXT) AS max, CAST(a.priority_fee AS TEXT) AS tip FROM transaction_attempts a JOIN chain_transactions t
        ON t.transaction_id = a.transaction_id WHERE t.chain = ${stage.chain.chain} ORDER BY a.attempt`,
    );
    const [one, two] = attempts;
    expect(BigInt(two?.max ?? 0) * 8n).toBeGreaterThanOrEqual(BigInt(one?.max ?? 0) * 9n);
    expect(BigInt(two?.tip ?? 0) * 8n).toBeGreaterThanOrEqual(BigInt(one?.tip ?? 0) * 9n);
    expect(await drive(stage, id)).toBe("settled");
    expect(await stage.paidCount(paymentId)).toBe(1);
    expect(
      (await stage.events(user.userId)).filter((type) => type === "withdrawal.submitted").length,
    ).toBeGreaterThan(1);
    await expectRest(stage);
  });

  it("that is dropped from the mempool is sent again, unchanged", async () => {
    const stage = await openStage();
    const user = await funded(stage);
    const { id } = await stage.withdraw(user.userId, USDC, 300n, someone());
    const payer = await stage.payer();
    await payer.round();
    const before = await stage.withdrawal(id);
    await stage.rpc("anvil_dropAllTransactions", []);
    await stage.mine(3);
    expect(await drive(stage, id)).toBe("settled");
    expect((await stage.withdrawal(id))?.hash).toBe(before?.hash);
    await expectRest(stage);
  });

  it("whose nonce someone else uses goes back to the queue and is made with another", async () => {
    const stage = await openStage();
    const user = await funded(stage);
    const { id, paymentId } = await stage.withdraw(user.userId, USDC, 300n, someone());
    const payer = await stage.payer();
    await payer.round();
    await stage.rpc("anvil_dropAllTransactions", []);
    const key = stage.settings.PAYER_KEYS[stage.chain.chain] as Hex;
    const raw = await privateKeyToAccount(key).signTransaction({
      type: "eip1559",
      chainId: 31_337,
      to: someone(),
      nonce: 0,
      gas: 21_000n,
      maxFeePerGas: 10n ** 11n,
      maxPriorityFeePerGas: 1n,
    });
    await stage.client.sendRawTransaction({ serializedTransaction: raw });
    await stage.mine();
    expect(await drive(stage, id)).toBe("settled");
    expect(await stage.paidCount(paymentId)).toBe(1);
    const transactions = await all<{ status: string; nonce: number; batch_no: number }>(
      env.DB,
      sql`SELECT status, nonce, batch_no FROM chain_transactions WHERE chain = ${stage.chain.chain} ORDER BY nonce`,
    );
    expect(transactions).toEqual([
      { status: "unused", nonce: 0, batch_no: 1 },
      { status: "done", nonce: 1, batch_no: 1 },
    ]);
    await expectRest(stage);
  });

  it("that a reorg takes out of the chain is mined again or made again, and paid once", async () => {
    const stage = await openStage({ confirmations: 4 });
    const user = await funded(stage);
    await stage.mine(10);
    await stage.watch();
    await stage.confirm();
    const { id, paymentId } = await stage.withdraw(user.userId, USDC, 300n, someone());
    const payer = await stage.payer();
    await payer.round();
    await stage.mine(2);
    await stage.watch();
    await payer.round();
    await stage.reorg(2);
    await stage.mine();
    await stage.watch();
    expect(await stage.paidCount(paymentId)).toBe(0);
    expect(await drive(stage, id)).toBe("settled");
    expect(await stage.paidCount(paymentId)).toBe(1);
    await expectRest(stage);
  });
});

describe("the vault's answers", () => {
  it("a recipient that refuses gets its payment failed and refunded; the others in the batch settle", async () => {
    const stage = await openStage();
    const user = await stage.user();
    await stage.watch();
    await stage.mintTokens(user.address, 1n, 100n);
    await stage.mintTokens(stage.vault, 1n, 100n);
    await stage.asAdmin(
      stage.hostile,
      encodeFunctionData({ abi: recipientArtifact.abi, functionName: "setMode", args: [1] }),
    );
    await stage.confirm();
    await stage.watch();
    const reader = await listen(user);
    const bad = await stage.withdraw(user.userId, "venue_one:0x1", 10n, stage.hostile);
    const good = await stage.withdraw(user.userId, "venue_one:0x1", 20n, someone());
    expect(await drive(stage, bad.id)).toBe("failed");
    expect(await stage.withdrawal(bad.id)).toMatchObject({ failure_code: "payment_reverted" });
    const { data: failed } = await reader.until(({ type }) => type === "withdrawal.failed");
    expect(failed).toEqual(Withdrawal.strict().parse(failed));
    expect(failed).toMatchObject({
      withdrawal_id: bad.id,
      amount: "0xa",
      status: "failed",
      failure: { code: "payment_reverted" },
    });
    expect(await stage.withdrawal(good.id)).toMatchObject({ status: "settled" });
    expect(await readBalance(env.DB, user.userId, "venue_one:0x1")).toEqual({
      available: 80n,
      pending: 0n,
    });
    await expectRest(stage);
  });

  it("a vault that is short is fed by one sweep before the payment", async () => {
    const stage = await openStage();
    const users = [await stage.user(), await stage.user(), await stage.user()];
    await stage.watch();
    for (const user of users) await stage.mintUsdc(user.address, 100n);
    await stage.confirm();
    await stage.watch();
    const ids = [];
    for (const user of users)
      ids.push((await stage.withdraw(user.userId, USDC, 90n, someone())).id);
    expect(await drive(stage, ids[0] ?? "")).toBe("settled");
    for (const id of ids) expect(await stage.withdrawal(id)).toMatchObject({ status: "settled" });
    expect(await stage.usdcOf(stage.vault)).toBe(30n);
    expect(
      await all(env.DB, sql`SELECT 1 FROM sweepable WHERE chain = ${stage.chain.chain}`),
    ).toEqual([]);
    const kinds = await all<{ kind: string }>(
      env.DB,
      sql`SELECT kind FROM chain_transactions WHERE chain = ${stage.chain.chain} ORDER BY nonce`,
    );
    expect(kinds.map((row) => row.kind)).toEqual(["sweep", "pay"]);
    await expectRest(stage);
  });

  it("a payment over the vault's rolling limit is skipped, told, and paid when the limit allows it", async () => {
    const stage = await openStage();
    const user = await funded(stage);
    await stage.asAdmin(
      stage.vault,
      encodeFunctionData({
        abi: vaultAbi,
        functionName: "setLimit",
        args: [stage.usdc, 0, 0n, 100n],
      }),
    );
    await stage.mine();
    const { id, paymentId } = await stage.withdraw(user.userId, USDC, 300n, someone());
    const payer = await stage.payer();
    await payer.round();
    await stage.mine();
    await stage.confirm();
    await stage.watch();
    expect(await stage.withdrawal(id)).toMatchObject({ status: "queued" });
    expect(await stage.alerts()).toContain("payment_skipped");
    await stage.asAdmin(
      stage.vault,
      encodeFunctionData({
        abi: vaultAbi,
        functionName: "setLimit",
        args: [stage.usdc, 0, 0n, 1_000n],
      }),
    );
    expect(await drive(stage, id)).toBe("settled");
    expect(await stage.paidCount(paymentId)).toBe(1);
    await expectRest(stage);
  });

  it("while the vault is paused nothing is sent and somebody is told", async () => {
    const stage = await openStage();
    const user = await funded(stage);
    await stage.asAdmin(stage.vault, encodeFunctionData({ abi: vaultAbi, functionName: "pause" }));
    await stage.mine();
    const { id } = await stage.withdraw(user.userId, USDC, 300n, someone());
    const payer = await stage.payer();
    expect(await payer.round()).toEqual({ status: "idle" });
    expect(await stage.alerts()).toContain("vault_paused");
    await stage.asAdmin(
      stage.vault,
      encodeFunctionData({ abi: vaultAbi, functionName: "unpause" }),
    );
    await stage.mine();
    expect(await drive(stage, id)).toBe("settled");
    expect(await stage.alerts()).not.toContain("vault_paused");
  });

  it("a batch that reverts because the vault was paused meanwhile goes back to the queue whole", async () => {
    const stage = await openStage();
    const user = await funded(stage);
    const { id, paymentId } = await stage.withdraw(user.userId, USDC, 300n, someone());
    const payer = await stage.payer();
    await payer.round();
    await stage.rpc("anvil_dropAllTransactions", []);
    await stage.asAdmin(stage.vault, encodeFunctionData({ abi: vaultAbi, functionName: "pause" }));
    await stage.mine();
    await payer.round();
    await stage.confirm();
    await stage.watch();
    await payer.round();
    expect(await stage.withdrawal(id)).toMatchObject({ status: "queued", hash: null });
    await stage.asAdmin(
      stage.vault,
      encodeFunctionData({ abi: vaultAbi, functionName: "unpause" }),
    );
    await stage.mine();
    expect(await drive(stage, id)).toBe("settled");
    expect(await stage.paidCount(paymentId)).toBe(1);
    await expectRest(stage);
  });
});

describe("the operator", () => {
  it("`fail` voids the id on the chain first and refunds only when that is confirmed", async () => {
    const stage = await openStage();
    const user = await funded(stage);
    const { id, paymentId } = await stage.withdraw(user.userId, USDC, 300n, someone());
    await all(
      env.DB,
      sql`INSERT INTO chain_commands (chain, kind, withdrawal_id, actor, at) VALUES (${stage.chain.chain}, 'fail', ${uuid(id)}, 'operator:test', 0)`,
    );
    const payer = await stage.payer();
    await payer.round();
    await stage.mine();
    expect(await stage.withdrawal(id)).toMatchObject({ status: "queued" });
    expect(
      await stage.client.readContract({
        address: stage.vault,
        abi: vaultAbi,
        functionName: "state",
        args: [paymentId],
      }),
    ).toBe(3);
    expect(await drive(stage, id)).toBe("failed");
    expect(await stage.withdrawal(id)).toMatchObject({ failure_code: "operator_failed" });
    expect(await readBalance(env.DB, user.userId, USDC)).toEqual({
      available: 1_000n,
      pending: 0n,
    });
    expect(await stage.paidCount(paymentId)).toBe(0);
    const command = await first<{ result: string }>(
      env.DB,
      sql`SELECT result FROM chain_commands WHERE withdrawal_id = ${uuid(id)}`,
    );
    expect(command?.result).toBe("failed");
    await expectRest(stage);
  });

  it("`fail` of a payment that is out already loses against it: paid is paid", async () => {
    const stage = await openStage();
    const user = await funded(stage);
    const { id, paymentId } = await stage.withdraw(user.userId, USDC, 300n, someone());
    const payer = await stage.payer();
    await payer.round();
    await all(
      env.DB,
      sql`INSERT INTO chain_commands (chain, kind, withdrawal_id, actor, at) VALUES (${stage.chain.chain}, 'fail', ${uuid(id)}, 'operator:test', 0)`,
    );
    expect(await drive(stage, id)).toBe("settled");
    expect(await stage.paidCount(paymentId)).toBe(1);
    expect(await readBalance(env.DB, user.userId, USDC)).toEqual({ available: 700n, pending: 0n });
    await expectRest(stage);
  });

  it("a frozen user's withdrawal waits, and so do all while withdrawals are paused", async () => {
    const stage = await openStage();
    const [frozen, free] = [await funded(stage), await funded(stage)];
    await all(env.DB, sql`UPDATE users SET frozen_at = 1 WHERE user_id = ${uuid(frozen.userId)}`);
    await all(
      env.DB,
      sql`INSERT INTO kill_switches (name, reason, since) VALUES ('withdrawals_paused', 'test', 0)`,
    );
    const waits = await stage.withdraw(frozen.userId, USDC, 10n, someone());
    const goes = await stage.withdraw(free.userId, USDC, 10n, someone());
    const payer = await stage.payer();
    expect(await payer.round()).toEqual({ status: "idle" });
    await all(env.DB, sql`DELETE FROM kill_switches WHERE name = 'withdrawals_paused'`);
    expect(await drive(stage, goes.id)).toBe("settled");
    expect(await stage.withdrawal(waits.id)).toMatchObject({ status: "queued" });
    await all(
      env.DB,
      sql`UPDATE users SET frozen_at = NULL WHERE user_id = ${uuid(frozen.userId)}`,
    );
    expect(await drive(stage, waits.id)).toBe("settled");
  });

  it("a database older than the chain pays nothing: the vault's batch count stops the payer", async () => {
    const stage = await openStage();
    const user = await funded(stage);
    const settled = await stage.withdraw(user.userId, USDC, 10n, someone());
    expect(await drive(stage, settled.id)).toBe("settled");
    const next = await stage.withdraw(user.userId, USDC, 10n, someone());
    // An older backup would lack a batch that the vault has counted; here the vault is ahead because somebody else made one.
    const id: Hex = `0x${"77".repeat(32)}`;
    const data = encodeFunctionData({
      abi: vaultAbi,
      functionName: "pay",
      args: [
        2n,
        2n ** 40n,
        [{ id, kind: 0, token: stage.usdc, tokenId: 0n, amount: 1n, to: someone() }],
      ],
    });
    const key = stage.settings.PAYER_KEYS[stage.chain.chain] as Hex;
    await stage.client.sendRawTransaction({
      serializedTransaction: await privateKeyToAccount(key).signTransaction({
        type: "eip1559",
        chainId: 31_337,
        to: stage.vault,
        data,
        nonce: 1,
        gas: 1_000_000n,
        maxFeePerGas: 10n ** 11n,
        maxPriorityFeePerGas: 1n,
      }),
    });
    await stage.mine();
    const payer = await stage.payer();
    await payer.round();
    expect(await payer.round()).toEqual({ status: "halted" });
    expect(await stage.withdrawal(next.id)).toMatchObject({ status: "queued" });
    await stage.confirm();
    await stage.watch();
    expect(await stage.alerts()).toEqual(
      expect.arrayContaining(["payer_halted", "payment_unknown"]),
    );
  });

  it("low gas money is told before it stops anything", async () => {
    const stage = await openStage();
    const user = await funded(stage);
    await stage.client.setBalance({ address: stage.operator.address, value: parseEther("0.05") });
    const { id } = await stage.withdraw(user.userId, USDC, 10n, someone());
    expect(await drive(stage, id)).toBe("settled");
    expect(await stage.alerts()).toContain("gas_balance_low");
  });
});
