/** Gas limits are our own. A node that invents one can neither burn money nor block a nonce. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { pad, toFunctionSelector, toHex } from "viem";
import { depositFactoryAbi } from "../../contracts/abi/deposit-factory.ts";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import { gasLimits } from "../../src/chain/vault-calls.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { drive, expectRest, queuedWithdrawal } from "./support/drive.ts";
import { openStage } from "./support/stage.ts";

const LIMIT_VIEWS = [
  "payGasLimit(uint256,uint256)",
  "voidGasLimit(uint256)",
  "sweepGasLimit(uint256)",
].map((view) => toFunctionSelector(view));

it.each([
  ["too little", 100_000n],
  ["more than a block has", 1n << 60n],
])("a node that returns %s as gas limits changes no transaction", async (_, lie) => {
  const { stage, id, paymentId } = await queuedWithdrawal();
  const url = await stage.faultyEndpoint((method, result, params) => {
    const [{ data = "" } = {}] = params as [{ data?: string }?];
    const asksLimit = method === "eth_call" && LIMIT_VIEWS.some((view) => data.startsWith(view));
    return asksLimit ? pad(toHex(lie)) : result;
  });
  const chain = { ...stage.chain, rpc_urls: [url] };
  expect(await drive(stage, id, { chain })).toBe("settled");
  expect(await stage.paidCount(paymentId)).toBe(1);
  const made = await all<{ gas: number }>(
    env.DB,
    sql`SELECT gas_limit AS gas FROM chain_transactions WHERE chain = ${stage.chain.chain}`,
  );
  expect(made).toEqual([{ gas: Number(gasLimits.pay(1, 0)) }]);
  await expectRest(stage);
});

it("gas limits are those of the contracts", async () => {
  const stage = await openStage();
  const vault = { address: stage.vault, abi: vaultAbi } as const;
  const factory = { address: stage.factory, abi: depositFactoryAbi } as const;
  for (const count of [1, 7, 50]) {
    const of = BigInt(count);
    const pay = (args: readonly [bigint, bigint]) =>
      stage.client.readContract({ ...vault, functionName: "payGasLimit", args });
    expect(gasLimits.pay(count, 0)).toBe(await pay([of, 0n]));
    expect(gasLimits.pay(0, count)).toBe(await pay([0n, of]));
    expect(gasLimits.void(count)).toBe(
      await stage.client.readContract({ ...vault, functionName: "voidGasLimit", args: [of] }),
    );
    expect(gasLimits.sweep(count)).toBe(
      await stage.client.readContract({ ...factory, functionName: "sweepGasLimit", args: [of] }),
    );
  }
});
