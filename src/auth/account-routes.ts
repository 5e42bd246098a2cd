/** Routes with which users protect their own account. */
import { z } from "@hono/zod-openapi";
import { route } from "../http/define-route.ts";
import { boolean, described } from "../http/fields.ts";
import type { Api } from "../http/route-definition.ts";
import { changePassword } from "./change-password.ts";
import { closeSessionsAndKeys } from "./ended-sockets.ts";
import { newPassword, stepUpFields } from "./fields.ts";
import { SessionToken } from "./schemas.ts";
import { STEP_UP_PROBLEMS } from "./step-up.ts";

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
}
