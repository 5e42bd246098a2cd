/**
 * Caches API keys and users for a few seconds, so that a signed request usually needs no D1 read. A
 * stale entry can only allow a read, because the guard of every write reads D1.
 *
 * Requests share values but never a pending read. A promise belongs to the request that created it.
 * If that client disconnects, workerd never settles the promise, and every request that awaits it
 * hangs. Keys are read before signatures are verified, so anyone who knows a key's id could block
 * its owner in this way.
 */
import type { Config } from "../platform/config.ts";
import { logged } from "../platform/log.ts";
import { all, first, select, sql, uuid } from "../platform/sql.ts";
import { Until } from "../platform/until.ts";
import { NOW } from "../platform/commit.ts";
import { sessionsMayTrade } from "./policy.ts";
import { FROZEN_BY, type FrozenBy, holdUntil } from "./hold.ts";
import { importHmacKey } from "./hmac.ts";
import { isOwnKeyId } from "./mark.ts";
import { KEY_SEAL_COLUMNS, openKey, readKeyRights, type SealedKey } from "./key-seal.ts";
import { openOrAlert } from "./secret-box.ts";
import { codeCounts } from "./totp-secret.ts";

/**
 * Contract.md section 3 allows 5 s until a revocation affects reads. The age of a value counts from
 * before its read, so 500 ms are left for the request that uses it.
 */
const FRESH_MS = 4_500;
/** A value of this age is read again beside the request that uses it. */
const REFRESH_MS = 3_000;
/** The request that reads a value again may be cancelled. Then another one does. */
const REFRESH_AGAIN_MS = 500;
const MAX_ENTRIES = 20_000;

export type KeyState = ReturnType<typeof readKeyRights> & {
  readonly apiKeyId: string;
  readonly userId: string;
  readonly revoked: boolean;
  readonly frozen: FrozenBy | null;
  readonly key: CryptoKey;
};
type UserState = {
  readonly epoch: number;
  readonly frozen: FrozenBy | null;
  /** Sessions carry only `read` until then. */
  readonly holdUntil: number;
  /** Whether sessions may trade, by the account's policy. */
  readonly sessionsTrade: boolean;
  /** NULL: TOTP is off. A removal takes effect at `removalAt`, a replacement at `replacementAt`. */
  readonly totp: "confirmed" | null;
  readonly removalAt: number | null;
  readonly replacementAt: number | null;
  readonly recoveryCodesLeft: number;
};

/** Continues a read after the response, for the requests to come. */
type WaitUntil = (work: Promise<unknown>) => void;

/** Undefined for an unknown id. An id that the service did not make is not looked up. */
export function keyState(
  db: D1Database,
  settings: Config,
  apiKeyId: string,
  waitUntil: WaitUntil,
): Promise<KeyState | undefined> {
  return keys.get(apiKeyId, waitUntil, async () =>
    isOwnKeyId(settings, apiKeyId) ? readKey(db, settings, apiKeyId) : undefined,
  );
}

export function userState(
  db: D1Database,
  userId: string,
  waitUntil: WaitUntil,
): Promise<UserState | undefined> {
  return users.get(userId, waitUntil, () => readUser(db, userId));
}

async function readKey(
  db: D1Database,
  settings: Config,
  apiKeyId: string,
): Promise<KeyState | undefined> {
  const [row] = await all<SealedKey & { revokedAt: number | null; frozen: FrozenBy | null }>(
    db,
    sql`SELECT ${select(KEY_SEAL_COLUMNS)}, k.revoked_at AS revokedAt, ${FROZEN_BY} AS frozen
      FROM api_keys k JOIN users u ON u.user_id = k.user_id
      WHERE k.api_key_id = ${uuid(apiKeyId)}`,
  );
  if (row === undefined) return undefined;
  const about = { what: "The row of the API key", id: apiKeyId };
  const secret = await openOrAlert(db, openKey(settings, row), about);
  if (secret === undefined) return undefined;
  return {
    apiKeyId,
    userId: row.userId,
    ...readKeyRights(row),
    revoked: row.revokedAt !== null,
    frozen: row.frozen,
    key: await importHmacKey(secret),
  };
}

async function readUser(db: D1Database, userId: string): Promise<UserState | undefined> {
  const row = await first<Omit<UserState, "sessionsTrade"> & { sessionsTrade: number }>(
    db,
    sql`SELECT u.session_epoch AS epoch, ${FROZEN_BY} AS frozen,
        ${holdUntil(uuid(userId), NOW)} AS holdUntil,
        ${sessionsMayTrade(uuid(userId), NOW)} AS sessionsTrade, t.status AS totp,
        t.ends_at AS removalAt, t.next_from AS replacementAt,
        (SELECT count(*) FROM recovery_codes c
          WHERE c.user_id = u.user_id AND ${codeCounts(uuid(userId), NOW)}) AS recoveryCodesLeft
      FROM users u LEFT JOIN totp_secrets t ON t.user_id = u.user_id AND t.status = 'confirmed'
      WHERE u.user_id = ${uuid(userId)}`,
  );
  return row && { ...row, sessionsTrade: row.sessionsTrade === 1 };
}

class Cache<T> {
  /** `readAt` is when the read began, in Unix milliseconds. */
  readonly entries = new Map<string, { readonly value: T; readonly readAt: number }>();
  /** The ids whose value a request is reading again. */
  readonly #refreshing = new Until();

  /**
   * A value that is not too old, or else what `read` finds. Before a value is too old, one request
   * at a time reads it again beside its own work, so a credential in use waits for no read.
   */
  async get(
    id: string,
    waitUntil: WaitUntil,
    read: () => Promise<T | undefined>,
  ): Promise<T | undefined> {
    const now = Date.now();
    const entry = this.entries.get(id);
    const age = now - (entry?.readAt ?? -Infinity);
    if (entry === undefined || age >= FRESH_MS) {
      const value = await read();
      if (value !== undefined) this.#remember(id, value, now);
      return value;
    }
    if (age >= REFRESH_MS && !this.#refreshing.holds(id, now)) {
      this.#refreshing.set(id, now + REFRESH_AGAIN_MS);
      const refresh = async () => {
        const value = await read();
        // An entry that was removed meanwhile belongs to a credential that has ended.
        if (this.entries.get(id) !== entry) return;
        if (value === undefined) this.entries.delete(id);
        else this.#remember(id, value, now);
      };
      waitUntil(refresh().catch(logged("warn", "auth.credential_not_refreshed")));
    }
    return entry.value;
  }

  /** Evicts the oldest entry when the cache is full. A Map keeps insertion order. */
  #remember(id: string, value: T, readAt: number): void {
    this.entries.delete(id);
    this.entries.set(id, { value, readAt });
    if (this.entries.size <= MAX_ENTRIES) return;
    const [oldest] = this.entries.keys();
    if (oldest !== undefined) this.entries.delete(oldest);
  }
}

const keys = new Cache<KeyState>();
const users = new Cache<UserState>();

/** Removes a user and their keys from this isolate's cache. Others expire within seconds. */
export function forgetCredentials(userId: string): void {
  users.entries.delete(userId);
  for (const [id, { value }] of keys.entries) if (value.userId === userId) keys.entries.delete(id);
}

export function forgetAllCredentials(): void {
  keys.entries.clear();
  users.entries.clear();
}
