/**
 * TypeScript client of the custody and RFQ trading service. It has no dependencies and runs in Node
 * 20 and later, browsers and Workers.
 */
export { Auth, type StepUp } from "./auth.ts";
export {
  type AccountStreamSettings,
  Client,
  type ClientOptions,
  type LiveSettings,
  type StreamSettings,
} from "./client.ts";
export { Custody, type LedgerFilter } from "./custody.ts";
export { Live } from "./live.ts";
export type { Order } from "./live-account.ts";
export { type ProvenLiability, verifyLiability } from "./liability.ts";
export { LiveRequests, type RequestsSettings } from "./live-requests.ts";
export { type Page, type PageOptions, Pages } from "./pages.ts";
export { NoAnswer, NotSent, Problem, type ProblemBody } from "./problem.ts";
export { type KnownProblemCode, PROBLEM_CODES, type ProblemCode } from "./problem-codes.ts";
export type { ProblemMembers } from "./problem-members.ts";
export type { RateLimit } from "./rate-limits.ts";
export {
  type AcceptTerms,
  type QuoteOptions,
  type QuoteTerms,
  type RequestTerms,
  Rfq,
  type SeveralQuotes,
  type WriteOptions,
} from "./rfq.ts";
export { type ProtectionTerms, RfqProtection } from "./rfq-protection.ts";
export { type Receipt, verifyReceipt } from "./receipt.ts";
export { type Period, RfqRecords } from "./rfq-records.ts";
export {
  type SignInput,
  type SignedHeaders,
  canonicalMessage,
  sign,
  signedHeaders,
} from "./sign.ts";
export { Stream, type StreamOptions } from "./stream.ts";
export {
  type AccountEvent,
  decodeEvent,
  type EventsPage,
  type StreamMessage,
  type StreamMessageOf,
  type WebhookEvent,
} from "./stream-messages.ts";
export type { CallOptions, Credential, RequestEvent, ResponseEvent } from "./transport.ts";
export type * from "./types.ts";
export { formatUnits, parseUnits, price } from "./units.ts";
export { type Webhook, type WebhookAttempt, Webhooks } from "./webhooks.ts";
export type { WebSocketLike } from "./websocket.ts";
export type { OpenRequest } from "./venue-requests.ts";
export { type WithdrawalTerms, WrongTerms } from "./withdrawal-terms.ts";
