/** Routes with which users protect their own account. */
import * as z from "zod";
import { route } from "../http/define-route.ts";
import { boolean, described, timeOrNullOut, timeOut } from "../http/fields.ts";
import type { Api } from "../http/route-definition.ts";
import { toWireTimeOrNull } from "../platform/time.ts";
import { CANCEL_TOKEN, cancelEmailChange } from "./change-email.ts";
import { changePassword } from "./change-password.ts";
import { userState } from "./credential-cache.ts";
import { confirmTotp, startTotp } from "./enrol-totp.ts";
import { freezeOwnAccount, unfreezeOwnAccount } from "./freeze-user.ts";
import { cancelTotpRemoval, removeTotp } from "./remove-totp.ts";
import { changePolicy, getPolicy } from "./change-policy.ts";
import { policyFields, PolicyState } from "./policy.ts";
import {
  anyPassword,
  email,
  newPassword,
  oneCode,
  OWN_POST,
  PUBLIC_POST,
  recoveryCode,
  SAMPLE,
  SessionToken,
  stepUpFields,
  totpCode,
} from "./schemas.ts";
import { scopeMissing } from "./scope.ts";
import { SECOND_FACTOR_PROBLEMS } from "./second-factor.ts";
import { STEP_UP_PROBLEMS } from "./step-up.ts";

export function registerAccountRoutes(app: Api): void {
  route(app, {
    ...OWN_POST,
    path: "/auth/change-password",
    notices: true,
    endsCredentials: true,
    operationId: "changePassword",
    summary: "Change the password. All earlier sessions end, with their open quotes.",
    description:
      "Takes the present password, and a TOTP code if TOTP is on. Returns a new session. " +
      "`revoke_keys` also revokes the API keys that sessions minted.",
    body: z.strictObject({
      ...stepUpFields,
      new_password: newPassword,
      revoke_keys: described(
        boolean,
        "Whether to revoke the API keys that sessions minted. True if a thief may have minted one.",
      ),
    }),
    response: SessionToken,
    problems: STEP_UP_PROBLEMS,
    handler: ({ api, env, db, settings, actor, body, clientIp }) => {
      const change = { actor, fields: body, revokeKeys: body.revoke_keys, clientIp };
      return api.endingSessions(env, actor.userId, (alongside) =>
        changePassword(db, settings, change, alongside),
      );
    },
  });
  registerEmailRoute(app);
  registerTotpRoutes(app);
  registerTotpRemovalRoutes(app);
  registerFreezeRoutes(app);
  registerPolicyRoutes(app);
}

function registerPolicyRoutes(app: Api): void {
  route(app, {
    method: "get",
    path: "/auth/policy",
    operationId: "getPolicy",
    tag: "Auth",
    summary: "Get the limits of the account, and what is used of them",
    description: "`policy` is in force now. `pending` has looser values that take effect later.",
    credential: "any",
    scope: "read",
    keyScopes: ["read", "withdraw"],
    response: PolicyState,
    handler: ({ db, actor }) => getPolicy(db, actor.userId),
  });
  route(app, {
    ...OWN_POST,
    path: "/auth/policy",
    operationId: "setPolicy",
    summary: "Change the limits of the account. Stricter values apply now, looser ones later.",
    description:
      "A field that is left out stays. Looser values form `pending`, which applies after " +
      "`AUTH_SECURITY_DELAY_SECS`. Another call merges into it and restarts the delay. To cancel a " +
      "change, name the current value.",
    body: z.strictObject({ ...stepUpFields, ...policyFields }),
    response: PolicyState,
    notices: true,
    problems: [...STEP_UP_PROBLEMS, "totp_not_enabled"],
    handler: ({ api, env, db, settings, actor, body, clientIp }) => {
      const { password, totp_code, ...change } = body;
      const request = { actor, change, fields: { password, totp_code }, clientIp };
      return api.narrowingRights(env, actor.userId, (alongside) =>
        changePolicy(db, settings, request, alongside),
      );
    },
  });
}

