/** Receivers on the loopback interface, in another process. */
import { createHmac, timingSafeEqual } from "node:crypto";
import { expect, inject } from "vitest";
import { uuidv7 } from "../../src/platform/uuid.ts";
import type { Received } from "./node/received.ts";

/** Newest first. */
export const SECRETS = [
  "whsec_bmV3ZXItc2VjcmV0LW9mLTMyLWJ5dGVzLTAxMjM0NTY=",
  "whsec_b2xkZXItc2VjcmV0LW9mLTMyLWJ5dGVzLTAxMjM0NTY=",
];

/** 0 cuts the connection, 1 never answers. */
type Answer = 0 | 1 | 200 | 202 | 302 | 410 | 429 | 500;

export function newReceiver() {
  const url = `${inject("receiverUrl")}/${uuidv7()}`;
  const received = async (): Promise<Received[]> => (await fetch(url)).json();
  return {
    url,
    /** How it answers from now on. At first 200. */
    answer: async (answer: Answer) => void (await fetch(url, { method: "PUT", body: `${answer}` })),
    received,
    bodies: async (): Promise<Record<string, any>[]> =>
      (await received()).map(({ body }) => JSON.parse(body)),
  };
}

/** Verifies as Standard Webhooks v1 says, independently of the service. */
export function expectSigned({ headers, body }: Received, secrets: readonly string[]): void {
  const { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": all } = headers;
  expect(Math.abs(Number(timestamp) - Date.now() / 1_000)).toBeLessThan(300);
  const signatures = (all ?? "").split(" ");
  expect(signatures).toHaveLength(secrets.length);
  for (const [index, secret] of secrets.entries()) {
    const key = Buffer.from(secret.replace("whsec_", ""), "base64");
    const mac = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest();
    const [version, given = ""] = (signatures[index] ?? "").split(",");
    expect(version).toBe("v1");
    expect(timingSafeEqual(Buffer.from(given, "base64"), mac)).toBe(true);
  }
}
