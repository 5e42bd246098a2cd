/** A maker's safeguards: the part of `client.rfq` that limits what a maker can lose. */
import { RfqRecords } from "./rfq-records.ts";
import type { CallOptions, Transport } from "./transport.ts";
import type { Protection } from "./types.ts";
import { pick } from "./wire.ts";

/** When the protection trips, and for how long. */
export type ProtectionTerms = {
  /** Seconds before each match within which matches are counted: 1 to 3 600. */
  window_secs: number;
  /** Matches as maker that trip it. Default: no limit. */
  max_matches?: number | null;
  /** Sum of `usdc_amount` that trips it, native units of USDC. Default: no limit. */
  max_usdc?: bigint | null;
  /** Seconds for which new quotes are rejected, 1 to 86 400. Default: until it is reset. */
  cooldown_secs?: number | null;
  /**
   * How far a quote may be from the last price of its asset, scaled by 1e6. Beyond it `quote`
   * throws `price_out_of_range`, unless the terms have `confirm_price`. Default: no limit.
   */
  max_deviation?: number | null;
};

/**
 * Protection of a maker. `Rfq` adds the other commands.
 *
 * @example
 * ```ts
 * await client.rfq.saveProtection({ window_secs: 60, max_matches: 5, cooldown_secs: 300 });
 * ```
 */
export class RfqProtection extends RfqRecords {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    super(transport);
    this.#transport = transport;
  }

  /**
   * Cancels the quotes of this credential unless it calls again within `timeout_secs` (5 to 600).
   * Each call replaces the timer; 0 removes it. From `cancel_at` on the quotes cannot be accepted,
   * and new ones throw `cancel_after_passed` until the next call. All sessions of a user share a
   * timer; an API key has its own. Idempotent, so the client retries it.
   *
   * @example
   * ```ts
   * const heartbeat = setInterval(() => client.rfq.cancelAfter({ timeout_secs: 30 }), 10_000);
   * ```
   */
  cancelAfter(
    { timeout_secs }: { timeout_secs: number },
    options: CallOptions = {},
  ): Promise<{ cancel_at: string | null }> {
    return this.#transport.call({
      method: "POST",
      path: "/rfq/cancel-after",
      body: { timeout_secs },
      idempotent: true,
      options,
    });
  }

  /**
   * Returns the user's protection.
   *
   * @example
   * ```ts
   * const { tripped_at, blocked_until } = await client.rfq.protection();
   * ```
   */
  protection(options: CallOptions = {}): Promise<Protection> {
    return this.#transport.call({ method: "GET", path: "/rfq/get-protection", options });
  }

  /**
   * Limits the user's matches as maker within a sliding window. The match that reaches a limit
   * settles. Its commit also cancels the user's other open quotes in every book, and new ones throw
   * `protection_tripped` until the cooldown ends or `resetProtection` is called. Counting starts
   * again with each call, so the client does not retry it after a lost response, but throws
   * `NoAnswer`: call `protection` to see the terms. Without both limits it is off.
   *
   * @example
   * ```ts
   * await client.rfq.saveProtection({
   *   window_secs: 60,
   *   max_matches: 5,
   *   max_usdc: 5_000_000_000n,
   *   cooldown_secs: 300,
   * });
   * ```
   */
  saveProtection(terms: ProtectionTerms, options: CallOptions = {}): Promise<Protection> {
    return this.#transport.call({
      method: "POST",
      path: "/rfq/protection",
      body: pick(terms, TERMS),
      options,
    });
  }

  /**
   * Ends a trip of the protection, so that the user can quote again. Counting starts again. The
   * client does not retry it after a lost response, because a match may have tripped the protection
   * again since, but throws `NoAnswer`: call `protection` to see whether it is tripped.
   *
   * @example
   * ```ts
   * await client.rfq.resetProtection();
   * ```
   */
  resetProtection(options: CallOptions = {}): Promise<Protection> {
    return this.#transport.call({
      method: "POST",
      path: "/rfq/reset-protection",
      body: {},
      options,
    });
  }
}

const TERMS: Record<keyof ProtectionTerms, true> = {
  window_secs: true,
  max_matches: true,
  max_usdc: true,
  cooldown_secs: true,
  max_deviation: true,
};
