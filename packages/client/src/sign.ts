/**
 * The signature of a request with an API key, for people who bring their own HTTP.
 *
 * The message is `{timestamp_ms}\n{METHOD}\n{PATH_AND_QUERY}\n{BODY}`, its HMAC-SHA256 is keyed with the UTF-8 bytes of
 * the secret's text and written in Base64. Sign the bytes that you send and the target as it goes over the wire.
 */

/** What a signature covers. */
export type SignInput = {
  /** The secret's text, as POST /auth/api-keys gave it. It is not decoded: its characters are the key. */
  secret: string;
  /** Unix time in milliseconds; the server accepts 30 s either side of its own. */
  timestampMs: number;
  /** In any case; it is signed in capitals. */
  method: string;
  /** The full request target with the query, for example `/rfq/quote?request_id=0190…`. */
  pathAndQuery: string;
  /** The exact bytes of the body, or its text (signed as UTF-8); nothing when there is no body. */
  body?: Uint8Array | string;
};

/** The three headers of a signed request. */
export type SignedHeaders = {
  APIKEY: string;
  "X-Hmac-Timestamp": string;
  "X-Hmac-Signature": string;
};

/** Named by what makes it: Node's own types do not declare `CryptoKey`. */
export type HmacKey = Awaited<ReturnType<typeof crypto.subtle.importKey>>;

/**
 * The bytes that are signed: three lines and the body.
 *
 * @example
 * ```ts
 * const bytes = canonicalMessage({ timestampMs: 1_763_000_000_123, method: "GET", pathAndQuery: "/auth/whoami" });
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
 * The value of `X-Hmac-Signature`: Base64 of HMAC-SHA256 over the canonical message. Needs WebCrypto: in browsers a page
 * served over https, or from localhost.
 *
 * @example
 * ```ts
 * const timestampMs = Date.now();
 * const signature = await sign({ secret: "c2VjcmV0", timestampMs, method: "GET", pathAndQuery: "/auth/whoami" });
 * ```
 */
export async function sign(input: SignInput): Promise<string> {
  return signWith(await importSecret(input.secret), input);
}

/**
 * All three headers of a signed request. Send the same `body` that was signed, byte for byte.
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

/** A secret as a key that WebCrypto signs with; importing it once saves a third of a request's cost. */
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
