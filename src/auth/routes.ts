import * as z from "zod";
import { isWide } from "../http/ip-range.ts";
import { pageSchema, timeIdPage } from "../http/cursor.ts";
import { boolean, described, uuidField, u256Out, timeOut } from "../http/fields.ts";
import { type FieldError, invalidRequest } from "../platform/problem.ts";
import { route } from "../http/define-route.ts";
import { toWireTime } from "../platform/time.ts";
import { KeyRecord, listApiKeys } from "./api-key.ts";
import { isFuture, MintedKey, mintApiKey } from "./mint-key.ts";
import { revokeOwnApiKey } from "./revoke-key.ts";
import { AuditEvent, auditPage, listAuditEvents } from "../audit/audit.ts";
import { endSessions } from "./end-sessions.ts";
import { SECOND_FACTOR_PROBLEMS } from "./second-factor.ts";
import { CONFIRM_PROBLEMS } from "./step-up.ts";
import {
  checkKeyLimits,
  type KeyLimits,
  KeyLimitsOut,
  limitsView,
  NO_LIMITS,
} from "./key-limits.ts";
import { readUsedByKey } from "./exposure.ts";
import { toHex } from "../assets/amount.ts";
import { publicKeys } from "../audit/signing-keys.ts";
import { keyState } from "./credential-cache.ts";
import { login, register } from "./login.ts";
import { issueTicket } from "./ws-ticket.ts";
import { registerAccountRoutes, shownTotp, Totp } from "./account-routes.ts";
import {
  anyPassword,
  email,
  NewKeyBody,
  newPassword,
  oneCode,
  OWN_POST,
  PUBLIC_POST,
  recoveryCode,
  SAMPLE,
  Scopes,
  SessionToken,
  totpCode,
} from "./schemas.ts";
import type { Api } from "../http/route-definition.ts";

const Ticket = z
  .object({
    ticket: described(z.string(), "Query parameter `ticket` of one websocket upgrade"),
    expires_at: timeOut("When the ticket expires, 30 seconds after its issue"),
    scopes: described(Scopes, "Scopes of the socket"),
  })
  .meta({ id: "Ticket" });

export function registerAuthRoutes(app: Api): void {
  registerSessionRoutes(app);
  registerEndSessions(app);
  registerKeyRoutes(app);
  registerRevokeKey(app);
  registerTicketRoutes(app);
  registerSelfRoutes(app);
  registerAccountRoutes(app);
  registerPublicKeys(app);
}

function registerPublicKeys(app: Api): void {
  route(app, {
    method: "get",
    path: "/.well-known/jwks.json",
    operationId: "getSigningKeys",
    tag: "Service",
    summary: "Get the public keys that verify receipts and the audit log's heads",
    description: "A JWK set (RFC 7517) of Ed25519 keys (RFC 8037), the newest first.",
    credential: "public",
    response: z.object({
      keys: described(z.array(PublicKey), "All keys of the ring, old ones too"),
    }),
    handler: ({ settings }) => publicKeys(settings),
  });
}

const PublicKey = z
  .object({
    kty: described(z.literal("OKP"), "Type of the key"),
    crv: described(z.literal("Ed25519"), "The curve"),
    x: described(z.string(), "The public key, base64url"),
    kid: described(z.string(), "Id of the key, which a receipt or a signed head names"),
    use: described(z.literal("sig"), "The key verifies signatures"),
    alg: described(z.literal("EdDSA"), "The algorithm"),
  })
  .meta({
    id: "PublicKey",
    examples: [
      {
        kty: "OKP",
        crv: "Ed25519",
        x: "4GjtsD8kI3QAJwMoA5waa1qXTfaoldDeJYpGxSYfUtk",
        kid: "a1",
        use: "sig",
        alg: "EdDSA",
      },
    ],
  });

function registerSessionRoutes(app: Api): void {
  route(app, {
    ...PUBLIC_POST,
    path: "/auth/login",
    operationId: "login",
    summary: "Log in and get a session token",
    description:
      "The session has the scopes `read` and `trade`. Send `totp_code` or `recovery_code` " +
      "if TOTP is on. Failed attempts are throttled by account and by address.",
    body: oneCode(
      z.strictObject({
        email,
        password: anyPassword,
        totp_code: described(totpCode.optional(), "Six digits of the authenticator, if TOTP is on"),
        recovery_code: described(recoveryCode.optional(), "Instead of `totp_code`, once"),
      }),
      { email: SAMPLE.email, password: SAMPLE.password, totp_code: SAMPLE.totp_code },
    ),
    response: SessionToken,
    problems: ["login_failed", "account_frozen", ...SECOND_FACTOR_PROBLEMS],
    handler: async ({ api, env, db, settings, body, clientIp, waitUntil }) => {
      const session = await login(db, settings, { ...body, ip: clientIp });
      // Of a new network, or of a recovery code that was used.
      waitUntil(api.rightsChanged(env, session.user_id, "kept"));
      return session;
    },
  });
  route(app, {
    ...PUBLIC_POST,
    path: "/auth/register",
    operationId: "register",
    summary: "Create an account if registration is open",
    description:
      "Returns a session of the new user. Deployments with closed registration have users " +
      "from their operator only.",
    body: z.strictObject({ email, password: newPassword }),
    response: SessionToken,
    status: 201,
    problems: ["registration_closed", "email_taken", "login_throttled", "daily_limit"],
    handler: ({ db, settings, body, clientIp }) =>
      register(db, settings, { ...body, ip: clientIp }),
  });
}

