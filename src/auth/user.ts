/** Creates, freezes and unfreezes users and sets their passwords. */
import { eq } from "drizzle-orm";
import { commitOrThrow, type Group, newGroup } from "../platform/commit.ts";
import { problem } from "../platform/problem.ts";
import { first, type Sql, sql, uuid } from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { type AuditActor, auditRow, commitAudited } from "./audit.ts";
import { forgetCredentials } from "./credential-cache.ts";
import { users } from "./tables.ts";
import { read } from "../platform/read.ts";

/** The canonical spelling of an email address, so that a mailbox has one user. */
export function normalizeEmail(email: string): string {
  return email.trim().normalize("NFC").toLowerCase();
}

/**
 * Creates a user. Throws `email_taken`. `alongside` returns further statements of the same commit
 * group, which must depend on `created`.
 */
export async function createUser(
  db: D1Database,
  user: { email: string; passwordHash: string; by: AuditActor; ip?: string | undefined },
  alongside: (userId: string, group: Group, created: Sql) => readonly Sql[] = () => [],
): Promise<{ userId: string }> {
  const userId = uuidv7();
  const email = normalizeEmail(user.email);
  const group = newGroup();
  const created = sql`EXISTS (SELECT 1 FROM users WHERE user_id = ${uuid(userId)})`;
  await commitOrThrow(db, group, [
    sql`INSERT INTO users (user_id, email, password_hash, session_epoch, created_at)
      SELECT ${uuid(userId)}, ${email}, ${user.passwordHash}, 0, ${group.at}
      WHERE NOT EXISTS (SELECT 1 FROM users WHERE email = ${email})`,
    auditRow(
      {
        kind: "user_created",
        actor: user.by,
        userId,
        apiKeyId: null,
        ip: user.ip ?? null,
        subjectId: userId,
      },
      group.at,
      created,
    ),
    ...alongside(userId, group, created),
  ]);
  const row = await first<{ created: number }>(db, sql`SELECT ${created} AS created`);
  if (row?.created !== 1) throw problem("email_taken", "A user with this email address exists.");
  return { userId };
}

type Account = Pick<typeof users.$inferSelect, "email" | "frozenAt">;

export async function findUser(db: D1Database, userId: string): Promise<Account | undefined> {
  const [user] = await read(db, ({ select }) =>
    select({ email: users.email, frozenAt: users.frozenAt })
      .from(users)
      .where(eq(users.userId, userId)),
  );
  return user;
}

export function isFrozen(user: Account | undefined): boolean {
  return user !== undefined && user.frozenAt !== null;
}

export async function findUserId(db: D1Database, email: string): Promise<string | undefined> {
  const [user] = await read(db, ({ select }) =>
    select({ userId: users.userId })
      .from(users)
      .where(eq(users.email, normalizeEmail(email))),
  );
  return user?.userId;
}

type Alongside = (group: Group, applied: Sql) => readonly Sql[];

/**
 * Freezes a user. Returns false if the user is already frozen or does not exist. `alongside`
 * returns further statements of the same commit group, which must depend on `applied` or on
 * `frozen_at`. rfq cancels the user's open requests and quotes in this way.
 */
export function freezeUser(
  db: D1Database,
  user: { userId: string; operator: string },
  alongside: Alongside = () => [],
): Promise<boolean> {
  return commitAudited(db, {
    record: {
      kind: "account_frozen",
      actor: `operator:${user.operator}`,
      userId: user.userId,
      apiKeyId: null,
      ip: null,
      subjectId: user.userId,
    },
    when: () =>
      sql`EXISTS (
        SELECT 1 FROM users WHERE user_id = ${uuid(user.userId)} AND frozen_at IS NULL)`,
    statements: (group, applied) => [
      sql`UPDATE users SET frozen_at = ${group.at}
        WHERE user_id = ${uuid(user.userId)} AND ${applied}`,
      ...alongside(group, applied),
    ],
  });
}

export function unfreezeUser(
  db: D1Database,
  user: { userId: string; operator: string },
  alongside: Alongside = () => [],
): Promise<boolean> {
  return commitAudited(db, {
    record: {
      kind: "account_unfrozen",
      actor: `operator:${user.operator}`,
      userId: user.userId,
      apiKeyId: null,
      ip: null,
      subjectId: user.userId,
    },
    when: () =>
      sql`EXISTS (
        SELECT 1 FROM users WHERE user_id = ${uuid(user.userId)} AND frozen_at IS NOT NULL)`,
    statements: (group, applied) => [
      sql`UPDATE users SET frozen_at = NULL WHERE user_id = ${uuid(user.userId)} AND ${applied}`,
      ...alongside(group, applied),
    ],
  });
}

/**
 * Sets the password of a user, and the email address if one is given, for the operator. Ends all
 * sessions. Returns false if the user does not exist. Throws `email_taken`.
 */
export async function setPassword(
  db: D1Database,
  user: { userId: string; passwordHash: string; email?: string | undefined; operator: string },
  alongside: Alongside = () => [],
): Promise<boolean> {
  const mine = sql`user_id = ${uuid(user.userId)}`;
  const email = user.email === undefined ? null : normalizeEmail(user.email);
  const taken = sql`EXISTS (SELECT 1 FROM users WHERE email = ${email} AND NOT ${mine})`;
  const record = {
    actor: `operator:${user.operator}`,
    userId: user.userId,
    apiKeyId: null,
    ip: null,
    subjectId: user.userId,
  } as const;
  const changed = await commitAudited(db, {
    record: { kind: "password_set", ...record },
    when: () => sql`EXISTS (SELECT 1 FROM users WHERE ${mine}) AND NOT ${taken}`,
    statements: (group, applied) => [
      sql`UPDATE users SET password_hash = ${user.passwordHash}, email = coalesce(${email}, email),
          session_epoch = session_epoch + 1
        WHERE ${mine} AND ${applied}`,
      auditRow({ kind: "sessions_ended", ...record }, group.at, applied),
      ...alongside(group, applied),
    ],
  });
  forgetCredentials({ userId: user.userId, apiKeyIds: [] });
  if (
    !changed &&
    (await first<{ taken: number }>(db, sql`SELECT ${taken} AS taken`))?.taken === 1
  ) {
    throw problem("email_taken", "Another user has this email address.");
  }
  return changed;
}
