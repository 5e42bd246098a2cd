/**
 * Authenticates a request. The header APIKEY, even an empty one, selects HMAC. Such a request is
 * never verified as a session.
 *
 * The checks run in the order of contract.md section 2. A caller without the secret learns only
 * whether a key id exists, because its owner, status and limits are checked after the signature.
 */
import { toWireTime } from "../platform/time.ts";
import { Problem, problem } from "../platform/problem.ts";
import { rawTarget } from "../http/request.ts";
import { type KeyState, keyState, userState } from "./credential-cache.ts";
import { accountFrozen } from "./hold.ts";
import { HELD_SCOPES, scopeMissing } from "./scope.ts";
import {
  canonicalMessage,
  describeSigned,
  parseTimestampMs,
  signatureHint,
  verifySignature,
} from "./hmac.ts";
import { ipAllowed } from "../http/ip-range.ts";
import { recordKeyUse, watchNetwork } from "./key-networks.ts";
import { readSession } from "./session.ts";
import type { Actor, ApiKeyActor } from "../platform/actor.ts";
import type { Authenticate } from "../http/route-definition.ts";

type Incoming = Parameters<Authenticate>[0];
type Needs = Parameters<Authenticate>[1];

export const authenticate: Authenticate = async (incoming, needs) => {
  const keyId = incoming.request.headers.get("apikey");
  const actor = keyId === null ? await fromSession(incoming) : await fromSignature(incoming, keyId);
  requirePermission(actor, needs);
  return actor;
};

function requirePermission(actor: Actor, needs: Needs): void {
  const { kind } = actor.credential;
  if (needs.credential === "session" && kind !== "session")
    throw problem("session_required", "This operation requires a session.");
  if (needs.credential === "api_key" && kind !== "api_key")
    throw needs.scope === "withdraw"
      ? problem(
          "session_cannot_withdraw",
          "A withdrawal requires an API key with the scope withdraw.",
        )
      : problem("api_key_required", "This operation requires an API key.");
  const ofSession = needs.scope === undefined ? [] : [needs.scope];
  const scopes = kind === "api_key" ? (needs.keyScopes ?? ofSession) : ofSession;
  const [scope] = scopes;
  if (scope !== undefined && !scopes.some((one) => actor.scopes.includes(one)))
    throw scopeMissing(scope, actor.scopes);
}

async function fromSession({ request, env, settings, context }: Incoming): Promise<Actor> {
  const authorization = request.headers.get("authorization");
  if (authorization === null)
    throw problem(
      "credentials_missing",
      "Send Authorization: Bearer, or APIKEY with its timestamp and signature.",
    );
  const actor = await readSession(settings, authorization, Date.now());
  context.userId = actor.userId;
  const user = await userState(env.DB, actor.userId, context.waitUntil);
  // A freeze ends sessions, so its code comes first. The signature has verified.
  if (user?.frozen) throw new Problem(accountFrozen(user.frozen));
  if (user === undefined || user.epoch !== actor.credential.epoch)
    throw problem("session_invalid", "The session has ended.");
  if (user.holdUntil > Date.now() || !user.sessionsTrade) return { ...actor, scopes: HELD_SCOPES };
  return actor;
}

async function fromSignature(incoming: Incoming, keyIdHeader: string): Promise<ApiKeyActor> {
  const { request, body, env, settings, context } = incoming;
  const timestamp = request.headers.get("x-hmac-timestamp") ?? "";
  const timestampMs = parseTimestampMs(timestamp);
  if (timestampMs === undefined)
    throw problem(
      "timestamp_malformed",
      "X-Hmac-Timestamp must be Unix milliseconds in 1 to 16 decimal digits.",
    );
  const key = await keyState(env.DB, settings, keyIdHeader.toLowerCase(), context.waitUntil);
  if (key === undefined) {
    // The platform joins repeated headers by commas.
    const twice = keyIdHeader.includes(",") ? " The header was sent more than once." : "";
    throw problem("api_key_unknown", `No such API key.${twice}`);
  }
  context.apiKeyId = key.apiKeyId;
  const now = Date.now();
  checkTolerance({ now, timestampMs, toleranceMs: settings.AUTH_HMAC_TOLERANCE_SECS * 1_000 });
  const parts = { timestamp, method: request.method, target: rawTarget(request.url), body };
  const signature = request.headers.get("x-hmac-signature") ?? "";
  if (!(await verifySignature(key.key, canonicalMessage(parts), signature))) {
    throw problem(
      "signature_invalid",
      `The signature does not verify. ${signatureHint(signature)}`,
      await describeSigned(parts),
    );
  }
  context.userId = key.userId;
  checkKey(key, now, context.clientIp);
  recordKeyUse(incoming, key.apiKeyId, now);
  watchNetwork(incoming, key, now);
  // Before `activeFrom`, a key of the operator, or one that he approves, is valid without scopes.
  const active = key.activeFrom !== null && key.activeFrom <= now;
  const { userId, apiKeyId, requireIdempotency } = key;
  const paysTo = key.limits?.paysTo;
  return {
    userId,
    scopes: active ? key.scopes : [],
    credential: {
      kind: "api_key",
      apiKeyId,
      ...(requireIdempotency && { requireIdempotency }),
      ...(paysTo !== undefined && { paysTo }),
    },
  };
}

const DAY_MS = 86_400_000;

function checkTolerance(clock: { now: number; timestampMs: number; toleranceMs: number }): void {
  const skew = clock.timestampMs - clock.now;
  if (Math.abs(skew) <= clock.toleranceMs) return;
  const isNear = (milliseconds: number) => Math.abs(milliseconds - clock.now) < DAY_MS;
  const unit = isNear(clock.timestampMs * 1_000)
    ? "seconds"
    : isNear(clock.timestampMs / 1_000) && "microseconds";
  const hint = unit ? ` It looks like ${unit}. Send milliseconds.` : "";
  throw problem(
    "timestamp_outside_tolerance",
    `The timestamp is more than ${clock.toleranceMs} ms from the server's time.${hint}`,
    { server_time: toWireTime(clock.now), skew_ms: skew },
  );
}

function checkKey(key: KeyState, now: number, clientIp: string | undefined): void {
  if (key.revoked) throw problem("api_key_revoked", "The API key has been revoked.");
  if (key.expiresAt !== null && key.expiresAt <= now)
    throw problem("api_key_expired", `The API key expired at ${toWireTime(key.expiresAt)}.`);
  if (key.frozen) throw new Problem(accountFrozen(key.frozen));
  if (!ipAllowed(clientIp, key.allowedIps))
    throw problem("ip_not_allowed", "Your IP address is not in this key's allow list.");
}
