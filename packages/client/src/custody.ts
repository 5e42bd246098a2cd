/** Deposit addresses, balances, the ledger and withdrawals: `client.custody`. */
import { type PageOptions, Pages } from "./pages.ts";
import { NoAnswer } from "./problem.ts";
import type { CallOptions, Transport } from "./transport.ts";
import type { StepUp } from "./auth.ts";
import type { WriteOptions } from "./rfq.ts";
import type {
  Balance,
  Deposit,
  DepositAddress,
  LedgerEntry,
  LedgerReason,
  LiabilityProof,
  MarketAsset,
  Redemption,
  UsdcBalance,
  Venue,
  Withdrawal,
  WithdrawalAddress,
} from "./types.ts";
import { checkTerms, WITHDRAWAL_FIELDS, type WithdrawalTerms } from "./withdrawal-terms.ts";
import { pick } from "./wire.ts";

/** Which ledger entries to list. An entry must meet all conditions. */
export type LedgerFilter = PageOptions & {
  account?: "available" | "pending";
  asset_id?: string;
  venue?: Venue;
  /** Id of a match, quote or withdrawal, or the transaction hash of a deposit. */
  ref_id?: string;
  direction?: "credit" | "debit";
  /** Inclusive. */
  from?: Date | string;
  /** Inclusive. */
  to?: Date | string;
  /** Smallest absolute delta, inclusive, in native units. */
  min_amount?: bigint;
  /** Largest absolute delta, inclusive, in native units. */
  max_amount?: bigint;
  reasons?: LedgerReason[];
  /** true: only USDC; false: only outcome tokens. */
  usdc?: boolean;
};

