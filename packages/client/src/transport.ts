/** One call: signed, sent, understood, and repeated where that is safe. */
import { NoAnswer, Problem, type ProblemBody } from "./problem.ts";
import { type HmacKey, headersOf, importSecret, signWith } from "./sign.ts";
import { type QueryValue, decode, encode, targetOf } from "./wire.ts";

/** An API key (works until it is revoked) or a session's token (works for an hour). */
export type Credential = { apiKeyId: string; secret: string } | { accessToken: string };

/** How the service is reached. */
export type TransportOptions = {
  /** Where the service is, for example `https://rfq.example.com`. */
  baseUrl: string;
  credential?: Credential;
  /** Milliseconds for one attempt; 30 000 when left out. */
  timeoutMs?: number;
  /** Attempts for a safe call, the first included; 5 when left out, 1 turns repeating off. */
  attempts?: number;
  /** The runtime's own when left out. */
  fetch?: typeof fetch;
  /** Milliseconds since 1970; the runtime's clock when left out. */
  now?: () => number;
};

export type Call = {
  method: "GET" | "POST" | "DELETE";
  path: string;
  query?: Record<string, QueryValue>;
  body?: object;
  /** Sent without a credential. */
  open?: boolean;
  /** Doing it twice is the same as doing it once, so a lost answer may be asked for again. */
  safe?: boolean;
  /** Not repeated here: its caller does that. */
  once?: boolean;
};

type ToSign = { method: string; url: URL; body: Uint8Array | undefined; offsetMs: number };

const DEFAULT_TIMEOUT_MS = 30_000;
/** Enough to outlast a deploy or a crashed process: two to three seconds together. */
const DEFAULT_ATTEMPTS = 5;
const FIRST_DELAY_MS = 200;
const LONGEST_DELAY_MS = 5_000;
/** A service that wants a longer rest than this gets it from the caller, not from a sleeping client. */
const LONGEST_RETRY_AFTER_SECS = 30;

export class Transport {
  readonly baseUrl: string;
  readonly #options: TransportOptions;
  #key: Promise<HmacKey> | null = null;
  /** Server time minus ours, learned from a refused timestamp. */
  #clockOffsetMs = 0;

  constructor(options: TransportOptions) {
    this.#options = options;
    this.baseUrl = options.baseUrl.replace(/\/+$/, "");
  }

  get credential(): Credential | null {
    return this.#options.credential ?? null;
  }

  async call<T>(call: Call): Promise<T> {
    const attempts = call.once === true ? 1 : (this.#options.attempts ?? DEFAULT_ATTEMPTS);
    let clockCorrected = false;
    for (let attempt = 1; ; attempt++) {
      const offsetMs = this.#clockOffsetMs;
      try {
        // The service's answers are trusted to have the shape of its published description.
        return (await this.#attempt(call, offsetMs)) as T;
      } catch (error) {
        if (!clockCorrected && this.#correctClock(error, offsetMs)) {
          clockCorrected = true;
          attempt--;
          continue;
        }
        const delayMs =
          attempt < attempts
            ? retryDelay(error, call.safe ?? call.method === "GET", attempt)
            : null;
        if (delayMs === null) throw error;
        await sleep(delayMs);
      }
    }
  }

  async #attempt(call: Call, offsetMs: number): Promise<unknown> {
    const url = new URL(this.baseUrl + targetOf(call.path, call.query));
    const name = `${call.method} ${call.path}`;
    const body = call.body === undefined ? undefined : encode(call.body);
    const headers: Record<string, string> = { accept: "application/json" };
    if (body !== undefined) headers["content-type"] = "application/json";
    if (call.open !== true)
      Object.assign(
        headers,
        await this.#credentialHeaders({ method: call.method, url, body, offsetMs }),
      );
    const timeout = AbortSignal.timeout(this.#options.timeoutMs ?? DEFAULT_TIMEOUT_MS);
    const send = this.#options.fetch ?? fetch;
    let response: Response;
    let text: string;
    try {
      response = await send(url.href, {
        method: call.method,
        headers,
        signal: timeout,
        redirect: "manual",
        body: body ?? null,
      });
      text = await response.text();
    } catch (error) {
      throw new NoAnswer(name, timeout.aborted ? "no answer in time" : reasonOf(error), error);
    }
    return understand(name, response, text);
  }

  async #credentialHeaders({
    method,
    url,
    body,
    offsetMs,
  }: ToSign): Promise<Record<string, string>> {
    const { credential } = this;
    if (credential === null)
      throw new Error("This call needs a credential: log in, or give the client an API key.");
    if ("accessToken" in credential) return { authorization: `Bearer ${credential.accessToken}` };
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

  /** The server told how far off our clock is; nothing was done, so any call may be repeated. */
  #correctClock(error: unknown, offsetMs: number): boolean {
    if (!(error instanceof Problem) || error.code !== "timestamp_outside_tolerance") return false;
    const { skew_ms } = error.body;
    if (typeof skew_ms !== "number" || !Number.isFinite(skew_ms)) return false;
    // From the offset that was sent, not the present one: calls side by side learn the same thing, and must not add it up.
    this.#clockOffsetMs = offsetMs - skew_ms;
    return true;
  }
}

function understand(name: string, response: Response, text: string): unknown {
  if (response.ok) {
    try {
      return text === "" ? {} : decode(text);
    } catch (error) {
      throw new NoAnswer(name, `the answer (${response.status}) cannot be read`, error);
    }
  }
  throw new Problem(problemBody(text), {
    status: response.status,
    requestId: response.headers.get("x-request-id"),
    retryAfterSecs: secondsOf(response.headers.get("retry-after")),
    call: name,
  });
}

/** Something on the way, a proxy for one, may answer with another kind of body. */
function problemBody(text: string): ProblemBody {
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body === "object" && body !== null) return { ...body };
  } catch {
    // Told as it is, below.
  }
  return { detail: text.slice(0, 200) };
}

/** Milliseconds to wait before the next attempt, or null when there must be none. */
export function retryDelay(
  error: unknown,
  safe: boolean,
  attempt: number,
  random = Math.random,
): number | null {
  if (!isPassing(error, safe)) return null;
  const asked = error instanceof Problem ? error.retryAfterSecs : null;
  if (asked !== null && asked > LONGEST_RETRY_AFTER_SECS) return null;
  const backoff = random() * Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (attempt - 1));
  return (asked ?? 0) * 1_000 + backoff;
}

function isPassing(error: unknown, safe: boolean): boolean {
  if (error instanceof NoAnswer) return safe;
  if (!(error instanceof Problem)) return false;
  if (error.code === "idempotency_in_progress") return safe;
  // Refused before anything was done.
  if (error.status === 429 && error.code !== "login_throttled") return true;
  if (error.code === "withdrawals_paused") return false;
  if (error.status === 503 && error.body["outcome"] === "none") return true;
  return safe && (error.status === 502 || error.status === 503 || error.status === 504);
}

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
