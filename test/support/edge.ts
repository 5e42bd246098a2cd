/** Requests to the app: plain, with a session, or signed, each from an address of its own. */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { createHmac } from "node:crypto";
import { createApp } from "../../src/app.ts";
import { config, type Config } from "../../src/platform/config.ts";
import type { TestKey } from "./users.ts";

export const BASE = "http://edge.test";
const app = createApp();

export type Sent = {
  method?: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array<ArrayBuffer>;
  env?: Partial<Record<string, unknown>>;
};

/** Straight into the app: `target` is the raw request target. */
export async function send(target: string, sent: Sent = {}): Promise<Response> {
  const context = createExecutionContext();
  const method = sent.method ?? "GET";
  const headers: Record<string, string> = { "cf-connecting-ip": anyIp(), ...sent.headers };
  if (sent.body !== undefined && headers["content-type"] === undefined)
    headers["content-type"] = "application/json";
  const request = new Request(`${BASE}${target}`, {
    method,
    headers,
    ...(sent.body === undefined ? {} : { body: sent.body }),
  });
  const response = await app.hono.fetch(
    request,
    sent.env === undefined ? env : { ...env, ...sent.env },
    context,
  );
  await waitOnExecutionContext(context);
  return response;
}

export { app };

/** Settings of the tests, changed where a test needs it. */
export function settings(change: Partial<Config> = {}): Config {
  return { ...config(env), ...change };
}

export function anyIp(): string {
  const [a = 0, b = 0, c = 0] = crypto.getRandomValues(new Uint8Array(3));
  return `10.${a}.${b}.${c}`;
}

export function bearer(token: string): Record<string, string> {
  return { authorization: `Bearer ${token}` };
}

export type Signer = Pick<TestKey, "apiKeyId" | "secret">;

/** An independent signer: node:crypto and string joining only. */
export function sign(
  key: Signer,
  request: {
    method: string;
    target: string;
    body?: string | Uint8Array;
    timestamp?: number | string;
  },
): Record<string, string> {
  const timestamp = String(request.timestamp ?? Date.now());
  const signature = createHmac("sha256", key.secret)
    .update(`${timestamp}\n${request.method}\n${request.target}\n`)
    .update(request.body ?? "")
    .digest("base64");
  return { apikey: key.apiKeyId, "x-hmac-timestamp": timestamp, "x-hmac-signature": signature };
}

export async function sendSigned(
  key: Signer,
  target: string,
  sent: Sent & { timestamp?: number | string } = {},
): Promise<Response> {
  const { timestamp, ...rest } = sent;
  const signed = sign(key, {
    method: sent.method ?? "GET",
    target,
    ...(sent.body === undefined ? {} : { body: sent.body }),
    ...(timestamp === undefined ? {} : { timestamp }),
  });
  return send(target, { ...rest, headers: { ...signed, ...sent.headers } });
}

export async function problemOf(response: Response): Promise<Record<string, unknown>> {
  return { ...(await response.json<Record<string, unknown>>()) };
}

export async function codeOf(response: Response): Promise<string> {
  return `${response.status} ${String((await problemOf(response))["code"])}`;
}
