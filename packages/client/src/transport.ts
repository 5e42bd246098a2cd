/** One call: signs it, sends it, reads the response and retries where that is safe. */
import {
  afterUncertainAttempt,
  hadNoEffect,
  NoAnswer,
  Problem,
  type ProblemBody,
} from "./problem.ts";
import { type RateLimit, RateLimits } from "./rate-limits.ts";
import { SessionSource } from "./session-source.ts";
import { type HmacKey, headersOf, importSecret, signWith } from "./sign.ts";
import { type QueryValue, decode, encode, targetOf } from "./wire.ts";

/**
 * An API key, valid until revoked, or the access token of a session. With email and password the
 * client logs in itself, and again before the session expires. They stay in memory. If the account
 * has TOTP, `totpCode` returns the current six digits; it is asked at each login, because a code
 * counts once. Without it, calls throw a `Problem` with the code `totp_required`.
 */
export type Credential =
  | { apiKeyId: string; secret: string }
  | { accessToken: string }
  | { email: string; password: string; totpCode?: () => string | Promise<string> };

/** An attempt of a call. Bodies and credentials are omitted, so that it can be logged. */
export type RequestEvent = { method: string; path: string; attempt: number };
/** How an attempt ended. `error` is a `Problem`, a `NoAnswer` or the reason of a signal. */
export type ResponseEvent = RequestEvent & { durationMs: number; error: unknown };

/** How to reach the service. */
export type TransportOptions = {
  /** For example `https://rfq.example.com`. */
  baseUrl: string;
  credential?: Credential;
  /** Milliseconds for each attempt. Default: 30 000. */
  timeoutMs?: number;
  /** Most attempts of a call, including the first. Default: 5. With 1, nothing is retried. */
  attempts?: number;
  /** Default: the global `fetch`. */
  fetch?: typeof fetch;
  /** Milliseconds since 1970. Default: `Date.now`. */
  now?: () => number;
  /** Called before each attempt of a call. An error that it throws ends the call. */
  onRequest?: (event: RequestEvent) => void;
  /** Called after each attempt of a call. `error` is null if it succeeded. */
  onResponse?: (event: ResponseEvent) => void;
};

/** Options of every call. */
export type CallOptions = {
  /** Ends the call and its retries. The call throws the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Milliseconds for the whole call, retries included. Then it throws `NoAnswer`. */
  timeoutMs?: number | undefined;
};

/**
 * A deadline by the service's clock, and by ours: Unix milliseconds after which nothing is sent.
 */
export type Deadline = { notAfter: string; sendBefore: number };

export type Call = {
  method: "GET" | "POST" | "DELETE";
  path: string;
  query?: Record<string, QueryValue>;
  body?: object;
  /** Default: JSON, which is decoded. Of another type, the call returns the text. */
  accept?: string;
  /** Sent without a credential. */
  public?: boolean;
  /** Retried after a lost response, because repeating it changes nothing. Default: true for GET. */
  idempotent?: boolean;
  /** Not retried here, because the caller does so. */
  once?: boolean;
  options?: CallOptions | undefined;
  /** Unix milliseconds by our clock, from which on the call is not sent any more. */
  sendBefore?: number | undefined;
};

type ToSign = { method: string; url: URL; body: Uint8Array | undefined; offsetMs: number };

const DEFAULT_TIMEOUT_MS = 30_000;
/** Their delays, two to three seconds in total, outlast a deployment or a crashed process. */
const DEFAULT_ATTEMPTS = 5;
const FIRST_DELAY_MS = 200;
const LONGEST_DELAY_MS = 5_000;
/** A longer timer fires at once. This is 24 days. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;
/** The service's clock is compared with ours again after this time. */
const CLOCK_LIFE_MS = 600_000;
/** A stream does not wait longer than this for the service's clock before it connects. */
const CLOCK_TIMEOUT_MS = 2_000;
/** For a longer Retry-After the call throws, and the caller decides when to retry. */
const LONGEST_RETRY_AFTER_SECS = 30;

