import { Problem } from "../platform/problem.ts";
import type { AcceptPriceRow, Result } from "./command.ts";
import { matchView, quoteView, requestView } from "./rfq-records.ts";

type Success = Extract<Result, { ok: true }>;

/** The REST body of a result. A socket sends the same body. */
export function resultBody(result: Success): unknown {
  switch (result.kind) {
    case "request":
      return requestView(result.row);
    case "quote":
      return quoteView(result.row);
    case "match":
      return matchView(result.row);
    case "accept_price":
      return acceptPriceView(result.row);
    case "cancelled":
      return { quote_id: result.id, status: "cancelled" };
  }
}

export function acceptPriceView({ requestId, price, match }: AcceptPriceRow) {
  const view = match === null ? null : matchView(match);
  return { request_id: requestId, accept_price: price, match: view };
}

/** The result of the expected kind. Throws a rejection as a `Problem`. */
export function unwrap<Kind extends Success["kind"]>(
  result: Result,
  kind: Kind,
): Extract<Success, { kind: Kind }> {
  if (!result.ok) throw new Problem(result.problem);
  if (result.kind !== kind) throw new Error(`a ${kind} was expected, not a ${result.kind}`);
  // Safe cast: the kinds were compared.
  return result as Extract<Success, { kind: Kind }>;
}
