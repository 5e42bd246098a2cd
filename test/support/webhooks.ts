/** Webhooks of a test's own, and their objects. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import type { Webhook } from "../../src/feeds/webhooks/webhook.ts";
import { apiOf } from "./http.ts";
import { newReceiver } from "./receiver.ts";
import { PASSWORD, type TestUser } from "./users.ts";

export async function newWebhook(
  user: TestUser,
  types?: readonly string[],
): Promise<{ id: string; secret: string; receiver: ReturnType<typeof newReceiver> }> {
  const receiver = newReceiver();
  const { status, json } = await apiOf(user).post("/account/create-webhook", {
    url: receiver.url,
    ...(types && { types }),
    password: PASSWORD,
  });
  expect(status).toBe(201);
  return { id: json["endpoint_id"], secret: json["secret"], receiver };
}

export const objectOf = (id: string) => env.WEBHOOK.getByName(id);

/** The next pass tries again at once, although the last one failed. */
export async function passNow(id: string): Promise<void> {
  await runInDurableObject(objectOf(id), async (object: Webhook, { storage }) => {
    storage.kv.put("retry_at", 0);
    await object.alarm();
  });
}
