/**
 * Seals the secret of an API key together with all that decides what the key may do. Whoever can
 * write to the database cannot widen a key: a row that was edited does not open.
 *
 * Revocation is not part of the seal, because it only narrows. Neither is the label.
 */
import { uuidTextOf } from "../audit/audit.ts";
import type { Config } from "../platform/config.ts";
import { atom, type Columns } from "../platform/sql.ts";
import { readKeyLimits } from "./key-limits.ts";
import { readScopes } from "./scope.ts";
import { openSecret, type Sealed, sealSecret } from "./secret-box.ts";

/** What decides what a key may do, as its row stores it: text that SQL also reads. */
export type KeyRights = {
  readonly scopes: string;
  readonly limits: string | null;
  readonly requireIdempotency: number;
  readonly allowedIps: string | null;
  readonly activeFrom: number | null;
  readonly expiresAt: number | null;
  readonly mintedBy: "session" | "operator";
};
/** The columns of a key that the seal binds. */
export type KeyAttributes = KeyRights & { readonly apiKeyId: string; readonly userId: string };

/** The columns of `api_keys k` that say what a key may do. */
const RIGHT_COLUMNS: Columns<keyof KeyRights> = {
  scopes: atom("k.scopes"),
  limits: atom("k.limits"),
  requireIdempotency: atom("k.require_idempotency"),
  allowedIps: atom("k.allowed_ips"),
  activeFrom: atom("k.active_from"),
  expiresAt: atom("k.expires_at"),
  mintedBy: atom("k.minted_by"),
};

/** The same with whose the key is, and the secret that is bound to them. */
export type SealedKey = KeyAttributes & Sealed;
export const KEY_SEAL_COLUMNS: Columns<keyof SealedKey> = {
  ...RIGHT_COLUMNS,
  apiKeyId: uuidTextOf("k.api_key_id"),
  userId: uuidTextOf("k.user_id"),
  sealed: atom("k.secret_sealed"),
  masterKeyId: atom("k.master_key_id"),
};

/** What the stored texts say. */
export function readKeyRights(row: KeyRights) {
  return {
    scopes: readScopes(row.scopes),
    limits: row.limits === null ? null : readKeyLimits(row.limits),
    requireIdempotency: row.requireIdempotency === 1,
    allowedIps: row.allowedIps === null ? null : readAddresses(row.allowedIps),
    activeFrom: row.activeFrom,
    expiresAt: row.expiresAt,
  } as const;
}

/** Parses a JSON array of addresses. Text that is not an array allows no address. */
export function readAddresses(stored: string): readonly string[] {
  const list: unknown = JSON.parse(stored);
  return Array.isArray(list) ? list.filter((item) => typeof item === "string") : [];
}

export function sealKey(
  ring: Config["MASTER_KEYS"],
  secret: string,
  key: KeyAttributes,
): Promise<Sealed> {
  return sealSecret(ring, secret, bindingOfKey(key));
}

/** Throws if the row was altered, or its master key is missing. */
export function openKey(
  { MASTER_KEYS }: Pick<Config, "MASTER_KEYS">,
  key: SealedKey,
): Promise<string> {
  return openSecret(MASTER_KEYS, key, bindingOfKey(key));
}

/** One text for one key: a JSON array in a fixed order. */
export function bindingOfKey(key: KeyAttributes): string {
  return JSON.stringify([
    "api-key",
    key.apiKeyId,
    key.userId,
    key.scopes,
    key.limits,
    key.requireIdempotency,
    key.allowedIps,
    key.activeFrom,
    key.expiresAt,
    key.mintedBy,
  ]);
}