export class Transport {
  readonly baseUrl: string;
  readonly #options: TransportOptions;
  #key: Promise<HmacKey> | null = null;
  /** The service's clock minus ours, learned from GET /time or from a rejected timestamp. */
  #clockOffsetMs = 0;
  #clockReadAt = -Infinity;
  /** By how much the offset may be too large: half of the time that the reading took. */
  #clockErrorMs = 0;
  #clockReading: Promise<void> | null = null;
  readonly #rateLimits = new RateLimits();
  readonly #session: SessionSource | null;

  constructor(options: TransportOptions) {
    this.#options = options;
    this.baseUrl = options.baseUrl.replace(/\/+$/, "");
    const { credential } = options;
    this.#session =
      credential !== undefined && "password" in credential
        ? new SessionSource(() => this.#logIn(credential))
        : null;
  }

  get credential(): Credential | null {
    return this.#options.credential ?? null;
  }

  /** The last report of each rate limit. */
  rateLimits(): RateLimit[] {
    return this.#rateLimits.current();
  }

  async #logIn({ email, password, totpCode }: Extract<Credential, { email: string }>) {
    const totp_code = await totpCode?.();
    try {
      return await this.call<{ access_token: string; expires_in: number }>({
        method: "POST",
        path: "/auth/login",
        body: { email, password, ...(totp_code === undefined ? {} : { totp_code }) },
        public: true,
      });
    } catch (error) {
      if (!(error instanceof Problem && error.code === "totp_required")) throw error;
      const detail = "The account has TOTP. Give the credential `totpCode`, which returns a code.";
      throw new Problem({ ...error.body, detail }, error);
    }
  }

  async call<T>(call: Call): Promise<T> {
    const attempts = call.once === true ? 1 : (this.#options.attempts ?? DEFAULT_ATTEMPTS);
    const { signal, timeoutMs = Infinity } = call.options ?? {};
    const endsAt = Date.now() + timeoutMs;
    let clockCorrected = false;
    let sessionRenewed = false;
    let uncertain = false;
    for (let attempt = 1; ; attempt++) {
      const offsetMs = this.#clockOffsetMs;
      const session = this.#session?.generation ?? 0;
      signal?.throwIfAborted();
      if (Date.now() >= (call.sendBefore ?? Infinity))
        throw new NoAnswer(nameOf(call), "its deadline passed before it was sent");
      try {
        // The client trusts the service to send what its OpenAPI description says.
        return (await this.#observed(call, attempt, () =>
          this.#attempt(call, offsetMs, endsAt - Date.now()),
        )) as T;
      } catch (error) {
        if (!sessionRenewed && call.public !== true && isExpired(error) && this.#session !== null) {
          sessionRenewed = true;
          this.#session.expired(session);
          attempt--;
          continue;
        }
        if (!clockCorrected && this.#correctClock(error, offsetMs)) {
          clockCorrected = true;
          attempt--;
          continue;
        }
        const delayMs =
          attempt < attempts
            ? retryDelay(error, call.idempotent ?? call.method === "GET", attempt)
            : null;
        // A call that cannot be sent again in time fails with its own error.
        const next = Date.now() + (delayMs ?? 0);
        if (delayMs === null || next >= Math.min(endsAt, call.sendBefore ?? Infinity))
          throw uncertain ? afterUncertainAttempt(nameOf(call), error) : error;
        // A read has no effect.
        uncertain ||= call.method !== "GET" && !hadNoEffect(error);
        await sleep(delayMs, signal);
      }
    }
  }

  /**
   * A deadline this far ahead by the service's clock, which GET /time reports. Null if there is
   * none.
   */
  async deadline(
    { maxAgeMs, notAfter }: { maxAgeMs: number; notAfter?: Date | string | undefined },
    options: CallOptions,
  ): Promise<Deadline | null> {
    if (notAfter === undefined && maxAgeMs === Infinity) return null;
    const sendBefore = Date.now() + maxAgeMs;
    const timeoutMs = Math.min(maxAgeMs, options.timeoutMs ?? Infinity);
    await this.#readClock({ ...options, timeoutMs });
    options.signal?.throwIfAborted();
    const toServer = this.#toServer();
    if (notAfter === undefined)
      return { notAfter: new Date(sendBefore + toServer).toISOString(), sendBefore };
    const instant = new Date(notAfter).getTime();
    // The service rejects an instant that it cannot read.
    return Number.isNaN(instant)
      ? { notAfter: String(notAfter), sendBefore: Infinity }
      : { notAfter: new Date(instant).toISOString(), sendBefore: instant - toServer };
  }

