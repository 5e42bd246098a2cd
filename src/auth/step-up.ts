/**
 * Step-up: a session's call that changes who may act also contains the password. A stolen session
 * alone cannot make such a call.
 *
 * The caller's guard must contain `actorPrecondition` of the session. A change of the password
 * raises the epoch of sessions, so a password that was verified before it cannot be used after it.
 */
import type { SessionActor } from "../platform/actor.ts";
import type { Config } from "../platform/config.ts";
import { problem } from "../platform/problem.ts";
import { all, TRUE } from "../platform/sql.ts";
import { checkPassword } from "./check-password.ts";
import { attemptSucceeded } from "./login-throttle.ts";
import { findUser } from "./user.ts";

/** What `stepUpFields` in fields.ts parse to. */
export type StepUpFields = { readonly password: string };

/** The problems that `stepUp` throws, for route definitions. */
export const STEP_UP_PROBLEMS = ["login_failed", "login_throttled"] as const;

export type StepUpRequest = {
  readonly actor: SessionActor;
  readonly fields: StepUpFields;
  readonly clientIp: string | undefined;
};

/**
 * Verifies the caller's password, within the limits of failed logins. Throws `STEP_UP_PROBLEMS`.
 */
export async function stepUp(
  db: D1Database,
  _settings: Config,
  { actor, fields, clientIp }: StepUpRequest,
): Promise<void> {
  const user = await findUser(db, actor.userId);
  if (user === undefined)
    throw problem("session_invalid", "The user of this credential does not exist.");
  const caller = { email: user.email, clientIp };
  const { attempt } = await checkPassword(db, caller, {
    password: fields.password,
    wrong: "The password is wrong.",
  });
  await all(db, attemptSucceeded(attempt, TRUE));
}
