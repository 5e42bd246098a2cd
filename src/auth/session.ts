/**
 * Session tokens: JWT (RFC 7519) with HS256 only. `kid` names the secret, so that secrets can be
 * rotated.
 */
import type { Config } from "../platform/config.ts";
import { isObject } from "../http/json.ts";
import { problem } from "../platform/problem.ts";
import { readScopes } from "./scope.ts";
import type { SessionActor } from "../platform/actor.ts";

const ISSUER = "rfq-custody";
const AUDIENCE = "rfq-custody";
/** Several times the length of the tokens that the service issues. */
const MAX_TOKEN_LENGTH = 2_048;

const utf8 = new TextEncoder();
const keys = new Map<string, CryptoKey>();

export type IssuedSession = {
  readonly accessToken: string;
  readonly expiresAtMs: number;
  readonly expiresInSecs: number;
};

/** Signs a token with the first secret. Raising the user's `epoch` ends the session. */
export async function issueSession(
  settings: Config,
  user: { userId: string; epoch: number },
  nowMs: number = Date.now(),
): Promise<IssuedSession> {
  const [kid] = Object.keys(settings.SESSION_SECRETS);
  if (kid === undefined) throw new Error("SESSION_SECRETS is empty");
  const iat = Math.floor(nowMs / 1_000);
  const exp = iat + settings.AUTH_SESSION_TTL_SECS;
  const claims = {
    iss: ISSUER,
    aud: AUDIENCE,
    sub: user.userId,
    iat,
    exp,
    jti: crypto.randomUUID(),
    epoch: user.epoch,
    scopes: settings.AUTH_SESSION_SCOPES,
  };
  const signing = `${encode({ alg: "HS256", typ: "JWT", kid })}.${encode(claims)}`;
  const signature = await crypto.subtle.sign(
    "HMAC",
    await sessionKey(settings, kid),
    utf8.encode(signing),
  );
  return {
    accessToken: `${signing}.${Buffer.from(signature).toString("base64url")}`,
    expiresAtMs: exp * 1_000,
    expiresInSecs: exp - iat,
  };
}

/**
 * Returns the actor of an `Authorization` value. Throws `session_invalid`, or `session_expired` if
 * the signature is valid.
 */
export async function readSession(
  settings: Config,
  authorization: string,
  nowMs: number,
): Promise<SessionActor> {
  const token = /^Bearer +([^\s]+)$/i.exec(authorization)?.[1];
  if (token === undefined || token.length > MAX_TOKEN_LENGTH) throw invalid();
  const [head = "", payload = "", signature = "", extra] = token.split(".");
  if (extra !== undefined) throw invalid();
  const header = decode(head);
  // Accept only our algorithm, because a token could name `none` or a different one.
  if (
    header?.["alg"] !== "HS256" ||
    header["typ"] !== "JWT" ||
    typeof header["kid"] !== "string" ||
    "crit" in header
  )
    throw invalid();
  if (
    !Object.hasOwn(settings.SESSION_SECRETS, header["kid"]) ||
    !/^[A-Za-z0-9_-]{43}$/.test(signature)
  )
    throw invalid();
  // The last character has two unused bits. Only one spelling is valid, so a token is one text.
  const mac = Buffer.from(signature, "base64url");
  if (mac.toString("base64url") !== signature) throw invalid();
  const key = await sessionKey(settings, header["kid"]);
  if (!(await crypto.subtle.verify("HMAC", key, mac, utf8.encode(`${head}.${payload}`))))
    throw invalid();
  return actorOf(settings, decode(payload), nowMs);
}

function actorOf(
  settings: Config,
  claims: Record<string, unknown> | undefined,
  nowMs: number,
): SessionActor {
  if (claims === undefined || claims["iss"] !== ISSUER || claims["aud"] !== AUDIENCE)
    throw invalid();
  const { sub, exp, epoch, scopes } = claims;
  if (
    typeof sub !== "string" ||
    !/^[0-9a-f-]{36}$/.test(sub) ||
    !Number.isSafeInteger(exp) ||
    !Number.isSafeInteger(epoch) ||
    !Array.isArray(scopes)
  )
    throw invalid();
  const expiresAtMs = Number(exp) * 1_000;
  if (nowMs >= expiresAtMs)
    throw problem(
      "session_expired",
      `The session expired at ${new Date(expiresAtMs).toISOString()}.`,
    );
  // A change of AUTH_SESSION_SCOPES also limits tokens issued before.
  const held = readScopes(scopes.join(",")).filter((scope) =>
    settings.AUTH_SESSION_SCOPES.some((allowed) => allowed === scope),
  );
  return {
    userId: sub,
    scopes: held,
    credential: { kind: "session", epoch: Number(epoch), expiresAtMs },
  };
}

function invalid() {
  return problem("session_invalid", "The session token is malformed or does not verify.");
}

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

function decode(part: string): Record<string, unknown> | undefined {
  if (!/^[A-Za-z0-9_-]+$/.test(part)) return undefined;
  try {
    const value: unknown = JSON.parse(Buffer.from(part, "base64url").toString("utf8"));
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

async function sessionKey(settings: Config, kid: string): Promise<CryptoKey> {
  const secret = settings.SESSION_SECRETS[kid];
  if (secret === undefined) throw invalid();
  const known = keys.get(secret);
  if (known !== undefined) return known;
  const key = await crypto.subtle.importKey(
    "raw",
    utf8.encode(secret),
    { name: "HMAC", hash: "SHA-256" },
    false,
    ["sign", "verify"],
  );
  keys.set(secret, key);
  return key;
}
