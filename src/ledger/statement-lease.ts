/**
 * Lets a user have one statement written at a time, because each reads up to a million entries. The
 * lease is a row of D1, which all isolates share. It is taken for a minute, renewed with each chunk
 * and deleted at the end.
 */
import { NOW } from "../platform/commit.ts";
import { Problem } from "../platform/problem.ts";
import { all, sql, uuid } from "../platform/sql.ts";

export const LEASE_MS = 60_000;
const RETRY_SECS = 5;

export type StatementLease = {
  /** False if the lease has expired and another statement has taken it. */
  readonly renew: () => Promise<boolean>;
  readonly release: () => Promise<void>;
};

/** Throws `rate_limited` while another statement of the user is being written. */
export async function takeStatementLease(db: D1Database, userId: string): Promise<StatementLease> {
  const token = crypto.randomUUID();
  const taken = await all(
    db,
    sql`INSERT INTO statement_leases (user_id, token, expires_at)
      SELECT ${uuid(userId)}, ${token}, ${NOW} + ${LEASE_MS} WHERE 1
      ON CONFLICT (user_id) DO UPDATE SET token = excluded.token, expires_at = excluded.expires_at
        WHERE expires_at <= ${NOW}
      RETURNING 1`,
  );
  if (taken.length === 0)
    throw new Problem({
      code: "rate_limited",
      detail: "Another statement of yours is being written. Wait until it is complete.",
      retryAfterSecs: RETRY_SECS,
    });
  const mine = sql`user_id = ${uuid(userId)} AND token = ${token}`;
  return {
    renew: async () => {
      const renewed = await all(
        db,
        sql`UPDATE statement_leases SET expires_at = ${NOW} + ${LEASE_MS} WHERE ${mine}
          RETURNING 1`,
      );
      return renewed.length > 0;
    },
    release: async () => {
      await all(db, sql`DELETE FROM statement_leases WHERE ${mine}`);
    },
  };
}
