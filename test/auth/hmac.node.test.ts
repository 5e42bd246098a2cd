import { createHmac } from "node:crypto";
import fc from "fast-check";
import { expect, it } from "vitest";
import {
  canonicalMessage,
  importHmacKey,
  parseTimestampMs,
  verifySignature,
} from "../../src/auth/hmac.ts";
import { rawTarget } from "../../src/http/request.ts";
import golden from "./hmac-vectors.json" with { type: "json" };

it.each(golden.vectors)("golden vector: $name", async (vector) => {
  const body = new Uint8Array(Buffer.from(vector.body_base64, "base64"));
  const message = canonicalMessage({
    timestamp: vector.timestamp,
    method: vector.method,
    target: vector.path_and_query,
    body,
  });
  expect(Buffer.from(message).toString("base64")).toBe(vector.canonical_message_base64);
  expect(createHmac("sha256", golden.secret).update(message).digest("base64")).toBe(
    vector.signature,
  );
  expect(await verifySignature(await importHmacKey(golden.secret), message, vector.signature)).toBe(
    true,
  );
});

const request = fc.record({
  secret: fc.string({ minLength: 1, unit: "grapheme" }),
  timestamp: fc.stringMatching(/^[0-9]{1,16}$/),
  method: fc.constantFrom("GET", "POST", "DELETE", "HEAD"),
  target: fc
    .webPath()
    .chain((path) =>
      fc.webQueryParameters().map((query) => `/${path.replace(/^\/+/, "")}?${query}`),
    ),
  body: fc.uint8Array({ maxLength: 300 }),
});

it("verifies any request of an independent signer", async () => {
  await fc.assert(
    fc.asyncProperty(request, async ({ secret, timestamp, method, target, body }) => {
      const theirs = createHmac("sha256", secret)
        .update(`${timestamp}\n${method}\n${target}\n`)
        .update(body)
        .digest("base64");
      const ours = canonicalMessage({ timestamp, method, target, body });
      expect(await verifySignature(await importHmacKey(secret), ours, theirs)).toBe(true);
    }),
  );
});

it("rejects a body with one flipped bit", async () => {
  await fc.assert(
    fc.asyncProperty(
      request,
      fc.nat(),
      async ({ secret, timestamp, method, target, body }, place) => {
        fc.pre(body.byteLength > 0);
        const theirs = createHmac("sha256", secret)
          .update(`${timestamp}\n${method}\n${target}\n`)
          .update(body)
          .digest("base64");
        const changed = body.slice();
        changed[place % changed.byteLength] = (changed[place % changed.byteLength] ?? 0) ^ 1;
        const ours = canonicalMessage({ timestamp, method, target, body: changed });
        expect(await verifySignature(await importHmacKey(secret), ours, theirs)).toBe(false);
      },
    ),
  );
});

it("accepts only canonical Base64 signatures", async () => {
  const key = await importHmacKey("secret");
  const message = canonicalMessage({
    timestamp: "1",
    method: "GET",
    target: "/",
    body: new Uint8Array(),
  });
  const good = createHmac("sha256", "secret").update(message).digest("base64");
  expect(await verifySignature(key, message, good)).toBe(true);
  const last = good.charCodeAt(42);
  const strayBits = `${good.slice(0, 42)}${String.fromCharCode(last + 1)}=`;
  for (const bad of [
    "",
    good.slice(0, 43),
    ` ${good}`,
    `${good}\n`,
    `${good}=`,
    strayBits,
    Buffer.from(good, "base64").toString("hex"),
    "A".repeat(10_000),
  ]) {
    expect(await verifySignature(key, message, bad)).toBe(false);
  }
});

it("takes everything after the origin as the request target", () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[!-"$-~]{0,40}$/), (rest) => {
      expect(rawTarget(`https://api.example:8443/${rest}`)).toBe(`/${rest}`);
    }),
  );
  expect(rawTarget("http://h/auth/whoami?")).toBe("/auth/whoami?");
  expect(rawTarget("http://h/a%2fb//c?x=http://y/")).toBe("/a%2fb//c?x=http://y/");
});

it.each(["", " 1", "1 ", "-1", "+1", "1.0", "1e3", "12345678901234567", "１"])(
  "rejects %j as a timestamp",
  (text) => {
    expect(parseTimestampMs(text)).toBeUndefined();
  },
);
