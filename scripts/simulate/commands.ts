/** Commands as the service's routes make them from a body. */
import type { Command, OpenRequest, PlaceQuote, Sent } from "../../src/rfq/command.ts";
import { type QuoteKeyTerms, type RequestKeyTerms, termsText } from "../../src/rfq/terms-text.ts";

export function openRequest(
  sent: Sent,
  requestId: string,
  terms: RequestKeyTerms,
  key?: string,
): OpenRequest {
  const idempotency = key && { idempotency: { key, terms: termsText(terms) } };
  return { op: "open_request", ...sent, requestId, ...terms, ...idempotency };
}

export function placeQuote(
  sent: Sent,
  quoteId: string,
  terms: QuoteKeyTerms,
  key?: string,
): PlaceQuote {
  const idempotency = key && { idempotency: { key, terms: termsText(terms) } };
  return { op: "place_quote", ...sent, quoteId, ...terms, ...idempotency };
}

/** With another id. Undefined for a command that has another effect when it is repeated. */
export function repeated(command: Command, id: string): Command | undefined {
  switch (command.op) {
    case "open_request":
      return command.idempotency && { ...command, requestId: id };
    case "place_quote":
      return command.idempotency && { ...command, quoteId: id };
    case "accept":
    case "accept_price":
      return { ...command, matchId: id };
    default:
      return { ...command, operationId: id };
  }
}
