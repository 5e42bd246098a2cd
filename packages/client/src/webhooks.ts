/** Webhooks: methods of the client. */
import type { StepUp } from "./auth.ts";
import type { CallOptions, Transport } from "./transport.ts";

/** Where events of the account are delivered. */
export type Webhook = {
  endpoint_id: string;
  url: string;
  /** Types of the events, for example `match.created`. */
  types: string[];
  /** RFC 3339. */
  created_at: string;
  /** When the service stopped delivering. Remove the webhook and create it anew. */
  disabled_at: string | null;
  disabled_reason: "gone" | "late" | "full" | "events_gone" | "revoked" | null;
  /** Number of the first event that was not delivered. */
  disabled_seq: number | null;
};

/** One attempt to deliver a message. */
export type WebhookAttempt = {
  /** The header `webhook-id`, the same in each attempt. */
  webhook_id: string;
  /** RFC 3339. */
  at: string;
  /** Whether the receiver answered with 2xx. */
  accepted: boolean;
  /** HTTP status of the answer, null without one. */
  status: number | null;
};

type ById = { endpoint_id: string };

/**
 * Webhooks of the account. The service posts events to a URL and signs them as Standard Webhooks
 * v1, so any library of that standard verifies them.
 *
 * @example
 * ```ts
 * for (const { url, disabled_at } of await client.webhooks()) console.log(url, disabled_at);
 * ```
 */
export class Webhooks {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Creates a webhook. `secret` is shown only here. Needs a session and step-up. Throws `Problem`:
   * `webhook_limit`, `security_hold`, `login_failed`, `totp_required`, `totp_invalid`.
   *
   * @example
   * ```ts
   * const { secret } = await client.createWebhook({
   *   url: "https://hooks.example.com/rfq",
   *   types: ["match.created", "account.notice"],
   *   password: "correct horse battery",
   * });
   * ```
   */
  createWebhook(
    { url, types, password, totp_code }: StepUp & { url: string; types?: string[] },
    options: CallOptions = {},
  ): Promise<Webhook & { secret: string }> {
    return this.#transport.call({
      method: "POST",
      path: "/account/create-webhook",
      body: { url, types, password, totp_code },
      options,
    });
  }

  /**
   * Returns a new secret. The present one signs for another day, too. Needs a session and step-up.
   * Throws `Problem`: `webhook_unknown`, and those of step-up.
   *
   * @example
   * ```ts
   * for (const webhook of await client.webhooks())
   *   await client.rotateWebhookSecret({ ...webhook, password: "correct horse battery" });
   * ```
   */
  rotateWebhookSecret(
    { endpoint_id, password, totp_code }: StepUp & ById,
    options: CallOptions = {},
  ): Promise<Webhook & { secret: string }> {
    return this.#transport.call({
      method: "POST",
      path: "/account/rotate-webhook-secret",
      body: { endpoint_id, password, totp_code },
      options,
    });
  }

  /**
   * Removes a webhook, with what waits for it. Needs a fresh session. Throws `Problem`:
   * `webhook_unknown`, `password_required`.
   *
   * @example
   * ```ts
   * for (const webhook of await client.webhooks()) await client.removeWebhook(webhook);
   * ```
   */
  removeWebhook({ endpoint_id }: ById, options: CallOptions = {}): Promise<Webhook> {
    return this.#transport.call({
      method: "DELETE",
      path: "/account/webhook",
      body: { endpoint_id },
      options,
    });
  }

  /**
   * Sends a message of the type `webhook.test` and returns how the receiver answered. Needs a
   * session. Throws `Problem`: `webhook_unknown`, `rate_limited` within 10 s of the last one.
   *
   * @example
   * ```ts
   * for (const webhook of await client.webhooks())
   *   console.log((await client.testWebhook(webhook)).status);
   * ```
   */
  testWebhook({ endpoint_id }: ById, options: CallOptions = {}): Promise<WebhookAttempt> {
    return this.#transport.call({
      method: "POST",
      path: "/account/test-webhook",
      body: { endpoint_id },
      options,
    });
  }

  /**
   * Lists the webhooks, at most two. Needs the scope read.
   *
   * @example
   * ```ts
   * const [webhook] = await client.webhooks();
   * ```
   */
  async webhooks(options: CallOptions = {}): Promise<Webhook[]> {
    const path = "/account/get-webhooks";
    const { webhooks } = await this.#transport.call<{ webhooks: Webhook[] }>({
      method: "GET",
      path,
      options,
    });
    return webhooks;
  }

  /**
   * Lists the last 100 attempts, newest first. Needs the scope read. Throws `Problem`:
   * `webhook_unknown`.
   *
   * @example
   * ```ts
   * for (const webhook of await client.webhooks())
   *   console.log(await client.webhookAttempts(webhook));
   * ```
   */
  async webhookAttempts(
    { endpoint_id }: ById,
    options: CallOptions = {},
  ): Promise<WebhookAttempt[]> {
    const { attempts } = await this.#transport.call<{ attempts: WebhookAttempt[] }>({
      method: "GET",
      path: "/account/get-webhook-attempts",
      query: { endpoint_id },
      options,
    });
    return attempts;
  }
}
