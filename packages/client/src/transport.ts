/** One call: signs it, sends it, reads the response and retries where that is safe. */
import { afterUncertainAttempt, hadNoEffect, NoAnswer, NotSent, Problem } from "./problem.ts";
import { type RateLimit, RateLimits } from "./rate-limits.ts";
import { Deadline, deadlinePassedAt, type SentAt, ServerClock } from "./server-clock.ts";
import { SessionSource } from "./session-source.ts";
import { type HmacKey, headersOf, importSecret, signWith } from "./sign.ts";
import { LONGEST_TIMER_MS, sleep } from "./sleep.ts";
import { CommandLimits, type Turns } from "./turns.ts";
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
  /**
   * Milliseconds since 1970, asked once. Until the service's time is known, the client takes this
   * for it. Default: `Date.now`.
   */
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
  /** Sets `not_after` of the body this far ahead, unless it is given. */
  maxAgeMs?: number;
};

/** When an attempt ends at the latest, by `performance.now()`, and the deadline that it sends. */
type Attempt = { number: number; endsAt: number; deadline: Deadline; sent: SentAt };
type ToSign = { method: string; url: URL; body: Uint8Array | undefined; ahead: number };

const DEFAULT_TIMEOUT_MS = 30_000;
/** Their delays, two to three seconds in total, outlast a deployment or a crashed process. */
const DEFAULT_ATTEMPTS = 5;
const FIRST_DELAY_MS = 200;
const LONGEST_DELAY_MS = 5_000;
/** Of a read of the service's time or limits. */
const READ_TIMEOUT_MS = 2_000;
/** For a longer Retry-After the call throws, and the caller decides when to retry. */
const LONGEST_RETRY_AFTER_SECS = 30;
/** The commands that the service limits in number while they are unanswered. */
const COMMANDS = new Set(["/rfq/request", "/rfq/quote", "/rfq/quotes", "/rfq/accept"]);

export class Transport {
  readonly baseUrl: string;
  readonly clock: ServerClock;
  readonly limits: CommandLimits;
  readonly #options: TransportOptions;
  #key: Promise<HmacKey> | null = null;
  readonly #rateLimits = new RateLimits();
  readonly #session: SessionSource | null;

