/**
 * Rate limits by the Workers rate-limit binding. They are approximate and count per Cloudflare
 * location, so the protection of money and passwords must not depend on them. The figures repeat
 * those of wrangler.toml, because a Worker cannot read them from the binding.
 *
 * A request counts for its address before its credentials are read, then for its user, and beneath
 * that for its credential. More keys or sessions give a user no larger budget.
 */
import { type Actor, credentialIdOf } from "../platform/actor.ts";
import { recordsExamined } from "./cursor.ts";
import type { RequestContext } from "./request-context.ts";
import type { Config } from "../platform/config.ts";
import { Problem, type ProblemData } from "../platform/problem.ts";
import { blockOf, networkOf } from "./ip-range.ts";

const PERIOD_SECS = 10;

type Policy = { readonly name: string; readonly binding: string; readonly limit: number };

/** All requests of an IPv4 address or an IPv6 /64. */
const ADDRESS: Policy = { name: "address", binding: "RATE_ADDRESS", limit: 3_000 };
/** All requests of an IPv6 /48, because one customer can have all its 65,536 networks. */
const BLOCK: Policy = { name: "address-block", binding: "RATE_ADDRESS_BLOCK", limit: 12_000 };

/**
 * Refused commands and upgrades of a user, which nothing else makes scarce. A tenth of `trade`,
 * because a fast maker in a busy market is late with some quotes.
 */
const REFUSED: Policy = { name: "refused", binding: "RATE_REFUSED", limit: 200 };

/** A credential gets four fifths of its user's: a runaway one leaves enough to revoke it. */
const RATE_CLASSES = {
  auth: rateClass("auth", "RATE_AUTH", 100),
  read: rateClass("read", "RATE_READ", 1_000),
  trade: rateClass("trade", "RATE_TRADE", 2_000),
  withdraw: rateClass("withdraw", "RATE_WITHDRAW", 30),
} as const;
export type RateClass = keyof typeof RATE_CLASSES;

function rateClass(name: string, binding: string, limit: number) {
  const user: Policy = { name, binding, limit };
  const credential: Policy = {
    name: `${name}-credential`,
    binding: `${binding}_CREDENTIAL`,
    limit: (limit * 4) / 5,
  };
  const refused = name === "trade" ? [REFUSED] : [];
  return { user, credential, text: policyText([ADDRESS, BLOCK, user, credential, ...refused]) };
}

type Count = { readonly policy: Policy; readonly key: string };

/** Counts a request for its address. Throws `rate_limited` if a limit is reached. */
export function limitAddress(
  env: object,
  settings: Config,
  clientIp: string | undefined,
): Promise<void> {
  return limitRates(env, settings, addressCounts(clientIp));
}

function addressCounts(clientIp: string | undefined): Count[] {
  const block = blockOf(clientIp);
  return [
    { policy: ADDRESS, key: networkOf(clientIp) },
    ...(block === undefined ? [] : [{ policy: BLOCK, key: block }]),
  ];
}

/** Counts a request for its user and credential. `units`: the requests whose work it does. */
export function limitActor(
  env: object,
  settings: Config,
  name: RateClass,
  actor: Actor,
  units = 1,
): Promise<void> {
  return limitRates(env, settings, actorCounts(name, actor), units);
}

function actorCounts(name: RateClass, actor: Actor): Count[] {
  const { user, credential } = RATE_CLASSES[name];
  return [
    { policy: credential, key: credentialIdOf(actor) },
    { policy: user, key: actor.userId },
  ];
}

/** A read of more records counts as several requests. */
export const RECORDS_PER_UNIT = 100;
/** Those of an address are many, because a network shares them, and each may be a large page. */
export const PUBLIC_RECORDS_PER_UNIT = 20;
/** The binding counts one at a time. */
const MAX_UNITS = 50;

/**
 * Counts a read of many records as further requests: of its user, or without one of its address.
 * They delay the next requests, as this one has its response. Undefined for a small read.
 */
