/**
 * Seals the secret of an API key together with all that decides what the key may do. Whoever can
 * write to the database cannot widen a key: a row that was edited does not open.
 *
 * Revocation is not part of the seal, because it only narrows. Neither is the label.
 */
import type { KeyRights } from "../audit/event-details.ts";
import type { Config } from "../platform/config.ts";
import { atom, type Columns } from "../platform/sql.ts";
import { openSecret, type Sealed, sealSecret } from "./secret-box.ts";

/** The columns of a key that the seal binds. */
export type KeyAttributes = KeyRights & { readonly apiKeyId: string; readonly userId: string };

/** The columns of `api_keys` as `SealedKeyRow` names them. Ids are hexadecimal. */
export const KEY_SEAL_COLUMNS: Columns<keyof SealedKeyRow> = {
  keyHex: atom("hex(k.api_key_id)"),
  userHex: atom("hex(k.user_id)"),
  scopes: atom("k.scopes"),
  limits: atom("k.limits"),
  requireIdempotency: atom("k.require_idempotency"),
  allowedIps: atom("k.allowed_ips"),
  activeFrom: atom("k.active_from"),
  expiresAt: atom("k.expires_at"),
  mintedBy: atom("k.minted_by"),
  sealed: atom("k.secret_sealed"),
  masterKeyId: atom("k.master_key_id"),
};
export type SealedKeyRow = KeyRights &
  Sealed & { readonly keyHex: string; readonly userHex: string };

const VERSION = 2;
const PREFIX = `v${VERSION}.`;

type Ring = Config["MASTER_KEYS"];

export async function sealKey(ring: Ring, secret: string, key: KeyAttributes): Promise<Sealed> {
  const box = await sealSecret(ring, secret, bindingOf(key));
  return { ...box, sealed: `${PREFIX}${box.sealed}` };
}

/**
 * Throws if the row was altered, or its master key is missing. Version 1 bound the two ids only; it
 * opens while KEY_SEAL_MIN_VERSION is 1, so that `keys rewrap` can lift it.
 */
export function openKey(
  settings: Pick<Config, "MASTER_KEYS" | "KEY_SEAL_MIN_VERSION">,
  { sealed, masterKeyId }: Sealed,
  key: KeyAttributes,
): Promise<string> {
  if (sealed.startsWith(PREFIX)) {
    const box = { sealed: sealed.slice(PREFIX.length), masterKeyId };
    return openSecret(settings.MASTER_KEYS, box, bindingOf(key));
  }
  if (settings.KEY_SEAL_MIN_VERSION > 1)
    throw new Error("the seal is of version 1, which KEY_SEAL_MIN_VERSION excludes");
  const binding = `api-key:${key.apiKeyId}:${key.userId}`;
  return openSecret(settings.MASTER_KEYS, { sealed, masterKeyId }, binding);
}

export function isPresentVersion({ sealed }: Pick<Sealed, "sealed">): boolean {
  return sealed.startsWith(PREFIX);
}

/** One text for one key: a JSON array in a fixed order. */
function bindingOf(key: KeyAttributes): string {
  return JSON.stringify([
    "api-key",
    VERSION,
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
