/** How calls fail: with a `Problem` that the service reports, or with `NoAnswer`. */

import type { MembersOf } from "./problem-members.ts";
import type { KnownProblemCode, ProblemCode } from "./problem-codes.ts";

/** The body of an error response (RFC 9457), as received. */
export type ProblemBody = {
  type?: string;
  title?: string;
  status?: number;
  code?: string;
  detail?: string;
  request_id?: string;
  errors?: { path: string; message: string }[];
  [extension: string]: unknown;
};

/**
 * The service rejected a call. Handle it by `code`. For unknown codes use `status`, because the
 * list of codes may grow.
 *
 * @example
 * ```ts
 * try {
 *   await client.rfq.accept({ quote_id });
 * } catch (error) {
 *   if (!(error instanceof Problem && error.code === "quote_expired")) throw error;
 *   console.log("too late", error.requestId);
 * }
 * ```
 */
export class Problem extends Error {
  /** Stable and machine-readable, for example `quote_expired`. */
  readonly code: ProblemCode;
  /** The HTTP status. */
  readonly status: number;
  /** The `x-request-id` of the response. Quote it when you ask the operator for help. */
  readonly requestId: string | null;
  /** The field errors of a 400, otherwise empty. */
  readonly errors: readonly { path: string; message: string }[];
  /** The whole body, including extensions such as `available` and `required` (hex amounts). */
  readonly body: ProblemBody;
  /** Seconds to wait before a retry, from the header Retry-After (RFC 9110), if it was sent. */
  readonly retryAfterSecs: number | null;

  constructor(
    body: ProblemBody,
    response: {
      status: number;
      requestId?: string | null;
      retryAfterSecs?: number | null;
      call?: string;
    },
  ) {
    const code = body.code ?? "unexpected_answer";
    const text = body.detail ?? body.title ?? "no explanation";
    const call = response.call === undefined ? "" : `${response.call}: `;
    super(`${call}${response.status} ${code}: ${text}`);
    this.name = "Problem";
    this.code = code;
    this.status = response.status;
    this.requestId = response.requestId ?? body.request_id ?? null;
    this.errors = body.errors ?? [];
    this.body = body;
    this.retryAfterSecs = response.retryAfterSecs ?? null;
  }

  /**
   * Whether the code is this one. Then `body` has the members of the code, for example `available`
   * and `required` of `insufficient_funds`. A code that the client does not know does not compile.
   *
   * @example
   * ```ts
   * try {
   *   await client.rfq.accept({ quote_id });
   * } catch (error) {
   *   if (!(error instanceof Problem && error.is("quote_expired", "quote_not_open"))) throw error;
   * }
   * ```
   */
  is<Code extends KnownProblemCode>(
    ...codes: Code[]
  ): this is Problem & {
    readonly code: Code;
    readonly body: ProblemBody & MembersOf<Code>;
  } {
    return codes.some((code) => code === this.code);
  }
}

/**
 * No answer of the service: the connection broke, the call timed out, or what came is not its word,
 * such as a page of a proxy. Or the client had to repeat the call, and the repetition was rejected
 * without effect (`cause` is its `Problem`), but an earlier attempt had no answer. The call may or
 * may not have taken effect. Repeat it only if it is idempotent.
 *
 * @example
 * ```ts
 * try {
 *   await client.custody.createDepositAddress();
 * } catch (error) {
 *   if (!(error instanceof NoAnswer)) throw error;
 *   console.log("check depositAddresses() before a retry", error.message);
 * }
 * ```
 */
export class NoAnswer extends Error {
  /** The HTTP status of what came instead of an answer, or null. */
  readonly status: number | null;
  /** Seconds to wait before a retry, from the header Retry-After of what came. */
  readonly retryAfterSecs: number | null;

  constructor(
    call: string,
    reason: string,
    cause?: unknown,
    page: { status?: number; retryAfterSecs?: number | null } = {},
  ) {
    super(`${call}: ${reason}`, { cause });
    this.name = "NoAnswer";
    this.status = page.status ?? null;
    this.retryAfterSecs = page.retryAfterSecs ?? null;
  }
}

/**
 * The client did not send the call, because its deadline or `timeoutMs` ended while it waited: for
 * its turn, as the service limits unanswered commands, or for a connection. It has no effect.
 *
 * @example
 * ```ts
 * try {
 *   await client.rfq.quote({ request_id: request.request_id, price: 650_000 });
 * } catch (error) {
 *   if (!(error instanceof NotSent)) throw error;
 *   console.log("too many quotes at once");
 * }
 * ```
 */
export class NotSent extends NoAnswer {
  constructor(call: string) {
    super(call, "its deadline passed before it was sent");
    this.name = "NotSent";
  }
}

/** Whether a call had no effect: it was not sent, or the service rejected it before any effect. */
export function hadNoEffect(error: unknown): boolean {
  if (error instanceof NotSent) return true;
  // Rate limits apply first.
  return error instanceof Problem && (error.status === 429 || error.body["outcome"] === "none");
}

/**
 * The error of a call, of which an earlier attempt may have taken effect. A rejection without
 * effect does not end that doubt, because it comes before the idempotency key is looked up.
 */
export function afterUncertainAttempt(call: string, error: unknown): unknown {
  return hadNoEffect(error)
    ? new NoAnswer(call, "an earlier attempt may have taken effect", error)
    : error;
}
