/** Routes with which users protect their own account. */
import { z } from "@hono/zod-openapi";
import { route } from "../http/define-route.ts";
import { boolean, described } from "../http/fields.ts";
import { SAMPLE } from "../http/reference/samples.ts";
import type { Api } from "../http/route-definition.ts";
import { changePassword } from "./change-password.ts";
import { closeSessionsAndKeys } from "./ended-sockets.ts";
import { confirmTotp, startTotp } from "./enrol-totp.ts";
import { newPassword, oneCode, recoveryCode, stepUpFields, totpCode } from "./fields.ts";
import { cancelTotpRemoval, removeTotp } from "./remove-totp.ts";
import { SessionToken } from "./schemas.ts";
import { STEP_UP_PROBLEMS } from "./step-up.ts";
import { shownTotp, Totp } from "./totp-state.ts";

export function registerAccountRoutes(app: Api): void {
  route(app, {
    method: "post",
    path: "/auth/change-password",
    tag: "Auth",
    summary: "Change the password. All earlier sessions end.",
    credential: "session",
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
    handler: async ({ api, env, db, settings, actor, body, clientIp, waitUntil }) => {
      const { session, revokedKeys } = await changePassword(db, settings, {
        actor,
        fields: body,
        revokeKeys: body.revoke_keys,
        clientIp,
      });
      waitUntil(closeSessionsAndKeys(api, env, { userId: actor.userId, apiKeyIds: revokedKeys }));
      return session;
    },
  });
  registerTotpRoutes(app);
}

function registerTotpRoutes(app: Api): void {
  route(app, {
    method: "post",
    path: "/auth/totp",
    tag: "Auth",
    summary: "Get a TOTP secret, to turn TOTP on or to move it to another device",
    description:
      "The secret counts once POST /auth/confirm-totp has confirmed it, within 10 minutes. It " +
      "replaces an earlier unconfirmed one.",
    credential: "session",
    body: z.strictObject(stepUpFields),
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
    method: "post",
    path: "/auth/confirm-totp",
    tag: "Auth",
    summary: "Turn TOTP on with a code of the new secret. Earlier secret and codes end.",
    credential: "session",
    body: z.strictObject({ totp_code: totpCode }),
    response: z.object({
      recovery_codes: described(
        z.array(z.string()),
        "Ten codes, each valid once instead of a code. No later response contains them.",
      ),
    }),
    problems: ["totp_invalid"],
    handler: ({ db, settings, actor, body, clientIp }) =>
      confirmTotp(db, settings, { actor, code: body.totp_code, clientIp }),
  });
  route(app, {
    method: "post",
    path: "/auth/remove-totp",
    tag: "Auth",
    summary: "Turn TOTP off after the security delay",
    credential: "session",
    body: oneCode(
      z.strictObject({
        ...stepUpFields,
        recovery_code: described(recoveryCode.optional(), "Instead of `totp_code`, once"),
      }),
      { password: SAMPLE.password, totp_code: SAMPLE.totp_code },
    ),
    response: z.object({
      removal_at: described(z.iso.datetime(), "When TOTP is off, unless it is cancelled before"),
    }),
    problems: [...STEP_UP_PROBLEMS, "totp_not_enabled"],
    handler: ({ db, settings, actor, body, clientIp }) =>
      removeTotp(db, settings, { actor, fields: body, clientIp }),
  });
  route(app, {
    method: "post",
    path: "/auth/cancel-totp-removal",
    tag: "Auth",
    summary: "Cancel a removal of TOTP that has not taken effect. Idempotent.",
    credential: "session",
    body: z.strictObject({}),
    response: Totp,
    handler: async ({ db, actor, clientIp, waitUntil }) => {
      await cancelTotpRemoval(db, { actor, clientIp });
      return shownTotp(db, actor.userId, waitUntil);
    },
  });
}
