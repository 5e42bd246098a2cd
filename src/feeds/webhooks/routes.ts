/** The routes of webhooks. docs/contract.md section 6 has the rules. */
import * as z from "zod";
import { stepUpFields } from "../../auth/schemas.ts";
import { requireFresh, STEP_UP_PROBLEMS, stepUp } from "../../auth/step-up.ts";
import { WEBHOOK_ENDS } from "../../auth/webhook-secrets.ts";
import { route } from "../../http/define-route.ts";
import { described, oneOf, uuidField } from "../../http/fields.ts";
import type { Api } from "../../http/route-definition.ts";
import { logged } from "../../platform/log.ts";
import { near } from "../../platform/near.ts";
import { Problem } from "../../platform/problem.ts";
import { toWireTime } from "../../platform/time.ts";
import { WEBHOOK_TYPES } from "../event-views.ts";
import {
  createEndpoint,
  listEndpoints,
  ownEndpoint,
  removeEndpoint,
  rotateSecret,
} from "./endpoints.ts";
import type { AttemptRow } from "./waiting-events.ts";
import { webhookUrlField } from "./webhook-url.ts";

const SOME_TYPES = ["match.created", "account.notice"];

const Webhook = z
  .object({
    endpoint_id: described(z.uuid(), "Id of the webhook"),
    url: z.string().meta({
      description: "Where events are delivered. A key sees the host only",
      examples: ["https://hooks.example.com/rfq"],
    }),
    types: z.array(z.string()).meta({
      description: "Types of the events that are delivered",
      examples: [SOME_TYPES],
    }),
    created_at: described(z.iso.datetime(), "When it was created"),
    disabled_at: described(
      z.iso.datetime().nullable(),
      "When the service stopped delivering, or null. Remove it and create it anew",
    ),
    disabled_reason: described(
      z.enum(WEBHOOK_ENDS).nullable(),
      "`gone`: the receiver answered 410. `late`, `full`: an event waited for three days, or " +
        "10 000 did. `events_gone`: events are missing. `revoked`: with the API keys",
    ),
    disabled_seq: described(
      z.int().min(0).nullable(),
      "Number of the first event that was not delivered, or null",
    ),
  })
  .meta({ id: "Webhook" });
const NewWebhook = Webhook.extend({
  secret: described(z.string(), "Verifies the deliveries. It is shown only here"),
}).meta({ id: "NewWebhook" });
const Attempt = z
  .object({
    webhook_id: described(z.string(), "The header `webhook-id`, the same in each attempt"),
    at: described(z.iso.datetime(), "When it was sent"),
    accepted: described(z.boolean(), "Whether the receiver answered with 2xx"),
    status: z
      .int()
      .nullable()
      .meta({ description: "HTTP status of the answer. Null without one", examples: [204] }),
  })
  .meta({ id: "WebhookAttempt" });

const endpointId = described(uuidField, "Id of the webhook");
const SESSION = { tag: "Webhooks", credential: "session" } as const;
const READ = { tag: "Webhooks", credential: "any", scope: "read" } as const;

const attemptView = ({ message, at, accepted, status }: AttemptRow) => ({
  webhook_id: message,
  at: toWireTime(at),
  accepted: accepted === 1,
  status,
});
const objectOf = (env: Cloudflare.Env, id: string) => near(env, env.WEBHOOK, id);

export function registerWebhookRoutes(api: Api): void {
  registerWithStepUp(api);
  registerChanges(api);
  registerReads(api);
}

