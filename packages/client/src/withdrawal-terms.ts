/** The terms of a withdrawal, and the check that the service has queued these and no others. */
import type { Venue, Withdrawal } from "./types.ts";

/** What to pay, to which address, under which id. */
export type WithdrawalTerms = {
  /** Your idempotency key: 1 to 64 characters of `A-Za-z0-9._:-`. */
  client_withdrawal_id: string;
  /** Native units. The address receives exactly this amount. */
  amount: bigint;
  to_address: string;
  /** Default: the default chain of the deployment. */
  chain?: string;
  /** With `asset_id`, withdraws an outcome token. Without both, withdraws USDC. */
  venue_id?: Venue;
  asset_id?: string;
  /** The command takes effect before this instant by the service's clock, or never. */
  not_after?: Date | string;
};

export const WITHDRAWAL_FIELDS: Record<keyof WithdrawalTerms, true> = {
  client_withdrawal_id: true,
  amount: true,
  to_address: true,
  chain: true,
  venue_id: true,
  asset_id: true,
  not_after: true,
};

/**
 * The service has queued a withdrawal on other terms than were asked for, so something between this
 * program and the payment is not to be trusted. Cancel it, freeze the account, and tell the
 * operator.
 *
 * @example
 * ```ts
 * try {
 *   await client.custody.withdraw({
 *     client_withdrawal_id: "payout-2026-11-20",
 *     amount: 25_000_000n,
 *     to_address: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
 *   });
 * } catch (error) {
 *   if (!(error instanceof WrongTerms)) throw error;
 *   await client.custody.cancelWithdrawal(error.withdrawal);
 * }
 * ```
 */
export class WrongTerms extends Error {
  /** The withdrawal as the service reports it. */
  readonly withdrawal: Withdrawal;

  constructor(difference: string, withdrawal: Withdrawal) {
    super(
      `POST /custody/withdraw: the response names ${difference}. ` +
        `Cancel withdrawal ${withdrawal.withdrawal_id}.`,
    );
    this.name = "WrongTerms";
    this.withdrawal = withdrawal;
  }
}

/** Throws `WrongTerms`. Addresses and asset ids are compared by value, not by spelling. */
export function checkTerms(terms: WithdrawalTerms, withdrawal: Withdrawal): void {
  const { client_withdrawal_id, to_address, amount, venue_id, asset_id } = terms;
  // Without a chain it is the default one, which only the service knows.
  const { chain = withdrawal.chain } = terms;
  const asked = { client_withdrawal_id, to_address, amount, venue_id, asset_id, chain };
  const got = new Map<string, unknown>(Object.entries(withdrawal));
  for (const [field, value] of Object.entries(asked)) {
    const named = got.get(field);
    if (byValue(value) !== byValue(named))
      throw new WrongTerms(`${field} ${String(named)} instead of ${String(value)}`, withdrawal);
  }
}

/** Numbers as text, because a program without types may state the amount so. */
function byValue(value: unknown): unknown {
  if (typeof value === "bigint" || typeof value === "number") return String(value);
  return typeof value === "string" && /^0x[0-9a-f]+$/i.test(value)
    ? String(BigInt(value))
    : (value ?? null);
}
