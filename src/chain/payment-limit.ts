/** The largest payment of an asset that a vault can make. An isolate keeps it for a minute. */
import { getAddress } from "viem";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import type { AssetKey } from "../assets/asset.ts";
import type { ChainConfig, Config } from "../platform/config.ts";
import { log } from "../platform/log.ts";
import { describe } from "./rpc.ts";
import { tokenOf } from "./token.ts";
import { askAgreed } from "./witnesses.ts";

const KEPT_MS = 60_000;
/** A request waits no longer for the chain. */
const WAIT_MS = 2_000;
/** After a failure the chain is left alone for this time, so that not every request waits. */
const RETRY_MS = 10_000;
/** Limit of remembered assets, because callers name any. */
const MAX_KEPT = 1_000;

/** Values, not promises: a promise of one request must not be awaited by another one. */
const kept = new Map<string, { readonly maximum: bigint; readonly until: number }>();
const unreadableUntil = new Map<string, number>();

/** Undefined if the chain does not answer in time. The vault protects itself then. */
export async function paymentLimit(
  settings: Config,
  chain: ChainConfig,
  asset: AssetKey,
): Promise<bigint | undefined> {
  const key = `${chain.chain} ${chain.vault} ${asset}`;
  const known = kept.get(key);
  if (known !== undefined && known.until > Date.now()) return known.maximum;
  if ((unreadableUntil.get(chain.chain) ?? 0) > Date.now()) return undefined;
  const token = tokenOf(settings, chain, asset);
  const reading = askAgreed(chain, async ({ client }) => {
    const [maximum] = await client.readContract({
      address: getAddress(chain.vault),
      abi: vaultAbi,
      functionName: "paymentLimitOf",
      args: [token.token, token.kind, token.tokenId],
    });
    return maximum;
  });
  try {
    const { value: maximum } = await Promise.race([reading, timeout()]);
    if (kept.size >= MAX_KEPT) kept.clear();
    kept.set(key, { maximum, until: Date.now() + KEPT_MS });
    return maximum;
  } catch (error) {
    reading.catch(() => {});
    unreadableUntil.set(chain.chain, Date.now() + RETRY_MS);
    log("warn", "custody.payment_limit_unread", { chain: chain.chain, error: describe(error) });
    return undefined;
  }
}

async function timeout(): Promise<never> {
  await scheduler.wait(WAIT_MS);
  throw new Error(`no answer within ${WAIT_MS} ms`);
}
