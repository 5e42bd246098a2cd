/** All messages of a websocket. */
import type {
  MarketAsset,
  Balance,
  CloseReason,
  Deposit,
  Match,
  Protection,
  Quote,
  QuoteRequest,
  Redemption,
  Scope,
  Trade,
  Withdrawal,
} from "./types.ts";
import { decode } from "./wire.ts";

/** Distributes over a union of message types, so that `type` discriminates between them. */
type Frame<Type extends string, Data> = Type extends string
  ? {
      type: Type;
      /** Name of the stream, for example `book:venue_one:0xab`. */
      stream: string;
      /** Grows by one per event. `hello`, `snapshot` and `resync` repeat the last number. */
      seq: number;
      /** RFC 3339. */
      at: string;
      data: Data;
    }
  : never;

/** Why a request closed. */
type EndReason = "matched" | "cancelled" | "expired";

/** A message of a stream. Messages arrive in order, each exactly once, across reconnections. */
export type StreamMessage =
  /** `cancel_on_disconnect`: the end of this connection cancels the open quotes of its key. */
  | Frame<"hello", { scopes: Scope[]; server_time: string; cancel_on_disconnect: boolean }>
  | Frame<
      "snapshot",
      {
        /** The open requests of the stream, on an account stream the user's own. */
        requests: QuoteRequest[];
        /** Account streams only: every balance. */
        balances?: Balance[];
        /**
         * Account streams only: the user's own open quotes, and those that have expired and are
         * about to be closed.
         */
        quotes?: Quote[];
        /** Account streams only: withdrawals that have neither settled nor failed. */
        withdrawals?: Withdrawal[];
        /** Another part of the same snapshot follows. */
        more: boolean;
      }
    >
  /**
   * Missed events cannot be replayed. A snapshot follows; on an account stream without one, read
   * your records again with the client's methods.
   */
  | Frame<"resync", { reason: string }>
  /** With `assets`: no other event up to this number is of one of them. */
  | Frame<"skipped", { reason: string }>
  | Frame<"request.opened", QuoteRequest>
  | Frame<"request.closed", { request_id: string; reason: EndReason }>
  | Frame<"quote.opened" | "quote.received", Quote>
  | Frame<
      "quote.closed",
      {
        quote_id: string;
        request_id: string;
        close_reason: CloseReason;
        /** @deprecated The same as `close_reason`. */
        reason: CloseReason;
        /** The quote that replaced it. Only the maker receives it. */
        replaced_by?: string | null;
        /** The maker's label of the quote. Only the maker receives it. */
        label?: string | null;
        /**
         * The price of the quote of the same side that won, scaled by 1e6. Null if none did. Only
         * the maker receives it.
         */
        winning_price?: number | null;
      }
    >
  /**
   * A quote was as good as `accept_price`, but the requester's funds, limits or rights did not
   * allow it. The quote is open. Sent once until the price is set again.
   */
  | Frame<"accept.refused", { request_id: string; quote_id: string; price: number; reason: string }>
  | Frame<"match.created", Match>
  /** A trade of anyone, on book and venue streams. */
  | Frame<"trade.printed", Trade>
  /** What a token that the user holds pays, scaled by 1e6. `previous`: what it corrects. */
  | Frame<"market.result", MarketAsset & { result: number; previous: number | null }>
  | Frame<
      "market.corrected",
      MarketAsset & {
        title: string;
        outcome: string;
        previous_title: string;
        previous_outcome: string;
      }
    >
  /** A token of a pair became USDC: with its complement, or at its result. */
  | Frame<"token.redeemed", Omit<Redemption, "created_at"> & { cause: "merge" | "result" }>
  /** `match_id`: the match that tripped it. */
  | Frame<
      "protection.tripped" | "protection.reset",
      Omit<Protection, "cancel_at"> & { match_id: string | null }
    >
  | Frame<
      | "deposit.detected"
      | "deposit.credited"
      | "deposit.orphaned"
      | "deposit.quarantined"
      | "deposit.below_minimum",
      Deposit
    >
  | Frame<
      | "withdrawal.awaiting_approval"
      | "withdrawal.queued"
      | "withdrawal.submitted"
      | "withdrawal.settled"
      | "withdrawal.failed"
      | "withdrawal.cancelled",
      Withdrawal
    >
  | Frame<
      "account.notice",
      { kind: string; subject_id: string | null; api_key_id: string | null; ip: string | null }
    >;

/** The message of one type. */
export type StreamMessageOf<Type extends StreamMessage["type"]> = Extract<
  StreamMessage,
  { type: Type }
>;

/** An event of an account stream, which the client can also read without a socket. */
export type AccountEvent = Exclude<
  StreamMessage,
  { type: "hello" | "snapshot" | "resync" | "skipped" | "trade.printed" }
>;

/** What a webhook receives: an event of the account, or a test, which is no event. */
export type WebhookEvent = AccountEvent | Frame<"webhook.test", Record<string, never>>;

/** A page of events. At `last_seq` there was nothing more. */
export type EventsPage = { items: AccountEvent[]; next_since: number; last_seq: number };

/** Messages that the client handles itself: pongs and the results of commands. */
export type ControlMessage = { type: "pong"; seq: number } | AnswerMessage;
export type AnswerMessage =
  | { type: "result"; id: string | null; data: unknown }
  | { type: "error"; id: string | null; data: Record<string, unknown> };

/**
 * Parses a frame. Returns null if it cannot be read: a lost stream message then shows as a gap and
 * is replayed.
 */
export function readFrame(text: string): StreamMessage | ControlMessage | null {
  try {
    // The client trusts the service to send what its AsyncAPI description says.
    return decode(text) as StreamMessage | ControlMessage | null;
  } catch {
    return null;
  }
}

/**
 * Decodes an event: a frame of a socket, the body of a webhook or a row of GET /account/events, as
 * JSON text, bytes or what they parse to. Amounts become `bigint`s. Verify the signature of a
 * webhook before, or use `verifyWebhook` of `@rfq-custody/client/webhooks`. Types that are newer
 * than the client pass. Throws `TypeError` for what is no event.
 *
 * @example
 * ```ts
 * const event = decodeEvent('{"type":"match.created","stream":"account:1","seq":7,"data":{}}');
 * if (event.type === "match.created") console.log(event.data.usdc_amount, "after", event.seq);
 * ```
 */
export function decodeEvent(raw: unknown): StreamMessage | WebhookEvent {
  const text = raw instanceof Uint8Array ? new TextDecoder().decode(raw) : raw;
  const message = readFrame(typeof text === "string" ? text : JSON.stringify(text));
  if (typeof message?.type === "string" && "stream" in message && "data" in message) return message;
  throw new TypeError("It is no event of the service.");
}
