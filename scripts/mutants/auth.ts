import {
  CHANGE_PASSWORD,
  FREEZE,
  KEY_SEAL,
  POLICY,
  RESET,
  RIGHTS,
  SECURITY,
  STEP_UP_RACE,
  STOLEN,
  TICKETS,
  TOTP,
  TRADE_LIMITS,
  WHO,
  WITHDRAW_KEYS,
  node,
  workers,
  of,
  type Mutant,
} from "./mutant.ts";

export const AUTH_MUTANTS: readonly Mutant[] = [
  ...of("key networks", "src/auth/key-networks.ts", [
    [
      "new networks without bound",
      "!isKnown && newToday >= MAX_NEW_PER_DAY",
      "!isKnown && newToday < 0",
      [node("test/auth/key-networks.node.test.ts")],
    ],
  ]),
  ...of("login networks", "src/auth/login-throttle.ts", [
    [
      "a rest makes the next login the first one",
      "return expr`EXISTS (${used}) AND NOT EXISTS (",
      "return expr`EXISTS (${used} AND n.at > ${NOW} - ${KNOWN_NETWORK_MS}) AND NOT EXISTS (",
      [workers("test/auth/notices.test.ts")],
    ],
    [
      "right passwords unlimited",
      "attempts(ofBoth, settings.AUTH_LOGINS_PER_MINUTE, MINUTE_MS)",
      "attempts(ofBoth, 10_000, MINUTE_MS)",
      [workers("test/auth/session.test.ts")],
    ],
  ]),
  ...of("credential", "src/auth/may-write.ts", [
    ["freeze ignored", " AND frozen_at IS NULL`;", "`;", [WHO]],
    [
      "session epoch ignored",
      "(${unfrozen(user)} AND session_epoch = ${epoch})",
      "(${unfrozen(user)})",
      [WHO],
    ],
    ["session expiry ignored", " AND ${at} < ${expiresAt}`;", " AND ${at} IS NOT NULL`;", [WHO]],
    [
      "revocation ignored",
      "      AND revoked_at IS NULL AND active_from <= ${at}",
      "      AND active_from <= ${at}",
      [WHO],
    ],
    [
      "activation ignored",
      "      AND revoked_at IS NULL AND active_from <= ${at}",
      "      AND revoked_at IS NULL",
      [WHO],
    ],
    [
      "key expiry ignored",
      "\n      AND (expires_at IS NULL OR expires_at > ${at}))`;",
      ")`;",
      [WHO],
    ],
    ["key of another user accepted", "AND user_id = ${user}\n", "\n", [WHO]],
  ]),
  ...of("change-password", "src/auth/change-password.ts", [
    ["session unchecked", "mayWrite(actor, at),", "sql`${at} IS NOT NULL`,", [CHANGE_PASSWORD]],
    [
      "password unchecked",
      "await stepUp(db, settings, change, { duringHold: true });",
      "{ actor: change.actor, holdUntil: settings.AUTH_SECURITY_DELAY_SECS };",
      [CHANGE_PASSWORD],
    ],
  ]),
  ...of("second factor", "src/auth/second-factor.ts", [
    ["code used twice", "AND last_step < ${step}`", "AND last_step >= 0`", [TOTP]],
    [
      "guesses unlimited per network",
      "reached(own, CODE_LIMITS.perNetwork)",
      "reached(own, 1_000)",
      [TOTP],
    ],
    [
      "guesses unlimited per user",
      "reached(recent, CODE_LIMITS.perUser)",
      "reached(recent, 1_000)",
      [TOTP],
    ],
    ["owner locked out", " OR ${known})", ")", [TOTP]],
  ]),
  ...of("freeze", "src/auth/freeze-user.ts", [
    ["credential unchecked", "mayWrite(actor, at);", "expr`${at} > 0`;", [WHO, FREEZE]],
    [
      "operator's freeze ended by the user",
      'if (frozen === "operator") throw',
      'if (frozen === "operator" && epoch < 0) throw',
      [FREEZE],
    ],
    [
      "ended without a code",
      'if (frozen === "self" && checkedTotp === null)',
      'if (frozen === "self" && checkedTotp === null && epoch < 0)',
      [FREEZE],
    ],
    ["sessions stay", "      raiseEpoch(userId, written),\n", "", [FREEZE]],
  ]),
  ...of("session epoch", "src/auth/session-epoch.ts", [
    [
      "sessions that SQL revived stay",
      "max(session_epoch + 1, ${sessionsEnded(expr`${userId}`)})",
      "session_epoch + 1",
      [RIGHTS],
    ],
    [
      "sessions that SQL revived outlive a new password",
      "Math.max(epoch, row?.ended ?? 0) + 1",
      "Math.max(epoch, (row?.ended ?? 0) * 0) + 1",
      [RIGHTS],
    ],
  ]),
  ...of("reset", "src/auth/reset-account.ts", [
    ["no hold", "        ...startHold(settings, about, { at: group.at, applied }),\n", "", [RESET]],
    ["keys stay", "      ...(keepKeys\n", "      ...(keepKeys || about.ip === null\n", [RESET]],
  ]),
  ...of("security hold", "src/auth/may-write.ts", [
    ["ignored", "expr`${holdUntil(user, at)} <= ${at}`", "expr`${at} > 0`", [RESET]],
  ]),
  ...of("security hold", "src/auth/hold.ts", [
    [
      "never begins",
      "max(coalesce(hold_until, 0), ${at} + ${holdMs})",
      "coalesce(hold_until, 0)",
      [CHANGE_PASSWORD],
    ],
    [
      "shortened by a later change",
      "max(coalesce(hold_until, 0), ${at} + ${holdMs})",
      "${at} + ${holdMs}",
      [RESET],
    ],
    [
      "what waits still comes",
      "...cancelWaiting(by.userId, { at, applied }),",
      "",
      [CHANGE_PASSWORD, POLICY, STOLEN],
    ],
    ["of a waiting device ignored", "AND w.next_from > ${at}", "AND w.next_from < 0", [TOTP]],
    [
      "young factors end a freeze",
      "coalesce(u.hold_until, 0) <= u.frozen_at",
      "u.frozen_at > 0",
      [FREEZE],
    ],
    ["a young device ends a freeze", "${holdMsOf(settings)} <= u.frozen_at", "0 > 0", [FREEZE]],
  ]),
  ...of("checked totp", "src/auth/checked-totp.ts", [
    [
      "unchecked by the guard",
      "IS NOT ${checkedTotp})`",
      "IS ${checkedTotp} AND ends_at < 0)`",
      [STEP_UP_RACE],
    ],
  ]),
  ...of("step-up", "src/auth/step-up.ts", [
    [
      "unchecked by the guards after it",
      "const checked = checkedActor(actor, checkedTotp);",
      "const checked = actor as CheckedActor;",
      [STEP_UP_RACE],
    ],
  ]),
  ...of("confirm", "src/auth/step-up.ts", [
    [
      "TOTP unchecked by the guard",
      "  return checkedActor(actor, checkedTotp);",
      "  return actor as never;",
      [STEP_UP_RACE],
    ],
    [
      "session never too old",
      "if (now() < credential.issuedAtMs + secs * 1_000) return;",
      "if (now() > 0) return;",
      [workers("test/auth/api-key.test.ts")],
    ],
  ]),
  ...of("login", "src/auth/login.ts", [
    [
      "TOTP unchecked by the guard",
      "sql`${unchanged} AND ${totpUnchanged({ userId, checkedTotp }, at)}`",
      "sql`${unchanged} AND ${at} > 0`",
      [STEP_UP_RACE],
    ],
  ]),
  ...of("key seal", "src/auth/key-seal.ts", [
    ["scopes unbound", "    key.scopes,\n", "", [KEY_SEAL]],
    ["activation unbound", "    key.activeFrom,\n", "", [KEY_SEAL]],
    [
      "version 1 opened",
      "if (settings.KEY_SEAL_MIN_VERSION > 1)",
      "if (settings.KEY_SEAL_MIN_VERSION > 2)",
      [KEY_SEAL],
    ],
  ]),
  ...of("totp enrolment", "src/auth/enrol-totp.ts", [
    [
      "guesses unlimited",
      "AND wrong_codes < ${MAX_ENROLMENT_CODES}",
      "AND wrong_codes >= 0",
      [TOTP],
    ],
  ]),
  ...of("authentication", "src/auth/authenticate.ts", [
    [
      "signature checked last",
      "  if (!(await verifySignature(key.key, canonicalMessage(parts), signature))) {",
      "  checkKey(key, now, context.clientIp);\n  if (!(await verifySignature(key.key, canonicalMessage(parts), signature))) {",
      [SECURITY, workers("test/auth/api-key.test.ts")],
    ],
    [
      "tolerance unchecked",
      "  if (Math.abs(skew) <= clock.toleranceMs) return;",
      "  if (skew <= clock.toleranceMs) return;",
      [SECURITY, workers("test/auth/api-key.test.ts")],
    ],
    [
      "revoked key accepted",
      "  if (key.revoked) throw",
      "  if (key.revoked && key.frozen) throw",
      [SECURITY, workers("test/auth/api-key.test.ts")],
    ],
    [
      "allow list ignored",
      "  if (!ipAllowed(clientIp, key.allowedIps))",
      "  if (key.frozen && !ipAllowed(clientIp, key.allowedIps))",
      [SECURITY, workers("test/auth/api-key.test.ts")],
    ],
    [
      "scope unchecked",
      "  if (denied !== undefined) throw denied;",
      '  if (denied !== undefined && keyId === "") throw denied;',
      [SECURITY, workers("test/auth/api-key.test.ts"), workers("test/auth/session.test.ts")],
    ],
  ]),
  ...of("approve-key", "src/auth/approve-key.ts", [
    [
      "late approval",
      "\n    AND k.created_at > ${at} - ${KEY_APPROVAL_MS}`;",
      "`;",
      [WITHDRAW_KEYS],
    ],
    ["revoked key approved", " AND k.revoked_at IS NULL", "", [WITHDRAW_KEYS]],
    [
      "active at once",
      "AUTH_OPERATOR_KEY_DELAY_SECS * 1_000",
      "AUTH_OPERATOR_KEY_DELAY_SECS * 0",
      [WITHDRAW_KEYS],
    ],
  ]),
  ...of("policy", "src/auth/policy.ts", [
    [
      "waiting policy applies",
      "WHERE user_id = ${userId} AND active_from <= ${at}\n",
      "WHERE user_id = ${userId} AND ${at} > 0\n",
      [POLICY],
    ],
    [
      "looser at once",
      "  return allowed(target[field]) < allowed(current[field]) ? target[field] : current[field];",
      "  return allowed(target[field]) < 0n ? current[field] : target[field];",
      [node("test/auth/policy.node.test.ts"), POLICY],
    ],
  ]),
  ...of("change-policy", "src/auth/change-policy.ts", [
    [
      "password unchecked",
      "  const { actor, secondFactor } = await stepUp(db, settings, request);\n",
      '  const { actor } = request;\n  const secondFactor = clientIp === "none" ? "off" : "passed";\n',
      [POLICY],
    ],
    [
      "lost change",
      "WHERE user_id = ${user}), 0) = ${version}",
      "WHERE user_id = ${user}), 0) >= ${version}",
      [POLICY],
    ],
  ]),
  ...of("exposure", "src/auth/exposure.ts", [
    [
      "open quotes not counted",
      "    SELECT reserve FROM quotes INDEXED BY quotes_open_maker",
      "    SELECT 0 FROM quotes INDEXED BY quotes_open_maker",
      [TRADE_LIMITS],
    ],
    [
      "quotes of other credentials counted",
      "own: sql` AND credential = ${key.key}`",
      "own: sql` AND ${key.key} IS NOT NULL`",
      [TRADE_LIMITS],
    ],
    [
      "total overflows",
      "      SET usdc = min(usdc + excluded.usdc, 4611686018427387904)`;",
      "      SET usdc = usdc + excluded.usdc`;",
      [TRADE_LIMITS],
    ],
  ]),
  ...of("ticket", "src/auth/ws-ticket.ts", [
    [
      "used twice",
      "AND used_at IS NULL AND expires_at > ${NOW}`",
      "AND expires_at > ${NOW}`",
      [TICKETS],
    ],
    [
      "used late",
      "AND used_at IS NULL AND expires_at > ${NOW}`",
      "AND used_at IS NULL`",
      [TICKETS],
    ],
  ]),
];
