/** Signed requests (interface.md, Authentication): the canonical message, and its check by WebCrypto. */
import { bytesToHex } from "@noble/hashes/utils.js";

const utf8 = new TextEncoder();

/** `{timestamp_ms}\n{METHOD}\n{PATH_AND_QUERY}\n{BODY}`: text as received, then the raw bytes. */
export function canonicalMessage(parts: {
  timestamp: string;
  method: string;
  target: string;
  body: Uint8Array;
}): Uint8Array<ArrayBuffer> {
  const head = utf8.encode(`${parts.timestamp}\n${parts.method}\n${parts.target}\n`);
  const message = new Uint8Array(head.byteLength + parts.body.byteLength);
  message.set(head);
  message.set(parts.body, head.byteLength);
  return message;
}

/** The HMAC key is the UTF-8 bytes of the secret's text, as it was given out. It can verify, and never be read back. */
export function importHmacKey(secret: string): Promise<CryptoKey> {
  return crypto.subtle.importKey(
    "raw",
    utf8.encode(secret),
    { name: "HMAC", hash: "SHA-256" },
    false,
    ["verify"],
  );
}

/** Compares in constant time. Only the canonical spelling of Base64 is a signature: 32 bytes have exactly one. */
export async function verifySignature(
  key: CryptoKey,
  message: Uint8Array<ArrayBuffer>,
  signature: string,
): Promise<boolean> {
  if (!/^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/.test(signature)) return false;
  return crypto.subtle.verify("HMAC", key, Buffer.from(signature, "base64"), message);
}

/** 1 to 16 decimal digits: Unix milliseconds. */
export function parseTimestampMs(header: string | null): number | undefined {
  return header !== null && /^[0-9]{1,16}$/.test(header) ? Number(header) : undefined;
}

/** What the server signed, for whoever compares it with what they signed. Never the key, never the right signature. */
export async function describeSigned(parts: {
  timestamp: string;
  method: string;
  target: string;
  body: Uint8Array;
}): Promise<Record<string, unknown>> {
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
