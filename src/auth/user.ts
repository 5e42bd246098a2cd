/** Creates and finds users. */
import { commitOrThrow, type Group, newGroup, NOW } from "../platform/commit.ts";
import { problem } from "../platform/problem.ts";
import { expr, first, holds, readUuid, scalar, type Sql, sql, uuid } from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { type AuditActor, auditRow, recordBy } from "../audit/audit.ts";
import { FROZEN_BY, type FrozenBy, holdUntil } from "./hold.ts";

/** One spelling per mailbox: NFKC, letters of one case, and the domain in ASCII (IDNA). */
export function normalizeEmail(email: string): string {
  const text = email.trim().normalize("NFKC").toLowerCase().normalize("NFKC");
  const at = text.lastIndexOf("@");
  return at === -1 ? text : `${text.slice(0, at)}@${asciiDomain(text.slice(at + 1))}`;
}

/** Leaves a domain as it is that IDNA does not allow. */
function asciiDomain(domain: string): string {
  const name = domain.replace(/\.$/, "");
  if (!/\P{ASCII}/u.test(name) || !/^[\p{L}\p{M}\p{N}.-]+$/u.test(name)) return name;
  const url = `http://${name}`;
  return URL.canParse(url) ? new URL(url).hostname : name;
}

/** Throws `email_taken`. What `alongside` adds to the commit group must depend on `created`. */
export async function createUser(
  db: D1Database,
  user: { email: string; passwordHash: string; by: AuditActor; ip?: string | undefined },
  alongside: (userId: string, group: Group, created: Sql) => readonly Sql[] = () => [],
): Promise<{ userId: string }> {
  const userId = uuidv7();
  const email = normalizeEmail(user.email);
  const record = recordBy(user.by, "user_created", { userId, ip: user.ip });
  const group = newGroup();
  const created = sql`EXISTS (SELECT 1 FROM users WHERE user_id = ${uuid(userId)})`;
  await commitOrThrow(db, group, [
    sql`INSERT INTO users (user_id, email, password_hash, session_epoch, created_at)
      SELECT ${uuid(userId)}, ${email}, ${user.passwordHash}, 0, ${group.at}
      WHERE NOT EXISTS (SELECT 1 FROM users WHERE email = ${email})
        AND NOT EXISTS (SELECT 1 FROM email_changes WHERE email = ${email})`,
    auditRow(record, group.at, created),
    ...alongside(userId, group, created),
  ]);
  if (!(await holds(db, created)))
    throw problem("email_taken", "A user with this email address exists.");
  return { userId };
}

/** `holdUntil` is 0 if there was no security hold. */
export function findUser(db: D1Database, userId: string) {
  return first<{ email: string; frozen: FrozenBy | null; holdUntil: number }>(
    db,
    sql`SELECT u.email, ${FROZEN_BY} AS frozen, ${holdUntil(uuid(userId), NOW)} AS holdUntil
      FROM users u WHERE u.user_id = ${uuid(userId)}`,
  );
}

export async function findUserId(db: D1Database, email: string): Promise<string | undefined> {
  const user = expr`SELECT hex(user_id) FROM users WHERE email = ${normalizeEmail(email)}`;
  const id = await scalar<string | null>(db, user);
  return id === null ? undefined : readUuid(id);
}
