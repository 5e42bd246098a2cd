/**
 * The signature of a request with an API key, for callers with their own HTTP client.
 *
 * The signed message is `{timestamp_ms}\n{METHOD}\n{PATH_AND_QUERY}\n{BODY}`. The signature is its
 * HMAC-SHA256 (RFC 2104) in Base64 (RFC 4648). The key is the UTF-8 text of the secret. Sign the
 * exact bytes of the body and the exact request target that you send.
 */

/** What a signature covers. */
export type SignInput = {
  /** The secret as POST /auth/api-keys returned it. Do not decode it. */
  secret: string;
  /** Unix time in milliseconds. The service accepts 30 s of difference by default. */
  timestampMs: number;
  /** The HTTP method, in upper or lower case. */
  method: string;
  /** The request target including the query, for example `/rfq/quote?request_id=0190…`. */
  pathAndQuery: string;
  /** The exact bytes of the body, or its text (signed as UTF-8). Omit it if there is no body. */
  body?: Uint8Array | string;
};

/** The three headers of a signed request. */
export type SignedHeaders = {
  APIKEY: string;
  "X-Hmac-Timestamp": string;
  "X-Hmac-Signature": string;
};

/** WebCrypto's key type. Node's own types do not declare `CryptoKey`. */
export type HmacKey = Awaited<ReturnType<typeof crypto.subtle.importKey>>;

/**
 * Returns the bytes to sign: three lines, then the body.
 *
 * @example
 * ```ts
 * const pathAndQuery = "/auth/whoami";
 * const bytes = canonicalMessage({ timestampMs: 1_763_000_000_123, method: "GET", pathAndQuery });
 * console.log(new TextDecoder().decode(bytes)); // "1763000000123\nGET\n/auth/whoami\n"
 * ```
 */
export function canonicalMessage(input: Omit<SignInput, "secret">): Uint8Array<ArrayBuffer> {
  const encoder = new TextEncoder();
  const head = encoder.encode(
    `${input.timestampMs}\n${input.method.toUpperCase()}\n${input.pathAndQuery}\n`,
  );
  const body =
    typeof input.body === "string" ? encoder.encode(input.body) : (input.body ?? new Uint8Array());
  const message = new Uint8Array(head.length + body.length);
  message.set(head);
  message.set(body, head.length);
  return message;
}

/**
 * Returns the value of `X-Hmac-Signature`: Base64 of the HMAC-SHA256 of the canonical message.
 * Needs WebCrypto, which browsers provide only on https pages and on localhost.
 *
 * @example
 * ```ts
 * const signature = await sign({
 *   secret: "c2VjcmV0",
 *   timestampMs: Date.now(),
 *   method: "GET",
 *   pathAndQuery: "/auth/whoami",
 * });
 * ```
 */
export async function sign(input: SignInput): Promise<string> {
  return signWith(await importSecret(input.secret), input);
}

/**
 * Returns the three headers of a signed request. Send exactly the `body` that was signed.
 *
 * @example
 * ```ts
 * const body = JSON.stringify({ quote_id: "0190a0b0-0000-7000-8000-000000000000" });
 * const headers = await signedHeaders({
 *   apiKeyId: "7f0c0000-0000-4000-8000-000000000000",
 *   secret: "c2VjcmV0",
 *   timestampMs: Date.now(),
 *   method: "POST",
 *   pathAndQuery: "/rfq/accept",
 *   body,
 * });
 * ```
 */
export async function signedHeaders(
  input: SignInput & { apiKeyId: string },
): Promise<SignedHeaders> {
  return headersOf(input.apiKeyId, input.timestampMs, await sign(input));
}

/** Imports a secret as a WebCrypto key. Importing once saves a third of a request's cost. */
export function importSecret(secret: string): Promise<HmacKey> {
  const bytes = new TextEncoder().encode(secret);
  return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
}

export async function signWith(key: HmacKey, input: Omit<SignInput, "secret">): Promise<string> {
  const digest = await crypto.subtle.sign("HMAC", key, canonicalMessage(input));
  return btoa(String.fromCharCode(...new Uint8Array(digest)));
}

export function headersOf(apiKeyId: string, timestampMs: number, signature: string): SignedHeaders {
  return {
    APIKEY: apiKeyId,
    "X-Hmac-Timestamp": String(timestampMs),
    "X-Hmac-Signature": signature,
  };
}
