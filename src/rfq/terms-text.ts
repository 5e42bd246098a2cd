/**
 * The terms of a command by value, with defaults filled in. An idempotency key is bound to them.
 */
import type { OpenRequest, PlaceQuote } from "./command.ts";

export function requestTermsText(
  terms: Pick<
    OpenRequest,
    "asset" | "amount" | "usdcAmount" | "side" | "disclosed" | "expiresInSecs" | "label"
  >,
): string {
  return JSON.stringify([
    terms.asset,
    terms.amount,
    terms.usdcAmount,
    terms.side,
    terms.disclosed,
    terms.expiresInSecs,
    terms.label,
  ]);
}

export function quoteTermsText(
  terms: Pick<PlaceQuote, "requestId" | "price" | "side" | "replaces" | "expiresInSecs" | "label">,
): string {
  return JSON.stringify([
    terms.requestId,
    terms.price,
    terms.side,
    terms.replaces,
    terms.expiresInSecs,
    terms.label,
  ]);
}
