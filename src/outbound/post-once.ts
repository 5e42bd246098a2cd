/** One attempt to deliver a message. Who calls it decides whether and when to try again. */
import { errorFields, log } from "../platform/log.ts";

/** A receiver that takes longer counts as one that has not accepted. It should answer first. */
const CALL_TIMEOUT_MS = 10_000;
/** Beyond it a receiver may cut or refuse. Senders keep their messages far below. */
export const MAX_BODY_BYTES = 65_536;
/** How long a sender waits after a failed attempt. */
const FIRST_RETRY_MS = 10_000;
const LONGEST_RETRY_MS = 3_600_000;

export type Post = {
  /** The owner of the message, for the log. */
  readonly to: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON */
  readonly body: string;
};

export type Attempt = {
  /** Whether the receiver answered with 2xx. */
  readonly accepted: boolean;
  /** Null if there was no answer. */
  readonly status: number | null;
};

/** Follows no redirect, which could lead anywhere, and reads no body, which may not end. */
export async function postOnce({ to, url, headers, body }: Post): Promise<Attempt> {
  const bytes = new TextEncoder().encode(body);
  if (bytes.length > MAX_BODY_BYTES) throw new RangeError(`a message has ${bytes.length} bytes`);
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(), CALL_TIMEOUT_MS);
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: bytes,
      redirect: "manual",
      signal: limit.signal,
    });
    // Not awaited, because only the status counts.
    response.body?.cancel().catch(() => {});
    if (!response.ok) log("warn", "outbound_failed", { to, status: response.status });
    return { accepted: response.ok, status: response.status };
  } catch (error) {
    log("warn", "outbound_failed", { to, ...errorFields(error) });
    return { accepted: false, status: null };
  } finally {
    // A Worker may have 10 000 timers at a time.
    clearTimeout(timer);
  }
}

/** 10 s, doubling to an hour. A quarter less at random, so that messages do not return at once. */
export function retryDelayMs(failures: number, random: number = Math.random()): number {
  const delay = Math.min(FIRST_RETRY_MS * 2 ** Math.max(0, failures - 1), LONGEST_RETRY_MS);
  return Math.round(delay * (1 - random / 4));
}
