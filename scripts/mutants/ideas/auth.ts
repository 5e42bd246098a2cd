import { ideas, type Mutant } from "../mutant.ts";

export const AUTH: readonly Mutant[] = [
  ...ideas("src/audit/event-mac.ts", "audit/event-mac", {
    "its id not covered": ["return [id, kind,", "return [kind,"],
    "its details not covered": ["ip, subjectId, details];", "ip, subjectId];"],
  }),
  ...ideas("src/auth/approve-key.ts", "auth/withdraw-keys", {
    "active at once": ["AUTH_OPERATOR_KEY_DELAY_SECS * 1_000", "AUTH_OPERATOR_KEY_DELAY_SECS * 0"],
  }),
  ...ideas("src/auth/authenticate.ts", "auth/security auth/api-key auth/session", {
    "signature checked last": [
      "  if (!(await verifySignature(key.key, canonicalMessage(parts), signature))) {",
      "  checkKey(key, now, context.clientIp);\n  if (!(await verifySignature(key.key, canonicalMessage(parts), signature))) {",
    ],
    "tolerance unchecked": [
      "  if (Math.abs(skew) <= clock.toleranceMs) return;",
      "  if (skew <= clock.toleranceMs) return;",
    ],
    "revoked key accepted": ["  if (key.revoked) throw", "  if (key.revoked && key.frozen) throw"],
    "allow list ignored": [
      "  if (!ipAllowed(clientIp, key.allowedIps))",
      "  if (key.frozen && !ipAllowed(clientIp, key.allowedIps))",
    ],
    "scope unchecked": [
      "if (scope !== undefined && !scopes.some((one) => actor.scopes.includes(one)))",
      "if (scope !== undefined && scopes.length === 0)",
    ],
  }),
  ...ideas("src/auth/change-password.ts", "auth/change-password", {
    "password unchecked": [
      "await stepUp(db, settings, change, { duringHold: true });",
      "{ actor: change.actor, holdUntil: settings.AUTH_SECURITY_DELAY_SECS };",
    ],
  }),
  ...ideas("src/auth/change-policy.ts", "auth/policy", {
    "password unchecked": [
      "  const { actor, secondFactor } = await stepUp(db, settings, request);\n",
      '  const { actor } = request;\n  const secondFactor = clientIp === "none" ? "off" : "passed";\n',
    ],
    "lost change": [
      "WHERE user_id = ${user}), 0) = ${version}",
      "WHERE user_id = ${user}), 0) >= ${version}",
    ],
  }),
  ...ideas("src/auth/totp-secret.ts", "auth/step-up-race", {
    "unchecked by the guard": ["IS NOT ${checkedTotp})`", "IS ${checkedTotp} AND ends_at < 0)`"],
  }),
  ...ideas("src/auth/totp-secret.ts", "reconcile/edits", {
    "its dates unbound": ["bound.since : bound.recovered", "0 : bound.recovered"],
  }),
  ...ideas("src/auth/ws-ticket.ts", "reconcile/edits", {
    "its owner unbound": ["userId, writeScopes(scopes), ...of]", "writeScopes(scopes), ...of]"],
  }),
  ...ideas("src/ledger/withdrawal-mac.ts", "reconcile/edits", {
    "the instant of a listed address unbound": [
      "bare(address), String(activeFrom)]",
      "bare(address)]",
    ],
  }),
  ...ideas("src/auth/enrol-totp.ts", "auth/totp", {
    "guesses unlimited": ["AND wrong_codes < ${MAX_ENROLMENT_CODES}", "AND wrong_codes >= 0"],
  }),
  ...ideas("src/auth/exposure.ts", "rfq/trade-limits custody/withdrawal-policy", {
    "open quotes not counted": [
      "    SELECT reserve FROM quotes INDEXED BY quotes_open_maker",
      "    SELECT 0 FROM quotes INDEXED BY quotes_open_maker",
    ],
    "total overflows": [
      "      SET usdc = min(usdc + excluded.usdc, ${MAX_NATIVE})`;",
      "      SET usdc = usdc + excluded.usdc`;",
    ],
    "approved withdrawal counted on the day of its order": [
      "max(created_at, coalesce(approved_at, 0)) >= ${from}",
      "created_at >= ${from}",
    ],
  }),
  ...ideas("src/auth/freeze-user.ts", "auth/who-may auth/freeze", {
    "operator's freeze ended by the user": [
      'if (frozen === "operator") throw',
      'if (frozen === "operator" && epoch < 0) throw',
    ],
    "ended without a code": [
      'if (frozen === "self" && checkedTotp === null)',
      'if (frozen === "self" && checkedTotp === null && epoch < 0)',
    ],
    "sessions stay": ["    raiseEpoch(userId, applied),\n", ""],
  }),
  ...ideas(
    "src/auth/hold.ts",
    "auth/change-password operator/reset-account auth/policy auth/stolen auth/totp auth/freeze",
    {
      "never begins": [
        "max(coalesce(hold_until, 0), ${at} + ${holdMs})",
        "coalesce(hold_until, 0)",
      ],
      "shortened by a later change": [
        "max(coalesce(hold_until, 0), ${at} + ${holdMs})",
        "${at} + ${holdMs}",
      ],
      "what waits still comes": ["...cancelWaiting(by.userId, { at, applied }),", ""],
      "of a waiting device ignored": ["AND w.next_from > ${at}", "AND w.next_from < 0"],
      "a young device ends a freeze": ["${holdMsOf(settings)} <= u.frozen_at", "0 > 0"],
    },
  ),
  ...ideas("src/auth/key-networks.ts", "auth/key-networks", {
    "new networks without bound": [
      "!isKnown && newToday >= MAX_NEW_PER_DAY",
      "!isKnown && newToday < 0",
    ],
  }),
  ...ideas("src/auth/key-seal.ts", "auth/key-seal", {
    "scopes unbound": ["    key.scopes,\n", ""],
    "activation unbound": ["    key.activeFrom,\n", ""],
  }),
  ...ideas("src/auth/mint-key.ts", "auth/listed-keys", {
    "every withdraw key approves itself": ["    key.limits?.paysTo !== undefined &&\n", ""],
    "a key approves itself against the setting": [
      '    settings.AUTH_LISTED_KEYS === "on" &&\n',
      "",
    ],
    "a key approves itself without TOTP": [
      "    (actor.credential.checkedTotp ?? null) !== null;",
      "    actor.credential !== undefined;",
    ],
    "a key that approves itself does not wait": [
      "approvesItself ? holdMsOf(settings) :",
      "approvesItself ? 0 :",
    ],
  }),
  ...ideas("src/custody/withdrawal-policy.ts", "auth/listed-keys", {
    "a listed key pays any address of the book": [
      "required(isNamed ? TRUE : FALSE, () => ({",
      "required(isNamed || TRUE ? TRUE : FALSE, () => ({",
    ],
    "a listed key pays an address outside the book": [
      '    required(isListed(withdrawing, at), (facts) => notListed("The API key", facts)),\n',
      "",
    ],
  }),
  ...ideas("src/audit/receipt.ts", "audit/receipt", {
    "a receipt names no owner": ["    sub: userId,", "    sub: kind,"],
    "a receipt of another record": [
      "${encoded(header)}.${encoded(body)}",
      "${encoded(header)}.${encoded({})}",
    ],
  }),
  ...ideas("src/auth/login-throttle.ts", "auth/notices auth/session", {
    "a rest makes the next login the first one": [
      "return expr`EXISTS (${used}) AND NOT EXISTS (",
      "return expr`EXISTS (${used} AND n.at > ${NOW} - ${KNOWN_NETWORK_MS}) AND NOT EXISTS (",
    ],
    "right passwords unlimited": [
      "attempts(ofBoth, settings.AUTH_LOGINS_PER_MINUTE, MINUTE_MS)",
      "attempts(ofBoth, 10_000, MINUTE_MS)",
    ],
  }),
  ...ideas("src/auth/login.ts", "auth/step-up-race", {
    "TOTP unchecked by the guard": [
      "sql`${unchanged} AND ${totpUnchanged({ userId, checkedTotp }, at)}`",
      "sql`${unchanged} AND ${at} > 0`",
    ],
  }),
  ...ideas("src/auth/may-write.ts", "operator/reset-account", {
    ignored: ["expr`${holdUntil(user, at)} <= ${at}`", "expr`${at} > 0`"],
  }),
  ...ideas(
    "src/auth/own-change.ts",
    "auth/who-may auth/freeze auth/change-password auth/policy auth/totp",
    {
      "credential unchecked": ["mayWrite(actor, at), ...", "..."],
      "condition of the change unchecked": ["[when(at)])]),", "[])]),"],
    },
  ),
  ...ideas("src/auth/policy.ts", "auth/policy.node auth/policy", {
    "looser at once": [
      "looseness(field, target) < looseness(field, current) ? target[field] : current[field]",
      "looseness(field, target) < 0n ? current[field] : target[field]",
    ],
  }),
  ...ideas("src/auth/reset-account.ts", "operator/reset-account", {
    "no hold": ["        ...startHold(settings, { ...about, userId }, { at, applied }),\n", ""],
    "keys stay": ["...(keepKeys ? [] :", "...(keepKeys || about.ip === null ? [] :"],
  }),
  ...ideas("src/auth/second-factor.ts", "auth/totp", {
    "guesses unlimited per user": [
      "reached(recent, CODE_LIMITS.perUser)",
      "reached(recent, 1_000)",
    ],
  }),
  ...ideas("src/auth/step-up.ts", "auth/step-up-race auth/api-key", {
    "unchecked by the guards after it": [
      "const checked = checkedActor(actor, checkedTotp);",
      "const checked = actor as CheckedActor;",
    ],
    "TOTP unchecked by the guard": [
      "  return checkedActor(actor, checkedTotp);",
      "  return actor as never;",
    ],
    "session never too old": [
      "if (now() < credential.issuedAtMs + secs * 1_000) return;",
      "if (now() > 0) return;",
    ],
  }),
  ...ideas("src/operator/approvals.ts", "operator/orders", {
    "altered by SQL": ["if (!(await isOurs(settings, proposal)))", 'if (proposal.seal === "")'],
    "an old one made new by SQL": [
      "if (instantOf(proposalId) <= Date.now() - LIFE_MS)",
      "if (instantOf(proposalId) < 0)",
    ],
    "a decided one opened by SQL": [
      "kind = ${kind} AND details IS NOT NULL",
      "kind = '' AND details IS NOT NULL",
    ],
  }),
];