function registerEndSessions(app: Api): void {
  route(app, {
    method: "delete",
    path: "/auth/sessions",
    notices: true,
    endsCredentials: true,
    operationId: "endSessions",
    repeatable: true,
    tag: "Auth",
    summary: "End all sessions of the user",
    description:
      "They end within 5 s, and their open quotes at once. Unless `revoke_keys` is false, all API " +
      "keys are revoked, too.",
    credential: "session",
    fields: z.strictObject({
      revoke_keys: described(
        boolean.optional(),
        "Whether to revoke all API keys too. Default: true, because a thief may have minted one.",
      ),
    }),
    response: z.object({
      user_id: described(z.uuid(), "Id of the user"),
      revoked_keys: described(z.boolean(), "Whether the API keys were revoked"),
    }),
    handler: async ({ api, env, db, actor, fields, clientIp }) => {
      const revokeKeys = fields.revoke_keys ?? true;
      await api.endingSessions(env, actor.userId, (alongside) =>
        endSessions(db, { actor, revokeKeys, ip: clientIp }, alongside),
      );
      return { user_id: actor.userId, revoked_keys: revokeKeys };
    },
  });
}

const MAX_WITHDRAW_KEY_MS = 366 * 86_400_000;

/** A key that may withdraw is bound to addresses, and ends. */
function checkWithdrawKey(body: z.output<typeof NewKeyBody>): void {
  const { scopes, allowed_ips: ips, expires_at: expiresAt } = body;
  const errors: FieldError[] = [];
  if (!scopes.includes("withdraw"))
    errors.push({ path: "body.scopes", message: "must contain withdraw with request_approval" });
  if (ips === undefined || ips === null)
    errors.push({ path: "body.allowed_ips", message: "is required with request_approval" });
  else if (ips.some(isWide))
    errors.push({
      path: "body.allowed_ips",
      message: "must have no range wider than /8 (IPv6: /16) with request_approval",
    });
  const latest = Date.now() + MAX_WITHDRAW_KEY_MS;
  if (expiresAt === undefined || expiresAt === null || expiresAt > latest)
    errors.push({
      path: "body.expires_at",
      message: "must be within 366 days with request_approval",
    });
  if (errors.length > 0) throw invalidRequest(errors);
}

/** `limits` with where the key pays. */
function limitsOf(body: z.output<typeof NewKeyBody>): KeyLimits | null {
  const { limits = null, only_listed: onlyListed = false, addresses = null } = body;
  const errors: FieldError[] = [];
  if (onlyListed && body.request_approval !== true)
    errors.push({ path: "body.only_listed", message: "needs request_approval" });
  if (addresses !== null && !onlyListed)
    errors.push({ path: "body.addresses", message: "needs only_listed" });
  if (errors.length > 0) throw invalidRequest(errors);
  if (!onlyListed) return limits;
  const named = addresses?.map((one) => one.toLowerCase()).toSorted();
  return { ...(limits ?? NO_LIMITS), paysTo: named === undefined ? "all" : [...new Set(named)] };
}

function registerKeyRoutes(app: Api): void {
  route(app, {
    ...OWN_POST,
    path: "/auth/api-keys",
    notices: true,
    operationId: "createApiKey",
    summary: "Mint an API key. Only this response contains its secret.",
    description:
      "The key gets those of the named scopes that the session has. A key with the scope " +
      "`withdraw` needs the operator's approval (`request_approval`).",
    body: NewKeyBody,
    response: MintedKey,
    status: 201,
    problems: ["scope_missing", "api_key_limit", "daily_limit", ...CONFIRM_PROBLEMS],
    handler: async ({ db, settings, actor, body, clientIp }) => {
      checkKeyLimits(body.limits ?? null, settings);
      const expiresAt = body.expires_at;
      if (expiresAt !== undefined && expiresAt !== null && !(await isFuture(db, expiresAt)))
        throw invalidRequest([{ path: "body.expires_at", message: "must be in the future" }]);
      const requestApproval = body.request_approval ?? false;
      if (requestApproval) checkWithdrawKey(body);
      const key = {
        label: body.label,
        scopes: body.scopes,
        expiresAt,
        allowedIps: body.allowed_ips ?? null,
        limits: limitsOf(body),
        requireIdempotency: body.require_idempotency ?? false,
      };
      return mintApiKey(db, settings, {
        actor,
        requestApproval,
        ip: clientIp,
        key,
        password: body.password,
        totpCode: body.totp_code,
      });
    },
  });
  route(app, {
    method: "get",
    path: "/auth/api-keys",
    operationId: "listApiKeys",
    tag: "Auth",
    summary: "List the user's API keys, newest first",
    description: "Revoked keys are listed, too. Secrets are not.",
    credential: "any",
    scope: "read",
    query: z.strictObject(timeIdPage),
    response: pageSchema(KeyRecord),
    handler: ({ db, actor, query }) => listApiKeys(db, actor.userId, query),
  });
}

