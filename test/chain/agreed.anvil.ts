/**
 * Two or three RPC endpoints of which one lags or lies: what the payer ends, halts and still pays.
 */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { decodeFunctionData, encodeFunctionResult, type Hex, keccak256 } from "viem";
import { USDC } from "../../src/assets/asset.ts";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import { readCursor } from "../../src/chain/chain-cursor.ts";
import { verifyFactory } from "../../src/chain/verify-factory.ts";
import { recheckOldBlocks } from "../../src/custody/watcher/rescan.ts";
import { blockBefore } from "../../src/custody/watcher/restore-addresses.ts";
import { SKIP_REASON } from "../../src/chain/vault-calls.ts";
import { all, blob, first, sql } from "../../src/platform/sql.ts";
import { drive, expectRest, funded } from "./support/drive.ts";
import { type Lie, type Node, withNodes } from "./support/nodes.ts";
import { openStage, someone, type Stage } from "./support/stage.ts";
import { itDeeper, some } from "../support/depth.ts";

async function openNodes(count: 2 | 3) {
  const stage = await openStage();
  const user = await funded(stage);
  const nodes = await withNodes(stage, count);
  // Safe: there are two or three.
  const [one, other] = nodes as [Node, Node];
  const pay = (amount = 10n) => stage.withdraw(user.userId, USDC, amount, someone());
  return { stage, nodes, one, other, pay };
}

/** The payer goes on once one node has accepted. A later one would bring the payment back. */
async function dropSent(stage: Stage, nodes: readonly Node[]): Promise<void> {
  await expect.poll(() => nodes.every(({ sent }) => sent > 0)).toBe(true);
  await stage.rpc("anvil_dropAllTransactions", []);
}

const cursorOf = async ({ chain }: Stage) => {
  const cursor = await readCursor(env.DB, chain.chain);
  if (cursor === undefined) throw new Error("no cursor");
  return cursor;
};

const transactionsOf = ({ chain }: Stage) =>
  all<{ nonce: number; status: string }>(
    env.DB,
    sql`SELECT nonce, status FROM chain_transactions WHERE chain = ${chain.chain} ORDER BY nonce`,
  );

const nonces =
  (used: Hex): Lie =>
  (method, result) =>
    method === "eth_getTransactionCount" ? used : result;

/** Changes the result of one function of the vault. */
const vaultReturns =
  (name: "nextBatchNo" | "states" | "paymentLimitOf", data: Hex): Lie =>
  (method, result, params) => {
    if (method !== "eth_call") return result;
    const [{ data: call }] = params as [{ data: Hex }];
    try {
      return decodeFunctionData({ abi: vaultAbi, data: call }).functionName === name
        ? data
        : result;
    } catch {
      return result;
    }
  };

const batches = (result: bigint): Lie =>
  vaultReturns(
    "nextBatchNo",
    encodeFunctionResult({ abi: vaultAbi, functionName: "nextBatchNo", result }),
  );

