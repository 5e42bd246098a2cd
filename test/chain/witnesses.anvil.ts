/** A watcher with faulty RPC endpoints: money moves only on what enough endpoints agree on. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { encodeEventTopics, type Hex, keccak256, pad, toHex } from "viem";
import { USDC } from "../../src/assets/asset.ts";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import { watchChain } from "../../src/custody/watcher/watch-chain.ts";
import { chainStatus, recordResume } from "../../src/custody/operator-commands.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import { all, first, sql } from "../../src/platform/sql.ts";
import { funded } from "./support/drive.ts";
import { openStage, someone, type Stage } from "./support/stage.ts";
import type { Depositor } from "./support/stage.ts";
import { itDeeper, some } from "../support/depth.ts";

type RpcLog = { address: Hex; topics: Hex[]; data: Hex; [member: string]: unknown };
type Range = { fromBlock: Hex; toBlock: Hex };
type Change = (method: string, result: unknown, params: unknown) => unknown;

const TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

/** The watcher of the stage with one endpoint per change of its results. */
async function watcherOver(
  stage: Stage,
  changes: readonly Change[],
  ask?: Parameters<Stage["faultyEndpoint"]>[1],
) {
  const rpc_urls: string[] = [];
  for (const change of changes) rpc_urls.push(await stage.faultyEndpoint(change, ask));
  const chain = { ...stage.chain, rpc_urls };
  const settings = { ...stage.settings, CHAINS: [chain] };
  return { ...stage.watcher, chain, settings };
}

const unchanged: Change = (_, result) => result;

/** Adds a transfer of a million to the user to the logs of one block. */
function inventTransfer(stage: Stage, block: number, user: Depositor): Change {
  return async (method, result, params) => {
    if (method !== "eth_getLogs") return result;
    const [{ fromBlock, toBlock } = { fromBlock: "0x0", toBlock: "0x0" }] = params as Range[];
    if (Number(fromBlock) > block || Number(toBlock) < block) return result;
    const real = (await stage.rpc("eth_getBlockByNumber", [toHex(block), false])) as { hash: Hex };
    const invented = {
      address: stage.usdc,
      topics: [TRANSFER, pad(someone()), pad(user.address)],
      data: pad(toHex(1_000_000n)),
      blockNumber: toHex(block),
      blockHash: real.hash,
      transactionHash: keccak256("0x1234"),
      transactionIndex: "0x0",
      logIndex: "0x63",
      removed: false,
    };
    return [...(result as RpcLog[]), invented];
  };
}

const omitLogs: Change = (method, result) => (method === "eth_getLogs" ? [] : result);

/** A block that is not mined yet, also when the set-up took more blocks than usual. */
async function blockAhead(stage: Stage): Promise<number> {
  return Number(await stage.client.getBlockNumber()) + 2;
}

/** Mines up to a block, so that a transfer invented there can be confirmed. */
async function mineTo(stage: Stage, block: number): Promise<void> {
  const now = Number(await stage.client.getBlockNumber());
  if (now < block) await stage.mine(block - now);
}

describe("a deposit that one endpoint of two invent", () => {
  it.each([
    ["first", 0],
    ["second", 1],
  ] as const)("is not credited if that is the %s", async (_, faulty) => {
    const stage = await openStage();
    const user = await stage.user();
    const changes = [unchanged, unchanged];
    const block = await blockAhead(stage);
    changes[faulty] = inventTransfer(stage, block, user);
    const watcher = await watcherOver(stage, changes);
    await watchChain(watcher);
    await mineTo(stage, block);
    await watchChain(watcher);
    await stage.mine(3);

    await expect(watchChain(watcher)).rejects.toThrow(/disagree/);

    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
      available: 0n,
      pending: 0n,
    });
    expect(await stage.alerts()).toEqual(["nodes_disagree"]);
    const [alert] = await all<{ detail: string }>(
      env.DB,
      sql`SELECT detail FROM alerts WHERE subject = ${stage.chain.chain}
        AND kind = 'nodes_disagree'`,
    );
    for (const url of watcher.chain.rpc_urls) expect(alert?.detail).toContain(new URL(url).host);
  });
});

