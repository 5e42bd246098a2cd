import { createHmac } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalMessage, sign, signedHeaders } from "../../packages/client/src/index.ts";

const SECRET = "kq3Vt0m1y8Zb5cXwR7uN2pQeLsHdJfGaTiOvYxMzC4E";

/** Computed with node:crypto, independently of WebCrypto. */
function expected(message: string | Buffer): string {
  return createHmac("sha256", Buffer.from(SECRET, "utf8")).update(message).digest("base64");
}

describe("sign", () => {
  it("signs timestamp, method, target and body, one per line", async () => {
    const body = '{"quote_id":"0190a0b0-0000-7000-8000-000000000000"}';
    const signature = await sign({
      secret: SECRET,
      timestampMs: 1_763_000_000_123,
      method: "POST",
      pathAndQuery: "/rfq/accept",
      body,
    });
    expect(signature).toBe(expected(`1763000000123\nPOST\n/rfq/accept\n${body}`));
  });

  it("signs an empty body as the empty text", async () => {
    const signature = await sign({
      secret: SECRET,
      timestampMs: 1,
      method: "GET",
      pathAndQuery: "/custody/get-ledger?limit=0",
    });
    expect(signature).toBe(expected("1\nGET\n/custody/get-ledger?limit=0\n"));
  });

  it("keeps a trailing question mark in the target", async () => {
    const signature = await sign({
      secret: SECRET,
      timestampMs: 1,
      method: "GET",
      pathAndQuery: "/auth/whoami?",
    });
    expect(signature).toBe(expected("1\nGET\n/auth/whoami?\n"));
  });

  it("equals `openssl dgst -sha256 -hmac`", async () => {
    expect(
      await sign({
        secret: "secret",
        timestampMs: 1_700_000_000_000,
        method: "get",
        pathAndQuery: "/a?b=c",
      }),
    ).toBe("zu2biRut/cJ1Zr0/0jSeA6YFDe8pXxMkzg1z2HAWMi4=");
  });

  it("signs the bytes of any body unchanged", async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), fc.webPath(), async (body, path) => {
        const head = Buffer.from(`5\nDELETE\n${path}\n`);
        const signature = await sign({
          secret: SECRET,
          timestampMs: 5,
          method: "DELETE",
          pathAndQuery: path,
          body,
        });
        expect(signature).toBe(expected(Buffer.concat([head, body])));
      }),
      { numRuns: 100 },
    );
  });

  it("returns the three headers", async () => {
    const headers = await signedHeaders({
      apiKeyId: "key",
      secret: SECRET,
      timestampMs: 42,
      method: "GET",
      pathAndQuery: "/",
    });
    expect(headers).toEqual({
      APIKEY: "key",
      "X-Hmac-Timestamp": "42",
      "X-Hmac-Signature": expected("42\nGET\n/\n"),
    });
  });

  it("signs a text body as UTF-8", () => {
    const of = (body: string | Uint8Array) =>
      canonicalMessage({ timestampMs: 1, method: "POST", pathAndQuery: "/", body });
    expect(of("é")).toEqual(of(new TextEncoder().encode("é")));
  });
});