  constructor(options: TransportOptions) {
    this.#options = options;
    const { baseUrl, credential } = options;
    checkUse(baseUrl, credential);
    this.baseUrl = baseUrl.replace(/\/+$/, "");
    this.clock = new ServerClock(options.now ?? Date.now, () => this.#read("/time", "unix_ms"));
    this.limits = new CommandLimits(() => this.#read("/config", "limits"));
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

  /** A member of a public record. */
  async #read(path: string, member: string): Promise<unknown> {
    const options = { timeoutMs: READ_TIMEOUT_MS };
    const call: Call = { method: "GET", path, public: true, once: true, options };
    return (await this.call<Record<string, unknown>>(call))[member];
  }

  async call<T>(call: Call): Promise<T> {
    const attempts = call.once === true ? 1 : (this.#options.attempts ?? DEFAULT_ATTEMPTS);
    const { signal, timeoutMs = Infinity } = call.options ?? {};
    signal?.throwIfAborted();
    const endsAt = performance.now() + timeoutMs;
    const deadline = new Deadline(this.clock, { ...call.body, maxAgeMs: call.maxAgeMs });
    const leftMs = () => Math.min(deadline.sendBefore, endsAt) - performance.now();
    if (deadline.exists) await this.clock.fresh(leftMs(), signal);
    let corrected = false;
    let sessionRenewed = false;
    let uncertain = false;
    for (let attempt = 1; ; attempt++) {
      const sent = { at: 0, ahead: 0 };
      const session = this.#session?.generation ?? 0;
      signal?.throwIfAborted();
      const isOutdated = async (answer: unknown): Promise<boolean> => {
        const passedAt = deadlinePassedAt(answer);
        if (corrected || Number.isNaN(passedAt)) return false;
        corrected = await this.clock.wasWrong(passedAt, sent, leftMs());
        return corrected && deadline.allowsCorrection && performance.now() < endsAt;
      };
      try {
        const now = { number: attempt, endsAt, deadline, sent };
        const answer = await this.#inTurn(call, now, () => this.#attempt(call, now));
        if (await isOutdated(answer)) attempt--;
        // The client trusts the service to send what its OpenAPI description says.
        else return answer as T;
      } catch (error) {
        if (!sessionRenewed && call.public !== true && isExpired(error) && this.#session !== null) {
          sessionRenewed = true;
          this.#session.expired(session);
          attempt--;
          continue;
        }
        if (!corrected && this.#correctClock(error, sent)) {
          corrected = true;
          attempt--;
          continue;
        }
        if (error instanceof Problem && (await isOutdated(error.body))) {
          attempt--;
          continue;
        }
        const delayMs =
          attempt < attempts
            ? retryDelay(error, call.idempotent ?? call.method === "GET", attempt)
            : null;
        // A call that cannot be sent again in time fails with its own error.
        if (delayMs === null || delayMs >= leftMs())
          throw uncertain ? afterUncertainAttempt(nameOf(call), error) : error;
        // A read has no effect.
        uncertain ||= call.method !== "GET" && !hadNoEffect(error);
        await sleep(delayMs, signal);
      }
    }
  }

  /** Sends a command when the service admits one more. Throws `NotSent` if that is too late. */
  #inTurn(call: Call, { endsAt, deadline }: Attempt, send: () => Promise<unknown>) {
    const name = nameOf(call);
    const { commands, severalQuotes } = this.limits;
    const turns: Turns[] = [];
    if (call.method !== "GET" && COMMANDS.has(call.path)) turns.push(commands);
    if (call.path === "/rfq/quotes" && call.method === "POST") turns.push(severalQuotes);
    const until = {
      endsAt: Math.min(endsAt, deadline.sendBefore),
      signal: call.options?.signal,
    };
    const inTime = async () => {
      if (performance.now() >= deadline.sendBefore) throw new NotSent(name);
      return send();
    };
    return turns.reduce<() => Promise<unknown>>(
      (next, turn) => () => turn.run(name, until, next),
      inTime,
    )();
  }

  async #attempt(call: Call, attempt: Attempt): Promise<unknown> {
    const { onRequest, onResponse } = this.#options;
    const event = { method: call.method, path: call.path, attempt: attempt.number };
    onRequest?.(event);
    const startedAt = performance.now();
    const ended = (error: unknown) =>
      onResponse?.({ ...event, durationMs: performance.now() - startedAt, error });
    try {
      const result = await this.#send(call, attempt);
      ended(null);
      return result;
    } catch (error) {
      ended(error);
      throw error;
    }
  }

  async #send(call: Call, { endsAt, deadline, sent }: Attempt): Promise<unknown> {
    Object.assign(sent, { at: performance.now(), ahead: this.clock.ahead });
    const url = new URL(this.baseUrl + targetOf(call.path, call.query));
    const name = nameOf(call);
    const caller = call.options?.signal;
    const { notAfter } = deadline;
    const timed = notAfter === undefined ? {} : { not_after: notAfter };
    const body = call.body === undefined ? undefined : encode({ ...call.body, ...timed });
    const headers: Record<string, string> = { accept: call.accept ?? "application/json" };
    if (body !== undefined) headers["content-type"] = "application/json";
    if (call.public !== true)
      Object.assign(
        headers,
        await this.#credentialHeaders({ method: call.method, url, body, ahead: sent.ahead }),
      );
    const ownMs = this.#options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    const leftMs = endsAt - performance.now();
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
    return readResponse(name, response, { text, now: this.clock.now() });
  }

