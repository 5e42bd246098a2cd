/**
 * What the service reports about its rate limits, in the headers RateLimit and RateLimit-Policy.
 */

/** A rate limit that counts the calls of this client. */
export type RateLimit = {
  /** For example `read` or `read-credential`. */
  name: string;
  /** Calls that are allowed within `windowSecs`. Null if the service has not reported it. */
  quota: number | null;
  windowSecs: number | null;
  /** Calls that are left. Null if the service does not count this limit exactly. */
  remaining: number | null;
  /** Unix milliseconds by our clock, at which `remaining` is out of date. */
  resetsAt: number | null;
};

type Reported = { name: string; parameters: Map<string, number> };

/** Remembers the last report of each limit. */
export class RateLimits {
  readonly #limits = new Map<string, RateLimit>();

  read(headers: Headers, now = Date.now()): void {
    for (const { name, parameters } of items(headers.get("ratelimit-policy"))) {
      const known = this.#limit(name);
      known.quota = parameters.get("q") ?? known.quota;
      known.windowSecs = parameters.get("w") ?? known.windowSecs;
    }
    for (const { name, parameters } of items(headers.get("ratelimit"))) {
      const known = this.#limit(name);
      known.remaining = parameters.get("r") ?? null;
      known.resetsAt = now + (parameters.get("t") ?? 0) * 1_000;
    }
  }

  /** A report whose time is over says nothing any more. */
  current(now = Date.now()): RateLimit[] {
    return [...this.#limits.values()].map((limit) =>
      limit.resetsAt !== null && limit.resetsAt <= now
        ? { ...limit, remaining: null, resetsAt: null }
        : { ...limit },
    );
  }

  #limit(name: string): RateLimit {
    const limit = this.#limits.get(name) ?? {
      name,
      quota: null,
      windowSecs: null,
      remaining: null,
      resetsAt: null,
    };
    this.#limits.set(name, limit);
    return limit;
  }
}

/** Reads `"read";q=1000;w=10, "trade";q=300;w=10`. The names contain no comma or semicolon. */
function items(header: string | null): Reported[] {
  if (header === null) return [];
  return header.split(",").flatMap((text) => {
    const [first = "", ...rest] = text.split(";").map((part) => part.trim());
    const name = /^"(.*)"$/.exec(first)?.[1];
    if (name === undefined) return [];
    const pairs = rest.flatMap((part): [string, number][] => {
      const [, key, value] = /^([a-z]+)=(\d+)$/.exec(part) ?? [];
      return key === undefined ? [] : [[key, Number(value)]];
    });
    return [{ name, parameters: new Map(pairs) }];
  });
}
