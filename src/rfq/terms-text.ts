/**
 * The terms of a command by value, with defaults filled in. An idempotency key is bound to them.
 */

export function requestTermsText(terms: {
  readonly asset: string;
  readonly amount: bigint;
  readonly side: string;
  readonly disclosed: boolean;
  readonly expiresInSecs: number;
  readonly label: string | null;
}): string {
  return JSON.stringify([
    terms.asset,
    terms.amount.toString(),
    terms.side,
    terms.disclosed,
    terms.expiresInSecs,
    terms.label,
  ]);
}

export function quoteTermsText(terms: {
  readonly requestId: string;
  readonly price: number;
  readonly expiresInSecs: number;
  readonly label: string | null;
}): string {
  return JSON.stringify([terms.requestId, terms.price, terms.expiresInSecs, terms.label]);
}
