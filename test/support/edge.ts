/** Callers for tests of the edge: users of their own, sessions, keys, signed requests, from an address of their own. */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { createHmac } from "node:crypto";
import { createApp } from "../../src/app.ts";
import { createOperatorApiKey } from "../../src/auth/api-key.ts";
import { issueSession } from "../../src/auth/session.ts";
import { config, type Config } from "../../src/platform/config.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import type { Scope } from "../../src/platform/actor.ts";

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

export type TestUser = { userId: string; email: string; token: string };

/** Inserted without scrypt, which would cost each test a fifth of a second; login tests register their users. */
export async function newUser(): Promise<TestUser> {
  const userId = uuidv7();
  const email = `${userId}@edge.test`;
  await all(
    env.DB,
    sql`INSERT INTO users (user_id, email, password_hash, session_epoch, created_at) VALUES (${uuid(userId)}, ${email}, '', 0, ${Date.now()})`,
  );
  const { accessToken } = await issueSession(config(env), { userId, epoch: 0 });
  return { userId, email, token: accessToken };
}

export function bearer(token: string): Record<string, string> {
  return { authorization: `Bearer ${token}` };
}

export type TestKey = { apiKeyId: string; secret: string };

export async function newKey(
  userId: string,
  scopes: readonly Scope[],
  more: { expiresAt?: number; allowedIps?: string[]; delaySecs?: number } = {},
): Promise<TestKey> {
  const minted = await createOperatorApiKey(
    env.DB,
    settings({ AUTH_OPERATOR_KEY_DELAY_SECS: more.delaySecs ?? 0 }),
    {
      userId,
      operator: "test",
      key: {
        label: "test",
        scopes,
        expiresAt: more.expiresAt ?? null,
        allowedIps: more.allowedIps ?? null,
      },
    },
  );
  return { apiKeyId: minted.api_key_id, secret: minted.secret };
}

/** An independent signer: node:crypto and string joining only. */
export function sign(
  key: TestKey,
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
  key: TestKey,
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