  /**
   * How far the service's clock is ahead of `Date.now` at least, by GET /time. Null if it could not
   * be read.
   */
  async clockOffset(): Promise<number | null> {
    await this.#readClock({ timeoutMs: CLOCK_TIMEOUT_MS });
    const known = Date.now() - this.#clockReadAt < CLOCK_LIFE_MS;
    return known ? this.#toServer() - this.#clockErrorMs : null;
  }

  /** The service's clock minus `Date.now`. */
  #toServer(): number {
    return (this.#options.now ?? Date.now)() + this.#clockOffsetMs - Date.now();
  }

  /** Compares the clocks, unless that was done recently. */
  async #readClock(options: CallOptions): Promise<void> {
    if (Date.now() - this.#clockReadAt < CLOCK_LIFE_MS) return;
    this.#clockReading ??= this.#compareClocks(options).finally(() => (this.#clockReading = null));
    await this.#clockReading;
  }

  async #compareClocks(options: CallOptions): Promise<void> {
    const clock = this.#options.now ?? Date.now;
    const before = clock();
    try {
      const time: Call = { method: "GET", path: "/time", public: true, once: true, options };
      const { unix_ms } = await this.call<{ unix_ms?: unknown }>(time);
      if (typeof unix_ms !== "number" || !Number.isFinite(unix_ms)) return;
      const after = clock();
      this.#clockOffsetMs = unix_ms - (before + after) / 2;
      this.#clockErrorMs = (after - before) / 2;
      this.#clockReadAt = Date.now();
    } catch (error) {
      // Then the deadline is by our own clock. Other calls may wait for this one, so the signal of
      // its caller is no error of theirs.
      if (
        options.signal?.aborted !== true &&
        !(error instanceof NoAnswer || error instanceof Problem)
      )
        throw error;
    }
  }

  async #observed(call: Call, attempt: number, send: () => Promise<unknown>): Promise<unknown> {
    const { onRequest, onResponse } = this.#options;
    const event = { method: call.method, path: call.path, attempt };
    onRequest?.(event);
    const startedAt = performance.now();
    const ended = (error: unknown) =>
      onResponse?.({ ...event, durationMs: performance.now() - startedAt, error });
    try {
      const result = await send();
      ended(null);
      return result;
    } catch (error) {
      ended(error);
      throw error;
    }
  }

  async #attempt(call: Call, offsetMs: number, leftMs: number): Promise<unknown> {
    const url = new URL(this.baseUrl + targetOf(call.path, call.query));
    const name = nameOf(call);
    const caller = call.options?.signal;
    const body = call.body === undefined ? undefined : encode(call.body);
    const headers: Record<string, string> = { accept: call.accept ?? "application/json" };
    if (body !== undefined) headers["content-type"] = "application/json";
    if (call.public !== true)
      Object.assign(
        headers,
        await this.#credentialHeaders({ method: call.method, url, body, offsetMs }),
      );
    const ownMs = this.#options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    const timeout = AbortSignal.timeout(
      Math.max(0, Math.ceil(Math.min(ownMs, leftMs, LONGEST_TIMER_MS))),
    );
    const send = this.#options.fetch ?? fetch;
    let response: Response;
    let text: string;
    try {
      response = await send(url.href, {
        method: call.method,
        headers,
        signal: caller === undefined ? timeout : AbortSignal.any([timeout, caller]),
        redirect: "manual",
        body: body ?? null,
      });
      text = await response.text();
    } catch (error) {
      caller?.throwIfAborted();
      throw new NoAnswer(name, timeout.aborted ? "no response in time" : reasonOf(error), error);
    }
    this.#rateLimits.read(response.headers);
    if (response.ok && call.accept !== undefined) return text;
    return readResponse(name, response, text);
  }

  async #credentialHeaders({
    method,
    url,
    body,
    offsetMs,
  }: ToSign): Promise<Record<string, string>> {
    const { credential } = this;
    if (credential === null)
      throw new Error(
        "This call needs a credential. Log in, or create the client with an API key.",
      );
    if (this.#session !== null) return { authorization: `Bearer ${await this.#session.token()}` };
    if ("accessToken" in credential) return { authorization: `Bearer ${credential.accessToken}` };
    if (!("apiKeyId" in credential)) throw new Error("This credential has no session.");
    this.#key ??= importSecret(credential.secret);
    const timestampMs = Math.round((this.#options.now ?? Date.now)() + offsetMs);
    const pathAndQuery = url.pathname + url.search;
    const signature = await signWith(await this.#key, {
      timestampMs,
      method,
      pathAndQuery,
      ...(body === undefined ? {} : { body }),
    });
    return headersOf(credential.apiKeyId, timestampMs, signature);
  }

  /**
   * Learns the offset of our clock from a rejected timestamp. Returns whether to try again; the
   * rejected call had no effect.
   */
  #correctClock(error: unknown, offsetMs: number): boolean {
    if (!(error instanceof Problem) || error.code !== "timestamp_outside_tolerance") return false;
    const { skew_ms } = error.body;
    if (typeof skew_ms !== "number" || !Number.isFinite(skew_ms)) return false;
    // From the offset that this call sent, because a concurrent call may have corrected the clock
    // meanwhile and the two corrections must not add up.
    this.#clockOffsetMs = offsetMs - skew_ms;
    return true;
  }
}

