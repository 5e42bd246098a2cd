/** Compares the contracts on chain with the checkout. Deploying them is the admin's own command. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { keccak256, type Hex } from "viem";
import type { DeploySettings } from "./settings.ts";
import type { Secrets } from "./secrets.ts";

export type Rpc = (url: string, method: string, params: unknown[]) => Promise<unknown>;

export const callRpc: Rpc = async (url, method, params) => {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
    signal: AbortSignal.timeout(10_000),
  });
  return ((await response.json()) as { result?: unknown }).result;
};

/** What is wrong, for example "polygon: no Vault at 0x…". Never contains a URL. */
export async function wrongContracts(
  root: string,
  settings: DeploySettings,
  secrets: Secrets,
  rpc: Rpc,
): Promise<string[]> {
  const urls = JSON.parse(secrets["RPC_URLS"] ?? "{}") as Record<string, string[]>;
  const wrong: string[] = [];
  for (const { chain, vault, factory, rpc_urls, chain_id } of settings.chains) {
    const [url] = urls[chain] ?? rpc_urls;
    if (url === undefined) {
      wrong.push(`${chain}: no endpoint in chains.rpc_urls or in the file of secrets (RPC_URLS)`);
      continue;
    }
    const ask = (method: string, params: unknown[]) =>
      rpc(url, method, params).catch(() => undefined);
    if (Number(await ask("eth_chainId", [])) !== chain_id)
      wrong.push(`${chain}: the endpoint does not answer, or is of another chain`);
    for (const [name, address] of Object.entries({ Vault: vault, DepositFactory: factory })) {
      const code = await ask("eth_getCode", [address, "latest"]);
      const path = join(root, "contracts", "artifacts", `${name}.json`);
      const artifact = JSON.parse(readFileSync(path, "utf8")) as { deployedBytecodeHash: Hex };
      if (typeof code !== "string" || keccak256(code as Hex) !== artifact.deployedBytecodeHash)
        wrong.push(`${chain}: no ${name} of this checkout at ${address}`);
    }
  }
  return wrong;
}
