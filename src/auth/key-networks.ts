/**
 * Notes when an API key was used, and reports its use from a new network, as for logins. The key's
 * row remembers a few networks. An isolate asks D1 once an hour for a key and network, so requests
 * of a key in use cost nothing.
 *
 * Only signed requests come here. A thief who sends them from many networks still writes little:
 * a key reports MAX_NEW_PER_DAY networks a day, and after that an isolate does not ask for a while.
 */
import { logged } from "../platform/log.ts";
import { all, type Expr, expr, first, sql, uuid } from "../platform/sql.ts";
import { Until } from "../platform/until.ts";
import type { Authenticate } from "../http/route-definition.ts";
import { widerNetworkOf } from "../http/ip-range.ts";
import { commitAudited, recordBy } from "../audit/audit.ts";

const DAY_MS = 86_400_000;
/** Of one key. More are forgotten, the one that was used longest ago first. */
const MAX_NETWORKS = 8;
export const MAX_NEW_PER_DAY = 5;
/** As networks of logins. */
const KNOWN_DAYS = 30;
/** Until the row of a known network is written again. */
const REFRESH_DAYS = 7;

/** The days since 1970 of the first and of the last use that is stored, by network. */
export type KeyNetworks = Readonly<Record<string, readonly [first: number, last: number]>>;

type Use = {
  readonly kind: "known" | "refreshed" | "first" | "new" | "too_many";
  /** What to store. Undefined: nothing changes. */
  readonly networks?: KeyNetworks;
};

/** A key's first use is no news. The first one after a rest longer than KNOWN_DAYS is. */
export function useNetwork(stored: KeyNetworks, network: string, day: number): Use {
  const known = Object.entries(stored).filter(([, [, last]]) => last > day - KNOWN_DAYS);
  const [begin, last] = stored[network] ?? [day, day - KNOWN_DAYS];
  if (last > day - REFRESH_DAYS) return { kind: "known" };
  const isFirst = Object.keys(stored).length === 0;
  const others = known.filter(([name]) => name !== network);
  const isKnown = others.length < known.length;
  const newToday = known.filter(([, [since]]) => since === day).length;
  if (!isKnown && newToday >= MAX_NEW_PER_DAY) return { kind: "too_many" };
  const kept = others
    .toSorted(([, [, one]], [, [, other]]) => other - one)
    .slice(0, MAX_NETWORKS - 1);
  return {
    kind: isKnown ? "refreshed" : isFirst ? "first" : "new",
    networks: { ...Object.fromEntries(kept), [network]: [isKnown ? begin : day, day] },
  };
}

const SEEN_MS = 3_600_000;
/** After a key has reported its networks of the day, and while one is being looked up. */
const TOO_MANY_MS = 600_000;
const LOOKING_UP_MS = 5_000;
/** By key and network: this isolate asks nothing. */
const seen = new Until();
/** The same, by key. */
const quiet = new Until();

type Incoming = Pick<Parameters<Authenticate>[0], "env" | "context" | "rightsChanged">;
type Key = { readonly apiKeyId: string; readonly userId: string };

const USE_INTERVAL_MS = 60_000;
const recorded = new Until();

/** Stores `last_used_at`, at most once a minute per key and isolate, to limit writes to D1. */
export function recordKeyUse({ env, context }: Incoming, apiKeyId: string, now: number): void {
  if (recorded.holds(apiKeyId, now)) return;
  recorded.set(apiKeyId, now + USE_INTERVAL_MS);
  const write = all(
    env.DB,
    sql`UPDATE api_keys SET last_used_at = ${now}
      WHERE api_key_id = ${uuid(apiKeyId)}
        AND coalesce(last_used_at, 0) < ${now - USE_INTERVAL_MS}`,
  );
  context.waitUntil(write.catch(logged("warn", "key_use.not_recorded")));
}

/** Looks a network up beside the request, unless this isolate knows it. */
export function watchNetwork(incoming: Incoming, key: Key, now: number): void {
  const { env, context } = incoming;
  const network = widerNetworkOf(context.clientIp);
  if (network === undefined) return;
  const id = `${key.apiKeyId} ${network}`;
  if (seen.holds(id, now) || quiet.holds(key.apiKeyId, now)) return;
  quiet.set(key.apiKeyId, now + LOOKING_UP_MS);
  const lookUp = async () => {
    const kind = await recordUse(env.DB, { key, network, ip: context.clientIp, now });
    if (kind === "too_many") return quiet.set(key.apiKeyId, now + TOO_MANY_MS);
    quiet.delete(key.apiKeyId);
    if (kind === "raced") return;
    seen.set(id, now + SEEN_MS);
    if (kind === "new") await incoming.rightsChanged(env, key.userId, "kept");
  };
  context.waitUntil(lookUp().catch(logged("warn", "key_network.not_recorded")));
}

/** `raced`: another isolate has just written the row. */
async function recordUse(
  db: D1Database,
  used: { key: Key; network: string; ip: string | undefined; now: number },
): Promise<Use["kind"] | "raced"> {
  const { network, ip, now } = used;
  const { apiKeyId, userId } = used.key;
  const mine = expr`api_key_id = ${uuid(apiKeyId)}`;
  const row = await first<{ networks: string | null }>(
    db,
    sql`SELECT networks FROM api_keys WHERE ${mine}`,
  );
  if (row === undefined) return "raced";
  const { kind, networks } = useNetwork(
    row.networks === null ? {} : (JSON.parse(row.networks) as KeyNetworks),
    network,
    Math.floor(now / DAY_MS),
  );
  if (networks === undefined) return kind;
  const store = (when: Expr) =>
    sql`UPDATE api_keys SET networks = ${JSON.stringify(networks)} WHERE ${mine} AND ${when}
      RETURNING 1 AS stored`;
  const unchanged = expr`networks IS ${row.networks}`;
  if (kind !== "new") return (await all(db, store(unchanged))).length > 0 ? kind : "raced";
  const applied = await commitAudited(db, {
    record: {
      ...recordBy("api_key", "api_key_new_network", { userId, subjectId: apiKeyId, ip }),
      apiKeyId,
    },
    when: () => sql`EXISTS (SELECT 1 FROM api_keys WHERE ${mine} AND ${unchanged})`,
    statements: (_, written) => [store(expr`${written}`)],
  });
  return applied ? kind : "raced";
}
