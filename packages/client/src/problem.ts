/** What can go wrong with a call: the service said no (`Problem`), or said nothing that can be understood (`NoAnswer`). */

/** The body of a refused call (RFC 9457), as it came. */
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
 * The service refused a call. Decide by `code`; decide codes that you do not know by `status`, since the list may grow.
 *
 * @example
 * ```ts
 * try {
 *   await client.rfq.accept({ quote_id });
 * } catch (error) {
 *   if (error instanceof Problem && error.code === "quote_expired") console.log("too late", error.requestId);
 *   else throw error;
 * }
 * ```
 */
export class Problem extends Error {
  /** Stable and machine-readable: `quote_expired`, `insufficient_funds` … */
  readonly code: string;
  readonly status: number;
  /** The `x-request-id` of the answer: what to name when asking the operator. */
  readonly requestId: string | null;
  /** Every faulty field of a 400, else empty. */
  readonly errors: readonly { path: string; message: string }[];
  /** The whole body with its extensions, for example `available` and `required` of `insufficient_funds`. */
  readonly body: ProblemBody;
  /** Seconds after which the service wants to be asked again, when it said so. */
  readonly retryAfterSecs: number | null;

  constructor(
    body: ProblemBody,
    answer: {
      status: number;
      requestId?: string | null;
      retryAfterSecs?: number | null;
      call?: string;
    },
  ) {
    const code = body.code ?? "unexpected_answer";
    const text = body.detail ?? body.title ?? "no explanation";
    super(
      `${answer.call === undefined ? "" : `${answer.call}: `}${answer.status} ${code}: ${text}`,
    );
    this.name = "Problem";
    this.code = code;
    this.status = answer.status;
    this.requestId = answer.requestId ?? body.request_id ?? null;
    this.errors = body.errors ?? [];
    this.body = body;
    this.retryAfterSecs = answer.retryAfterSecs ?? null;
  }
}

/**
 * No answer, or none that the service sends: the connection broke, the time ran out, the body was no JSON. What was asked
 * for may or may not have been done: repeat only what is idempotent, as this client itself does.
 *
 * @example
 * ```ts
 * try {
 *   await client.custody.createDepositAddress();
 * } catch (error) {
 *   if (error instanceof NoAnswer) console.log("look at depositAddresses() before another try", error.message);
 *   else throw error;
 * }
 * ```
 */
export class NoAnswer extends Error {
  constructor(call: string, reason: string, cause?: unknown) {
    super(`${call}: ${reason}`, { cause });
    this.name = "NoAnswer";
  }
}
