/** The operator account is changed while transactions of the old one are open. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { type Hex, keccak256, parseEther, toBytes, toHex } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { USDC } from "../../src/assets/asset.ts";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import { recordResume, recordWithdrawalCommand } from "../../src/custody/operator-commands.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { drive, expectRest, funded, queuedWithdrawal } from "./support/drive.ts";
import { openStage, someone, type Stage } from "./support/stage.ts";
import { itDeeper } from "../support/depth.ts";

const PAYER_ROLE = keccak256(toBytes("PAYER_ROLE"));

/** Settings with a new operator account, which the vault already lets pay. */
async function rotate(stage: Stage) {
  const key: Hex = toHex(crypto.getRandomValues(new Uint8Array(32)));
  const { address } = privateKeyToAccount(key);
  await stage.client.setBalance({ address, value: parseEther("100") });
  const args = [PAYER_ROLE, address] as const;
  await stage.vaultCall({ abi: vaultAbi, functionName: "grantRole", args });
  return { ...stage.settings, PAYER_KEYS: { [stage.chain.chain]: key } };
}

/** What a thief leaves: no node has a transaction, and the account cannot pay for gas. */
async function drain(stage: Stage) {
  await stage.rpc("anvil_dropAllTransactions", []);
  await stage.client.setBalance({ address: stage.operator.address, value: 0n });
}

async function revokeOld(stage: Stage) {
  const args = [PAYER_ROLE, stage.operator.address] as const;
  await stage.vaultCall({ abi: vaultAbi, functionName: "revokeRole", args });
}

function transactions({ chain, operator }: Stage) {
  return all<{ old: number; kind: string; batch: number | null; status: string; tries: number }>(
    env.DB,
    sql`SELECT lower(hex(t.sender)) = ${operator.address.slice(2).toLowerCase()} AS old, t.kind,
        t.batch_no AS batch, t.status, count(*) AS tries
      FROM chain_transactions t JOIN transaction_attempts a USING (transaction_id)
      WHERE t.chain = ${chain.chain} GROUP BY t.transaction_id ORDER BY t.transaction_id`,
  );
}

const LOST = { chain: { replace_after_secs: 0 } };

it("pays from the new account once the old one has lost its role", async () => {
  const { stage, user, id, paymentId } = await queuedWithdrawal(LOST);
  await (await stage.payer()).round();
  await drain(stage);
  const settings = await rotate(stage);
  await revokeOld(stage);
  expect(await drive(stage, id, { settings })).toBe("settled");
  expect(await stage.paidCount(paymentId)).toBe(1);
  expect(await transactions(stage)).toEqual([
    { old: 1, kind: "pay", batch: 1, status: "unused", tries: 1 },
    { old: 0, kind: "pay", batch: 1, status: "done", tries: 1 },
  ]);
  expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
    available: 700n,
    pending: 0n,
  });
  expect(await stage.alerts()).toEqual([]);
  await expectRest(stage);
});

itDeeper("lets a payment of the old account settle, then pays from the new one", async () => {
  const { stage, user, id, paymentId } = await queuedWithdrawal(LOST);
  await (await stage.payer()).round();
  await stage.rpc("anvil_dropAllTransactions", []);
  const settings = await rotate(stage);
  const later = await stage.withdraw(user.userId, USDC, 20n, someone());
  expect(await drive(stage, later.id, { settings })).toBe("settled");
  expect(await stage.withdrawal(id)).toMatchObject({ status: "settled" });
  expect(await stage.paidCount(paymentId)).toBe(1);
  expect(await stage.paidCount(later.paymentId)).toBe(1);
  expect(await transactions(stage)).toEqual([
    { old: 1, kind: "pay", batch: 1, status: "done", tries: 1 },
    { old: 0, kind: "pay", batch: 2, status: "done", tries: 1 },
  ]);
  expect(await stage.alerts()).toEqual([]);
  await expectRest(stage);
});