describe("one of two endpoints", () => {
  it("does not halt the payer by falling behind, and payments go on", async () => {
    const { stage, one, pay } = await openNodes(2);
    const before = Number(await stage.client.getBlockNumber());
    expect(await drive(stage, (await pay()).id)).toBe("settled");
    one.stuckAt = before;
    await stage.watch();
    const { headNumber, confirmed } = await cursorOf(stage);
    expect(headNumber).toBeGreaterThanOrEqual(confirmed.number);

    const second = await pay();
    const payer = await stage.payer();
    expect(await payer.round()).toEqual({ status: "busy" });
    await stage.mine();
    expect(await stage.paidCount(second.paymentId)).toBe(1);
    expect(await stage.alerts()).toEqual([]);
  });

  it("is away: the payer still pays, but ends nothing until it is back", async () => {
    const { stage, one, pay } = await openNodes(2);
    const { id, paymentId } = await pay();
    const payer = await stage.payer();
    one.away = true;
    await payer.round();
    await stage.mine(3);
    expect(await stage.paidCount(paymentId)).toBe(1);
    one.away = false;
    await stage.watch();
    expect(await stage.withdrawal(id)).toMatchObject({ status: "settled" });

    one.away = true;
    await payer.round();
    expect(await transactionsOf(stage)).toEqual([{ nonce: 0, status: "open" }]);
    one.away = false;
    await payer.round();
    expect(await transactionsOf(stage)).toEqual([{ nonce: 0, status: "done" }]);
  });

  itDeeper("cannot end a transaction by making up used nonces", async () => {
    const { stage, nodes, one, pay } = await openNodes(2);
    const { id } = await pay();
    const payer = await stage.payer();
    await payer.round();
    await dropSent(stage, nodes);
    await stage.mine(3);
    await stage.watch();
    one.lie = nonces("0x64");
    await expect(payer.round()).rejects.toThrow(/disagree: .* against /);
    expect(await transactionsOf(stage)).toEqual([{ nonce: 0, status: "open" }]);
    expect(await stage.withdrawal(id)).toMatchObject({ status: "submitted" });
  });

  it("cannot halt the payer by making up an outcome", async () => {
    const { stage, nodes, one, pay } = await openNodes(2);
    const { id } = await pay();
    const payer = await stage.payer();
    await payer.round();
    // The payment reverts, because the vault is paused before it is mined.
    await dropSent(stage, nodes);
    await stage.vaultCall({ abi: vaultAbi, functionName: "pause" });
    await stage.mine();
    await payer.round();
    await stage.mine(3);
    await stage.watch();
    one.lie = vaultReturns(
      "states",
      encodeFunctionResult({ abi: vaultAbi, functionName: "states", result: [1] }),
    );
    await expect(payer.round()).rejects.toThrow(/disagree/);
    expect(await stage.alerts()).not.toContain("payer_halted");
    one.lie = undefined;
    await payer.round();
    expect(await transactionsOf(stage)).toEqual([{ nonce: 0, status: "unused" }]);
    expect(await stage.withdrawal(id)).toMatchObject({ status: "queued" });
  });

  itDeeper("cannot leave a gap of nonces, even while the other is away", async () => {
    const { stage, one: liar, other, pay } = await openNodes(2);
    const { id } = await pay();
    other.away = true;
    liar.lie = nonces("0x64");
    const payer = await stage.payer();
    await payer.round().catch(() => {});
    expect(await transactionsOf(stage)).toEqual([]);
    liar.lie = undefined;
    other.away = false;
    expect(await drive(stage, id)).toBe("settled");
  });

  it.each([0, 1])("is stuck: crediting waits, and an alert says so (index %i)", async (index) => {
    const { stage, nodes } = await openNodes(2);
    // Safe: there are two.
    const stuck = nodes[index] as Node;
    const { confirmed } = await cursorOf(stage);
    stuck.stuckAt = confirmed.number - 1;
    await stage.mine(3);
    await stage.watch();
    const { movedAt } = await cursorOf(stage);
    await stage.watch();
    expect((await cursorOf(stage)).movedAt).toBe(movedAt);
    expect(await stage.alerts()).toEqual([]);
    await all(
      env.DB,
      sql`UPDATE chain_cursors SET moved_at = moved_at - 900001,
        finalized_at = finalized_at - 900001 WHERE chain = ${stage.chain.chain}`,
    );
    // The other endpoint shows more blocks all the time.
    await stage.mine();
    await stage.watch();
    await stage.mine();
    await stage.watch();
    expect(await stage.alerts()).toEqual(["finality_stalled"]);
    delete stuck.stuckAt;
    await stage.watch();
    await stage.watch();
    expect(await stage.alerts()).toEqual([]);
    expect((await cursorOf(stage)).confirmed.number).toBeGreaterThan(confirmed.number);
  });

  itDeeper("cannot have blocks rechecked before a day has passed", async () => {
    const { stage, one } = await openNodes(2);
    await stage.mine(4);
    await stage.watch();
    one.lie = (method, result, params) =>
      method === "eth_getBlockByNumber" && (params as unknown[])[0] === "0x1"
        ? { ...(result as object), timestamp: "0x0" }
        : result;
    const watcher = { ...stage.watcher, chain: { ...stage.chain, scan_range: 1, start_block: 1 } };
    await expect(recheckOldBlocks(watcher)).rejects.toThrow(/disagree/);
  });

  itDeeper("cannot vouch for a factory alone, or hide where deposits begin", async () => {
    const { stage, one } = await openNodes(2);
    one.lie = (method, result) =>
      method === "eth_getBlockByNumber" && result !== null
        ? { ...(result as object), timestamp: "0x0" }
        : result;
    await expect(blockBefore(stage.watcher, Date.now() + 1_000_000)).resolves.toBeGreaterThan(0);
    await expect(blockBefore(stage.watcher, 700_000)).rejects.toThrow(/disagree/);
    one.lie = undefined;
    one.away = true;
    await expect(verifyFactory(env, stage.chain)).rejects.toThrow(/cannot be verified/);
    one.away = false;
    await expect(verifyFactory(env, stage.chain)).resolves.toBeUndefined();
  });

  it("stops the payer by showing another confirmed block, and an alert names both", async () => {
    const { stage, one, pay } = await openNodes(2);
    await stage.mine(3);
    await stage.watch();
    await pay();
    const { confirmed } = await cursorOf(stage);
    const forked = (number: number, hash: Hex): Hex =>
      number < confirmed.number ? hash : keccak256(hash);
    one.lie = (method, result) => {
      if (method !== "eth_getBlockByNumber" || result === null) return result;
      const block = result as { number: Hex; hash: Hex; parentHash: Hex };
      const number = Number(block.number);
      return {
        ...block,
        hash: forked(number, block.hash),
        parentHash: forked(number - 1, block.parentHash),
      };
    };
    await stage.mine();
    await expect(stage.watch()).rejects.toThrow();
    const payer = await stage.payer();
    await expect(payer.round()).rejects.toThrow(/disagree/);
    expect(await transactionsOf(stage)).toEqual([]);
    const alert = await first<{ detail: string }>(
      env.DB,
      sql`SELECT detail FROM alerts WHERE subject = ${stage.chain.chain}
        AND kind = 'nodes_disagree' AND resolved_at IS NULL`,
    );
    for (const url of stage.chain.rpc_urls) expect(alert?.detail).toContain(new URL(url).host);
    await stage.answerAlert("nodes_disagree", async () => {
      one.lie = undefined;
      await stage.mine();
      await stage.watch();
    });
    expect(await stage.alerts()).toEqual([]);
  });
});