  async #credentialHeaders({ method, url, body, ahead }: ToSign): Promise<Record<string, string>> {
    const { credential } = this;
    if (credential === null)
      throw new Error(
        "This call needs a credential. Log in, or create the client with an API key.",
      );
    if (this.#session !== null) return { authorization: `Bearer ${await this.#session.token()}` };
    if ("accessToken" in credential) return { authorization: `Bearer ${credential.accessToken}` };
    if (!("apiKeyId" in credential)) throw new Error("This credential has no session.");
    this.#key ??= importSecret(credential.secret);
    const timestampMs = Math.round(performance.now() + ahead);
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
   * Learns the service's time from a rejected timestamp. Returns whether to try again; the rejected
   * call had no effect.
   */
  #correctClock(error: unknown, sent: SentAt): boolean {
    if (!(error instanceof Problem) || error.code !== "timestamp_outside_tolerance") return false;
    const { skew_ms } = error.body;
    if (typeof skew_ms !== "number" || !Number.isFinite(skew_ms)) return false;
    // From what this call sent, because a concurrent call may have corrected the clock meanwhile
    // and the two corrections must not add up.
    this.clock.correct(sent.ahead, skew_ms);
    return true;
  }
}

/** Else every call would fail, after all its attempts. */
function checkUse(baseUrl: string, credential: unknown): void {
  if (!/^https?:\/\/[^/]/.test(baseUrl) || !URL.canParse(baseUrl))
    throw new TypeError("`baseUrl` must begin with http:// or https://.");
  const known = ["apiKeyId", "accessToken", "password"];
  const isKnown = credential !== null && known.some((name) => name in Object(credential));
  if (credential !== undefined && !isKnown)
    throw new TypeError("`credential` needs an API key, an access token, or email and password.");
}

function isExpired(error: unknown): boolean {
  return error instanceof Problem && error.code === "session_expired";
}

function nameOf({ method, path }: Call): string {
  return `${method} ${path}`;
}

function readResponse(
  name: string,
  response: Response,
  { text, now }: { text: string; now: number },
): unknown {
  const { ok, status, headers } = response;
  if (ok) {
    try {
      return text === "" ? {} : decode(text);
    } catch (error) {
      throw new NoAnswer(name, `the response (${status}) is not JSON`, error, { status });
    }
  }
  const retryAfterSecs = secondsOf(headers.get("retry-after"), now);
  const body = problemBody(headers.get("content-type"), text);
  if (body !== null)
    throw new Problem(body, {
      status,
      requestId: headers.get("x-request-id"),
      retryAfterSecs,
      call: name,
    });
  const start = text.slice(0, 200).replaceAll(/\s+/g, " ");
  throw new NoAnswer(name, `${status}, which is not from the service: ${start}`, undefined, {
    status,
    retryAfterSecs,
  });
}

/** Null if it is not the service's word, but that of a proxy. */
function problemBody(type: string | null, text: string): { code: string } | null {
  if (!/^application\/problem\+json\s*(;|$)/i.test(type ?? "")) return null;
  try {
    const body = JSON.parse(text) as { code?: unknown } | null;
    const code = body?.code;
    return typeof code === "string" ? { ...body, code } : null;
  } catch {
    return null;
  }
}

/** Milliseconds before the next attempt, or null if there must be none. */
export function retryDelay(
  error: unknown,
  idempotent: boolean,
  attempt: number,
  random = Math.random,
): number | null {
  if (!isTransient(error, idempotent)) return null;
  const requested = error.retryAfterSecs;
  if (requested !== null && requested > LONGEST_RETRY_AFTER_SECS) return null;
  const backoff = random() * Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (attempt - 1));
  return (requested ?? 0) * 1_000 + backoff;
}

function isTransient(error: unknown, idempotent: boolean): error is Problem | NoAnswer {
  if (error instanceof NotSent) return false;
  if (error instanceof NoAnswer) return idempotent;
  if (!(error instanceof Problem)) return false;
  // Rate limits apply before the call has any effect.
  if (error.status === 429 && error.code !== "login_throttled") return true;
  if (error.code === "withdrawals_paused") return false;
  if (error.status === 503 && error.body["outcome"] === "none") return true;
  return idempotent && (error.status === 502 || error.status === 503 || error.status === 504);
}

/** Seconds of a Retry-After header, which is a number or a date (RFC 9110). */
function secondsOf(header: string | null, now: number): number | null {
  if (header === null) return null;
  if (/^\d+$/.test(header)) return Number(header);
  const at = Date.parse(header);
  return Number.isNaN(at) ? null : Math.max(0, (at - now) / 1_000);
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
}
