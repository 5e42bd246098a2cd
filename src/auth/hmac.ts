/** Verifies signed requests (docs/openapi.json, Credentials). */
import { bytesToHex } from "@noble/hashes/utils.js";

const utf8 = new TextEncoder();

type Parts = { timestamp: string; method: string; target: string; body: Uint8Array };

/** `{timestamp_ms}\n{METHOD}\n{PATH_AND_QUERY}\n{BODY}` with the text and bytes as received. */
export function canonicalMessage(parts: Parts): Uint8Array {
  const head = utf8.encode(`${parts.timestamp}\n${parts.method}\n${parts.target}\n`);
  return parts.body.byteLength === 0 ? head : Buffer.concat([head, parts.body]);
}

/** The key is the UTF-8 bytes of the secret's text. It can only verify and cannot be exported. */
export function importHmacKey(secret: string): Promise<CryptoKey> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  return crypto.subtle.importKey("raw", utf8.encode(secret), algorithm, false, ["verify"]);
}

/** One for all requests, because WebCrypto copies it before `verify` returns its promise. */
const signatureBytes = Buffer.alloc(32);

/** In constant time. Accepts only canonical Base64, so that a signature has one spelling. */
export async function verifySignature(
  key: CryptoKey,
  message: Uint8Array,
  signature: string,
): Promise<boolean> {
  if (!isSignature(signature)) return false;
  signatureBytes.write(signature, "base64");
  return crypto.subtle.verify("HMAC", key, signatureBytes, message);
}

/** Whether a text has the form of a signature: 32 bytes in canonical Base64. */
function isSignature(text: string): boolean {
  return /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/.test(text);
}

/** What may be wrong with a signature. It depends on the caller's own header alone. */
export function signatureHint(signature: string): string {
  return isSignature(signature)
    ? "Compare `signed` with what you signed. The key is the text of the secret, not decoded."
    : "X-Hmac-Signature must be 44 characters of standard Base64, not hexadecimal.";
}

/** Unix milliseconds, in 1 to 16 decimal digits. */
export function parseTimestampMs(header: string): number | undefined {
  return /^[0-9]{1,16}$/.test(header) ? Number(header) : undefined;
}

/** The parts of the canonical message, for the client to compare. Contains no key or signature. */
export async function describeSigned(parts: Parts): Promise<Record<string, unknown>> {
  const digest = await crypto.subtle.digest("SHA-256", new Uint8Array(parts.body));
  return {
    signed: {
      timestamp: parts.timestamp,
      method: parts.method,
      path_and_query: parts.target,
      body_sha256: bytesToHex(new Uint8Array(digest)),
      body_bytes: parts.body.byteLength,
    },
  };
}
