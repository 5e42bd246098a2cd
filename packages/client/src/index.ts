/** TypeScript client of the custody and RFQ trading service. No dependencies; Node 20 and later, browsers, Workers. */
export { Auth } from "./auth.ts";
export { Client, type ClientOptions, type StreamSettings } from "./client.ts";
export { Custody, type LedgerFilter, type WithdrawalTerms } from "./custody.ts";
export { type Page, type PageOptions, Pages } from "./pages.ts";
export { NoAnswer, Problem, type ProblemBody } from "./problem.ts";
export { type QuoteTerms, type RequestTerms, Rfq, type WriteOptions } from "./rfq.ts";
export {
  type SignInput,
  type SignedHeaders,
  canonicalMessage,
  sign,
  signedHeaders,
} from "./sign.ts";
export { Stream, type StreamOptions, type WebSocketLike } from "./stream.ts";
export type { StreamMessage, StreamMessageOf } from "./stream-messages.ts";
export type { Credential } from "./transport.ts";
export type * from "./types.ts";
export { VENUES } from "./types.ts";
