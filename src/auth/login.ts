/** Email and password for a session token. */
import type { Config } from "../platform/config.ts";
import type { Scope } from "../platform/actor.ts";
import { commitOrThrow, newGroup } from "../platform/commit.ts";
import { problem } from "../platform/problem.ts";
import { all, first, readUuid, type Sql, sql, uuid } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import { uuidv7Sql } from "../platform/uuid.ts";
import { commitAudited } from "./audit.ts";
import { attemptSucceeded, beginAttempt } from "./login-throttle.ts";
import { hashPassword, verifyPassword } from "./password.ts";
import { issueSession } from "./session.ts";
import { createUser, normalizeEmail } from "./user.ts";

export type SessionAnswer = {
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
type UserRow = { id: string; password_hash: string; epoch: number; frozen_at: number | null };

/** One audit row a minute for each user and address says that logins failed; the attempts themselves are counted. */
const FAILURE_AUDIT_MS = 60_000;

export async function login(
  db: D1Database,
  settings: Config,
  credentials: Credentials,
): Promise<SessionAnswer> {
  const email = normalizeEmail(credentials.email);
  const attempt = await beginAttempt(db, email, credentials.ip);
  const user = await first<UserRow>(
    db,
    sql`SELECT hex(user_id) AS id, password_hash, session_epoch AS epoch, frozen_at FROM users WHERE email = ${email}`,
  );
  const verdict = await verifyPassword(credentials.password, user?.password_hash);
  if (user === undefined || !verdict.matches) {
    await recordFailure(db, email, credentials.ip);
    throw problem("login_failed", "No user has this email and password.");
  }
  const userId = readUuid(user.id);
  const upgraded = verdict.outdated ? await hashPassword(credentials.password) : undefined;
  const live = sql`EXISTS (SELECT 1 FROM users WHERE user_id = ${uuid(userId)} AND frozen_at IS NULL
    AND password_hash = ${user.password_hash} AND session_epoch = ${user.epoch})`;
  const loggedIn = await commitAudited(db, {
    record: {
      kind: "login",
      actor: "password",
      userId,
      apiKeyId: null,
      ip: credentials.ip ?? null,
      subjectId: userId,
    },
    when: () => live,
    then: (_group, applied) => [
      attemptSucceeded(attempt),
      ...upgradeHash(userId, upgraded, applied),
    ],
  });
  if (!loggedIn) {
    if (await isFrozen(db, userId))
      throw problem("account_frozen", "The account is frozen. Ask support.");
    throw problem("login_failed", "The account changed while you logged in. Try again.");
  }
  return sessionAnswer(settings, { userId, epoch: user.epoch });
}

export async function register(
  db: D1Database,
  settings: Config,
  credentials: Credentials,
): Promise<SessionAnswer> {
  if (settings.AUTH_REGISTRATION !== "open")
    throw problem("registration_closed", "Accounts are made by the operator.");
  const attempt = await beginAttempt(db, normalizeEmail(credentials.email), credentials.ip);
  const { userId } = await createUser(db, {
    email: credentials.email,
    password: credentials.password,
    by: "password",
    ip: credentials.ip,
  });
  await all(db, attemptSucceeded(attempt));
  return sessionAnswer(settings, { userId, epoch: 0 });
}

async function sessionAnswer(
  settings: Config,
  user: { userId: string; epoch: number },
): Promise<SessionAnswer> {
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

/** The same statements whether the email is known or not, so that the time taken tells nothing. */
async function recordFailure(db: D1Database, email: string, ip: string | undefined): Promise<void> {
  const group = newGroup();
  const known = sql`INSERT INTO audit_events (audit_event_id, kind, actor, user_id, ip, subject_id, at)
    SELECT ${uuidv7Sql(group.at)}, 'login_failed', 'unknown', u.user_id, ${ip ?? null}, NULL, ${group.at} FROM users u
    WHERE u.email = ${email} AND NOT EXISTS (SELECT 1 FROM audit_events e WHERE e.user_id = u.user_id AND e.kind = 'login_failed'
      AND e.ip IS ${ip ?? null} AND e.at > ${group.at} - ${FAILURE_AUDIT_MS})`;
  await commitOrThrow(db, group, [known]);
}

function upgradeHash(userId: string, hash: string | undefined, applied: Sql): Sql[] {
  return hash === undefined
    ? []
    : [
        sql`UPDATE users SET password_hash = ${hash} WHERE user_id = ${uuid(userId)} AND ${applied}`,
      ];
}

async function isFrozen(db: D1Database, userId: string): Promise<boolean> {
  return (
    (await first(
      db,
      sql`SELECT 1 FROM users WHERE user_id = ${uuid(userId)} AND frozen_at IS NOT NULL`,
    )) !== undefined
  );
}