function registerRevokeKey(app: Api): void {
  route(app, {
    method: "delete",
    path: "/auth/api-keys",
    notices: true,
    endsCredentials: true,
    operationId: "revokeApiKey",
    repeatable: true,
    tag: "Auth",
    summary: "Revoke an API key. A session can revoke any of the user's keys, a key only itself.",
    description:
      "Writes with the key fail at once, reads and open sockets within 5 s. Its open quotes are " +
      "cancelled. Its requests stay open.",
    credential: "any",
    fields: z.strictObject({ api_key_id: described(uuidField, "Id of the key to revoke") }),
    response: KeyRecord,
    problems: ["session_required", "api_key_unknown_id"],
    handler: ({ api, env, db, actor, fields, clientIp }) => {
      const request = { actor, apiKeyId: fields.api_key_id, ip: clientIp };
      return api.narrowingRights(env, actor.userId, (alongside) =>
        revokeOwnApiKey(db, request, alongside),
      );
    },
  });
}

function registerTicketRoutes(app: Api): void {
  route(app, {
    ...OWN_POST,
    path: "/auth/ws-ticket",
    operationId: "createTicket",
    repeatable: true,
    summary: "Get a websocket ticket with the scope read",
    description:
      "It opens one socket within 30 s. A socket opened with it can read, but send no " +
      "commands.",
    scope: "read",
    response: Ticket,
    status: 201,
    problems: ["daily_limit"],
    handler: ({ db, actor, settings }) => issueTicket(db, settings, { actor, scopes: ["read"] }),
  });
  route(app, {
    method: "post",
    path: "/auth/ws-ticket/signed",
    operationId: "createSignedTicket",
    repeatable: true,
    tag: "Auth",
    summary: "Get a websocket ticket with the scopes of the signing key",
    description:
      "It opens one socket within 30 s. With the scope `trade`, the socket takes commands.",
    credential: "api_key",
    scope: "read",
    rateClass: "auth",
    response: Ticket,
    status: 201,
    problems: ["daily_limit"],
    handler: ({ db, actor, settings }) =>
      issueTicket(db, settings, { actor, scopes: actor.scopes }),
  });
}

function registerSelfRoutes(app: Api): void {
  route(app, {
    method: "get",
    path: "/auth/whoami",
    operationId: "getCredential",
    tag: "Auth",
    summary: "Get the user and scopes of the credential, for example to test a signer",
    description: "Takes any valid credential, whatever its scopes. `limits` are those of the key.",
    credential: "any",
    response: z
      .object({
        user_id: described(z.uuid(), "Id of the user"),
        credential: described(z.enum(["session", "api_key"]), "Kind of the credential"),
        api_key_id: described(z.uuid().nullable(), "Id of the API key. Null for a session."),
        scopes: described(Scopes, "Scopes of the credential"),
        limits: KeyLimitsOut,
        used: u256Out(
          "What counts against max_usdc_per_day: the exposure of the key's matches of the last day " +
            "and of its open quotes. Null if the key has no such limit.",
        ).nullable(),
        totp: described(Totp.nullable(), "State of TOTP, at most 5 s old. Null for an API key."),
        server_time: timeOut("The server's time"),
      })
      .meta({ id: "WhoAmI" }),
    handler: async ({ db, settings, actor, waitUntil }) => {
      const { userId, credential } = actor;
      const apiKeyId = credential.kind === "api_key" ? credential.apiKeyId : null;
      // Limits never change, and the key was authenticated a moment ago, so D1 is not read.
      const key = apiKeyId === null ? undefined : await keyState(db, settings, apiKeyId, waitUntil);
      const limits = key?.limits ?? null;
      const used =
        apiKeyId === null || limits === null || limits.maxUsdcPerDay === null
          ? null
          : toHex(await readUsedByKey(db, { userId, apiKeyId }));
      return {
        user_id: userId,
        credential: credential.kind,
        api_key_id: apiKeyId,
        scopes: [...actor.scopes],
        limits: limits === null ? null : limitsView(limits),
        used,
        totp: apiKeyId === null ? await shownTotp(db, userId, waitUntil) : null,
        server_time: toWireTime(Date.now()),
      };
    },
  });
  route(app, {
    method: "get",
    path: "/auth/get-audit-events",
    operationId: "listAuditEvents",
    tag: "Auth",
    summary: "List the audit events of the account, newest first",
    description:
      "Logins, changes of credentials and limits, withdrawals, and what operators did to " +
      "the account.",
    credential: "any",
    scope: "read",
    query: z.strictObject(auditPage),
    response: pageSchema(AuditEvent),
    handler: ({ db, actor, query }) => listAuditEvents(db, actor.userId, query),
  });
}