describe("a faulty endpoint among three", () => {
  it.each(some([0, 1, 2]))("does not stop the other two (index %i)", async (faulty) => {
    const stage = await openStage();
    const [user, other] = [await stage.user(), await stage.user()];
    const changes = [unchanged, unchanged, unchanged];
    const block = await blockAhead(stage);
    changes[faulty] = inventTransfer(stage, block, other);
    const watcher = await watcherOver(stage, changes);
    await watchChain(watcher);
    await stage.mintUsdc(user.address, 500n);
    await mineTo(stage, block);
    await watchChain(watcher);
    await stage.mine(3);
    await watchChain(watcher);

    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({ available: 500n });
    expect(await readBalance(env.DB, other.userId, USDC)).toMatchObject({ available: 0n });
    expect((await stage.deposits(other.userId)).map(({ status }) => status)).not.toContain(
      "credited",
    );
  });

  it("cannot prevent a credit by omitting logs, and an alert names it", async () => {
    const stage = await openStage();
    const user = await stage.user();
    const watcher = await watcherOver(stage, [omitLogs, unchanged, unchanged]);
    await watchChain(watcher);
    await stage.mintUsdc(user.address, 500n);
    await stage.mine();
    await watchChain(watcher);
    await stage.mine(3);
    await watchChain(watcher);

    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({ available: 500n });
    expect(await stage.alerts()).toEqual(["nodes_disagree"]);
  });

  itDeeper("cannot prevent a credit by reporting a head far reportFarAhead", async () => {
    const stage = await openStage({ chain: { finalized: true } });
    const user = await stage.user();
    const reportFarAhead: Change = (method, result, params) => {
      const [at] = params as [string];
      if (method !== "eth_getBlockByNumber" || (at !== "latest" && at !== "finalized"))
        return result;
      return { ...(result as object), number: toHex(1_000_000) };
    };
    const watcher = await watcherOver(stage, [reportFarAhead, unchanged, unchanged]);
    await watchChain(watcher);
    await stage.mintUsdc(user.address, 500n);
    await stage.mine(70);
    for (let round = 0; round < 3; round++) await watchChain(watcher);

    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({ available: 500n });
    const row = await first<{ head: number }>(
      env.DB,
      sql`SELECT head_number AS head FROM chain_cursors WHERE chain = ${stage.chain.chain}`,
    );
    expect(row?.head).toBeLessThan(1_000);
  });

  itDeeper("cannot halt the chain by denying the confirmed block", async () => {
    const stage = await openStage();
    const user = await stage.user();
    let faulty = false;
    const denyBlocks: Change = (method, result) =>
      faulty && method === "eth_getBlockByNumber" && result !== null
        ? { ...(result as object), hash: keccak256(toHex(JSON.stringify(result))) }
        : result;
    const watcher = await watcherOver(stage, [denyBlocks, unchanged, unchanged]);
    await watchChain(watcher);
    await stage.mine(5);
    await watchChain(watcher);
    faulty = true;
    await stage.mintUsdc(user.address, 500n);
    await stage.mine(3);

    expect(await watchChain(watcher)).toMatchObject({ status: "followed" });
    await watchChain(watcher);
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({ available: 500n });
  });
});

it("does not refund a paid withdrawal that one of two endpoints reports as failed", async () => {
  const stage = await openStage();
  const user = await funded(stage);
  const { id, paymentId } = await stage.withdraw(user.userId, USDC, 1_000n, someone());
  const args = { id: paymentId, batchNo: 1n };
  const [failed] = encodeEventTopics({ abi: vaultAbi, eventName: "Failed", args });
  const [paid] = encodeEventTopics({ abi: vaultAbi, eventName: "Paid", args });
  const failPayments: Change = (method, result) =>
    method === "eth_getLogs"
      ? (result as RpcLog[]).map((log) =>
          log.topics[0] === paid && failed !== undefined && failed !== null
            ? { ...log, topics: [failed, ...log.topics.slice(1)], data: "0x" }
            : log,
        )
      : result;
  const watcher = await watcherOver(stage, [unchanged, failPayments]);
  const payer = await stage.payer({ chain: watcher.chain, settings: watcher.settings });
  for (let round = 0; round < 6; round++) {
    await payer.round();
    await stage.mine();
    await watchChain(watcher).catch(() => {});
  }
  expect(await stage.paidCount(paymentId)).toBe(1);
  expect(await stage.withdrawal(id)).toMatchObject({ status: "submitted" });
  expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
    available: 0n,
    pending: 1_000n,
  });

  const repaired = await watcherOver(stage, [unchanged, unchanged]);
  await watchChain(repaired);
  expect(await stage.withdrawal(id)).toMatchObject({ status: "settled" });
  expect(await stage.alerts()).not.toContain("nodes_disagree");
});

