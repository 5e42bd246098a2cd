/** The commands of a book and their results. Both are plain data, for Durable Object calls. */
import type { RequestSide, Side } from "../assets/asset-fields.ts";
import { Problem, type ProblemData } from "../platform/problem.ts";
import type { MatchRow, QuoteRow, RequestRow } from "./rfq-records.ts";
import type { Actor } from "../platform/actor.ts";

/** The client's key. `terms` is the command by value, so that two spellings are the same terms. */
export type Idempotency = { readonly key: string; readonly terms: string };

export type Sent = {
  readonly actor: Actor;
  /** When the service received it, in Unix milliseconds by the clock of the Worker. */
  readonly receivedAt: number;
  /** The armed socket on which it arrived. */
  readonly socketId?: string | undefined;
};

/** The user's own name for a request or a quote. Nothing is decided by it. */
type Labelled = { readonly label?: string | null | undefined };

/** Commands that move or commit money take the client's deadline, in Unix milliseconds. */
type WithDeadline = { readonly notAfter?: number | undefined };

export type OpenRequest = Sent &
  WithDeadline &
  Labelled & {
    readonly op: "open_request";
    readonly requestId: string;
    readonly asset: string;
    /** Native units as decimal text, because it may be any U256. Null: the size is in USDC. */
    readonly amount: string | null;
    readonly usdcAmount: string | null;
    readonly side: RequestSide;
    readonly disclosed: boolean;
    readonly expiresInSecs: number;
    /** Absent: the requester accepts by a command. */
    readonly accept?: AcceptLimit | undefined;
    /** Whether the USDC that the client gave include the fee. Then `usdcAmount` is less. */
    readonly feesIncluded?: true | undefined;
    readonly idempotency?: Idempotency;
  };
/** The worst price at which the requester accepts a quote as soon as it is placed. */
export type AcceptLimit = { readonly price: number; readonly side: Side };
/** What a quote reserves if its pair takes part in the match. On the other side it is the default. */
export type Backing = "usdc" | "complement";
export type PlaceQuote = Sent &
  WithDeadline &
  Labelled & {
    readonly op: "place_quote";
    readonly quoteId: string;
    readonly requestId: string;
    readonly price: number;
    /** Null: the request's. */
    readonly side: Side | null;
    /** The quote that ends when this one is placed. */
    readonly replaces: string | null;
    readonly expiresInSecs: number;
    /** The maker means the price, however far it is from the last one. */
    readonly confirmPrice?: true | undefined;
    /** Absent: what the side always reserves, the asset for a Bid and USDC for an Ask. */
    readonly backing?: Backing | undefined;
    readonly idempotency?: Idempotency;
  };
export type CancelQuote = Sent & {
  readonly op: "cancel_quote";
  readonly operationId: string;
  readonly quoteId: string;
};
export type CancelRequest = Sent & {
  readonly op: "cancel_request";
  readonly operationId: string;
  readonly requestId: string;
};
export type AcceptQuote = Sent &
  WithDeadline & {
    readonly op: "accept";
    readonly matchId: string;
    readonly quoteId: string;
  };
/** The best open quote on the request is wanted, if it has this price or a better one. */
export type AcceptPrice = Sent &
  WithDeadline & {
    readonly op: "accept_price";
    readonly matchId: string;
    readonly requestId: string;
    readonly price: number;
    /** Null: the request's. */
    readonly side: Side | null;
  };
export type Accept = AcceptQuote | AcceptPrice;
export type SetAcceptPrice = Sent & {
  readonly op: "set_accept_price";
  readonly operationId: string;
  readonly requestId: string;
  /** Null: removes it. */
  readonly price: number | null;
  /** Null: the request's. */
  readonly side: Side | null;
};

/** The Worker makes the ids before it calls the book, to look them up after a lost result. */
export type Command =
  | OpenRequest
  | PlaceQuote
  | CancelQuote
  | CancelRequest
  | Accept
  | SetAcceptPrice;

export type Named = { readonly kind: "request" | "quote"; readonly id: string };

export function recordNamedBy(command: Exclude<Command, OpenRequest>): Named {
  return command.op === "cancel_quote" || command.op === "accept"
    ? { kind: "quote", id: command.quoteId }
    : { kind: "request", id: command.requestId };
}

type Outcome =
  | { readonly kind: "request"; readonly row: RequestRow }
  | { readonly kind: "quote"; readonly row: QuoteRow }
  | { readonly kind: "match"; readonly row: MatchRow }
  | { readonly kind: "cancelled"; readonly id: string }
  | { readonly kind: "accept_price"; readonly row: AcceptPriceRow };

/** What a request accepts at, and the match if an open quote was as good. */
export type AcceptPriceRow = {
  readonly requestId: string;
  readonly price: number | null;
  readonly match: MatchRow | null;
};

export type Result =
  | ({ readonly ok: true; readonly replayed: boolean } & Outcome)
  | { readonly ok: false; readonly problem: ProblemData };

export function refused(problem: ProblemData | Problem): Result {
  return { ok: false, problem: problem instanceof Problem ? problem.data : problem };
}

export function reject(
  code: ProblemData["code"],
  detail: string,
  extensions?: Readonly<Record<string, unknown>>,
): Result {
  return refused({ code, detail, ...(extensions === undefined ? {} : { extensions }) });
}