export function chargeRead(
  env: object,
  settings: Config,
  {
    context,
    actor,
    response,
  }: { context: RequestContext; actor: Actor | undefined; response: unknown },
): Promise<unknown> | undefined {
  if (typeof response !== "object" || response === null) return undefined;
  const perUnit = actor === undefined ? PUBLIC_RECORDS_PER_UNIT : RECORDS_PER_UNIT;
  const units = Math.min(MAX_UNITS, Math.ceil(recordsExamined(response) / perUnit));
  if (units <= 1) return undefined;
  const counts =
    actor === undefined || context.rateClass === undefined
      ? addressCounts(context.clientIp)
      : actorCounts(context.rateClass, actor);
  return countRates(env, settings, counts, units - 1);
}

/** Counts a refused command or upgrade. Returns `rate_limited` for the next one at the limit. */
export function countRefusal(
  env: object,
  settings: Config,
  key: string,
): Promise<ProblemData | undefined> {
  return countRates(env, settings, [{ policy: REFUSED, key }]);
}

async function limitRates(...counted: Parameters<typeof countRates>): Promise<void> {
  const reached = await countRates(...counted);
  if (reached !== undefined) throw new Problem(reached);
}

/** Counts the narrowest limit first, so one credential or network cannot use up the wider ones. */
async function countRates(
  env: object,
  settings: Config,
  counts: readonly Count[],
  units = 1,
): Promise<ProblemData | undefined> {
  if (settings.RATE_LIMITS === "off") return undefined;
  for (const { policy, key } of counts) {
    const limiter = limiterOf(env, policy.binding);
    // The binding counts one at a time.
    const counted = await Promise.all(Array.from({ length: units }, () => limiter.limit({ key })));
    if (counted.some(({ success }) => !success)) return reachedLimit(policy);
  }
  return undefined;
}

function reachedLimit(policy: Policy): ProblemData {
  return {
    code: "rate_limited",
    detail:
      `You have reached the limit of ${policy.limit} ` +
      `${policy === REFUSED ? "refused commands or upgrades" : "requests"} in ${PERIOD_SECS} seconds ` +
      `(${policy.name}).`,
    retryAfterSecs: PERIOD_SECS,
    // The binding does not report what is left, so only an exhausted limit can be stated.
    headers: { ratelimit: `"${policy.name}";r=0;t=${PERIOD_SECS}` },
  };
}

/** Finds the binding by name, so that a stack without it (tests, benchmarks) still starts. */
function limiterOf(env: object, binding: string): RateLimit {
  const limiter = (env as Record<string, RateLimit | undefined>)[binding];
  if (limiter === undefined)
    throw new Error(`RATE_LIMITS is on, but the binding ${binding} is missing`);
  return limiter;
}

const ADDRESS_POLICIES = policyText([ADDRESS, BLOCK]);

/** RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers). No `name`: no verified credentials. */
export function ratePolicies(name: RateClass | undefined): string {
  return name === undefined ? ADDRESS_POLICIES : RATE_CLASSES[name].text;
}

function policyText(policies: readonly Policy[]): string {
  return policies.map(({ name, limit }) => `"${name}";q=${limit};w=${PERIOD_SECS}`).join(", ");
}

/** The rate limits as GET /config states them: requests in 10 seconds by name. */
export const RATE_LIMIT_FIGURES = {
  requests_per_address_per_10_secs: ADDRESS.limit,
  requests_per_address_block_per_10_secs: BLOCK.limit,
  auth_requests_per_user_per_10_secs: RATE_CLASSES.auth.user.limit,
  auth_requests_per_credential_per_10_secs: RATE_CLASSES.auth.credential.limit,
  read_requests_per_user_per_10_secs: RATE_CLASSES.read.user.limit,
  read_requests_per_credential_per_10_secs: RATE_CLASSES.read.credential.limit,
  trade_requests_per_user_per_10_secs: RATE_CLASSES.trade.user.limit,
  trade_requests_per_credential_per_10_secs: RATE_CLASSES.trade.credential.limit,
  refused_requests_per_user_per_10_secs: REFUSED.limit,
  withdraw_requests_per_user_per_10_secs: RATE_CLASSES.withdraw.user.limit,
  withdraw_requests_per_credential_per_10_secs: RATE_CLASSES.withdraw.credential.limit,
} as const;
