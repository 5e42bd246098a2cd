/** The commands of a book and their results: plain data, since they cross a Durable Object call. */
import type { Side } from "../assets/fields.ts";
import type { ProblemData } from "../platform/problem.ts";
import type { MatchRow, QuoteRow, RequestRow } from "./records.ts";
import type { Actor } from "../platform/actor.ts";

/** A client's own key for the command; `terms` is the command by value, so that spellings do not differ. */
export type Idempotency = { readonly key: string; readonly terms: string };

export type OpenRequest = {
  readonly op: "open_request";
  readonly actor: Actor;
  readonly requestId: string;
  readonly asset: string;
  /** native units, decimal: the wire carries any U256. */
  readonly amount: string;
  readonly side: Side;
  readonly disclosed: boolean;
  readonly expiresInSecs: number;
  readonly idempotency?: Idempotency;
};
export type PlaceQuote = {
  readonly op: "place_quote";
  readonly actor: Actor;
  readonly quoteId: string;
  readonly requestId: string;
  readonly price: number;
  readonly expiresInSecs: number;
  readonly idempotency?: Idempotency;
};
export type CancelQuote = {
  readonly op: "cancel_quote";
  readonly actor: Actor;
  readonly operationId: string;
  readonly quoteId: string;
};
export type CancelRequest = {
  readonly op: "cancel_request";
  readonly actor: Actor;
  readonly operationId: string;
  readonly requestId: string;
};
export type AcceptQuote = {
  readonly op: "accept";
  readonly actor: Actor;
  readonly matchId: string;
  readonly quoteId: string;
};

/** Ids are made by the Worker before the book is called, so that a lost result leaves something to ask for. */
export type Command = OpenRequest | PlaceQuote | CancelQuote | CancelRequest | AcceptQuote;

export type Result =
  | {
      readonly ok: true;
      readonly kind: "request";
      readonly row: RequestRow;
      readonly replayed: boolean;
    }
  | {
      readonly ok: true;
      readonly kind: "quote";
      readonly row: QuoteRow;
      readonly replayed: boolean;
    }
  | {
      readonly ok: true;
      readonly kind: "match";
      readonly row: MatchRow;
      readonly replayed: boolean;
    }
  | {
      readonly ok: true;
      readonly kind: "cancelled";
      readonly id: string;
      readonly replayed: boolean;
    }
  | { readonly ok: false; readonly problem: ProblemData };

export function reject(
  code: ProblemData["code"],
  detail: string,
  extensions?: Readonly<Record<string, unknown>>,
): Result {
  return {
    ok: false,
    problem: { code, detail, ...(extensions === undefined ? {} : { extensions }) },
  };
}
