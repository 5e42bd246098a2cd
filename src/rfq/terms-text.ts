/**
 * The terms of a command by value, with defaults filled in. An idempotency key is bound to them.
 *
 * Every field of a command is a term, unless `NotTerms` lists it. A new field that is in neither
 * place does not compile, because a repeat with another value would return the first result.
 */
import type { OpenRequest, PlaceQuote, Sent } from "./command.ts";
import { eachText, QUOTE_TEXTS, REQUEST_TEXTS } from "./own-texts.ts";

/** Who sent it when, the id that the service made, and the deadline (contract.md section 5). */
type NotTerms = keyof Sent | "op" | "idempotency" | "notAfter";
export type RequestTerms = Required<Omit<OpenRequest, NotTerms | "requestId">>;
export type QuoteTerms = Required<Omit<PlaceQuote, NotTerms | "quoteId">>;

/** The order is that of the stored texts, so new terms come last. */
const REQUEST_TERMS: Readonly<Record<keyof RequestTerms, true>> = {
  asset: true,
  amount: true,
  usdcAmount: true,
  side: true,
  disclosed: true,
  expiresInSecs: true,
  ...eachText(REQUEST_TEXTS, () => true as const),
};

const QUOTE_TERMS: Readonly<Record<keyof QuoteTerms, true>> = {
  requestId: true,
  price: true,
  side: true,
  replaces: true,
  expiresInSecs: true,
  ...eachText(QUOTE_TEXTS, () => true as const),
};

export function requestTermsText(terms: RequestTerms): string {
  return textOf(terms, REQUEST_TERMS);
}

export function quoteTermsText(terms: QuoteTerms): string {
  return textOf(terms, QUOTE_TERMS);
}

function textOf<Terms extends object>(
  terms: Terms,
  names: Readonly<Record<keyof Terms, true>>,
): string {
  const values = new Map(Object.entries(terms));
  return JSON.stringify(Object.keys(names).map((name) => values.get(name)));
}