/** What makes or shows a secret. */
function registerWithStepUp(api: Api): void {
  route(api, {
    ...SESSION,
    method: "post",
    path: "/account/create-webhook",
    operationId: "createWebhook",
    summary: "Deliver events of your account to a URL",
    description: "At most two. The first event is the notice of this change.",
    body: z.strictObject({
      ...stepUpFields,
      url: webhookUrlField,
      types: z
        .array(oneOf(WEBHOOK_TYPES))
        .min(1)
        .meta({
          description: "Only events of these types. Default: all of them",
          examples: [SOME_TYPES],
        })
        .optional(),
    }),
    response: NewWebhook,
    status: 201,
    notices: true,
    problems: [...STEP_UP_PROBLEMS, "webhook_limit"],
    handler: async ({ env, db, settings, actor, body, clientIp }) => {
      const { url, types = WEBHOOK_TYPES, ...fields } = body;
      const checked = await stepUp(db, settings, { actor, fields, clientIp });
      const created = await createEndpoint(db, settings, {
        actor: checked.actor,
        ip: clientIp,
        url,
        types: [...new Set(types)],
        prepare: (id) => objectOf(env, id).prepare(id),
      });
      await objectOf(env, created.endpoint_id).wake(created.endpoint_id);
      return created;
    },
  });
  route(api, {
    ...SESSION,
    method: "post",
    path: "/account/rotate-webhook-secret",
    operationId: "rotateWebhookSecret",
    summary: "Get a new secret of a webhook. The present one signs for another day, too.",
    description: "Deliveries carry both signatures. The secret before the present one ends.",
    body: z.strictObject({ ...stepUpFields, endpoint_id: endpointId }),
    response: NewWebhook,
    notices: true,
    problems: [...STEP_UP_PROBLEMS, "webhook_unknown"],
    handler: async ({ db, settings, actor, body, clientIp }) => {
      const { endpoint_id, ...fields } = body;
      const checked = await stepUp(db, settings, { actor, fields, clientIp });
      const by = { actor: checked.actor, ip: clientIp };
      return rotateSecret(db, settings, { ...by, endpointId: endpoint_id });
    },
  });
}

function registerChanges(api: Api): void {
  route(api, {
    ...SESSION,
    method: "delete",
    path: "/account/webhook",
    operationId: "removeWebhook",
    summary: "Remove a webhook, with what waits for it. Its last message is `webhook.removed`.",
    description: "Takes a session of a login at most `fresh_session_secs` of GET /config ago.",
    fields: z.strictObject({ endpoint_id: endpointId }),
    response: Webhook,
    notices: true,
    problems: ["password_required", "webhook_unknown"],
    handler: async ({ env, db, settings, actor, fields, clientIp, waitUntil }) => {
      requireFresh(settings, actor);
      const { endpoint_id: id } = fields;
      const removed = await removeEndpoint(db, { actor, ip: clientIp, endpointId: id });
      const last = logged("warn", "webhooks.removal_not_sent", { endpoint_id: id });
      waitUntil(objectOf(env, id).sendRemoved(removed.endpoint).catch(last));
      await objectOf(env, id).wake(id);
      return removed.view;
    },
  });
  route(api, {
    ...SESSION,
    method: "post",
    path: "/account/test-webhook",
    operationId: "testWebhook",
    summary: "Send a message of the type `webhook.test` and wait for the answer",
    description: "Takes up to 10 s. It is no event, and its `data` is empty.",
    body: z.strictObject({ endpoint_id: endpointId }),
    response: Attempt,
    problems: ["webhook_unknown"],
    handler: async ({ env, db, actor, body }) => {
      const endpoint = await ownEndpoint(db, actor.userId, body.endpoint_id);
      const attempt = await objectOf(env, endpoint.endpointId).sendTest(endpoint);
      if (attempt !== undefined) return attemptView(attempt);
      throw new Problem({
        code: "rate_limited",
        detail: "A test was sent a few seconds ago.",
        retryAfterSecs: 10,
      });
    },
  });
}

function registerReads(api: Api): void {
  route(api, {
    ...READ,
    method: "get",
    path: "/account/get-webhooks",
    operationId: "listWebhooks",
    summary: "List your webhooks",
    description: "Secrets are not shown again.",
    response: z.object({ webhooks: described(z.array(Webhook), "At most two, oldest first") }),
    handler: async ({ db, actor }) => ({ webhooks: await listEndpoints(db, actor) }),
  });
  route(api, {
    ...READ,
    method: "get",
    path: "/account/get-webhook-attempts",
    operationId: "listWebhookAttempts",
    summary: "List the last 100 attempts of a webhook, newest first",
    description: "Tests are among them.",
    query: z.strictObject({ endpoint_id: endpointId }),
    response: z.object({ attempts: described(z.array(Attempt), "The attempts") }),
    problems: ["webhook_unknown"],
    handler: async ({ env, db, actor, query }) => {
      const { endpointId: id } = await ownEndpoint(db, actor.userId, query.endpoint_id);
      const attempts = await objectOf(env, id).attempts();
      return { attempts: attempts.map(attemptView) };
    },
  });
}
