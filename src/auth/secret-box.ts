/**
 * Secrets at rest: AES-256-GCM under a master key of the ring MASTER_KEYS, named beside the text it sealed, so that the
 * ring can turn. The owner's ids are additional data: a sealed secret moved to another row does not open.
 */

export type Sealed = { readonly sealed: string; readonly masterKeyId: string };
export type SealedFor = { readonly apiKeyId: string; readonly userId: string };
type Ring = Readonly<Record<string, string>>;

const utf8 = new TextEncoder();
const NONCE_BYTES = 12;
/** Derived keys of this isolate, by secret: a ring has few, and deriving one costs an HKDF. */
const derived = new Map<string, CryptoKey>();

export async function sealSecret(ring: Ring, secret: string, owner: SealedFor): Promise<Sealed> {
  const masterKeyId = newestKeyId(ring);
  const nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
  const key = await masterKey(ring, masterKeyId);
  const sealed = await crypto.subtle.encrypt(
    { name: "AES-GCM", iv: nonce, additionalData: additionalData(owner) },
    key,
    utf8.encode(secret),
  );
  return {
    sealed: Buffer.concat([nonce, new Uint8Array(sealed)]).toString("base64url"),
    masterKeyId,
  };
}

export async function openSecret(ring: Ring, box: Sealed, owner: SealedFor): Promise<string> {
  const bytes = Buffer.from(box.sealed, "base64url");
  const key = await masterKey(ring, box.masterKeyId);
  const algorithm = {
    name: "AES-GCM",
    iv: bytes.subarray(0, NONCE_BYTES),
    additionalData: additionalData(owner),
  };
  const opened = await crypto.subtle.decrypt(algorithm, key, bytes.subarray(NONCE_BYTES));
  return new TextDecoder().decode(opened);
}

/** The first id of the ring seals; all of them open. */
export function newestKeyId(ring: Ring): string {
  const [id] = Object.keys(ring);
  if (id === undefined) throw new Error("MASTER_KEYS is empty");
  return id;
}

function additionalData(owner: SealedFor): Uint8Array<ArrayBuffer> {
  return new Uint8Array(utf8.encode(`api-key:${owner.apiKeyId}:${owner.userId}`));
}

async function masterKey(ring: Ring, id: string): Promise<CryptoKey> {
  const secret = Object.hasOwn(ring, id) ? ring[id] : undefined;
  if (secret === undefined) throw new Error(`MASTER_KEYS lacks the key ${id}`);
  const known = derived.get(secret);
  if (known !== undefined) return known;
  const material = await crypto.subtle.importKey("raw", utf8.encode(secret), "HKDF", false, [
    "deriveKey",
  ]);
  const how = {
    name: "HKDF",
    hash: "SHA-256",
    salt: new Uint8Array(),
    info: utf8.encode("rfq-custody api key secrets v1"),
  };
  const key = await crypto.subtle.deriveKey(
    how,
    material,
    { name: "AES-GCM", length: 256 },
    false,
    ["encrypt", "decrypt"],
  );
  derived.set(secret, key);
  return key;
}
