/**
 * The terms of a command by value, with defaults filled in. An idempotency key is bound to them.
 *
 * Every field of a command is a term, unless `NotTerms` lists it. A new field that is in neither
 * place does not compile where the command is read (read-commands.ts). Else a repeat with another
 * value would return the first result.
 */
import type { OpenRequest, PlaceQuote, Sent } from "./command.ts";

/** Who sent it when, the id that the service made, and the deadline (contract.md section 5). */
type NotTerms = keyof Sent | "op" | "idempotency" | "notAfter";
export type RequestKeyTerms = Required<Omit<OpenRequest, NotTerms | "requestId">>;
export type QuoteKeyTerms = Required<Omit<PlaceQuote, NotTerms | "quoteId">>;

/**
 * The order is that of the stored texts, so the members keep theirs and new terms come last. One
 * that is absent is left out, so that texts of commands without it stay as they were.
 */
export function termsText(terms: RequestKeyTerms | QuoteKeyTerms): string {
  return JSON.stringify(Object.values(terms).filter((value) => value !== undefined));
}
