/** Deposit addresses, balances, the journal and withdrawals: `client.custody`. */
import { type PageOptions, Pages } from "./pages.ts";
import type { Transport } from "./transport.ts";
import type {
  Balance,
  Deposit,
  DepositAddress,
  LedgerEntry,
  LedgerReason,
  MarketAsset,
  UsdcBalance,
  Venue,
  Withdrawal,
} from "./types.ts";
import { only } from "./wire.ts";

/** Which entries of the journal: all conditions together. */
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

/** What to pay out, to whom, under which id of yours. */
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

/**
 * What the user holds and how it came and went. Made by `Client`. Every amount is a `bigint` in native units: 1 USDC is
 * 1_000_000n.
 *
 * @example
 * ```ts
 * const { address } = await client.custody.createDepositAddress();
 * const { balance, pending_balance } = await client.custody.usdcBalance();
 * ```
 */
export class Custody {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * A new deposit address; the earlier ones on that chain are watched for ever. Without `chain` on the deployment's default
   * one. `Problem` `deposit_address_limit`, `chain_unknown`. Not repeated by the client: each call makes an address.
   *
   * @example
   * ```ts
   * const { address, chain } = await client.custody.createDepositAddress({ chain: "base" });
   * ```
   */
  createDepositAddress({ chain }: { chain?: string } = {}): Promise<DepositAddress> {
    return this.#transport.call({
      method: "POST",
      path: "/custody/create-deposit-address",
      body: { chain },
    });
  }

  /**
   * All deposit addresses of the user, newest first; `current` is the one to show.
   *
   * @example
   * ```ts
   * const current = (await client.custody.depositAddresses()).find((address) => address.current);
   * ```
   */
  async depositAddresses(): Promise<DepositAddress[]> {
    const { addresses } = await this.#transport.call<{ addresses: DepositAddress[] }>({
      method: "GET",
      path: "/custody/get-deposit-addresses",
    });
    return addresses;
  }

  /**
   * The balance of one outcome token, in its native units; zeros for an asset that was never held.
   *
   * @example
   * ```ts
   * const { balance } = await client.custody.balance({ venue_id: "venue_one", asset_id: "0xab" });
   * if (balance >= 1_000_000n) console.log("one token or more can be sold");
   * ```
   */
  balance(asset: MarketAsset): Promise<Balance> {
    const { venue_id, asset_id } = asset;
    return this.#transport.call({
      method: "GET",
      path: "/custody/get-balance",
      query: { venue_id, asset_id },
    });
  }

  /**
   * Every asset held, USDC (both ids null) first, then by venue and asset.
   *
   * @example
   * ```ts
   * for await (const { asset_id, balance } of client.custody.balances()) console.log(asset_id ?? "USDC", balance);
   * ```
   */
  balances({ limit, last_cursor }: PageOptions = {}): Pages<Balance> {
    return new Pages(this.#transport, "/custody/get-balances", { limit, last_cursor });
  }

  /**
   * USDC over all chains, native units: 1 USDC is 1_000_000n.
   *
   * @example
   * ```ts
   * const { balance, pending_balance } = await client.custody.usdcBalance();
   * const total = balance + pending_balance;
   * ```
   */
  usdcBalance(): Promise<UsdcBalance> {
    return this.#transport.call({ method: "GET", path: "/custody/get-usdc-balance" });
  }

  /**
   * The user's entries of the journal, newest first. `Problem` `invalid_request` for `from` after `to`.
   *
   * @example
   * ```ts
   * for await (const entry of client.custody.ledger({ usdc: true, reasons: ["trade", "fee"] })) {
   *   console.log(entry.created_at, entry.delta, entry.balance_after);
   * }
   * ```
   */
  ledger(filter: LedgerFilter = {}): Pages<LedgerEntry> {
    return new Pages(this.#transport, "/custody/get-ledger", only(filter, LEDGER_FIELDS));
  }

  /**
   * Deposits of any asset, newest first. Only what is `credited` can be used.
   *
   * @example
   * ```ts
   * for await (const deposit of client.custody.deposits({ status: "confirming" })) {
   *   console.log(deposit.amount, `${deposit.confirmations}/${deposit.required_confirmations}`);
   * }
   * ```
   */
  deposits({
    limit,
    last_cursor,
    status,
  }: PageOptions & { status?: Deposit["status"] } = {}): Pages<Deposit> {
    return new Pages(this.#transport, "/custody/get-deposits", { limit, last_cursor, status });
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
    return this.#transport.call({
      method: "POST",
      path: "/custody/withdraw",
      body: only(body, WITHDRAWAL_FIELDS),
      safe: true,
    });
  }

  /**
   * The user's withdrawals, newest first.
   *
   * @example
   * ```ts
   * const failed = await client.custody.withdrawals({ status: "failed" }).all();
   * for (const { client_withdrawal_id, failure } of failed) console.log(client_withdrawal_id, failure?.message);
   * ```
   */
  withdrawals({
    limit,
    last_cursor,
    status,
  }: PageOptions & { status?: Withdrawal["status"] } = {}): Pages<Withdrawal> {
    return new Pages(this.#transport, "/custody/get-withdrawals", { limit, last_cursor, status });
  }

  /**
   * A withdrawal as it is now, by one of its two ids (by `withdrawal_id` when both are given). `Problem` `withdrawal_unknown`.
   *
   * @example
   * ```ts
   * const { status, transaction_hash } = await client.custody.withdrawal({ client_withdrawal_id: "payout-2026-11-20" });
   * ```
   */
  withdrawal(
    id: { withdrawal_id: string } | { client_withdrawal_id: string },
  ): Promise<Withdrawal> {
    // The service takes exactly one of them, and a whole record has both.
    const query =
      "withdrawal_id" in id
        ? { withdrawal_id: id.withdrawal_id }
        : { client_withdrawal_id: id.client_withdrawal_id };
    return this.#transport.call({ method: "GET", path: "/custody/get-withdrawal", query });
  }
}

const LEDGER_FIELDS: Record<keyof LedgerFilter, true> = {
  limit: true,
  last_cursor: true,
  account: true,
  asset_id: true,
  venue: true,
  ref_id: true,
  direction: true,
  from: true,
  to: true,
  min_amount: true,
  max_amount: true,
  reasons: true,
  usdc: true,
};

const WITHDRAWAL_FIELDS: Record<keyof WithdrawalTerms, true> = {
  client_withdrawal_id: true,
  amount: true,
  to_address: true,
  chain: true,
  venue_id: true,
  asset_id: true,
};
