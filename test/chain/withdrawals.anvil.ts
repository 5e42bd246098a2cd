import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { encodeFunctionData, type Hex } from "viem";
import recipientArtifact from "../../contracts/artifacts/HostileRecipient.json" with { type: "json" };
import { vaultAbi } from "../../contracts/abi/vault.ts";
import { USDC } from "../../src/assets/asset.ts";
import { recordWithdrawalCommand } from "../../src/custody/operator-commands.ts";
import { Withdrawal } from "../../src/custody/schemas.ts";
import { edit } from "../support/ledger.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import { all, first, type Sql, sql, uuid } from "../../src/platform/sql.ts";
import { drive, expectPaidOnce, expectRest, funded, queuedWithdrawal } from "./support/drive.ts";
import { listen, openStage, someone } from "./support/stage.ts";
import { payerAccount, steal } from "./support/theft.ts";
import { itDeeper, some } from "../support/depth.ts";

class Killed extends Error {}

const alertsOf = async (subject: string) => {
  const open = sql`SELECT kind FROM alerts WHERE subject = ${subject} AND resolved_at IS NULL`;
  return (await all<{ kind: string }>(env.DB, open)).map(({ kind }) => kind);
};

describe("a payment", () => {
  it.each(["signed", "stored", "sent"])(
    "is made once if the payer ends right after it was %s",
    async (point) => {
      const { stage, user, to, id, paymentId } = await queuedWithdrawal();
      const killed = await stage.payer({
        failpoint: async (at) => {
          if (at === point) throw new Killed();
        },
      });
      await expect(killed.round()).rejects.toThrow(Killed);
      expect(await drive(stage, id)).toBe("settled");
      expect(await stage.paidCount(paymentId)).toBe(1);
      expect(await stage.usdcOf(to)).toBe(300n);
      expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
        available: 700n,
        pending: 0n,
      });
      await expectRest(stage);
    },
  );

  it.each(["mined", "confirmed"])("settles if the payer ends when it is %s", async (when) => {
    const { stage, id, paymentId } = await queuedWithdrawal();
    await (await stage.payer()).round();
    await stage.mine();
    if (when === "confirmed") await stage.confirm();
    await expectPaidOnce(stage, { id, paymentId });
  });

  it("is made once by two payers; the older one loses the lease", async () => {
    const { stage, id, paymentId } = await queuedWithdrawal();
    const older = await stage.payer();
    const newer = await stage.payer();
    const rounds = await Promise.all([newer.round(), older.round(), newer.round()]);
    expect(rounds.map((round) => round.status)).toContain("lease_lost");
    expect(
      await all(env.DB, sql`SELECT 1 FROM chain_transactions WHERE chain = ${stage.chain.chain}`),
    ).toHaveLength(1);
    await expectPaidOnce(stage, { id, paymentId });
  });

  it("is replaced with higher fees and the same effect if unmined", async () => {
    const { stage, user, id, paymentId } = await queuedWithdrawal({
      chain: { replace_after_secs: 1 },
    });
    const payer = await stage.payer();
    await payer.round();
    const before = await stage.withdrawal(id);
    await stage.rpc("anvil_dropAllTransactions", []);
    await stage.client.setNextBlockBaseFeePerGas({ baseFeePerGas: 20_000_000_000n });
    await stage.mine(2);
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    await payer.round();
    const after = await stage.withdrawal(id);
    expect(after?.hash).not.toBe(before?.hash);
    const attempts = await all<{ max: string; tip: string }>(
      env.DB,
      sql`SELECT CAST(a.max_fee AS TEXT) AS max, CAST(a.priority_fee AS TEXT) AS tip
        FROM transaction_attempts a JOIN chain_transactions t
        ON t.transaction_id = a.transaction_id WHERE t.chain = ${stage.chain.chain}
          ORDER BY a.attempt`,
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

  itDeeper("is resent unchanged if the mempool drops it", async () => {
    const { stage, id } = await queuedWithdrawal();
    const payer = await stage.payer();
    await payer.round();
    const before = await stage.withdrawal(id);
    await stage.rpc("anvil_dropAllTransactions", []);
    await stage.mine(3);
    expect(await drive(stage, id)).toBe("settled");
    expect((await stage.withdrawal(id))?.hash).toBe(before?.hash);
    await expectRest(stage);
  });

  it("is queued again if another transaction uses its nonce", async () => {
    const { stage, id, paymentId } = await queuedWithdrawal();
    const payer = await stage.payer();
    await payer.round();
    await stage.rpc("anvil_dropAllTransactions", []);
    const raw = await payerAccount(stage).signTransaction({
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
      sql`SELECT status, nonce, batch_no FROM chain_transactions
        WHERE chain = ${stage.chain.chain} ORDER BY nonce`,
    );
    expect(transactions).toEqual([
      { status: "unused", nonce: 0, batch_no: 1 },
      { status: "done", nonce: 1, batch_no: 1 },
    ]);
    await expectRest(stage);
  });

  it("is paid once after a reorg removes it", async () => {
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
    await expectPaidOnce(stage, { id, paymentId });
  });
});

describe("the vault", () => {
  it("fails and refunds only the payment that its recipient rejects", async () => {
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
    const subscriber = await listen(user);
    const bad = await stage.withdraw(user.userId, "venue_one:0x1", 10n, stage.hostile);
    const good = await stage.withdraw(user.userId, "venue_one:0x1", 20n, someone());
    expect(await drive(stage, bad.id)).toBe("failed");
    expect(await stage.withdrawal(bad.id)).toMatchObject({ failure_code: "payment_reverted" });
    const { data: failed } = await subscriber.until("withdrawal.failed");
    expect(failed).toEqual(Withdrawal.strict().parse(failed));
    expect(failed).toMatchObject({
      withdrawal_id: bad.id,
      amount: "0xa",
      status: "failed",
      failure: { code: "payment_reverted" },
    });
    expect(await stage.withdrawal(good.id)).toMatchObject({ status: "settled" });
    expect(await readBalance(env.DB, user.userId, "venue_one:0x1")).toMatchObject({
      available: 80n,
      pending: 0n,
    });
    await expectRest(stage);
  });

  it("receives one sweep before a payment that it cannot cover", async () => {
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

  it("skips a payment over its limit and pays it later", async () => {
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
    await stage.answerAlert("payment_skipped");
    await stage.asAdmin(
      stage.vault,
      encodeFunctionData({
        abi: vaultAbi,
        functionName: "setLimit",
        args: [stage.usdc, 0, 0n, 1_000n],
      }),
    );
    await expectPaidOnce(stage, { id, paymentId });
  });

  it("receives no payment while paused, and an alert is raised", async () => {
    const stage = await openStage();
    const user = await funded(stage);
    await stage.asAdmin(stage.vault, encodeFunctionData({ abi: vaultAbi, functionName: "pause" }));
    await stage.mine();
    const { id } = await stage.withdraw(user.userId, USDC, 300n, someone());
    const payer = await stage.payer();
    expect(await payer.round()).toEqual({ status: "idle" });
    await stage.answerAlert("vault_paused", async () => {
      await stage.asAdmin(
        stage.vault,
        encodeFunctionData({ abi: vaultAbi, functionName: "unpause" }),
      );
      await stage.mine();
      expect(await drive(stage, id)).toBe("settled");
    });
  });

  it("returns a whole reverted batch to the queue", async () => {
    const { stage, id, paymentId } = await queuedWithdrawal();
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
    await expectPaidOnce(stage, { id, paymentId });
  });
});

describe("a withdrawal whose row was edited", () => {
  const putBack: Sql[] = [];
  // The reconciliation of other tests would name the row.
  afterEach(() => edit(env.DB, "withdrawals", putBack.splice(0)));

  async function editRow(id: string, change: Sql): Promise<void> {
    const where = sql`WHERE withdrawal_id = ${uuid(id)}`;
    const row = await first<{
      user: string;
      payment: string;
      amount: number;
      to: string;
      mac: string;
    }>(
      env.DB,
      sql`SELECT hex(user_id) AS user, hex(payment_id) AS payment, amount, hex(to_address) AS "to",
        terms_mac AS mac FROM withdrawals ${where}`,
    );
    putBack.push(
      sql`UPDATE withdrawals SET user_id = unhex(${row?.user ?? ""}),
        payment_id = unhex(${row?.payment ?? ""}), amount = CAST(${row?.amount ?? 0} AS INTEGER),
        to_address = unhex(${row?.to ?? ""}), terms_mac = ${row?.mac ?? null},
        approval_expires_at = NULL ${where}`,
    );
    await edit(env.DB, "withdrawals", [sql`UPDATE withdrawals SET ${change} ${where}`]);
  }

  it.each(
    some(
      Object.entries({
        "another address": sql`to_address = randomblob(20)`,
        "another amount": sql`amount = 299`,
        "another user": sql`user_id = randomblob(16)`,
        "another payment id": sql`payment_id = randomblob(32)`,
        "no MAC": sql`terms_mac = NULL`,
        "a MAC of another one": sql`terms_mac = 'a1.AAAA'`,
        "an approval that nobody gave": sql`approval_expires_at = 1`,
      }),
      3,
    ),
  )("is not signed with %s", async (_, change) => {
    const { stage, id } = await queuedWithdrawal();
    await editRow(id, change);
    expect(await (await stage.payer()).round()).toEqual({ status: "idle" });
    expect(await (await stage.payer()).round()).toEqual({ status: "idle" });
    expect(await stage.withdrawal(id)).toMatchObject({ status: "queued", hash: null });
    await stage.answerAlert("withdrawal_altered", undefined, { subject: id });
  });

  it("does not delay others, and `fail` returns its funds", async () => {
    const { stage, user, id } = await queuedWithdrawal();
    await editRow(id, sql`terms_mac = NULL`);
    const other = await stage.withdraw(user.userId, USDC, 10n, someone());
    await expectPaidOnce(stage, other);
    expect(await alertsOf(id)).toEqual(["withdrawal_altered"]);
    await recordWithdrawalCommand(env.DB, { kind: "fail", withdrawalId: id, actor: "operator:a" });
    expect(await drive(stage, id)).toBe("failed");
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
      available: 990n,
      pending: 0n,
    });
    expect(await alertsOf(id)).toEqual([]);
  });

  itDeeper("has no attempt with higher fees if its transaction was edited", async () => {
    const { stage, id } = await queuedWithdrawal({ chain: { replace_after_secs: 1 } });
    const payer = await stage.payer();
    await payer.round();
    const before = await stage.withdrawal(id);
    await edit(env.DB, "chain_transactions", [
      sql`UPDATE chain_transactions SET data = randomblob(100) WHERE chain = ${stage.chain.chain}`,
    ]);
    await stage.rpc("anvil_dropAllTransactions", []);
    await stage.client.setNextBlockBaseFeePerGas({ baseFeePerGas: 20_000_000_000n });
    await stage.mine(2);
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    await payer.round();
    expect((await stage.withdrawal(id))?.hash).toBe(before?.hash);
    const subject = `${stage.chain.chain}:0`;
    await stage.answerAlert("withdrawal_altered", undefined, { subject });
  });
});

describe("the operator", () => {
  it("`fail` voids on chain, then refunds once confirmed", async () => {
    const { stage, user, id, paymentId } = await queuedWithdrawal();
    await all(
      env.DB,
      sql`INSERT INTO chain_commands (chain, kind, withdrawal_id, actor, at)
        VALUES (${stage.chain.chain}, 'fail', ${uuid(id)}, 'operator:test', 0)`,
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
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
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

  it("`fail` has no effect on a payment that is mined first", async () => {
    const { stage, user, id, paymentId } = await queuedWithdrawal();
    const payer = await stage.payer();
    await payer.round();
    await all(
      env.DB,
      sql`INSERT INTO chain_commands (chain, kind, withdrawal_id, actor, at)
        VALUES (${stage.chain.chain}, 'fail', ${uuid(id)}, 'operator:test', 0)`,
    );
    expect(await drive(stage, id)).toBe("settled");
    expect(await stage.paidCount(paymentId)).toBe(1);
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
      available: 700n,
      pending: 0n,
    });
    await expectRest(stage);
  });

  itDeeper("a freeze and a pause make withdrawals wait", async () => {
    const stage = await openStage();
    const [frozen, free] = [await funded(stage), await funded(stage)];
    await all(env.DB, sql`UPDATE users SET frozen_at = 1 WHERE user_id = ${uuid(frozen.userId)}`);
    await all(
      env.DB,
      sql`INSERT INTO kill_switches (name, reason, since) VALUES ('withdrawals_paused', 'test', 0)`,
    );
    const waiting = await stage.withdraw(frozen.userId, USDC, 10n, someone());
    const paid = await stage.withdraw(free.userId, USDC, 10n, someone());
    const payer = await stage.payer();
    expect(await payer.round()).toEqual({ status: "idle" });
    await all(env.DB, sql`DELETE FROM kill_switches WHERE name = 'withdrawals_paused'`);
    expect(await drive(stage, paid.id)).toBe("settled");
    expect(await stage.withdrawal(waiting.id)).toMatchObject({ status: "queued" });
    await all(
      env.DB,
      sql`UPDATE users SET frozen_at = NULL WHERE user_id = ${uuid(frozen.userId)}`,
    );
    expect(await drive(stage, waiting.id)).toBe("settled");
  });

  it("the vault's batch count halts a payer with an older database", async () => {
    const stage = await openStage();
    const user = await funded(stage);
    const settled = await stage.withdraw(user.userId, USDC, 10n, someone());
    expect(await drive(stage, settled.id)).toBe("settled");
    const next = await stage.withdraw(user.userId, USDC, 10n, someone());
    // A restored database lacks a batch that the vault has counted. Here another sender made it.
    const id: Hex = `0x${"77".repeat(32)}`;
    await steal(stage, { id, amount: 1n }, { batch: 2n, nonce: 1 });
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
});
