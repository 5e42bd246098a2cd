/** Credentials that must not act, by what is wrong with them. */
import { env } from "cloudflare:workers";
import type { Actor } from "../../src/platform/actor.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { newKey, newUser } from "./users.ts";

const db = env.DB;

type Party = { readonly userId: string; readonly actor: Actor };

/** What can be wrong with a credential, and the code that says so. */
export const INVALID: Readonly<Record<string, (party: Party) => Promise<[Actor, string]>>> = {
  "a frozen user's session": async ({ userId, actor }) => {
    await all(db, sql`UPDATE users SET frozen_at = 1 WHERE user_id = ${uuid(userId)}`);
    return [actor, "account_frozen"];
  },
  "a frozen user's key": async ({ userId }) => {
    const { actor } = await newKey({ userId });
    await all(db, sql`UPDATE users SET frozen_at = 1 WHERE user_id = ${uuid(userId)}`);
    return [actor, "account_frozen"];
  },
  "an ended session": async ({ userId, actor }) => {
    await all(db, sql`UPDATE users SET session_epoch = 7 WHERE user_id = ${uuid(userId)}`);
    return [actor, "session_invalid"];
  },
  "an expired session": async ({ actor }) => [
    { ...actor, credential: { kind: "session", epoch: 0, issuedAtMs: Date.now(), expiresAtMs: 1 } },
    "session_expired",
  ],
  "a revoked key": async ({ userId }) => {
    // Another key of the user stands for nothing.
    await newKey({ userId });
    const { actor, apiKeyId } = await newKey({ userId });
    await all(db, sql`UPDATE api_keys SET revoked_at = 1 WHERE api_key_id = ${uuid(apiKeyId)}`);
    return [actor, "api_key_revoked"];
  },
  "an expired key": async ({ userId }) => {
    const { actor, apiKeyId } = await newKey({ userId });
    await all(db, sql`UPDATE api_keys SET expires_at = 1 WHERE api_key_id = ${uuid(apiKeyId)}`);
    return [actor, "api_key_expired"];
  },
  "a key that is not active yet": async ({ userId }) => {
    const { actor } = await newKey({ userId }, ["read", "trade", "withdraw"], {
      delaySecs: 3_600,
    });
    return [actor, "scope_missing"];
  },
  "another user's key": async ({ userId }) => {
    const { apiKeyId } = await newKey(await newUser());
    return [
      { userId, scopes: ["read", "trade"], credential: { kind: "api_key", apiKeyId } },
      "api_key_unknown",
    ];
  },
};

/** Those of them that are sessions. */
export const INVALID_SESSIONS = Object.entries(INVALID).filter(([name]) =>
  name.endsWith("session"),
);
