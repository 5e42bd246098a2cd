/** Verifies a password within the limits of failed logins. Logins and step-up share them. */
import { commitOrThrow, newGroup } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { Problem } from "../platform/problem.ts";
import { readUuid, sql } from "../platform/sql.ts";
import { now, sleep } from "../platform/time.ts";
import { auditRows } from "../audit/audit.ts";
import { inHashTurn } from "./hash-turns.ts";
import {
  admitLogin,
  beginAttempt,
  type Caller,
  countFailures,
  remainingAttempts,
} from "./login-throttle.ts";
import { verifyPassword } from "./password.ts";

/** Between two audit rows of a user and IP address. login_attempts counts every attempt. */
const FAILURE_AUDIT_MS = 60_000;

/**
 * Throws `login_throttled`, or `login_failed` for a wrong password. `hasSession`: the caller has a
 * valid session of the user, so strangers cannot fill the lane.
 */
export async function checkPassword(
  db: D1Database,
  settings: Config,
  caller: Caller,
  given: { password: string; hasSession?: boolean },
) {
  const began = now();
  const place = await admitLogin(db, settings, caller, given.hasSession).catch(
    async (error: unknown) => {
      await sleep(Math.max(0, began + lastFailureMs - now()));
      throw error;
    },
  );
  const { attempt, user, matches, refusal } = await inHashTurn(place, async () => {
    const begun = await beginAttempt(db, settings, caller);
    const stored = begun.user?.passwordHash;
    return { ...begun, matches: await verifyPassword(given.password, stored) };
  });
  if (user === undefined || !matches) {
    const headers = await recordFailure(db, caller);
    lastFailureMs = Math.min(now() - began, MAX_DELAY_MS);
    if (refusal !== undefined && given.hasSession !== true) throw refusal;
    const what = given.hasSession === true ? "The password" : "The email address or the password";
    throw new Problem({ code: "login_failed", detail: `${what} is wrong.`, headers });
  }
  const { userHex, sealed, masterKeyId, since, sessionsTrade, ...stored } = user;
  return {
    ...stored,
    /** Counted as a failure until `attemptSucceeded`. */
    attempt,
    userId: readUuid(userHex),
    sessionsTrade: sessionsTrade === 1,
    /** The sealed secret of TOTP. Null: TOTP is off. */
    totp:
      sealed === null || masterKeyId === null || since === null
        ? null
        : { sealed, masterKeyId, since },
  };
}

/**
 * How long the last wrong password took. A refusal without a hash takes as long, because it must
 * not show whether the network is one of the user's.
 */
let lastFailureMs = 0;
const MAX_DELAY_MS = 5_000;

/** The same statements run for unknown users, so that timing does not reveal which users exist. */
async function recordFailure(db: D1Database, caller: Caller): Promise<Record<string, string>> {
  const group = newGroup();
  const address = caller.clientIp ?? null;
  const recorded = sql`SELECT 1 FROM audit_events e
    WHERE e.user_id = u.user_id AND e.kind = 'login_failed' AND e.ip IS ${address}
      AND e.at > ${group.at} - ${FAILURE_AUDIT_MS}`;
  const failure = auditRows(
    { kind: "login_failed", actor: "unknown", ip: address },
    group.at,
    sql`SELECT u.user_id, NULL AS subject_id
      FROM users u WHERE u.email = ${caller.email} AND NOT EXISTS (${recorded})`,
  );
  const rows = await commitOrThrow(db, group, [failure, countFailures(caller)]);
  return remainingAttempts(rows?.[1]?.[0]);
}
