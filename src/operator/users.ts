import * as z from "zod";
import { ownerOfKey } from "../auth/api-key.ts";
import {
  createOperatorApiKey,
  isFuture,
  OPERATOR_KEY_SCOPES,
  type OperatorKeyScope,
} from "../auth/mint-key.ts";
import { revokeApiKey } from "../auth/revoke-key.ts";
import { rewrapKeys } from "../auth/rewrap-keys.ts";
import { createUser, findUser, findUserId, normalizeEmail } from "../auth/user.ts";
import { freezeUser, unfreezeUser } from "../auth/freeze-user.ts";
import { dueEmailChanges, type NewEmail, requestEmailChange } from "../auth/change-email.ts";
import { holdMsOf } from "../auth/hold.ts";
import { type Reset, type ResetResult, resetTotp, setPassword } from "../auth/reset-account.ts";
import { email, ipRanges, keyLabel, newPassword } from "../auth/schemas.ts";
import { timestamp } from "../http/fields.ts";
import { inHashTurn } from "../auth/hash-turns.ts";
import { hashPassword } from "../auth/password.ts";
import { approveApiKey, ownerOfWaitingKey } from "../auth/approve-key.ts";
import { config } from "../platform/config.ts";
import { beginAgain, DAILY_LIMITS } from "../platform/daily-limit.ts";
import { toWireTime, toWireTimeOrNull } from "../platform/time.ts";
import { type Problem, problem } from "../platform/problem.ts";
import { endingSessions, freezeAccount, narrowingRights } from "../rfq/end-with-rights.ts";
import { rightsChanged } from "../streams/close-ended.ts";
import { pushNotices } from "../streams/notice.ts";
import {
  actorOf,
  badOption,
  type OperatorContext,
  fieldOption,
  flag,
  idOption,
  oneOfOption,
  option,
  optional,
  optionalField,
} from "./context.ts";
import { OperatorRejection } from "./operator-rejection.ts";

export async function createAccount(context: OperatorContext): Promise<unknown> {
  const given = fieldOption(context, "email", email);
  const { userId } = await createUser(context.env.DB, {
    email: given,
    passwordHash: await hashGivenPassword(context),
    by: actorOf(context),
  });
  return { user_id: userId };
}

/** Operators have a lane of their own, which a flood of logins does not fill. */
function hashGivenPassword(context: OperatorContext): Promise<string> {
  const password = fieldOption(context, "password", newPassword);
  return inHashTurn({ lane: "operator", network: context.operator }, () => hashPassword(password));
}

/** For a user who lost it or was rebuilt by a restore. A freeze and the operator's keys stay. */
export async function setUserPassword(context: OperatorContext): Promise<unknown> {
  const { env, settings } = context;
  const userId = await userOf(context);
  const newEmail = optionalField(context, "new-email", email);
  const passwordHash = await hashGivenPassword(context);
  if (newEmail !== undefined)
    return changeEmail(context, { ...resetBy(context, userId), email: newEmail, passwordHash });
  const done = await resetOf(env, resetBy(context, userId), (reset) =>
    setPassword(env.DB, settings, { ...reset, passwordHash }),
  );
  return done ?? Promise.reject(unknownUser("user-id", userId));
}

/** Address and password change after the delay. Until then nothing of the account does. */
async function changeEmail(context: OperatorContext, request: NewEmail): Promise<unknown> {
  const { env, settings } = context;
  const { userId } = request;
  const activeFrom = await requestEmailChange(env.DB, settings, request);
  await pushNotices(env, userId);
  if (holdMsOf(settings) === 0) await applyEmailChanges(env);
  const user = await findUser(env.DB, userId);
  return {
    user_id: userId,
    email: user?.email ?? null,
    frozen: user !== undefined && user.frozen !== null,
    new_email: normalizeEmail(request.email),
    active_from: toWireTime(activeFrom),
  };
}

/** Cron task: applies changes of addresses whose instant has passed and that nobody cancelled. */
export async function applyEmailChanges(env: Env): Promise<void> {
  const settings = config(env);
  for (const change of await dueEmailChanges(env.DB, settings))
    await resetOf(env, change, (reset) =>
      setPassword(env.DB, settings, { ...reset, passwordHash: change.passwordHash, change }),
    );
}

/** Turns TOTP off for a user who lost the authenticator and the recovery codes. */
export async function resetUserTotp(context: OperatorContext): Promise<unknown> {
  const { env, settings } = context;
  const userId = await userOf(context);
  const done = await resetOf(env, resetBy(context, userId), (reset) =>
    resetTotp(env.DB, settings, reset),
  );
  return done ?? Promise.reject(unknownUser("user-id", userId));
}

function resetBy(context: OperatorContext, userId: string): Reset {
  return { userId, operator: context.operator, keepKeys: flag(context, "keep-keys") };
}

/** Undefined if the reset did not apply. */
async function resetOf(
  env: Env,
  { userId, operator, keepKeys }: Reset,
  apply: (reset: Reset) => Promise<ResetResult>,
): Promise<unknown> {
  const result = await endingSessions(env, userId, (alongside) =>
    apply({ userId, operator, keepKeys, alongside }),
  );
  if (result === undefined) return undefined;
  await rightsChanged(env, userId, "ended");
  const user = await findUser(env.DB, userId);
  return {
    user_id: userId,
    email: user?.email ?? null,
    frozen: user !== undefined && user.frozen !== null,
    sessions_ended: true,
    revoked_keys: result.revokedKeys,
    hold_until: toWireTimeOrNull(user?.holdUntil ?? null),
  };
}

