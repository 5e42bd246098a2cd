/** The requests of an isolate decode their signatures into the same bytes. */
import { createHmac } from "node:crypto";
import { expect, it } from "vitest";
import { importHmacKey, verifySignature } from "../../src/auth/hmac.ts";

it("verifies signatures at the same time, each by its own bytes", async () => {
  const key = await importHmacKey("secret");
  const messages = Array.from({ length: 20 }, (_, n) => new Uint8Array(1_000 * n).fill(n));
  const signatures = messages.map((message) =>
    createHmac("sha256", "secret").update(message).digest("base64"),
  );
  const verified = (shift: number) =>
    Promise.all(
      messages.map((message, n) =>
        verifySignature(key, message, signatures[(n + shift) % messages.length] ?? ""),
      ),
    );
  expect(await Promise.all([verified(0), verified(1), verified(19)])).toEqual([
    messages.map(() => true),
    messages.map(() => false),
    messages.map(() => false),
  ]);
});
