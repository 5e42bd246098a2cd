/** Fees follow the market, not the clock; refusals by every node are reported. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { USDC } from "../../src/assets/asset.ts";
import { all, first, sql } from "../../src/platform/sql.ts";
import { drive, funded, queuedWithdrawal } from "./support/drive.ts";
import { type Node, withNodes } from "./support/nodes.ts";
import { openStage, someone, type Stage } from "./support/stage.ts";
import { itDeeper } from "../support/depth.ts";

const GWEI = 10n ** 9n;

/** Tips and fees of all attempts of the stage's only transaction. */
async function attempts({ chain }: Stage) {
  const rows = await all<{ fee: string; tip: string }>(
    env.DB,
    sql`SELECT CAST(a.max_fee AS TEXT) AS fee, CAST(a.priority_fee AS TEXT) AS tip
      FROM transaction_attempts a JOIN chain_transactions t USING (transaction_id)
      WHERE t.chain = ${chain.chain} ORDER BY a.attempt`,
  );
  return rows.map(({ fee, tip }) => ({ maxFee: BigInt(fee), tip: BigInt(tip) }));
}

/** A withdrawal whose transaction no node has any more. Every round may replace it. */
async function dropped() {
  const { stage, id } = await queuedWithdrawal({ chain: { replace_after_secs: 0 } });
  const payer = await stage.payer();
  await payer.round();
  await stage.rpc("anvil_dropAllTransactions", []);
  const mineAt = async (gwei: bigint) => {
    await stage.rpc("anvil_dropAllTransactions", []);
    await stage.client.setNextBlockBaseFeePerGas({ baseFeePerGas: gwei * GWEI });
    await stage.mine();
  };
  return { stage, payer, mineAt, id };
}

describe("fees", () => {
  it("rise once per two blocks, not once per round", async () => {
    const { stage, payer, mineAt, id } = await dropped();
    await mineAt(20n);
    for (let round = 0; round < 5; round++) await payer.round();
    expect(await attempts(stage)).toHaveLength(1);
    await mineAt(20n);
    for (let round = 0; round < 5; round++) await payer.round();
    const [before, after, ...others] = await attempts(stage);
    expect(others).toEqual([]);
    expect(after?.maxFee).toBeGreaterThan(20n * GWEI);
    expect(after?.tip).toBeLessThan(((before?.tip ?? 0n) * 6n) / 5n);
    expect(await drive(stage, id)).toBe("settled");
  });

  itDeeper("do not rise while they match the market", async () => {
    const { stage, payer, id } = await dropped();
    for (let round = 0; round < 5; round++) {
      await stage.rpc("anvil_dropAllTransactions", []);
      await stage.mine();
      await payer.round();
    }
    expect(await attempts(stage)).toHaveLength(1);
    expect(await drive(stage, id)).toBe("settled");
  });

  itDeeper("have at least the chain's lowest tip", async () => {
    const { stage } = await queuedWithdrawal({ chain: { min_tip_gwei: 30 } });
    await (await stage.payer()).round();
    expect((await attempts(stage))[0]?.tip).toBe(30n * GWEI);
  });

  itDeeper("have at most half of the chain's highest tip", async () => {
    const stage = await openStage({ chain: { max_tip_gwei: 3 } });
    const expensive = await stage.faultyEndpoint((method, result) =>
      method === "eth_maxPriorityFeePerGas" ? `0x${(500n * GWEI).toString(16)}` : result,
    );
    const user = await funded(stage);
    await stage.withdraw(user.userId, USDC, 300n, someone());
    const chain = { ...stage.chain, rpc_urls: [expensive] };
    await (await stage.payer({ chain })).round();
    expect((await attempts(stage))[0]?.tip).toBe((3n * GWEI) / 2n);
  });
});

it.each([
  [2, "0x746a528800"],
  [3, "0x746a528800"],
  [3, "0x0"],
  [3, "nonsense"],
] as const)("one of %i endpoints cannot have a tip of %s offered", async (count, tip) => {
  const stage = await openStage();
  const user = await funded(stage);
  const honest = BigInt((await stage.rpc("eth_maxPriorityFeePerGas", [])) as string);
  const [liar] = await withNodes(stage, count);
  Object.assign(liar as Node, {
    lie: (method: string, result: unknown) =>
      method === "eth_maxPriorityFeePerGas" ? tip : result,
  });
  await stage.withdraw(user.userId, USDC, 10n, someone());
  await (await stage.payer()).round();
  expect((await attempts(stage)).map((attempt) => attempt.tip)).toEqual([honest]);
});

describe("a transaction that nodes refuse", () => {
  const refusing = (stage: Stage, reason: string) =>
    stage.faultyEndpoint((method, result) => {
      if (method === "eth_sendRawTransaction") throw new Error(reason);
      return result;
    });
  const alert = ({ chain }: Stage) =>
    first<{ detail: string }>(
      env.DB,
      sql`SELECT detail FROM alerts WHERE kind = 'node_refused' AND subject = ${chain.chain}
        AND resolved_at IS NULL`,
    );

  it("raises an alert with reason and host until one accepts it", async () => {
    const stage = await openStage();
    const url = await refusing(stage, "transaction underpriced");
    const user = await funded(stage);
    const { id } = await stage.withdraw(user.userId, USDC, 300n, someone());
    const other = await refusing(stage, "transaction underpriced");
    const refused = await stage.payer({ chain: { ...stage.chain, rpc_urls: [url, other] } });
    await refused.round();
    const { detail = "" } = (await alert(stage)) ?? {};
    expect(detail).toContain("transaction underpriced");
    expect(detail).toContain(new URL(url).host);
    expect(detail).not.toContain("http");
    await stage.answerAlert("node_refused", async () => {
      expect(await drive(stage, id)).toBe("settled");
    });
  });

  itDeeper("raises no alert if another node accepts or knows it", async () => {
    const { stage } = await queuedWithdrawal();
    for (const other of [stage.chain.rpc_urls[0] ?? "", await refusing(stage, "already known")]) {
      const urls = [await refusing(stage, "transaction underpriced"), other];
      const payer = await stage.payer({ chain: { ...stage.chain, rpc_urls: urls } });
      await payer.round();
      expect(await alert(stage)).toBeUndefined();
    }
  });
});
