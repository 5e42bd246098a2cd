/** The settings of a chain whose watcher and payer act at once, without sweeps of their own. */
import type { ChainConfig } from "../../src/platform/config.ts";

type Required = Pick<ChainConfig, "chain" | "rpc_urls" | "factory" | "vault" | "usdc">;

export function testChain(chain: Required & Partial<ChainConfig>): ChainConfig {
  return {
    chain_id: 31_337,
    previous_vaults: [],
    confirmations: 2,
    finalized: false,
    finality_stall_secs: 900,
    start_block: 0,
    scan_range: 500,
    poll_ms: 1_000,
    max_fee_gwei: 1_000,
    max_tip_gwei: 100,
    replace_after_secs: 60,
    late_after_secs: 3_600,
    sweep_float_bps: 0,
    min_sweep: 1,
    min_deposit: 1,
    default: true,
    ...chain,
  };
}
