/** Issues session tokens for an email address and a password. */
import type * as z from "zod";
import type { Config } from "../platform/config.ts";
import { NOW } from "../platform/commit.ts";
import { Problem, problem } from "../platform/problem.ts";
import { first, sql, uuid } from "../platform/sql.ts";
import { dailyLimitReached } from "../platform/daily-limit.ts";
import { blockOf, networkOf } from "../http/ip-range.ts";
import { toWireTime } from "../platform/time.ts";
import { auditRow, commitAudited, recordBy } from "../audit/audit.ts";
import { checkPassword } from "./check-password.ts";
import { totpUnchanged } from "./totp-secret.ts";
import { accountFrozen } from "./hold.ts";
import { inHashTurn } from "./hash-turns.ts";
import {
  admitLogin,
  attemptSucceeded,
  beginAttempt,
  isNewNetwork,
  rememberNetwork,
} from "./login-throttle.ts";
import { hashPassword } from "./password.ts";
import { checkSecondFactor, type GivenCodes } from "./second-factor.ts";
import { HELD_SCOPES } from "./scope.ts";
import type { SessionToken } from "./schemas.ts";
import { issueSession } from "./session.ts";
import { requireStorage } from "../platform/storage.ts";
import { createUser, findUser, normalizeEmail } from "./user.ts";

export type SessionResponse = z.input<typeof SessionToken>;

type Credentials = GivenCodes & {
  readonly email: string;
  readonly password: string;
  readonly ip: string | undefined;
};

export async function login(
  db: D1Database,
  settings: Config,
  credentials: Credentials,
): Promise<SessionResponse> {
  const caller = { email: normalizeEmail(credentials.email), clientIp: credentials.ip };
  const verified = await checkPassword(db, settings, caller, { password: credentials.password });
  const { attempt, userId, epoch, frozen, totp, passwordHash } = verified;
  // Before the code, so that a frozen user does not lose a recovery code.
  if (frozen !== null) throw new Problem(accountFrozen(frozen));
  const checkedTotp = await checkSecondFactor(db, settings, {
    userId,
    clientIp: credentials.ip,
    codes: credentials,
    totp,
    actor: "password",
  });
  const unchanged = sql`EXISTS (SELECT 1 FROM users
    WHERE user_id = ${uuid(userId)} AND frozen_at IS NULL
      AND password_hash = ${passwordHash} AND session_epoch = ${epoch})`;
  const from = { userId, clientIp: credentials.ip };
  const fromNewNetwork = recordBy("password", "login_new_network", { userId, ip: credentials.ip });
  const loggedIn = await commitAudited(db, {
    record: recordBy("password", "login", { userId, ip: credentials.ip }),
    when: ({ at }) => sql`${unchanged} AND ${totpUnchanged({ userId, checkedTotp }, at)}`,
    statements: (group, applied) => [
      attemptSucceeded(attempt, applied),
      auditRow(fromNewNetwork, group.at, sql`${applied} AND ${isNewNetwork(from)}`),
      ...rememberNetwork(from, group, applied),
    ],
  });
  if (!loggedIn) {
    const user = await findUser(db, userId);
    if (user?.frozen) throw new Problem(accountFrozen(user.frozen));
    throw problem("login_failed", "The account changed during the login. Try again.");
  }
  return sessionResponse(settings, verified);
}

export async function register(
  db: D1Database,
  settings: Config,
  credentials: Credentials,
): Promise<SessionResponse> {
  if (settings.AUTH_REGISTRATION !== "open")
    throw problem("registration_closed", "Registration is closed. The operator creates accounts.");
  await requireStorage(db);
  const caller = { email: normalizeEmail(credentials.email), clientIp: credentials.ip };
  const place = await admitLogin(db, settings, caller);
  const { userId } = await inHashTurn(place, async () => {
    await checkRegistrations(db, settings, credentials.ip);
    const { attempt } = await beginAttempt(db, settings, caller);
    const passwordHash = await hashPassword(credentials.password);
    return createUser(
      db,
      { email: credentials.email, passwordHash, by: "password", ip: credentials.ip },
      (id, group, created) => [
        attemptSucceeded(attempt, created),
        ...rememberNetwork({ userId: id, clientIp: credentials.ip }, group, created),
      ],
    );
  });
  return sessionResponse(settings, { userId, epoch: 0, holdUntil: 0, sessionsTrade: true });
}

/** A new session of the user as it is returned. */
export async function sessionResponse(
  settings: Config,
  user: { userId: string; epoch: number; holdUntil: number; sessionsTrade: boolean },
): Promise<SessionResponse> {
  const session = await issueSession(settings, user);
  return {
    access_token: session.accessToken,
    token_type: "Bearer",
    expires_in: session.expiresInSecs,
    expires_at: toWireTime(session.expiresAtMs),
    user_id: user.userId,
    scopes: [
      ...(user.holdUntil > Date.now() || !user.sessionsTrade
        ? HELD_SCOPES
        : settings.AUTH_SESSION_SCOPES),
    ],
  };
}

const DAY_MS = 86_400_000;

/** Throws `daily_limit` of a network. A turn is held, so an isolate registers one at a time. */
export async function checkRegistrations(
  db: D1Database,
  { AUTH_DAILY_REGISTRATIONS: maximum }: Pick<Config, "AUTH_DAILY_REGISTRATIONS">,
  clientIp: string | undefined,
): Promise<void> {
  const network = blockOf(clientIp) ?? networkOf(clientIp);
  // The text of a network in the block begins with that of the block. `g` sorts after all digits.
  const registered = await first<{ count: number; oldest: number; now: number }>(
    db,
    sql`SELECT count(*) AS count, min(u.created_at) AS oldest, ${NOW} AS now
      FROM login_networks n JOIN users u ON u.user_id = n.user_id
      WHERE n.network >= ${network} AND n.network < ${`${network}g`}
        AND n.at > ${NOW} - ${DAY_MS} AND u.created_at > ${NOW} - ${DAY_MS}`,
  );
  if (registered === undefined || registered.count < maximum) return;
  throw new Problem(
    dailyLimitReached({
      limit: "registrations_per_network_per_day",
      maximum,
      detail: `You have reached the limit of ${maximum} registrations from one network in 24 hours.`,
      resetSecs: Math.ceil((registered.oldest + DAY_MS - registered.now) / 1_000),
    }),
  );
}
