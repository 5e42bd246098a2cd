import { createOperatorApiKey, revokeApiKey } from "../auth/api-key.ts";
import { rewrapKeys } from "../auth/rewrap-keys.ts";
import { createUser, findUserId, freezeUser, setPassword, unfreezeUser } from "../auth/user.ts";
import { openedStreams } from "../auth/ws-ticket.ts";
import { forgetCredentials } from "../auth/credential-cache.ts";
import { email, newPassword } from "../auth/fields.ts";
import type { Group } from "../platform/commit.ts";
import { problem } from "../platform/problem.ts";
import { all, first, readUuid, sql, uuid } from "../platform/sql.ts";
import { closeAllOf } from "../rfq/close-books.ts";
import { eventsToPush, type LoggedEvent } from "../streams/event-log.ts";
import { closeSockets, pushHints } from "../streams/notify.ts";
import { noticeTo, tellUser } from "../streams/notice.ts";
import { badOption, type Desk, fieldOption, idOption, option, optional } from "./context.ts";
import { Refusal } from "./refusal.ts";
import { SCOPES, type Scope } from "../platform/actor.ts";

export async function createAccount(desk: Desk): Promise<unknown> {
  const { userId } = await createUser(desk.env.DB, {
    email: fieldOption(desk, "email", email),
    password: fieldOption(desk, "password", newPassword),
    by: `operator:${desk.operator}`,
  });
  return { user_id: userId };
}

/** For someone who lost theirs, or whose account a restore wrote again without one. API keys and a freeze stay. */
export async function givePassword(desk: Desk): Promise<unknown> {
  const userId = await userOf(desk);
  const password = fieldOption(desk, "password", newPassword);
  const newEmail =
    desk.options["new-email"] === undefined ? undefined : fieldOption(desk, "new-email", email);
  let setIn: Group | undefined;
  const changed = await setPassword(
    desk.env.DB,
    { userId, password, email: newEmail, operator: desk.operator },
    (group, applied) => {
      setIn = group;
      return noticeTo(group, { userId, kind: "password_set", subjectId: null, when: applied });
    },
  );
  if (!changed) throw unknownUser("user-id", userId);
  if (setIn !== undefined) await tellReaders(desk, setIn);
  await closeSockets(desk.env, await openedStreams(desk.env.DB, userId, { kind: "sessions" }), {
    sessionsOf: userId,
  });
  const row = await first<{ email: string; frozen: number }>(
    desk.env.DB,
    sql`SELECT email, frozen_at IS NOT NULL AS frozen FROM users WHERE user_id = ${uuid(userId)}`,
  );
  return {
    user_id: userId,
    email: row?.email ?? null,
    frozen: row?.frozen === 1,
    sessions_ended: true,
  };
}

/** Freezes, and in the same commit cancels the user's open requests and quotes. */
export async function freeze(desk: Desk): Promise<unknown> {
  const userId = await userOf(desk);
  let frozenIn: Group | undefined;
  const changed = await freezeUser(
    desk.env.DB,
    { userId, operator: desk.operator },
    (group, applied) => {
      frozenIn = group;
      return [
        ...closeAllOf(group, userId, applied),
        ...noticeTo(group, { userId, kind: "account_frozen", subjectId: null, when: applied }),
      ];
    },
  );
  forgetCredentials({ userId, apiKeyIds: [] });
  if (frozenIn !== undefined) await tellReaders(desk, frozenIn);
  await closeSockets(desk.env, await openedStreams(desk.env.DB, userId, { kind: "all" }), {
    userId,
  });
  return { user_id: userId, frozen: true, changed };
}

export async function unfreeze(desk: Desk): Promise<unknown> {
  const userId = await userOf(desk);
  let thawedIn: Group | undefined;
  const changed = await unfreezeUser(
    desk.env.DB,
    { userId, operator: desk.operator },
    (group, applied) => {
      thawedIn = group;
      return noticeTo(group, { userId, kind: "account_unfrozen", subjectId: null, when: applied });
    },
  );
  if (thawedIn !== undefined) await tellReaders(desk, thawedIn);
  return { user_id: userId, frozen: false, changed };
}

/** The only way to a key with the scope withdraw. The user sees it, is told of it, and can revoke it before it works. */
export async function createKey(desk: Desk): Promise<unknown> {
  const userId = await userOf(desk);
  let madeIn: Group | undefined;
  const key = await createOperatorApiKey(desk.env.DB, desk.settings, {
    userId,
    operator: desk.operator,
    key: {
      label: optional(desk, "label") ?? "operator",
      scopes: scopesOf(option(desk, "scopes")),
      expiresAt: null,
      allowedIps: null,
    },
    alongside: (group, applied, apiKeyId) => {
      madeIn = group;
      return noticeTo(group, {
        userId,
        kind: "api_key_created",
        subjectId: apiKeyId,
        when: applied,
      });
    },
  });
  if (madeIn !== undefined) await tellReaders(desk, madeIn);
  return key;
}

export async function revokeKey(desk: Desk): Promise<unknown> {
  const apiKeyId = idOption(desk, "id");
  const changed = await revokeApiKey(desk.env.DB, { apiKeyId, operator: desk.operator });
  const owner = await first<{ id: string }>(
    desk.env.DB,
    sql`SELECT hex(user_id) AS id FROM api_keys WHERE api_key_id = ${uuid(apiKeyId)}`,
  );
  if (owner === undefined) throw problem("api_key_unknown_id", `There is no API key ${apiKeyId}.`);
  const userId = readUuid(owner.id);
  await closeSockets(
    desk.env,
    await openedStreams(desk.env.DB, userId, { kind: "api_key", apiKeyId }),
    { apiKeyId },
  );
  if (changed) await tellUser(desk.env, { userId, kind: "api_key_revoked", subjectId: apiKeyId });
  return { api_key_id: apiKeyId, revoked: true, changed };
}

export function rewrap(desk: Desk): Promise<unknown> {
  return rewrapKeys(desk.env.DB, desk.settings, desk.operator);
}

async function tellReaders(desk: Desk, group: Group): Promise<void> {
  await pushHints(desk.env, await all<LoggedEvent>(desk.env.DB, eventsToPush(group)));
}

/** By `--email` or by `--user-id`. */
async function userOf(desk: Desk): Promise<string> {
  const named = optional(desk, "email");
  if (desk.options["user-id"] === undefined) {
    if (named === undefined) throw badOption("email", "or --user-id is required");
    const userId = await findUserId(desk.env.DB, named);
    if (userId === undefined) throw unknownUser("email", named);
    return userId;
  }
  if (named !== undefined) throw badOption("user-id", "says who it is; leave --email out");
  const userId = idOption(desk, "user-id");
  if (
    (await first(desk.env.DB, sql`SELECT 1 FROM users WHERE user_id = ${uuid(userId)}`)) ===
    undefined
  ) {
    throw unknownUser("user-id", userId);
  }
  return userId;
}

function unknownUser(by: "email" | "user-id", given: string): Refusal {
  return new Refusal(
    "user_unknown",
    by === "email"
      ? `--email: no user has this email: ${given}`
      : `--user-id: there is no user ${given}`,
  );
}

function scopesOf(list: string): Scope[] {
  const named = list.split(",").map((word) => word.trim());
  const scopes = SCOPES.filter((scope) => named.includes(scope));
  if (named.some((word) => !SCOPES.some((scope) => scope === word)))
    throw badOption("scopes", `must be of ${SCOPES.join(", ")}`);
  return scopes;
}
