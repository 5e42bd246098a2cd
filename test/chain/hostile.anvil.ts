/** Recipients and tokens that misbehave. Other payments and the books must not suffer. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { encodeFunctionData, type Hex } from "viem";
import hostileToken from "../../contracts/artifacts/HostileToken.json" with { type: "json" };
import recipientArtifact from "../../contracts/artifacts/HostileRecipient.json" with { type: "json" };
import { depositFactoryAbi } from "../../contracts/abi/deposit-factory.ts";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import { tokenName, tokenSubject } from "../../src/chain/token.ts";
import { USDC } from "../../src/assets/asset.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import { all, first, sql, uuid } from "../../src/platform/sql.ts";
import { drive, expectRest, funded } from "./support/drive.ts";
import { openStage, someone, type Stage } from "./support/stage.ts";
import { itDeeper, some } from "../support/depth.ts";

/** Modes of HostileRecipient.sol, and the outcome of a payment to it. */
const MODES = [
  ["reverts", 1, "failed"],
  ["burns all gas", 2, "failed"],
  ["returns another value", 3, "failed"],
  ["reverts with 20 kB", 4, "failed"],
  ["sends the tokens back to the vault at once", 5, "failed"],
  ["burns nearly all gas and accepts", 8, "settled"],
] as const;
const HONEST = 0;
const TOKEN_REVERTS = 1;
const ASSET = "venue_one:0x1";

async function withTokens(stage: Stage, hook: Hex) {
  const user = await stage.user();
  await stage.watch();
  await stage.mintTokens(user.address, 1n, 100n);
  await stage.mintTokens(stage.vault, 1n, 100n);
  await stage.asAdmin(stage.hostile, hook);
  await stage.confirm();
  await stage.watch();
  return user;
}

const setMode = (mode: number): Hex =>
  encodeFunctionData({ abi: recipientArtifact.abi, functionName: "setMode", args: [mode] });

it.each(some(MODES, 2))(
  "a payment to a recipient that %s (mode %i) is %s; others are paid",
  async (_, mode, outcome) => {
    const stage = await openStage();
    const user = await withTokens(stage, setMode(mode));
    const hostile = await stage.withdraw(user.userId, ASSET, 10n, stage.hostile);
    const good = [];
    for (const amount of [20n, 5n, 1n])
      good.push(await stage.withdraw(user.userId, ASSET, amount, someone()));
    expect(await drive(stage, hostile.id)).toBe(outcome);
    for (const { id, paymentId } of good) {
      expect(await stage.withdrawal(id)).toMatchObject({ status: "settled" });
      expect(await stage.paidCount(paymentId)).toBe(1);
    }
    const paid = outcome === "settled";
    expect(await stage.paidCount(hostile.paymentId)).toBe(paid ? 1 : 0);
    expect(await readBalance(env.DB, user.userId, ASSET)).toMatchObject({
      available: paid ? 64n : 74n,
      pending: 0n,
    });
    expect(
      await all(env.DB, sql`SELECT 1 FROM chain_transactions WHERE chain = ${stage.chain.chain}`),
    ).toHaveLength(1);
    await expectRest(stage);
  },
);

it("a recipient cannot call vault or factory during its payment", async () => {
  const stage = await openStage();
  const replay = {
    id: `0x${"aa".repeat(32)}` as const,
    kind: 1,
    token: stage.tokens,
    tokenId: 1n,
    amount: 50n,
    to: stage.hostile,
  };
  const calls = [
    {
      to: stage.vault,
      data: encodeFunctionData({
        abi: vaultAbi,
        functionName: "pay",
        args: [2n, 2n ** 40n, [replay]],
      }),
    },
    {
      to: stage.factory,
      data: encodeFunctionData({ abi: depositFactoryAbi, functionName: "sweep", args: [[]] }),
    },
  ];
  const hook = (call: (typeof calls)[number]) =>
    encodeFunctionData({
      abi: recipientArtifact.abi,
      functionName: "setCall",
      args: [call.to, call.data],
    });
  const user = await withTokens(stage, hook(calls[0] ?? { to: stage.vault, data: "0x" }));
  for (const [index, call] of calls.entries()) {
    if (index > 0) await stage.asAdmin(stage.hostile, hook(call));
    const { id, paymentId } = await stage.withdraw(user.userId, ASSET, 10n, stage.hostile);
    const status = await drive(stage, id);
    expect(await stage.paidCount(paymentId)).toBe(status === "settled" ? 1 : 0);
    expect(
      await stage.client.readContract({
        address: stage.hostile,
        abi: recipientArtifact.abi,
        functionName: "callSucceeded",
        args: [],
      }),
    ).toBe(false);
  }
  const row = await first<{ settled: number }>(
    env.DB,
    sql`SELECT coalesce(sum(amount), 0) AS settled FROM withdrawals
      WHERE chain = ${stage.chain.chain} AND status = 'settled'`,
  );
  const settled = row?.settled ?? 0;
  expect(await stage.tokensOf(stage.hostile, 1n)).toBe(BigInt(settled));
  expect(await readBalance(env.DB, user.userId, ASSET)).toMatchObject({
    available: 100n - BigInt(settled),
    pending: 0n,
  });
  await expectRest(stage);
});

