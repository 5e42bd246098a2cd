import type { ChainConfig } from "../platform/config.ts";

/**
 * Pause between rounds of a payer that has work, and after rounds that failed, so that an alert
 * about ten failures is in time although an idle chain is asked seldom.
 */
export const activePollMs = ({ poll_ms }: Pick<ChainConfig, "poll_ms">) => Math.min(poll_ms, 4_000);