function registerFreezeRoutes(app: Api): void {
  route(app, {
    method: "post",
    path: "/auth/freeze",
    operationId: "freezeAccount",
    tag: "Auth",
    summary: "Freeze your own account at once",
    description:
      "Every credential stops working, sessions end, open requests and quotes are cancelled, and so " +
      "is what waits to take effect. Takes a session, or a key with the scope trade or withdraw. " +
      "POST /auth/unfreeze ends it, with a one-time code. Without TOTP, only the operator can.",
    credential: "any",
    body: z.strictObject({}),
    response: z.object({
      user_id: described(z.uuid(), "Id of the user"),
      frozen_by: described(z.literal("self"), "Who froze the account"),
    }),
    problems: ["scope_missing"],
    handler: async ({ api, env, db, actor, clientIp }) => {
      const { scopes, credential } = actor;
      if (credential.kind === "api_key" && !scopes.some((scope) => scope !== "read"))
        throw scopeMissing("trade", scopes);
      await api.freezeAccount(env, actor.userId, async (alongside) => {
        await freezeOwnAccount(db, { actor, clientIp }, alongside);
        return true;
      });
      return { user_id: actor.userId, frozen_by: "self" } as const;
    },
  });
  route(app, {
    ...PUBLIC_POST,
    path: "/auth/unfreeze",
    operationId: "unfreezeAccount",
    summary: "End a freeze of your own with a one-time code",
    description:
      "Takes the password and a TOTP code or recovery code. An account that the operator " +
      "froze, or without TOTP, only the operator can unfreeze.",
    body: z.strictObject({
      email,
      password: anyPassword,
      totp_code: totpCode,
      revoke_keys: described(boolean, "Whether to revoke the API keys that sessions minted"),
    }),
    response: z.object({
      user_id: described(z.uuid(), "Id of the user"),
      revoked_keys: described(z.boolean(), "Whether the API keys of sessions were revoked"),
    }),
    problems: ["login_failed", "account_frozen", ...SECOND_FACTOR_PROBLEMS],
    handler: async ({ api, env, db, settings, body, clientIp, waitUntil }) => {
      const { userId, unfrozen } = await unfreezeOwnAccount(db, settings, { ...body, clientIp });
      waitUntil(api.rightsChanged(env, userId, "ended"));
      return { user_id: userId, revoked_keys: unfrozen && body.revoke_keys };
    },
  });
}

/** Step-up with a code or a recovery code. */
function orRecoveryCode() {
  return oneCode(
    z.strictObject({
      ...stepUpFields,
      recovery_code: described(recoveryCode.optional(), "Instead of `totp_code`, once"),
    }),
    { password: SAMPLE.password, totp_code: SAMPLE.totp_code },
  );
}

function registerEmailRoute(app: Api): void {
  route(app, {
    ...PUBLIC_POST,
    path: "/auth/cancel-email-change",
    operationId: "cancelEmailChange",
    summary: "Cancel a change of the email address with the token of its notice",
    description:
      "The service sends the token to the present address when operators order a change.",
    body: z.strictObject({
      token: described(
        z.string().regex(CANCEL_TOKEN, "must be the token of a notice"),
        "`cancel_token` of the notice",
      ),
    }),
    response: z.object({
      cancelled: described(z.boolean(), "False: no change with this token waits"),
    }),
    handler: async ({ api, env, db, settings, body, clientIp, waitUntil }) => {
      const userId = await cancelEmailChange(db, settings, { token: body.token, clientIp });
      if (userId !== null) waitUntil(api.rightsChanged(env, userId, "kept"));
      return { cancelled: userId !== null };
    },
  });
}