it("repeats a void of the old account while its key may still pay", async () => {
  const { stage, user, id, paymentId } = await queuedWithdrawal(LOST);
  const command = { kind: "fail", withdrawalId: id, actor: "operator:test" } as const;
  await recordWithdrawalCommand(env.DB, command);
  await (await stage.payer()).round();
  await drain(stage);
  const settings = await rotate(stage);
  expect(await drive(stage, id, { settings })).toBe("failed");
  expect(await stage.paidCount(paymentId)).toBe(0);
  expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
    available: 1_000n,
    pending: 0n,
  });
  expect((await transactions(stage)).map(({ old, kind }) => ({ old, kind }))).toEqual([
    { old: 1, kind: "void" },
    { old: 0, kind: "void" },
  ]);
  expect(await stage.alerts()).toEqual([]);
  await expectRest(stage);
});

describe("a deep reorg that removes a settled payment of the old account", () => {
  /** After the first `chain resume`. */
  async function openRemoved() {
    const stage = await openStage();
    const user = await funded(stage);
    await stage.mine(5);
    await stage.watch();
    const before = await stage.client.getBlockNumber();
    const { id, paymentId } = await stage.withdraw(user.userId, USDC, 100n, someone());
    expect(await drive(stage, id)).toBe("settled");
    const depth = Number((await stage.client.getBlockNumber()) - before);
    await stage.reorg(depth, depth + 2);
    const settings = await rotate(stage);
    expect(await stage.watch()).toMatchObject({ status: "halted" });
    return { stage, user, paymentId, settings };
  }
  const resume = async (stage: Stage) => {
    await recordResume(env.DB, stage.chain.chain, "operator:test");
    await stage.watch();
  };

  itDeeper("is repaired by sending it again", async () => {
    const { stage, user, paymentId, settings } = await openRemoved();
    await resume(stage);
    const later = await stage.withdraw(user.userId, USDC, 20n, someone());
    expect(await drive(stage, later.id, { settings })).toBe("settled");
    expect(await stage.paidCount(paymentId)).toBe(1);
    expect(await stage.paidCount(later.paymentId)).toBe(1);
    expect(await stage.alerts()).toEqual([]);
    await expectRest(stage);
  });

  it("halts once, and not again, if the old account has lost its role", async () => {
    const { stage, user, paymentId, settings } = await openRemoved();
    await revokeOld(stage);
    await stage.mine(3);
    await resume(stage);
    const later = await stage.withdraw(user.userId, USDC, 20n, someone());
    const payer = await stage.payer({ settings });
    await payer.round();
    expect(await payer.round()).toEqual({ status: "halted" });
    const [alert] = await all<{ detail: string }>(
      env.DB,
      sql`SELECT detail FROM alerts WHERE kind = 'payer_halted' AND resolved_at IS NULL
        AND subject = ${stage.chain.chain}`,
    );
    expect(alert?.detail).toBe("nonce 0 no longer pays withdrawals that are settled");
    await resume(stage);
    expect(await drive(stage, later.id, { settings })).toBe("settled");
    expect(await stage.paidCount(paymentId)).toBe(0);
    expect(await stage.paidCount(later.paymentId)).toBe(1);
    expect(await stage.alerts()).toEqual([]);
    await expectRest(stage);
  });
});

itDeeper(
  "halts when an account is used again that left transactions unsent, until a resume",
  async () => {
    const { stage, user, id } = await queuedWithdrawal(LOST);
    await (await stage.payer()).round();
    await drain(stage);
    const settings = await rotate(stage);
    await revokeOld(stage);
    expect(await drive(stage, id, { settings })).toBe("settled");

    await stage.client.setBalance({ address: stage.operator.address, value: parseEther("1") });
    const args = [PAYER_ROLE, stage.operator.address] as const;
    await stage.vaultCall({ abi: vaultAbi, functionName: "grantRole", args });
    await stage.mine();
    const later = await stage.withdraw(user.userId, USDC, 20n, someone());
    const payer = await stage.payer();
    expect(await payer.round()).toEqual({ status: "halted" });
    await recordResume(env.DB, stage.chain.chain, "operator:test");
    expect(await drive(stage, later.id)).toBe("settled");
    expect((await transactions(stage))[0]).toMatchObject({ kind: "cancel", status: "unused" });
    expect(await stage.paidCount(later.paymentId)).toBe(1);
    expect(await stage.alerts()).toEqual([]);
    await expectRest(stage);
  },
);
