/**
 * viem's HTTP transport for RPC endpoints. viem limits the time until the headers of a response
 * arrive, but not its body. Here one limit covers both, so that no endpoint can hold up a round.
 */
import { BaseError, http, type HttpTransport, RpcRequestError } from "viem";
import { counts } from "../platform/counts.ts";
import { now } from "../platform/time.ts";

/**
 * `quick`: a call may take a second, because other endpoints can be asked instead. `patient`: ten
 * seconds, for what the quick calls could not find out, and where there is no other endpoint.
 */
export type Patience = "quick" | "patient";

const LIMIT_MS: Readonly<Record<Patience, number>> = { quick: 1_000, patient: 10_000 };
/** Quick calls to a late endpoint fail at once for as long as it has failed, in these bounds. */
const REST_MS = { least: 5_000, most: 30_000 } as const;
/** An endpoint that has failed for so long without a success is worth an alert. */
const FAILING_MS = 60_000;

/** Until when endpoints rest, in Unix milliseconds. */
const restsUntil = new Map<string, number>();
type Failure = { readonly since: number; readonly last: number; readonly reason: string };
/** Methods by endpoint whose latest quick call failed, because some answer headers and no more. */
const failures = new Map<string, Map<string, Failure>>();

/** Calls throw viem's errors, or an `Error` if there is no whole response in time. */
export function rpcTransport(
  url: string,
  patience: Patience,
  { retryCount, headers }: { retryCount: number; headers?: Readonly<Record<string, string>> },
): HttpTransport {
  const fetchOptions = { headers: { ...headers } };
  const transport = http(url, { retryCount, fetchOptions, timeout: 0 });
  return (options) => {
    const inner = transport(options);
    // viem gives concurrent callers of some methods, such as `getBlock` by number, one promise.
    // It belongs to the object that called first. If that object is reset, workerd never
    // settles the promise, and another object that awaits it hangs.
    const request: typeof inner.request = (call, more) =>
      counted(call.method, () =>
        inTime(
          (signal) => inner.request(call, { ...more, dedupe: false, signal }),
          LIMIT_MS[patience],
        ),
      );
    if (patience === "patient") return { ...inner, request };
    return {
      ...inner,
      request: (call, more) => noted(url, call.method, () => request(call, more)),
    };
  };
}

async function counted<T>(verb: string, call: () => Promise<T>): Promise<T> {
  let outcome = "failed";
  try {
    const result = await call();
    outcome = "ok";
    return result;
  } catch (error) {
    if (isNodeError(error)) outcome = "refused";
    throw error;
  } finally {
    counts.count("rfq_rpc_calls_total", { verb, outcome });
  }
}

/** Whether quick calls to the endpoint fail at once, because it was late a moment ago. */
export function rests(url: string): boolean {
  return now() < (restsUntil.get(url) ?? 0);
}

/** What the endpoint has failed to do for a minute. Undefined if it is well. */
export function lastingFailure(
  url: string,
): { readonly method: string; readonly reason: string } | undefined {
  for (const [method, { since, last, reason }] of failures.get(url) ?? [])
    if (last - since >= FAILING_MS) return { method, reason };
  return undefined;
}

/** Notes whether a quick call succeeds. An error that the node itself reports is a success. */
async function noted<T>(url: string, method: string, call: () => Promise<T>): Promise<T> {
  if (rests(url)) throw new Late("did not respond in time a moment ago");
  const ofUrl = failures.get(url) ?? new Map<string, Failure>();
  failures.set(url, ofUrl);
  try {
    const result = await call();
    ofUrl.delete(method);
    return result;
  } catch (error) {
    if (isNodeError(error)) ofUrl.delete(method);
    else {
      const late = error instanceof Late;
      const since = ofUrl.get(method)?.since ?? now();
      const reason = late ? error.message : "failed";
      ofUrl.set(method, { since, last: now(), reason });
      const restMs = Math.min(Math.max(now() - since, REST_MS.least), REST_MS.most);
      if (late) restsUntil.set(url, now() + restMs);
    }
    throw error;
  }
}

/** Whether the node responded with an error, such as a revert. viem wraps some codes in its own. */
export function isNodeError(error: unknown): boolean {
  return (
    error instanceof BaseError && error.walk((inner) => inner instanceof RpcRequestError) !== null
  );
}

class Late extends Error {}

async function inTime<T>(work: (signal: AbortSignal) => Promise<T>, ms: number): Promise<T> {
  const limit = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tooLate = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new Late(`no response within ${ms / 1_000} s`));
      limit.abort();
    }, ms);
  });
  try {
    return await Promise.race([work(limit.signal), tooLate]);
  } finally {
    clearTimeout(timer);
  }
}
