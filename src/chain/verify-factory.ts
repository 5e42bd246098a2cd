/** Verifies a factory's code and address before its first use, because deposits could be lost. */
import { getAddress, type Hex, isAddressEqual, keccak256 } from "viem";
import artifact from "../../contracts/artifacts/DepositFactory.json" with { type: "json" };
import type { ChainConfig } from "../platform/config.ts";
import { NOW } from "../platform/commit.ts";
import { errorFields, log } from "../platform/log.ts";
import { Problem } from "../platform/problem.ts";
import { all, blob, first, sql } from "../platform/sql.ts";
import { depositFactoryAbi } from "../../contracts/abi/deposit-factory.ts";
import { cloneAddress } from "./addresses.ts";
import type { Endpoint } from "./rpc.ts";
import { askAgreed } from "./witnesses.ts";

/** An arbitrary salt, because only the computation is compared. */
const PROBE: Hex = `0x${"a5".repeat(32)}`;

const verified = new Set<string>();

/** Verifies each (chain, factory) once. Throws `unavailable` if it cannot be verified now. */
export async function verifyFactory(
  env: { readonly DB: D1Database },
  chain: ChainConfig,
): Promise<void> {
  const key = `${chain.chain}:${chain.factory.toLowerCase()}`;
  if (verified.has(key)) return;
  const factory = blob(chain.factory);
  const recorded = await first(
    env.DB,
    sql`SELECT 1 FROM chain_factories WHERE chain = ${chain.chain} AND factory = ${factory}`,
  );
  if (recorded === undefined) {
    if (!(await matches(chain)))
      throw new Problem({
        code: "unavailable",
        detail: `Deposit addresses on ${chain.chain} cannot be verified now.`,
        extensions: { outcome: "none" },
        retryAfterSecs: 30,
      });
    await all(
      env.DB,
      sql`INSERT INTO chain_factories (chain, factory, verified_at)
        VALUES (${chain.chain}, ${factory}, ${NOW}) ON CONFLICT DO NOTHING`,
    );
  }
  verified.add(key);
}

async function matches(chain: ChainConfig): Promise<boolean> {
  try {
    const { value } = await askAgreed(chain, (endpoint) => compare(endpoint, chain));
    if (!value)
      log("error", "chain.factory_differs", { chain: chain.chain, factory: chain.factory });
    return value;
  } catch (error) {
    log("warn", "chain.factory_unverified", { chain: chain.chain, ...errorFields(error) });
    return false;
  }
}

async function compare({ client }: Endpoint, chain: ChainConfig): Promise<boolean> {
  const factory = getAddress(chain.factory);
  if ((await client.getChainId()) !== chain.chain_id) return false;
  const code = await client.getCode({ address: factory });
  if (code === undefined || keccak256(code) !== artifact.deployedBytecodeHash) return false;
  const computed = await client.readContract({
    address: factory,
    abi: depositFactoryAbi,
    functionName: "addressOf",
    args: [PROBE],
  });
  return isAddressEqual(computed, cloneAddress(factory, PROBE));
}
