/** Closes the sockets of credentials that have ended. */
import type { Api, EndedCredentials } from "../http/route-definition.ts";
import { openedStreams } from "./ws-ticket.ts";

export async function closeSocketsOf(
  api: Api,
  env: Cloudflare.Env,
  ended: Omit<EndedCredentials, "streams">,
): Promise<void> {
  const streams = await openedStreams(env.DB, ended.userId, ended.which);
  if (streams.length > 0) await api.credentialsEnded(env, { ...ended, streams });
}

/** Closes the sockets of all sessions of the user and of these keys. */
export async function closeSessionsAndKeys(
  api: Api,
  env: Cloudflare.Env,
  { userId, apiKeyIds }: { userId: string; apiKeyIds: readonly string[] },
): Promise<void> {
  const ended: EndedCredentials["which"][] = [
    { kind: "sessions" },
    ...apiKeyIds.map((apiKeyId) => ({ kind: "api_key", apiKeyId }) as const),
  ];
  await Promise.all(ended.map((which) => closeSocketsOf(api, env, { userId, which })));
}
