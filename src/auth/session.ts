/** Session tokens: JWT (RFC 7519), HS256 only. `kid` names the secret, which can be rotated. */
import { decodeProtectedHeader, errors, type JWTPayload, jwtVerify, SignJWT } from "jose";
import type { Config } from "../platform/config.ts";
import { problem } from "../platform/problem.ts";
import { toWireTime } from "../platform/time.ts";
import { readScopes } from "./scope.ts";
import type { SessionActor } from "../platform/actor.ts";

const ALGORITHM = "HS256";
const TYPE = "JWT";
const ISSUER = "rfq-custody";
const AUDIENCE = "rfq-custody";
/** Several times the length of the tokens that the service issues. */
const MAX_TOKEN_LENGTH = 2_048;

const utf8 = new TextEncoder();

/** Signs a token with the first secret. Raising the user's `epoch` ends the session. */
export async function issueSession(
  settings: Config,
  user: { userId: string; epoch: number },
  nowMs: number = Date.now(),
) {
  const [kid, secret] = Object.entries(settings.SESSION_SECRETS)[0] ?? [];
  if (kid === undefined || secret === undefined) throw new Error("SESSION_SECRETS is empty");
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
  const accessToken = await new SignJWT(claims)
    .setProtectedHeader({ alg: ALGORITHM, typ: TYPE, kid })
    .sign(utf8.encode(secret));
  return { accessToken, expiresAtMs: exp * 1_000, expiresInSecs: exp - iat };
}

/** Throws `session_invalid`, or `session_expired` if the signature is valid. */
export async function readSession(
  settings: Config,
  authorization: string,
  nowMs: number,
): Promise<SessionActor> {
  const token = /^Bearer +([^\s]+)$/i.exec(authorization)?.[1];
  if (token === undefined || token.length > MAX_TOKEN_LENGTH) throw invalid();
  return actorOf(settings, await claimsOf(settings, token, nowMs), nowMs);
}

/** Tokens whose signature has verified, because a session sends the same one many times. */
const verified = new Map<string, { kid: string; secret: string; claims: JWTPayload }>();
const MAX_VERIFIED = 2_000;

/** The claims of a token whose signature verifies with a secret that is in the ring now. */
async function claimsOf(settings: Config, token: string, nowMs: number): Promise<JWTPayload> {
  const known = verified.get(token);
  if (known !== undefined && secretOf(settings, known.kid) === known.secret) return known.claims;
  const kid = kidOf(token);
  const secret = secretOf(settings, kid);
  if (secret === undefined) throw invalid();
  const claims = await verify(token, secret, nowMs);
  if (verified.size >= MAX_VERIFIED) verified.clear();
  verified.set(token, { kid, secret, claims });
  return claims;
}

function secretOf({ SESSION_SECRETS }: Config, kid: string): string | undefined {
  return Object.hasOwn(SESSION_SECRETS, kid) ? SESSION_SECRETS[kid] : undefined;
}

/** Accepts exactly the header that we make, because a token could name `none` or another one. */
function kidOf(token: string): string {
  const signature = token.split(".")[2] ?? "";
  // The last character has two unused bits. Only one spelling is valid, so a token is one text.
  if (Buffer.from(signature, "base64url").toString("base64url") !== signature) throw invalid();
  try {
    const { alg, typ, kid, ...others } = decodeProtectedHeader(token);
    if (alg !== ALGORITHM || typ !== TYPE || kid === undefined || "crit" in others) throw invalid();
    return kid;
  } catch {
    throw invalid();
  }
}

async function verify(token: string, secret: string, nowMs: number): Promise<JWTPayload> {
  try {
    const { payload } = await jwtVerify(token, utf8.encode(secret), {
      algorithms: [ALGORITHM],
      issuer: ISSUER,
      audience: AUDIENCE,
      currentDate: new Date(nowMs),
    });
    return payload;
  } catch (error) {
    // The signature has verified. `actorOf` throws `session_expired`.
    if (error instanceof errors.JWTExpired) return error.payload;
    throw invalid();
  }
}

function actorOf(settings: Config, claims: JWTPayload, nowMs: number): SessionActor {
  if (claims.iss !== ISSUER || claims.aud !== AUDIENCE) throw invalid();
  const { sub, iat, exp, epoch, scopes } = claims;
  if (
    typeof sub !== "string" ||
    !/^[0-9a-f-]{36}$/.test(sub) ||
    ![iat, exp, epoch].every(Number.isSafeInteger) ||
    !Array.isArray(scopes)
  )
    throw invalid();
  const expiresAtMs = Number(exp) * 1_000;
  if (nowMs >= expiresAtMs)
    throw problem("session_expired", `The session expired at ${toWireTime(expiresAtMs)}.`);
  // A change of AUTH_SESSION_SCOPES also limits tokens issued before.
  const held = readScopes(scopes.join(",")).filter((scope) =>
    settings.AUTH_SESSION_SCOPES.some((allowed) => allowed === scope),
  );
  return {
    userId: sub,
    scopes: held,
    credential: {
      kind: "session",
      epoch: Number(epoch),
      issuedAtMs: Number(iat) * 1_000,
      expiresAtMs,
    },
  };
}

function invalid() {
  return problem("session_invalid", "The session token is malformed or does not verify.");
}
