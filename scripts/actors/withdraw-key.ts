/** A key that withdraws, as users get one: they ask for it, and an operator approves it. */
import type { Client, NewApiKey, Scope } from "../../packages/client/src/index.ts";
import { order } from "../operator/carry-out.ts";
import type { Stack } from "../stack/start-stack.ts";

const DAY_MS = 86_400_000;

/** Resolves when the key has its scopes, because locally they have no delay. */
export async function withdrawKey(
  stack: Pick<Stack, "operator">,
  session: Client,
  {
    label = "withdrawals",
    scopes,
    totp_code,
  }: { label?: string; scopes: readonly Scope[]; totp_code?: string | undefined },
): Promise<NewApiKey> {
  const key = await session.auth.createApiKey({
    label,
    scopes: [...scopes],
    request_approval: true,
    ...(totp_code === undefined ? {} : { totp_code }),
    // The local entry reports 127.0.0.1. `soak -- verbs` reports private addresses of its own.
    allowed_ips: ["127.0.0.0/8", "10.0.0.0/8"],
    expires_at: new Date(Date.now() + 365 * DAY_MS).toISOString(),
  });
  await order(stack, "api-key approve", { id: key.api_key_id });
  return key;
}
