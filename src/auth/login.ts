/** Issues session tokens for an email address and a password. */
import type { Config } from "../platform/config.ts";
import type { Scope } from "../platform/actor.ts";
import { commitOrThrow, newGroup } from "../platform/commit.ts";
import { Problem, problem } from "../platform/problem.ts";
import { readUuid, type Sql, sql, uuid } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import { uuidv7Sql } from "../platform/uuid.ts";
import { commitAudited } from "./audit.ts";
import { inHashTurn } from "./hash-turns.ts";
import {
  admitLogin,
  attemptSucceeded,
  beginAttempt,
  countFailures,
  rememberNetwork,
  remainingAttempts,
} from "./login-throttle.ts";
import { hashPassword, verifyPassword } from "./password.ts";
import { checkRegistrations } from "./registration-limit.ts";
import { issueSession } from "./session.ts";
import { requireStorage } from "../platform/storage.ts";
import { createUser, findUser, isFrozen, normalizeEmail } from "./user.ts";

export type SessionResponse = {
  access_token: string;
  token_type: "Bearer";
  expires_in: number;
  expires_at: string;
  user_id: string;
  scopes: Scope[];
};

type Credentials = {
  readonly email: string;
  readonly password: string;
  readonly ip: string | undefined;
};

/**
 * At most one audit row in this time per user and IP address. login_attempts counts every attempt.
 */
const FAILURE_AUDIT_MS = 60_000;

export async function login(
  db: D1Database,
  settings: Config,
  credentials: Credentials,
): Promise<SessionResponse> {
  const caller = { email: normalizeEmail(credentials.email), clientIp: credentials.ip };
  const place = await admitLogin(db, caller);
  const { attempt, user, check, upgraded } = await inHashTurn(place, async () => {
    const { attempt: counted, user: found } = await beginAttempt(db, caller);
    const checked = await verifyPassword(credentials.password, found?.password_hash);
    const better = checked.matches && checked.outdated;
    return {
      attempt: counted,
      user: found,
      check: checked,
      upgraded: better ? await hashPassword(credentials.password) : undefined,
    };
  });
  if (user === undefined || !check.matches) {
    const headers = await recordFailure(db, caller);
    const detail = "The email address or the password is wrong.";
    throw new Problem({ code: "login_failed", detail, headers });
  }
  const userId = readUuid(user.user_id);
  const unchanged = sql`EXISTS (SELECT 1 FROM users
    WHERE user_id = ${uuid(userId)} AND frozen_at IS NULL
      AND password_hash = ${user.password_hash} AND session_epoch = ${user.session_epoch})`;
  const loggedIn = await commitAudited(db, {
    record: {
      kind: "login",
      actor: "password",
      userId,
      apiKeyId: null,
      ip: credentials.ip ?? null,
      subjectId: userId,
    },
    when: () => unchanged,
    statements: (group, applied) => [
      attemptSucceeded(attempt, applied),
      ...rememberNetwork({ userId, clientIp: credentials.ip }, group, applied),
      ...upgradeHash(userId, upgraded, applied),
    ],
  });
  if (!loggedIn) {
    if (isFrozen(await findUser(db, userId)))
      throw problem("account_frozen", "The account is frozen. Contact the operator.");
    throw problem("login_failed", "The account changed during the login. Try again.");
  }
  return sessionResponse(settings, { userId, epoch: user.session_epoch });
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
  const place = await admitLogin(db, caller);
  const { userId } = await inHashTurn(place, async () => {
    await checkRegistrations(db, settings, credentials.ip);
    const { attempt } = await beginAttempt(db, caller);
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
  return sessionResponse(settings, { userId, epoch: 0 });
}

async function sessionResponse(
  settings: Config,
  user: { userId: string; epoch: number },
): Promise<SessionResponse> {
  const session = await issueSession(settings, user);
  return {
    access_token: session.accessToken,
    token_type: "Bearer",
    expires_in: session.expiresInSecs,
    expires_at: toWireTime(session.expiresAtMs),
    user_id: user.userId,
    scopes: [...settings.AUTH_SESSION_SCOPES],
  };
}

/**
 * Runs the same statements for unknown users, so that timing does not reveal which users exist.
 * Returns the headers of the response.
 */
async function recordFailure(
  db: D1Database,
  caller: { email: string; clientIp: string | undefined },
): Promise<Record<string, string>> {
  const group = newGroup();
  const address = caller.clientIp ?? null;
  const recorded = sql`SELECT 1 FROM audit_events e
    WHERE e.user_id = u.user_id AND e.kind = 'login_failed' AND e.ip IS ${address}
      AND e.at > ${group.at} - ${FAILURE_AUDIT_MS}`;
  const failure = sql`INSERT INTO audit_events
      (audit_event_id, kind, actor, user_id, ip, subject_id, at)
    SELECT ${uuidv7Sql(group.at)}, 'login_failed', 'unknown', u.user_id, ${address}, NULL,
      ${group.at}
    FROM users u WHERE u.email = ${caller.email} AND NOT EXISTS (${recorded})`;
  const rows = await commitOrThrow(db, group, [failure, countFailures(caller)]);
  return remainingAttempts(rows?.[1]?.[0]);
}

function upgradeHash(userId: string, hash: string | undefined, applied: Sql): Sql[] {
  return hash === undefined
    ? []
    : [
        sql`UPDATE users SET password_hash = ${hash}
          WHERE user_id = ${uuid(userId)} AND ${applied}`,
      ];
}
