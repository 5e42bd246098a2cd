/** Everything that comes down a socket. */
import type { Deposit, Match, Quote, QuoteRequest, Scope, Withdrawal } from "./types.ts";

/** Distributes over a union of types, so that each message type can be told from the others. */
type Frame<Type extends string, Data> = Type extends string
  ? {
      type: Type;
      stream: string;
      /** Grows by one per stream; `hello`, `snapshot` and `resync` tell the last number without using one up. */
      seq: number;
      at: string;
      data: Data;
    }
  : never;

export type EndReason = "matched" | "cancelled" | "expired";

/** In the order of the stream, each once, whatever happened to the connection in between. */
export type StreamMessage =
  | Frame<"hello", { scopes: Scope[]; server_time: string }>
  | Frame<"snapshot", { requests: QuoteRequest[]; more: boolean }>
  /** What was missed cannot be replayed: a snapshot follows, or on the account stream read again by REST. */
  | Frame<"resync", { reason: string }>
  | Frame<"request.opened", QuoteRequest>
  | Frame<"request.closed", { request_id: string; reason: EndReason }>
  | Frame<"quote.opened" | "quote.received", Quote>
  | Frame<
      "quote.closed",
      {
        quote_id: string;
        request_id: string;
        reason: "accepted" | "rejected" | "cancelled" | "expired";
      }
    >
  | Frame<"match.created", Match>
  | Frame<
      "deposit.detected" | "deposit.credited" | "deposit.orphaned" | "deposit.quarantined",
      Deposit
    >
  | Frame<
      "withdrawal.queued" | "withdrawal.submitted" | "withdrawal.settled" | "withdrawal.failed",
      Withdrawal
    >
  | Frame<"account.notice", { kind: string; subject_id: string | null }>;

/** The message of one type. */
export type StreamMessageOf<Type extends StreamMessage["type"]> = Extract<
  StreamMessage,
  { type: Type }
>;

/** What is handled here and never shown: the answer to `ping`, and answers to commands. */
export type ControlMessage =
  | { type: "pong"; seq: number }
  | { type: "result"; id: string | null; data: unknown }
  | { type: "error"; id: string | null; data: Record<string, unknown> };