export async function freeze(context: OperatorContext): Promise<unknown> {
  const userId = await userOf(context);
  const { env, operator } = context;
  const changed = await freezeAccount(env, userId, (alongside) =>
    freezeUser(env.DB, { userId, operator }, alongside),
  );
  return { user_id: userId, frozen: true, changed };
}

export async function unfreeze(context: OperatorContext): Promise<unknown> {
  const userId = await userOf(context);
  const { env, operator } = context;
  const changed = await unfreezeUser(env.DB, { userId, operator });
  await pushNotices(env, userId);
  return { user_id: userId, frozen: false, changed };
}

/** For a user whose bot has used up a day's tickets, for example. The order is the only record. */
export async function beginDayAgain(context: OperatorContext): Promise<unknown> {
  const userId = await userOf(context);
  option(context, "limit");
  const limit = oneOfOption(context, "limit", DAILY_LIMITS) ?? "";
  return { user_id: userId, limit, used: await beginAgain(context.env.DB, userId, limit) };
}

/**
 * Creates an API key that reads and trades. The user is notified and can revoke it before it has
 * its scopes. A key that withdraws is asked for by its user, so that the operator never has its
 * secret (`approveKey`).
 */
export async function createKey(context: OperatorContext): Promise<unknown> {
  const userId = await userOf(context);
  const key = await createOperatorApiKey(context.env.DB, context.settings, {
    userId,
    operator: context.operator,
    key: {
      label: optionalField(context, "label", keyLabel) ?? "operator",
      scopes: scopesOf(option(context, "scopes")),
      expiresAt: await expiryOf(context),
      allowedIps: optionalField(context, "allowed-ips", ipList) ?? null,
      limits: null,
      requireIdempotency: false,
    },
  });
  await pushNotices(context.env, userId);
  return key;
}

export async function revokeKey(context: OperatorContext): Promise<unknown> {
  const apiKeyId = idOption(context, "id");
  const { env, operator } = context;
  const userId = await ownerOfKey(env.DB, apiKeyId);
  if (userId === undefined) throw problem("api_key_unknown_id", `There is no API key ${apiKeyId}.`);
  const changed = await narrowingRights(env, userId, (alongside) =>
    revokeApiKey(env.DB, { apiKeyId, operator }, alongside),
  );
  await rightsChanged(env, userId, "ended");
  return { api_key_id: apiKeyId, revoked: true, changed };
}

/** Approves a withdraw key that its user has asked for. It gets its scopes after the delay. */
export async function approveKey(context: OperatorContext): Promise<unknown> {
  const apiKeyId = idOption(context, "id");
  const { env, settings, operator } = context;
  const userId = await ownerOfWaitingKey(env.DB, apiKeyId);
  const activeFrom = await approveApiKey(env.DB, settings, { apiKeyId, operator });
  if (userId === undefined || activeFrom === undefined) throw notWaiting(apiKeyId);
  await pushNotices(env, userId);
  return { api_key_id: apiKeyId, active_from: toWireTime(activeFrom) };
}

/** Revokes a key that waits for approval. */
export async function rejectKey(context: OperatorContext): Promise<unknown> {
  const apiKeyId = idOption(context, "id");
  if ((await ownerOfWaitingKey(context.env.DB, apiKeyId)) === undefined) throw notWaiting(apiKeyId);
  return revokeKey(context);
}

function notWaiting(apiKeyId: string): Problem {
  return problem("api_key_unknown_id", `No API key ${apiKeyId} waits for approval.`);
}

export function rewrap(context: OperatorContext): Promise<unknown> {
  return rewrapKeys(context.env.DB, context.settings, context.operator);
}

/** The id of the user in `--email` or `--user-id`. */
export async function userOf(context: OperatorContext): Promise<string> {
  const address = optional(context, "email");
  if (context.options["user-id"] === undefined) {
    if (address === undefined) throw badOption("email", "is required without --user-id");
    const userId = await findUserId(context.env.DB, address);
    if (userId === undefined) throw unknownUser("email", address);
    return userId;
  }
  if (address !== undefined) throw badOption("user-id", "must not be combined with --email");
  const userId = idOption(context, "user-id");
  if ((await findUser(context.env.DB, userId)) === undefined) throw unknownUser("user-id", userId);
  return userId;
}

function unknownUser(by: "email" | "user-id", given: string): OperatorRejection {
  return new OperatorRejection(
    "user_unknown",
    by === "email"
      ? `--email: no user has the email address ${given}`
      : `--user-id: there is no user ${given}`,
  );
}

/** When the key of `--expires-at` ends. Null: never. Undefined: after the default life. */
async function expiryOf(context: OperatorContext): Promise<number | null | undefined> {
  if (context.options["expires-at"] === "never") return null;
  const at = optionalField(context, "expires-at", timestamp);
  if (at !== undefined && !(await isFuture(context.env.DB, at)))
    throw badOption("expires-at", "must be in the future");
  return at;
}

/** Addresses with commas between. */
const ipList = z.preprocess(
  (list) =>
    String(list)
      .split(",")
      .map((range) => range.trim()),
  ipRanges,
);

function scopesOf(list: string): OperatorKeyScope[] {
  const words = list.split(",").map((word) => word.trim());
  if (words.includes("withdraw"))
    throw badOption(
      "scopes",
      "must not contain withdraw. The user asks for such a key with request_approval " +
        "(POST /auth/api-keys), and `api-key approve` takes its id",
    );
  const scopes = OPERATOR_KEY_SCOPES.filter((scope) => words.includes(scope));
  if (scopes.length < words.length)
    throw badOption(
      "scopes",
      `must be a comma-separated list of ${OPERATOR_KEY_SCOPES.join(", ")}`,
    );
  return scopes;
}
