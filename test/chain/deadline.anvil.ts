/**
 * The deadline of a payment is our own clock's, so a node cannot keep a forgotten batch payable.
 */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { decodeFunctionData, type Hex, toHex } from "viem";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import { first, sql } from "../../src/platform/sql.ts";
import { drive, queuedWithdrawal } from "./support/drive.ts";

const DAY_SECS = 86_400;

it.each([
  ["years ahead", 10 * 365 * DAY_SECS],
  ["years behind", -10 * 365 * DAY_SECS],
])("is a day ahead if a node's clock is %s", async (_, shift) => {
  const { stage, id } = await queuedWithdrawal();
  const url = await stage.faultyEndpoint((method, result) => {
    if (!method.startsWith("eth_getBlock")) return result;
    const block = result as { timestamp: Hex };
    return { ...block, timestamp: toHex(Number(block.timestamp) + shift) };
  });
  const chain = { ...stage.chain, rpc_urls: [url] };
  const now = Math.floor(Date.now() / 1_000);
  expect(await drive(stage, id, { chain })).toBe("settled");
  const made = await first<{ data: string }>(
    env.DB,
    sql`SELECT lower(hex(data)) AS data FROM chain_transactions WHERE chain = ${stage.chain.chain}`,
  );
  const { args } = decodeFunctionData({ abi: vaultAbi, data: `0x${made?.data ?? ""}` });
  const deadline = Number(args?.[1]);
  expect(deadline).toBeGreaterThanOrEqual(now + DAY_SECS);
  expect(deadline).toBeLessThan(now + DAY_SECS + 3_600);
});
