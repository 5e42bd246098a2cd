/** Deposit addresses, balances, the journal and withdrawals: `client.custody`. */
import { type PageOptions, Pages } from "./pages.ts";
import type { Transport } from "./transport.ts";
import type { Balance, Deposit, DepositAddress, LedgerEntry, LedgerReason, MarketAsset, UsdcBalance, Venue, Withdrawal } from "./types.ts";

export type LedgerFilter = PageOptions & {
  account?: "available" | "pending";
  asset_id?: string;
  venue?: Venue;
  ref_id?: string;
  direction?: "credit" | "debit";
  /** Inclusive. */
  from?: Date | string;
  /** Inclusive. */
  to?: Date | string;
  /** Of the absolute delta, native units. */
  min_amount?: bigint;
  max_amount?: bigint;
  reasons?: LedgerReason[];
  /** true: only USDC; false: only outcome tokens. */
  usdc?: boolean;
};

export type WithdrawalTerms = {
  /** Your idempotency key, 1–64 of `A-Za-z0-9._:-`: the same id and terms give the same withdrawal. */
  client_withdrawal_id: string;
  /** Native units; the address receives exactly this. */
  amount: bigint;
  to_address: string;
  /** The deployment's default when left out. */
  chain?: string;
  /** With `asset_id`: an outcome token; without both: USDC. */
  venue_id?: Venue;
  asset_id?: string;
};

export class Custody {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** A new deposit address; the earlier ones on that chain are watched for ever. `Problem` `deposit_address_limit`. */
  createDepositAddress(body: { chain?: string } = {}): Promise<DepositAddress> {
    return this.#transport.call({ method: "POST", path: "/custody/create-deposit-address", body });
  }

  async depositAddresses(): Promise<DepositAddress[]> {
    const { addresses } = await this.#transport.call<{ addresses: DepositAddress[] }>({
      method: "GET",
      path: "/custody/get-deposit-addresses",
    });
    return addresses;
  }

  /** Zeros for an asset that was never held. */
  balance(asset: MarketAsset): Promise<Balance> {
    const { venue_id, asset_id } = asset;
    return this.#transport.call({ method: "GET", path: "/custody/get-balance", query: { venue_id, asset_id } });
  }

  /** Every asset held, USDC first. */
  balances(options: PageOptions = {}): Pages<Balance> {
    return new Pages(this.#transport, "/custody/get-balances", options);
  }

  usdcBalance(): Promise<UsdcBalance> {
    return this.#transport.call({ method: "GET", path: "/custody/get-usdc-balance" });
  }

  /**
   * The journal, newest first.
   *
   * @example
   * ```ts
   * for await (const entry of client.custody.ledger({ usdc: true, reasons: ["trade", "fee"] })) {
   *   console.log(entry.created_at, entry.delta, entry.balance_after);
   * }
   * ```
   */
  ledger(filter: LedgerFilter = {}): Pages<LedgerEntry> {
    return new Pages(this.#transport, "/custody/get-ledger", filter);
  }

  deposits(options: PageOptions & { status?: Deposit["status"] } = {}): Pages<Deposit> {
    return new Pages(this.#transport, "/custody/get-deposits", options);
  }

  /**
   * Queues a withdrawal. API key with the scope withdraw only. Repeating it with the same terms answers the withdrawal as it
   * is now; `Problem` `client_withdrawal_id_reused` for other terms, `insufficient_funds`, `chain_liquidity`,
   * `withdrawal_amount_limit`, `withdrawal_daily_limit`, `withdrawals_paused`.
   *
   * @example
   * ```ts
   * const withdrawal = await client.custody.withdraw({
   *   client_withdrawal_id: "payout-2026-11-20",
   *   amount: 25_000_000n, // 25 USDC
   *   to_address: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
   * });
   * ```
   */
  withdraw(body: WithdrawalTerms): Promise<Withdrawal> {
    return this.#transport.call({ method: "POST", path: "/custody/withdraw", body, safe: true });
  }

  withdrawals(options: PageOptions & { status?: Withdrawal["status"] } = {}): Pages<Withdrawal> {
    return new Pages(this.#transport, "/custody/get-withdrawals", options);
  }

  /** By one of its two ids. `Problem` `withdrawal_unknown`. */
  withdrawal(id: { withdrawal_id: string } | { client_withdrawal_id: string }): Promise<Withdrawal> {
    return this.#transport.call({ method: "GET", path: "/custody/get-withdrawal", query: id });
  }
}