describe("one of three endpoints", () => {
  const LIES: readonly [string, Lie][] = [
    ["more nonces", nonces("0x64")],
    ["fewer nonces", nonces("0x0")],
    ["more batches", batches(99n)],
    ["fewer batches", batches(1n)],
  ];
  it.each(some(LIES))("that counts %s neither stops nor halts payments", async (_, lie) => {
    const { stage, one, pay } = await openNodes(3);
    expect(await drive(stage, (await pay()).id)).toBe("settled");
    one.lie = lie;
    const { id, paymentId } = await pay();
    expect(await drive(stage, id)).toBe("settled");
    expect(await stage.paidCount(paymentId)).toBe(1);
    expect(await stage.alerts()).toEqual([]);
    await expectRest(stage);
  });

  itDeeper("cannot park a withdrawal by making up the vault's limit", async () => {
    const { stage, one, pay } = await openNodes(3);
    const { id, paymentId } = await pay();
    await all(
      env.DB,
      sql`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6)
        INSERT INTO vault_events (chain, transaction_hash, ordinal, kind, payment_id, vault,
          batch_no, skip_reason, block_number, block_hash, recorded_group)
        SELECT ${stage.chain.chain}, randomblob(32), 0, 'Skipped', ${blob(paymentId)},
          ${blob(stage.vault)}, 1, ${SKIP_REASON.overLimit}, 1, randomblob(32), -1 FROM n`,
    );
    const limits = { abi: vaultAbi, functionName: "paymentLimitOf", result: [1n, 1n] } as const;
    one.lie = vaultReturns("paymentLimitOf", encodeFunctionResult(limits));
    await (await stage.payer()).round();
    expect(await stage.withdrawal(id)).toMatchObject({ status: "submitted" });
    expect(await stage.alerts()).toEqual([]);
  });
});
