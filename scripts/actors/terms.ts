/**
 * Terms of commands for tests, benches and the simulator. Each states what matters to it, so a new
 * field of a command gets its value here.
 */
import type { QuoteKeyTerms, RequestKeyTerms } from "../../src/rfq/terms-text.ts";

export function openRequestTerms(
  terms: Pick<RequestKeyTerms, "asset"> & Partial<RequestKeyTerms>,
): RequestKeyTerms {
  return {
    amount: "1000000",
    usdcAmount: null,
    side: "Bid",
    disclosed: false,
    expiresInSecs: 300,
    label: null,
    accept: undefined,
    feesIncluded: undefined,
    ...terms,
  };
}

export function placeQuoteTerms(
  terms: Pick<QuoteKeyTerms, "requestId"> & Partial<QuoteKeyTerms>,
): QuoteKeyTerms {
  return {
    price: 500_000,
    side: null,
    replaces: null,
    expiresInSecs: 30,
    label: null,
    confirmPrice: undefined,
    backing: undefined,
    ...terms,
  };
}
