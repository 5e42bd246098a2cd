/**
 * Caches API keys and users for a few seconds, so that a signed request usually needs no D1 read. A
 * stale entry can only allow a read, because the guard of every write reads D1.
 *
 * Requests share values but never a pending read. A promise belongs to the request that created it.
 * If that client disconnects, workerd never settles the promise, and every request that awaits it
 * hangs. Keys are read before signatures are verified, so anyone who knows a key's id could block
 * its owner in this way.
 */
import { eq } from "drizzle-orm";
import type { Config } from "../platform/config.ts";
import { read } from "../platform/read.ts";
import { importHmacKey } from "./hmac.ts";
import { isOwnKeyId } from "./key-id.ts";
import { openSecret } from "./secret-box.ts";
import { apiKeys, users } from "./tables.ts";
import type { Scope } from "../platform/actor.ts";

/** Contract.md section 3 allows 5 s until a revocation affects reads. A D1 read also takes time. */
const FRESH_MS = 4_500;
const MAX_ENTRIES = 20_000;

export type KeyState = {
  readonly apiKeyId: string;
  readonly userId: string;
  readonly scopes: readonly Scope[];
  readonly allowedIps: readonly string[] | null;
  readonly activeFrom: number;
  readonly expiresAt: number | null;
  readonly revoked: boolean;
  readonly frozen: boolean;
  readonly key: CryptoKey;
};
export type UserState = { readonly epoch: number; readonly frozen: boolean };

type Entry<T> = { readonly value: T; readonly readAt: number };
const keyCache = new Map<string, Entry<KeyState>>();
const userCache = new Map<string, Entry<UserState>>();

/** Undefined for an unknown id. An id that the service did not make is not looked up. */
export async function keyState(
  db: D1Database,
  settings: Config,
  apiKeyId: string,
): Promise<KeyState | undefined> {
  const readAt = Date.now();
  const known = fresh(keyCache, apiKeyId, readAt);
  if (known !== undefined) return known;
  if (!isOwnKeyId(settings, apiKeyId)) return undefined;
  const [row] = await read(db, ({ select }) =>
    select({ key: apiKeys, frozenAt: users.frozenAt })
      .from(apiKeys)
      .innerJoin(users, eq(users.userId, apiKeys.userId))
      .where(eq(apiKeys.apiKeyId, apiKeyId)),
  );
  if (row === undefined) return undefined;
  const { userId, secretSealed, masterKeyId, ...key } = row.key;
  const box = { sealed: secretSealed, masterKeyId };
  const state: KeyState = {
    apiKeyId,
    userId,
    scopes: key.scopes,
    allowedIps: key.allowedIps,
    activeFrom: key.activeFrom,
    expiresAt: key.expiresAt,
    revoked: key.revokedAt !== null,
    frozen: row.frozenAt !== null,
    key: await importHmacKey(await openSecret(settings.MASTER_KEYS, box, { apiKeyId, userId })),
  };
  remember(keyCache, apiKeyId, { value: state, readAt });
  return state;
}

export async function userState(db: D1Database, userId: string): Promise<UserState | undefined> {
  const readAt = Date.now();
  const known = fresh(userCache, userId, readAt);
  if (known !== undefined) return known;
  const [row] = await read(db, ({ select }) =>
    select({ epoch: users.sessionEpoch, frozenAt: users.frozenAt })
      .from(users)
      .where(eq(users.userId, userId)),
  );
  if (row === undefined) return undefined;
  const state = { epoch: row.epoch, frozen: row.frozenAt !== null };
  remember(userCache, userId, { value: state, readAt });
  return state;
}

/** Removes credentials that have ended from this isolate's cache. Others expire within seconds. */
export function forgetCredentials(ids: { userId: string; apiKeyIds: readonly string[] }): void {
  userCache.delete(ids.userId);
  for (const id of ids.apiKeyIds) keyCache.delete(id);
}

export function forgetAllCredentials(): void {
  keyCache.clear();
  userCache.clear();
}

function fresh<T>(cache: Map<string, Entry<T>>, id: string, now: number): T | undefined {
  const entry = cache.get(id);
  return entry !== undefined && now - entry.readAt < FRESH_MS ? entry.value : undefined;
}

/** Evicts the oldest entry when the cache is full. A Map keeps insertion order. */
function remember<T>(cache: Map<string, Entry<T>>, id: string, entry: Entry<T>): void {
  cache.delete(id);
  cache.set(id, entry);
  if (cache.size <= MAX_ENTRIES) return;
  const [oldest] = cache.keys();
  if (oldest !== undefined) cache.delete(oldest);
}