describe("a single endpoint", () => {
  it("orphans a transfer that it no longer returns", async () => {
    const stage = await openStage();
    const [phantom, victim] = [await stage.user(), await stage.user()];
    const block = await blockAhead(stage);
    const invent = inventTransfer(stage, block, phantom);
    let faulty = true;
    const watcher = await watcherOver(stage, [
      (method, result, params) => (faulty ? invent(method, result, params) : result),
    ]);
    await watchChain(watcher);
    await mineTo(stage, block);
    await watchChain(watcher);
    expect(await stage.deposits(phantom.userId)).toMatchObject([{ status: "confirming" }]);
    faulty = false;
    await stage.mintUsdc(victim.address, 500n);
    await stage.mine(5);
    await watchChain(watcher);

    expect(await stage.deposits(phantom.userId)).toMatchObject([{ status: "orphaned" }]);
    expect(await readBalance(env.DB, victim.userId, USDC)).toMatchObject({ available: 500n });
    await stage.answerAlert("deposit_phantom");
  });

  itDeeper("recovers within a minute from a head far reportFarAhead", async () => {
    const stage = await openStage({ chain: { finalized: true } });
    const user = await stage.user();
    let faulty = false;
    const invented = (number: number) => keccak256(toHex(number));
    const reportFarAhead: Change = async (method, result, params) => {
      if (!faulty || method !== "eth_getBlockByNumber") return result;
      const real = Number(await stage.client.getBlockNumber());
      const [at] = params as [string];
      const number = at === "latest" ? 1_000_000 : at === "finalized" ? 0 : Number(at);
      if (number <= real) return result;
      const block = (await stage.rpc("eth_getBlockByNumber", ["latest", false])) as {
        hash: Hex;
      };
      const parentHash = number - 1 === real ? block.hash : invented(number - 1);
      return { ...block, number: toHex(number), hash: invented(number), parentHash };
    };
    // A node rejects requests for logs of blocks that it does not have.
    const watcher = await watcherOver(stage, [reportFarAhead], (call) =>
      faulty && call.method === "eth_getLogs"
        ? { ...call, params: [{ fromBlock: "0x0", toBlock: "0x0" }] }
        : call,
    );
    await watchChain(watcher);
    faulty = true;
    await watchChain(watcher);
    faulty = false;
    await stage.mintUsdc(user.address, 500n);
    await stage.mine(70);
    await expect(watchChain(watcher)).rejects.toThrow(/behind/);

    await all(
      env.DB,
      sql`UPDATE chain_cursors SET moved_at = moved_at - 61000 WHERE chain = ${stage.chain.chain}`,
    );
    for (let round = 0; round < 3; round++) await watchChain(watcher);
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({ available: 500n });
  });

  itDeeper("accepts a lower head after chain resume", async () => {
    const stage = await openStage();
    await stage.watch();
    await all(
      env.DB,
      sql`UPDATE chain_cursors SET head_number = 1000000 WHERE chain = ${stage.chain.chain}`,
    );
    await stage.mine();
    await expect(stage.watch()).rejects.toThrow(/behind/);
    await recordResume(env.DB, stage.chain.chain, "operator:alice");

    expect(await stage.watch()).toMatchObject({ status: "followed" });
  });
});

itDeeper("chain status shows the number of witnesses", async () => {
  const stage = await openStage();
  await stage.watch();
  const status = await chainStatus(env.DB, stage.settings, stage.chain.chain);
  expect(status["chains"]).toMatchObject([{ chain: stage.chain.chain, witnesses: 1 }]);
});