function registerTotpRoutes(app: Api): void {
  route(app, {
    ...OWN_POST,
    path: "/auth/totp",
    operationId: "enrolTotp",
    summary: "Get a TOTP secret, to turn TOTP on or to move it to another device",
    description:
      "POST /auth/confirm-totp must confirm it within 10 minutes. It replaces an earlier " +
      "unconfirmed one.",
    body: orRecoveryCode(),
    response: z.object({
      secret: described(z.string(), "The secret in base32. No later response contains it."),
      otpauth_uri: described(z.string(), "The URI of a QR code for authenticator apps"),
    }),
    status: 201,
    problems: STEP_UP_PROBLEMS,
    handler: ({ db, settings, actor, body, clientIp }) =>
      startTotp(db, settings, { actor, fields: body, clientIp }),
  });
  route(app, {
    ...OWN_POST,
    path: "/auth/confirm-totp",
    notices: true,
    operationId: "confirmTotp",
    summary: "Turn TOTP on with a code of the new secret, or have it replace the present device",
    description:
      "A replacement counts from `active_from` on, after `AUTH_SECURITY_DELAY_SECS`, or at once if a " +
      "recovery code asked for it. Until then the present device and its recovery codes count, and " +
      "POST /auth/cancel-totp-removal cancels it.",
    body: z.strictObject({ totp_code: totpCode }),
    response: z.object({
      recovery_codes: described(
        z.array(z.string()),
        "Ten codes, each valid once instead of a code. No later response contains them.",
      ),
      active_from: timeOrNullOut(
        "From when the device and these codes count instead of the present ones. Null: they do now.",
      ),
    }),
    problems: ["totp_invalid"],
    handler: ({ api, env, db, settings, actor, body, clientIp }) =>
      api.narrowingRights(env, actor.userId, (alongside) =>
        confirmTotp(db, settings, { actor, code: body.totp_code, clientIp }, alongside),
      ),
  });
}

function registerTotpRemovalRoutes(app: Api): void {
  route(app, {
    ...OWN_POST,
    path: "/auth/remove-totp",
    notices: true,
    operationId: "removeTotp",
    summary: "Turn TOTP off after the security delay",
    description:
      "Takes a code or a recovery code. Until `removal_at`, POST " +
      "/auth/cancel-totp-removal cancels it.",
    body: orRecoveryCode(),
    response: z.object({
      removal_at: timeOut("When TOTP is off, unless it is cancelled before"),
    }),
    problems: [...STEP_UP_PROBLEMS, "totp_not_enabled"],
    handler: ({ db, settings, actor, body, clientIp }) =>
      removeTotp(db, settings, { actor, fields: body, clientIp }),
  });
  route(app, {
    ...OWN_POST,
    path: "/auth/cancel-totp-removal",
    notices: true,
    operationId: "cancelTotpRemoval",
    repeatable: true,
    summary: "Cancel a removal or replacement of TOTP that has not taken effect. Idempotent.",
    description: "Use it if you did not order the change. Without one it has no effect.",
    body: z.strictObject({}),
    response: Totp,
    handler: async ({ db, actor, clientIp, waitUntil }) => {
      await cancelTotpRemoval(db, { actor, clientIp });
      return shownTotp(db, actor.userId, waitUntil);
    },
  });
}

/** What a session sees of its user's TOTP. */
export const Totp = z.object({
  enabled: described(z.boolean(), "Whether logins and step-up need a code"),
  recovery_codes_left: described(z.int(), "Unused recovery codes"),
  removal_at: timeOrNullOut("When a requested removal takes effect. Null: none was requested."),
  replacement_at: timeOrNullOut(
    "From when another device counts instead of the present one. Null: none waits.",
  ),
});

export async function shownTotp(
  db: D1Database,
  userId: string,
  waitUntil: (work: Promise<unknown>) => void,
): Promise<z.input<typeof Totp>> {
  const user = await userState(db, userId, waitUntil);
  const { totp = null, removalAt = null, replacementAt = null, recoveryCodesLeft = 0 } = user ?? {};
  const enabled = totp !== null && (removalAt === null || removalAt > Date.now());
  const replaced = replacementAt === null || replacementAt <= Date.now();
  return {
    enabled,
    recovery_codes_left: enabled ? recoveryCodesLeft : 0,
    removal_at: enabled ? toWireTimeOrNull(removalAt) : null,
    replacement_at: enabled && !replaced ? toWireTimeOrNull(replacementAt) : null,
  };
}
