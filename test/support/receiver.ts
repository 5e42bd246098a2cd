/** Receivers on the loopback interface, in another process. */
import { Webhook } from "standardwebhooks";
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

/** Verifies with the published library of Standard Webhooks that each secret signed. */
export function expectSigned({ headers, body }: Received, secrets: readonly string[]): void {
  expect(headers["webhook-signature"]?.split(" ")).toHaveLength(secrets.length);
  for (const secret of secrets)
    expect(() => new Webhook(secret).verify(body, headers)).not.toThrow();
}