function isExpired(error: unknown): boolean {
  return error instanceof Problem && error.code === "session_expired";
}

function nameOf({ method, path }: Call): string {
  return `${method} ${path}`;
}

function readResponse(name: string, response: Response, text: string): unknown {
  if (response.ok) {
    try {
      return text === "" ? {} : decode(text);
    } catch (error) {
      throw new NoAnswer(name, `the response (${response.status}) is not JSON`, error);
    }
  }
  throw new Problem(problemBody(text), {
    status: response.status,
    requestId: response.headers.get("x-request-id"),
    retryAfterSecs: secondsOf(response.headers.get("retry-after")),
    call: name,
  });
}

/** The body of an error response. A proxy may send one that is not JSON. */
function problemBody(text: string): ProblemBody {
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body === "object" && body !== null) return { ...body };
  } catch {
    // Not JSON.
  }
  return { detail: text.slice(0, 200) };
}

/** Milliseconds before the next attempt, or null if there must be none. */
export function retryDelay(
  error: unknown,
  idempotent: boolean,
  attempt: number,
  random = Math.random,
): number | null {
  if (!isTransient(error, idempotent)) return null;
  const requested = error instanceof Problem ? error.retryAfterSecs : null;
  if (requested !== null && requested > LONGEST_RETRY_AFTER_SECS) return null;
  const backoff = random() * Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (attempt - 1));
  return (requested ?? 0) * 1_000 + backoff;
}

function isTransient(error: unknown, idempotent: boolean): boolean {
  if (error instanceof NoAnswer) return idempotent;
  if (!(error instanceof Problem)) return false;
  if (error.code === "idempotency_in_progress") return idempotent;
  // Rate limits apply before the call has any effect.
  if (error.status === 429 && error.code !== "login_throttled") return true;
  if (error.code === "withdrawals_paused") return false;
  if (error.status === 503 && error.body["outcome"] === "none") return true;
  return idempotent && (error.status === 502 || error.status === 503 || error.status === 504);
}

/** Seconds of a Retry-After header, which is a number or a date (RFC 9110). */
function secondsOf(header: string | null): number | null {
  if (header === null) return null;
  if (/^\d+$/.test(header)) return Number(header);
  const at = Date.parse(header);
  return Number.isNaN(at) ? null : Math.max(0, (at - Date.now()) / 1_000);
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
}

export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) return reject(signal.reason);
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