itDeeper("retries a sweep that the token rejected only after its wait", async () => {
  const stage = await openStage({ usdc: hostileToken });
  const user = await stage.user();
  await stage.watch();
  await stage.mintUsdc(user.address, 100n);
  await stage.confirm();
  await stage.watch();
  const mode = (value: number) =>
    stage.asAdmin(
      stage.usdc,
      encodeFunctionData({ abi: hostileToken.abi, functionName: "setMode", args: [value] }),
    );
  await mode(TOKEN_REVERTS);
  await stage.mine();
  const { id, paymentId } = await stage.withdraw(user.userId, USDC, 60n, someone());
  const payer = await stage.payer();
  for (let round = 0; round < 6; round++) {
    await payer.round();
    await stage.mine();
    await stage.watch();
  }
  const sweeps = () =>
    all(
      env.DB,
      sql`SELECT 1 FROM chain_transactions WHERE chain = ${stage.chain.chain} AND kind = 'sweep'`,
    );
  expect(await sweeps()).toHaveLength(1);
  const waiting = await first<{ wait: number }>(
    env.DB,
    sql`SELECT not_before - CAST(round(unixepoch('subsec') * 1000) AS INTEGER) AS wait
      FROM sweepable WHERE chain = ${stage.chain.chain}`,
  );
  expect(waiting?.wait).toBeGreaterThan(3_000_000);
  await mode(HONEST);
  await stage.mine();
  await payer.round();
  expect(await sweeps()).toHaveLength(1);
  await all(env.DB, sql`UPDATE sweepable SET not_before = 0 WHERE chain = ${stage.chain.chain}`);
  expect(await drive(stage, id)).toBe("settled");
  expect(await sweeps()).toHaveLength(2);
  expect(await stage.paidCount(paymentId)).toBe(1);
  expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
    available: 40n,
    pending: 0n,
  });
  await expectRest(stage);
});

describe("a token that refuses every transfer", () => {
  async function pausable() {
    const stage = await openStage({ usdc: hostileToken });
    const user = await funded(stage);
    const setToken = (value: number) =>
      stage.asAdmin(
        stage.usdc,
        encodeFunctionData({ abi: hostileToken.abi, functionName: "setMode", args: [value] }),
      );
    return { stage, user, setToken };
  }
  const kindsOf = ({ chain }: Stage) =>
    all<{ kind: string }>(
      env.DB,
      sql`SELECT kind FROM chain_transactions WHERE chain = ${chain.chain} ORDER BY nonce`,
    );

  it("holds its payments back and fails none, while other assets are paid", async () => {
    const { stage, user, setToken } = await pausable();
    await stage.mintTokens(user.address, 1n, 10n);
    await stage.mintTokens(stage.vault, 1n, 10n);
    await stage.confirm();
    await setToken(TOKEN_REVERTS);
    await stage.mine();
    const waiting: { id: string }[] = [];
    for (let n = 0; n < 3; n++)
      waiting.push(await stage.withdraw(user.userId, USDC, 10n, someone()));
    const token = await stage.withdraw(user.userId, ASSET, 10n, someone());
    expect(await drive(stage, token.id)).toBe("settled");
    expect(await kindsOf(stage)).toEqual([{ kind: "pay" }]);
    for (const { id } of waiting)
      expect(await stage.withdrawal(id)).toMatchObject({ status: "queued", failure_code: null });
    const ended = async () => {
      await setToken(HONEST);
      await stage.mine();
      for (const { id } of waiting) expect(await drive(stage, id)).toBe("settled");
    };
    const subject = tokenSubject(stage.chain.chain, tokenName(USDC));
    await stage.answerAlert("token_refuses", ended, { subject });
    await expectRest(stage);
  });

  itDeeper("returns a payment to the queue that was already sent, for a minute", async () => {
    const { stage, user, setToken } = await pausable();
    const { id, paymentId } = await stage.withdraw(user.userId, USDC, 10n, someone());
    const payer = await stage.payer();
    await payer.round();
    await stage.rpc("anvil_dropAllTransactions", []);
    await setToken(TOKEN_REVERTS);
    await stage.mine();
    await payer.round();
    await stage.confirm();
    await stage.watch();
    expect(await stage.withdrawal(id)).toMatchObject({ status: "queued", failure_code: null });
    expect(await stage.alerts()).toEqual(["token_refuses"]);
    const [row] = await all<{ wait: number }>(
      env.DB,
      sql`SELECT not_before - updated_at AS wait FROM withdrawals
        WHERE withdrawal_id = ${uuid(id)}`,
    );
    expect(row?.wait).toBe(60_000);
    await setToken(HONEST);
    await stage.mine();
    expect(await drive(stage, id)).toBe("settled");
    expect(await stage.paidCount(paymentId)).toBe(1);
    expect(await stage.alerts()).toEqual([]);
    await expectRest(stage);
  });
});
