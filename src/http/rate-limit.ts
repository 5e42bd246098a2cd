/**
 * Rate limits by the Workers rate-limit binding. They are approximate and count per Cloudflare
 * location, so the protection of money and passwords must not depend on them. The figures repeat
 * those of wrangler.toml, because a Worker cannot read them from the binding.
 */
import type { Config } from "../platform/config.ts";
import { Problem } from "../platform/problem.ts";

const RATE_CLASSES = {
  /** All requests of one address, counted before their credentials are read. */
  address: { binding: "RATE_ADDRESS", limit: 3_000, periodSecs: 10 },
  auth: { binding: "RATE_AUTH", limit: 100, periodSecs: 10 },
  read: { binding: "RATE_READ", limit: 1_000, periodSecs: 10 },
  trade: { binding: "RATE_TRADE", limit: 2_000, periodSecs: 10 },
  withdraw: { binding: "RATE_WITHDRAW", limit: 30, periodSecs: 10 },
} as const;
export type RateClass = keyof typeof RATE_CLASSES;

/**
 * Throws `rate_limited` if `key` has reached the limit of its class. The headers follow
 * draft-ietf-httpapi-ratelimit-headers.
 */
export async function limitRate(
  env: object,
  settings: Config,
  rateClass: RateClass,
  key: string,
): Promise<void> {
  if (settings.RATE_LIMITS === "off") return;
  const { binding, limit, periodSecs } = RATE_CLASSES[rateClass];
  const limiter = limiterOf(env, binding);
  if (limiter === undefined)
    throw new Error(`RATE_LIMITS is on, but the binding ${binding} is missing`);
  if ((await limiter.limit({ key })).success) return;
  throw new Problem({
    code: "rate_limited",
    detail:
      `You have reached the limit of ${limit} requests in ${periodSecs} seconds ` +
      `(class ${rateClass}).`,
    retryAfterSecs: periodSecs,
    headers: {
      "ratelimit-policy": `"${rateClass}";q=${limit};w=${periodSecs}`,
      ratelimit: `"${rateClass}";r=0;t=${periodSecs}`,
    },
  });
}

type Limiter = { limit(options: { key: string }): Promise<{ success: boolean }> };

/** Finds the binding by name, so that a stack without it (tests, benchmarks) still starts. */
function limiterOf(env: object, binding: string): Limiter | undefined {
  return (env as Record<string, Limiter | undefined>)[binding];
}
