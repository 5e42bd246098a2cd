/**
 * Step-up: a session's call that changes who may act also contains the password, and a code if TOTP
 * is on. A stolen session alone cannot make such a call.
 *
 * The caller's guard must contain `mayWrite` of the actor that `stepUp` returns. A change of the
 * password raises the epoch of sessions, so a password that was verified before it cannot be used
 * after it. If TOTP was turned on or a security hold began meanwhile, the guard does not apply.
 */
import { type CheckedActor, checkedActor, type SessionActor, unheld } from "../platform/actor.ts";
import type { Config } from "../platform/config.ts";
import { Problem, problem } from "../platform/problem.ts";
import { all, TRUE } from "../platform/sql.ts";
import { now } from "../platform/time.ts";
import { checkPassword } from "./check-password.ts";
import { attemptSucceeded } from "./login-throttle.ts";
import { securityHold } from "./hold.ts";
import { checkSecondFactor, type GivenCodes, SECOND_FACTOR_PROBLEMS } from "./second-factor.ts";
import { findUser } from "./user.ts";

/** What `stepUpFields` (schemas.ts) parse to. `recovery_code` only where accepted. */
export type StepUpFields = GivenCodes & { readonly password: string };

/** The problems that `stepUp` throws, for route definitions. */
export const STEP_UP_PROBLEMS = [
  "login_failed",
  "security_hold",
  ...SECOND_FACTOR_PROBLEMS,
] as const;

export type StepUpRequest = {
  readonly actor: SessionActor;
  readonly fields: StepUpFields;
  readonly clientIp: string | undefined;
};

/**
 * Verifies the password and, if TOTP is on, a code. Throws `STEP_UP_PROBLEMS`: during a security
 * hold `security_hold`, unless `duringHold`.
 */
export async function stepUp(
  db: D1Database,
  settings: Config,
  { actor, fields, clientIp }: StepUpRequest,
  { duringHold = false } = {},
) {
  const { userId } = actor;
  const user = await findUser(db, userId);
  if (user === undefined)
    throw problem("session_invalid", "The user of this credential does not exist.");
  const { email, holdUntil } = user;
  if (!duringHold && holdUntil > Date.now()) throw new Problem(securityHold(holdUntil));
  const { attempt, totp } = await checkPassword(
    db,
    settings,
    { email, clientIp },
    { password: fields.password, hasSession: true },
  );
  const checkedTotp = await checkSecondFactor(db, settings, {
    userId,
    clientIp,
    codes: fields,
    totp,
    actor: "session",
  });
  await all(db, attemptSucceeded(attempt, TRUE));
  const checked = checkedActor(actor, checkedTotp);
  return {
    actor: duringHold ? checked : unheld(checked),
    email,
    secondFactor: checkedTotp === null ? "off" : "passed",
    holdUntil,
  } as const;
}

/** The problems that `confirmOwner` throws, for route definitions. */
export const CONFIRM_PROBLEMS = ["password_required", ...STEP_UP_PROBLEMS] as const;

/** Step-up of a fresh session: no password, but a code if TOTP is on. Throws `CONFIRM_PROBLEMS`. */
export async function confirmOwner(
  db: D1Database,
  settings: Config,
  request: Omit<StepUpRequest, "fields"> & {
    readonly fields: GivenCodes & { readonly password?: string | undefined };
  },
): Promise<CheckedActor> {
  const { actor, clientIp, fields } = request;
  const { password } = fields;
  if (password !== undefined) {
    const checked = await stepUp(db, settings, { ...request, fields: { ...fields, password } });
    return checked.actor;
  }
  requireFresh(settings, actor);
  const checkedTotp = await checkSecondFactor(db, settings, {
    userId: actor.userId,
    clientIp,
    codes: fields,
    actor: "session",
  });
  return checkedActor(actor, checkedTotp);
}

/** Throws `password_required` if the user has not logged in a short time ago. */
export function requireFresh(
  { AUTH_FRESH_SESSION_SECS: secs }: Pick<Config, "AUTH_FRESH_SESSION_SECS">,
  { credential }: SessionActor,
): void {
  if (now() < credential.issuedAtMs + secs * 1_000) return;
  throw problem(
    "password_required",
    `The session is older than ${secs} seconds. Send the password, or log in again.`,
  );
}
