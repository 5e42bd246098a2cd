/**
 * viem's HTTP transport for RPC endpoints. viem limits the time until the headers of a response
 * arrive, but not its body. Here one limit covers both, so that no endpoint can hold up a round.
 */
import { http, type HttpTransport, type HttpTransportConfig } from "viem";
import { now } from "../platform/time.ts";

const TIMEOUT_MS = 10_000;
/**
 * An endpoint that did not return a block in time fails at once for so long, if it may rest. Each
 * of a round's many reads would wait for it, so that payments would take minutes. Other calls may
 * take long for reasons of their own, such as a large range of logs.
 */
const REST_MS = 10_000;
/** Each round begins with it. */
const RESTS_AFTER = "eth_getBlockByNumber";

/** Until when endpoints rest, in Unix milliseconds. */
const restsUntil = new Map<string, number>();

type Options = Pick<HttpTransportConfig, "retryCount" | "fetchOptions"> & {
  /** Whether there are other endpoints to ask meanwhile. */
  readonly mayRest: boolean;
};

/** Calls throw viem's errors, or an `Error` if there is no whole response within 10 s. */
export function rpcTransport(url: string, { mayRest, ...config }: Options): HttpTransport {
  const transport = http(url, { ...config, timeout: 0 });
  return (options) => {
    const inner = transport(options);
    return {
      ...inner,
      request: async (call, more) => {
        if (mayRest && now() < (restsUntil.get(url) ?? 0))
          throw new Error("did not respond in time a moment ago");
        // viem gives concurrent callers of some methods, such as `getBlock` by number, one promise.
        // It belongs to the object that called first. If that object is reset, workerd never
        // settles the promise, and another object that awaits it hangs.
        return inTime(
          (signal) => inner.request(call, { ...more, dedupe: false, signal }),
          () => {
            if (call.method === RESTS_AFTER) restsUntil.set(url, now() + REST_MS);
          },
        );
      },
    };
  };
}

async function inTime<T>(
  work: (signal: AbortSignal) => Promise<T>,
  onLate: () => void,
): Promise<T> {
  const limit = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tooLate = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      onLate();
      reject(new Error(`no response within ${TIMEOUT_MS / 1_000} s`));
      limit.abort();
    }, TIMEOUT_MS);
  });
  try {
    return await Promise.race([work(limit.signal), tooLate]);
  } finally {
    clearTimeout(timer);
  }
}