/**
 * The user's money: deposits, balances, ledger, withdrawals. Created by `Client` as
 * `client.custody`. Every amount is a `bigint` in native units: 1 USDC is 1_000_000n.
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
   * Creates a deposit address on `chain`, or on the default chain of the deployment. Earlier
   * addresses keep working. The client does not retry it after a lost response, because each call
   * creates an address. Throws `Problem`: `deposit_address_limit`, `daily_limit`,
   * `chain_unknown`.
   *
   * @example
   * ```ts
   * const { address, chain } = await client.custody.createDepositAddress({ chain: "base" });
   * ```
   */
  createDepositAddress(
    { chain }: { chain?: string } = {},
    options: CallOptions = {},
  ): Promise<DepositAddress> {
    return this.#transport.call({
      method: "POST",
      path: "/custody/create-deposit-address",
      body: { chain },
      options,
    });
  }

  /**
   * Lists all deposit addresses of the user, newest first. `current` marks the one to show.
   *
   * @example
   * ```ts
   * const current = (await client.custody.depositAddresses()).find((address) => address.current);
   * ```
   */
  async depositAddresses(options: CallOptions = {}): Promise<DepositAddress[]> {
    const { addresses } = await this.#transport.call<{ addresses: DepositAddress[] }>({
      method: "GET",
      path: "/custody/get-deposit-addresses",
      options,
    });
    return addresses;
  }

  /**
   * Returns the balance of one outcome token in native units, zero if the user never had it.
   *
   * @example
   * ```ts
   * const { balance } = await client.custody.balance({ venue_id: "venue_one", asset_id: "0xab" });
   * if (balance >= 1_000_000n) console.log("one token or more can be sold");
   * ```
   */
  balance(asset: MarketAsset, options: CallOptions = {}): Promise<Balance> {
    const { venue_id, asset_id } = asset;
    return this.#transport.call({
      method: "GET",
      path: "/custody/get-balance",
      query: { venue_id, asset_id },
      options,
    });
  }

  /**
   * Lists the balances of all assets held: USDC (both ids null) first, then by venue and asset.
   *
   * @example
   * ```ts
   * for await (const { asset_id, balance } of client.custody.balances())
   *   console.log(asset_id ?? "USDC", balance);
   * ```
   */
  balances({ limit, last_cursor }: PageOptions = {}, options: CallOptions = {}): Pages<Balance> {
    return new Pages(this.#transport, "/custody/get-balances", { limit, last_cursor }, options);
  }

  /**
   * Returns the USDC balance over all chains in native units: 1 USDC is 1_000_000n.
   *
   * @example
   * ```ts
   * const { balance, pending_balance } = await client.custody.usdcBalance();
   * const total = balance + pending_balance;
   * ```
   */
  usdcBalance(options: CallOptions = {}): Promise<UsdcBalance> {
    return this.#transport.call({ method: "GET", path: "/custody/get-usdc-balance", options });
  }

  /**
   * Lists the user's ledger entries, newest first. Throws `Problem`: `invalid_request` if `from` is
   * after `to`.
   *
   * @example
   * ```ts
   * for await (const entry of client.custody.ledger({ usdc: true, reasons: ["trade", "fee"] })) {
   *   console.log(entry.created_at, entry.delta, entry.balance_after);
   * }
   * ```
   */
  ledger(filter: LedgerFilter = {}, options: CallOptions = {}): Pages<LedgerEntry> {
    return new Pages(this.#transport, "/custody/get-ledger", pick(filter, LEDGER_FIELDS), options);
  }

  /**
   * Returns all ledger entries that meet the filter as CSV (RFC 4180). Throws
   * `NoAnswer` if the file is incomplete, because its last line is missing, and `Problem`:
   * `rate_limited` while another statement of the user is written.
   *
   * @example
   * ```ts
   * const csv = await client.custody.statement({ from: "2026-01-01T00:00:00.000Z", usdc: true });
   * ```
   */
  async statement(
    filter: Omit<LedgerFilter, keyof PageOptions> = {},
    options: CallOptions = {},
  ): Promise<string> {
    const path = "/custody/get-ledger";
    const query = pick(filter, LEDGER_FIELDS);
    const csv = await this.#transport.call<string>({
      method: "GET",
      path,
      query,
      accept: "text/csv",
      options,
    });
    if (!/^# end,\d+\s*$/m.test(csv.slice(csv.lastIndexOf("# end"))))
      throw new NoAnswer(`GET ${path}`, "the statement is incomplete");
    return csv;
  }

  /**
   * Lists deposits of all assets, newest first. Only `credited` ones count in the balance.
   *
   * @example
   * ```ts
   * for await (const deposit of client.custody.deposits({ status: "confirming" })) {
   *   console.log(deposit.amount, `${deposit.confirmations}/${deposit.required_confirmations}`);
   * }
   * ```
   */
  deposits(
    { limit, last_cursor, status }: PageOptions & { status?: Deposit["status"] } = {},
    options: CallOptions = {},
  ): Pages<Deposit> {
    return new Pages(
      this.#transport,
      "/custody/get-deposits",
      { limit, last_cursor, status },
      options,
    );
  }

  /**
   * Queues a withdrawal. Needs an API key with the scope withdraw. Idempotent: a repeated
   * `client_withdrawal_id` with the same terms returns the existing withdrawal. Throws `Problem`:
   * `client_withdrawal_id_reused`, `insufficient_funds`, `chain_liquidity`, `chain_unknown`,
   * `destination_refused`, `withdrawal_amount_limit`, `withdrawal_daily_limit`,
   * `withdrawals_paused`. Throws `WrongTerms` if the response names another address, amount or
   * asset than was asked for.
   *
   * @example
   * ```ts
   * const withdrawal = await client.custody.withdraw({
   *   client_withdrawal_id: "0d6c1f5e-6a0b-4f0e-9f53-3b1d5c1c8a77",
   *   amount: 25_000_000n, // 25 USDC
   *   to_address: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
   * });
   * ```
   */
  async withdraw(body: WithdrawalTerms, options: CallOptions = {}): Promise<Withdrawal> {
    const queued = await this.#transport.call<Withdrawal>({
      method: "POST",
      path: "/custody/withdraw",
      body: pick(body, WITHDRAWAL_FIELDS),
      idempotent: true,
      options,
    });
    checkTerms(body, queued);
    return queued;
  }

  /**
   * Cancels a withdrawal that no signed transaction has ever contained, and returns its amount.
   * Needs a session, or an API key with the scope withdraw. A repeat returns the cancelled
   * withdrawal. Throws `Problem`: `withdrawal_unknown`, `withdrawal_not_cancellable`,
   * `withdrawals_paused`.
   *
   * @example
   * ```ts
   * const { status } = await client.custody.cancelWithdrawal({
   *   client_withdrawal_id: "0d6c1f5e-6a0b-4f0e-9f53-3b1d5c1c8a77",
   * });
   * ```
   */
  cancelWithdrawal(
    id: { withdrawal_id: string } | { client_withdrawal_id: string },
    options: CallOptions = {},
  ): Promise<Withdrawal> {
    return this.#transport.call({
      method: "DELETE",
      path: "/custody/withdraw",
      body: oneId(id),
      idempotent: true,
      options,
    });
  }

  /**
   * Turns `amount` of USDC into as much of both tokens of a pair, which either of them names.
   * Throws `Problem`: `market_unknown`, `not_paired`, `market_closed`, `venue_paused`, `key_limit`,
   * `insufficient_funds`, `balance_limit`.
   *
   * @example
   * ```ts
   * const pair = { venue_id: "venue_four", asset_id: "0xab" };
   * const { items } = await client.custody.split({ ...pair, amount: 5_000_000n });
   * ```
   */
  split(
    body: MarketAsset & { amount: bigint; not_after?: Date | string },
    options: WriteOptions = {},
  ): Promise<{ items: Redemption[] }> {
    return this.#ofPair("/custody/split", body, options);
  }

  /**
   * Turns tokens of a pair into USDC: before `settles_at` of the market as much of both, then the
   * named one at its result. Without `amount` all that open quotes do not promise. Throws `Problem`
   * as `split`, but a closed market is no obstacle.
   *
   * @example
   * ```ts
   * const { items } = await client.custody.redeem({ venue_id: "venue_four", asset_id: "0xab" });
   * ```
   */
  redeem(
    body: MarketAsset & { amount?: bigint; not_after?: Date | string },
    options: WriteOptions = {},
  ): Promise<{ items: Redemption[] }> {
    return this.#ofPair("/custody/redeem", body, options);
  }

  #ofPair(
    path: `/${string}`,
    body: MarketAsset & { amount?: bigint; not_after?: Date | string },
    { idempotencyKey = crypto.randomUUID(), ...options }: WriteOptions,
  ): Promise<{ items: Redemption[] }> {
    const { venue_id, asset_id, amount, not_after } = body;
    return this.#transport.call({
      method: "POST",
      path,
      // The key is in the body, so that the signature covers it.
      body: { venue_id, asset_id, amount, not_after, idempotency_key: idempotencyKey },
      idempotent: true,
      options,
    });
  }

  /**
   * Approves a withdrawal that waits for approval by the account's policy. Needs a session, the
   * password and a fresh one-time code. Throws `Problem`: `withdrawal_unknown`,
   * `withdrawal_not_approvable`, `totp_not_enabled`, `address_not_listed`, `account_limit`,
   * `withdrawals_paused`, `chain_liquidity`, `login_failed`, `totp_required`, `totp_invalid`,
   * `login_throttled`, `security_hold`.
   *
   * @example
   * ```ts
   * const { status } = await client.custody.approveWithdrawal({
   *   withdrawal_id: "0190a0b0-0000-7000-8000-000000000006",
   *   password: "correct horse battery",
   *   totp_code: "123456",
   * });
   * ```
   */
  approveWithdrawal(
    { withdrawal_id, password, totp_code }: StepUp & { withdrawal_id: string },
    options: CallOptions = {},
  ): Promise<Withdrawal> {
    return this.#transport.call({
      method: "POST",
      path: "/custody/approve-withdrawal",
      body: { withdrawal_id, password, totp_code },
      options,
    });
  }

  /**
   * Adds an address to the address book. It is usable from `active_from` on. One that is listed is
   * returned as it is. Needs a session. Throws `Problem`:
   * `withdrawal_address_limit`, `chain_unknown`, `login_failed`, `totp_required`, `totp_invalid`,
   * `login_throttled`, `security_hold`.
   *
   * @example
   * ```ts
   * const { active_from } = await client.custody.createWithdrawalAddress({
   *   address: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
   *   label: "cold wallet",
   *   password: "correct horse battery",
   * });
   * ```
   */
  createWithdrawalAddress(
    {
      chain,
      address,
      label,
      password,
      totp_code,
    }: StepUp & { chain?: string; address: string; label: string },
    options: CallOptions = {},
  ): Promise<WithdrawalAddress> {
    return this.#transport.call({
      method: "POST",
      path: "/custody/create-withdrawal-address",
      body: { chain, address, label, password, totp_code },
      options,
    });
  }

  /**
   * Lists the address book, newest first.
   *
   * @example
   * ```ts
   * for await (const { label, address, active_from } of client.custody.withdrawalAddresses())
   *   console.log(label, address, active_from);
   * ```
   */
  withdrawalAddresses(
    { limit, last_cursor }: PageOptions = {},
    options: CallOptions = {},
  ): Pages<WithdrawalAddress> {
    return new Pages(
      this.#transport,
      "/custody/get-withdrawal-addresses",
      { limit, last_cursor },
      options,
    );
  }

  /**
   * Removes an address from the address book, at once for new withdrawals and approvals. Needs a
   * session of a login at most `fresh_session_secs` of `config()` ago.
   * Throws `Problem`: `password_required`, `withdrawal_address_unknown`.
   *
   * @example
   * ```ts
   * for await (const entry of client.custody.withdrawalAddresses())
   *   if (entry.label === "old wallet") await client.custody.removeWithdrawalAddress(entry);
   * ```
   */
  removeWithdrawalAddress(
    { address_id }: { address_id: string },
    options: CallOptions = {},
  ): Promise<WithdrawalAddress> {
    return this.#transport.call({
      method: "DELETE",
      path: "/custody/withdrawal-address",
      body: { address_id },
      options,
    });
  }

  /**
   * Lists the user's withdrawals, newest first.
   *
   * @example
   * ```ts
   * for await (const { client_withdrawal_id, failure } of client.custody.withdrawals({
   *   status: "failed",
   * }))
   *   console.log(client_withdrawal_id, failure?.message);
   * ```
   */
  withdrawals(
    { limit, last_cursor, status }: PageOptions & { status?: Withdrawal["status"] } = {},
    options: CallOptions = {},
  ): Pages<Withdrawal> {
    return new Pages(
      this.#transport,
      "/custody/get-withdrawals",
      { limit, last_cursor, status },
      options,
    );
  }

  /**
   * Returns one withdrawal by either of its ids, or by `withdrawal_id` if both are given. Throws
   * `Problem`: `withdrawal_unknown`.
   *
   * @example
   * ```ts
   * const { status, transaction_hash } = await client.custody.withdrawal({
   *   client_withdrawal_id: "0d6c1f5e-6a0b-4f0e-9f53-3b1d5c1c8a77",
   * });
   * ```
   */
  withdrawal(
    id: { withdrawal_id: string } | { client_withdrawal_id: string },
    options: CallOptions = {},
  ): Promise<Withdrawal> {
    const query = oneId(id);
    return this.#transport.call({ method: "GET", path: "/custody/get-withdrawal", query, options });
  }

  /**
   * Returns the proof that your balance of USDC, or of a token (`venue_one:0x1`), is in the
   * record of a day (`2026-11-28`), or in the newest one. `verifyLiability` checks it. It shows
   * sums of others, so show it to few. Throws `Problem`: `liability_unknown`.
   *
   * @example
   * ```ts
   * const { amount } = await client.custody.liabilityProof({ day: "2026-11-28" });
   * ```
   */
  liabilityProof(
    { asset, day }: { asset?: string; day?: string } = {},
    options: CallOptions = {},
  ): Promise<LiabilityProof> {
    const [path, query] = ["/custody/get-liability-proof", { asset, day }];
    return this.#transport.call({ method: "GET", path, query, options });
  }

  /**
   * Returns the withdrawal as a receipt: a JWS that `verifyReceipt` reads, and that you can show to
   * others. Throws `Problem`: `withdrawal_unknown`.
   *
   * @example
   * ```ts
   * const receipt = await client.custody.withdrawalReceipt({
   *   client_withdrawal_id: "0d6c1f5e-6a0b-4f0e-9f53-3b1d5c1c8a77",
   * });
   * ```
   */
  withdrawalReceipt(
    id: { withdrawal_id: string } | { client_withdrawal_id: string },
    options: CallOptions = {},
  ): Promise<string> {
    const [path, query, accept] = ["/custody/get-withdrawal", oneId(id), "application/jose"];
    return this.#transport.call({ method: "GET", path, query, accept, options });
  }
}

/** The service accepts exactly one of the two ids, and a whole record contains both. */
function oneId(
  id: { withdrawal_id: string } | { client_withdrawal_id: string },
): { withdrawal_id: string } | { client_withdrawal_id: string } {
  return "withdrawal_id" in id
    ? { withdrawal_id: id.withdrawal_id }
    : { client_withdrawal_id: id.client_withdrawal_id };
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
