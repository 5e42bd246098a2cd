/** The Durable Object of an endpoint. Its name is the endpoint's id. */
import { DurableObject } from "cloudflare:workers";
import { Deliveries } from "./deliveries.ts";
import type { WebhookEndpoint } from "./endpoints.ts";
import type { AttemptRow } from "./waiting-events.ts";

export class Webhook extends DurableObject<Env> {
  readonly #deliveries = new Deliveries(this.ctx.storage, this.env);

  prepare(endpointId: string): Promise<void> {
    return this.#deliveries.prepare(endpointId);
  }

  wake(endpointId: string): Promise<void> {
    return this.#deliveries.wake(endpointId);
  }

  async attempts(): Promise<AttemptRow[]> {
    return this.#deliveries.attempts();
  }

  sendTest(endpoint: WebhookEndpoint): Promise<AttemptRow | undefined> {
    return this.#deliveries.sendTest(endpoint);
  }

  sendRemoved(endpoint: WebhookEndpoint): Promise<void> {
    return this.#deliveries.sendRemoved(endpoint);
  }

  override alarm(): Promise<void> {
    return this.#deliveries.alarm();
  }
}
