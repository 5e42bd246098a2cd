/**
 * Encrypts secrets at rest with AES-256-GCM. A sealed secret names its master key in MASTER_KEYS,
 * so that keys can be rotated. The additional data binds it to its purpose and owner, so that a
 * copy in another row does not open.
 */
import { raiseAlert } from "../platform/alert.ts";
import { Until } from "../platform/until.ts";

export type Sealed = { readonly sealed: string; readonly masterKeyId: string };
type Ring = Readonly<Record<string, string>>;

const utf8 = new TextEncoder();
const NONCE_BYTES = 12;
/** Cache of derived keys by secret, because each derivation costs an HKDF. */
const derived = new Map<string, CryptoKey>();

export async function sealSecret(ring: Ring, secret: string, boundTo: string): Promise<Sealed> {
  const masterKeyId = newestKeyId(ring);
  const nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
  const key = await masterKey(ring, masterKeyId);
  const sealed = await crypto.subtle.encrypt(
    { name: "AES-GCM", iv: nonce, additionalData: utf8.encode(boundTo) },
    key,
    utf8.encode(secret),
  );
  return {
    sealed: Buffer.concat([nonce, new Uint8Array(sealed)]).toString("base64url"),
    masterKeyId,
  };
}

export async function openSecret(ring: Ring, box: Sealed, boundTo: string): Promise<string> {
  const bytes = Buffer.from(box.sealed, "base64url");
  const key = await masterKey(ring, box.masterKeyId);
  const algorithm = {
    name: "AES-GCM",
    iv: bytes.subarray(0, NONCE_BYTES),
    additionalData: utf8.encode(boundTo),
  };
  const opened = await crypto.subtle.decrypt(algorithm, key, bytes.subarray(NONCE_BYTES));
  return new TextDecoder().decode(opened);
}

/** Rows with an alert. Anyone who knows the id of a key can cause the next one. */
const alerted = new Until();

/** As `openSecret`. Undefined for a row that was altered. The operator is alerted of it. */
export async function openOrAlert(
  db: D1Database,
  opened: Promise<string>,
  { what, id }: { what: string; id: string },
): Promise<string | undefined> {
  try {
    return await opened;
  } catch (error) {
    if (alerted.holds(id, Date.now())) return undefined;
    // What decrypts says nothing that an operator could use.
    const isAltered = !(error instanceof Error) || error.name === "OperationError";
    const cause = isAltered ? "it is not what was sealed" : error.message;
    await raiseAlert(db, "key_row_altered", id, `${what} does not open: ${cause}`);
    alerted.set(id, Date.now() + 60_000);
    return undefined;
  }
}

/** The first key of the ring. New secrets are sealed with it. */
export function newestKeyId(ring: Ring): string {
  const [id] = Object.keys(ring);
  if (id === undefined) throw new Error("MASTER_KEYS is empty");
  return id;
}

async function masterKey(ring: Ring, id: string): Promise<CryptoKey> {
  const secret = Object.hasOwn(ring, id) ? ring[id] : undefined;
  if (secret === undefined) throw new Error(`MASTER_KEYS does not contain the key ${id}`);
  const known = derived.get(secret);
  if (known !== undefined) return known;
  const bytes = utf8.encode(secret);
  const material = await crypto.subtle.importKey("raw", bytes, "HKDF", false, ["deriveKey"]);
  const algorithm = {
    name: "HKDF",
    hash: "SHA-256",
    salt: new Uint8Array(),
    info: utf8.encode("rfq-custody api key secrets v1"),
  };
  const aes = { name: "AES-GCM", length: 256 };
  const uses = ["encrypt", "decrypt"];
  const key = await crypto.subtle.deriveKey(algorithm, material, aes, false, uses);
  derived.set(secret, key);
  return key;
}
