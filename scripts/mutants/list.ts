/**
 * Small wrong changes of the code that decides about money, each of which a test must notice. Most
 * drop or weaken one condition of a guard, a trigger, the fence, or the order of checks.
 *
 * `tests` are the files that concern the mutant; it is caught if one of them fails. Snapshots of
 * SQL are left out, because they fail for any change.
 */

export type Mutant = {
  /** `<area>/<what is wrong>`. */
  readonly name: string;
  readonly file: string;
  /** Occurs exactly once in the file. */
  readonly find: string;
  readonly replace: string;
  readonly tests: readonly TestFile[];
  /** Why no test can notice it. Such a mutant is not run. */
  readonly equivalent?: string;
};

type TestFile = { readonly project: "node" | "workers" | "clock" | "chain"; readonly file: string };

const node = (file: string): TestFile => ({ project: "node", file });
const workers = (file: string): TestFile => ({ project: "workers", file });
const clock = (file: string): TestFile => ({ project: "clock", file });

const chain = (file: string): TestFile => ({ project: "chain", file });

const WHO = workers("test/auth/who-may.test.ts");
const BOOK = workers("test/rfq/book.test.ts");
const LIMITS = workers("test/rfq/limits.test.ts");
const CLOSE = workers("test/rfq/close.test.ts");
const MARKETS = workers("test/rfq/markets.test.ts");
const REPLACE = workers("test/rfq/replace.test.ts");
const TWO_WAY = workers("test/rfq/two-way.test.ts");
const RACES = clock("test/rfq/races.clock.test.ts");
const MODEL = clock("test/rfq/model.clock.test.ts");
const GUARDS = workers("test/ledger/guards.test.ts");
const AMOUNTS = clock("test/ledger/amounts.clock.test.ts");
const WITHDRAW = workers("test/custody/withdraw.test.ts");
const STREAMS = workers("test/streams/streams.test.ts");
const REGISTRATION = workers("test/streams/registration.test.ts");
const RECONCILE = workers("test/ledger/reconcile.test.ts");
const TAMPERING = workers("test/ledger/tampering.test.ts");
const SECURITY = workers("test/auth/security.test.ts");
const CHANGE_PASSWORD = workers("test/auth/change-password.test.ts");
const WITHDRAWAL_POLICY = workers("test/custody/withdrawal-policy.test.ts");
const WITHDRAW_KEYS = workers("test/auth/withdraw-keys.test.ts");
const POLICY = workers("test/auth/policy.test.ts");
const CANCEL = workers("test/custody/cancel-withdrawal.test.ts");
const TRADE_LIMITS = workers("test/rfq/trade-limits.test.ts");
const KEY_LIMITS = workers("test/auth/key-limits.test.ts");
const TOTP = workers("test/auth/totp.test.ts");
const FREEZE = workers("test/auth/freeze.test.ts");
const RESET = workers("test/operator/reset-account.test.ts");
const KEY_SEAL = workers("test/auth/key-seal.test.ts");
const TICKETS = workers("test/auth/ws-ticket.test.ts");
const DEADLINES = workers("test/rfq/deadline.test.ts");
const PAID_OTHERWISE = chain("test/chain/paid-otherwise.anvil.ts");
const PRECONDITIONS = clock("test/rfq/preconditions.clock.test.ts");
const APPEND_ONLY = workers("test/platform/append-only.test.ts");
const CUSTODY_LIMITS = workers("test/custody/limits.test.ts");
const SET_ASIDE = workers("test/rfq/set-aside.test.ts");
const DISCONNECT = workers("test/rfq/disconnect.test.ts");
const TIMERS = clock("test/rfq/cancel-after.clock.test.ts");
const PROTECTION = workers("test/rfq/protection.test.ts");
const PROTECTION_CLOCK = clock("test/rfq/protection.clock.test.ts");
const SEALER = workers("test/archive/sealer.test.ts");
const RELEASE = workers("test/archive/release.test.ts");
const COLD = workers("test/archive/cold-entries.test.ts");
const TERMS = node("test/rfq/trade-terms.node.test.ts");

type Change = readonly [
  what: string,
  find: string,
  replace: string,
  tests: readonly TestFile[],
  equivalent?: string,
];

function of(area: string, file: string, changes: readonly Change[]): Mutant[] {
  return changes.map(([what, find, replace, tests, equivalent]) => ({
    name: `${area}/${what}`,
    file,
    find,
    replace,
    tests,
    ...(equivalent === undefined ? {} : { equivalent }),
  }));
}

const SCHEMA = "migrations/0001_schema.sql";

export const MUTANTS: readonly Mutant[] = [
  ...of("accept", "src/rfq/accept-quote.ts", [
    ["credential unchecked", "    actorMayWrite(actor, at),\n", "", [WHO]],
    [
      "owner unchecked",
      "expr`s.requester_id = ${requester}`",
      "expr`${requester} IS NOT NULL`",
      [WHO],
    ],
    [
      "quote status unchecked",
      "expr`s.status = 'open' AND s.expires_at > ${at}\n",
      "expr`s.expires_at > ${at}\n",
      [BOOK, RACES, MODEL],
      "The three preconditions before it exclude every other status.",
    ],
    [
      "quote expiry unchecked",
      "s.status = 'open' AND s.expires_at > ${at}\n",
      "s.status = 'open'\n",
      [RACES, MODEL],
    ],
    [
      "cancelled quote accepted",
      "expr`s.status NOT IN ('cancelled', 'rejected')`",
      "expr`s.status NOT IN ('rejected')`",
      [BOOK],
    ],
    [
      "request expiry unchecked",
      "AND s.request_status = 'open' AND s.request_expires_at > ${at}`",
      "AND s.request_status = 'open'`",
      [RACES],
      "A quote never outlives its request, so the quote's expiry decides.",
    ],
    ["closed market unchecked", '    marketOpen(atom("s.asset"), at),\n', "", [MARKETS]],
    [
      "paused venue unchecked",
      "expr`NOT EXISTS (SELECT 1 FROM paused_venues p WHERE p.venue = s.venue)`",
      "expr`s.venue IS NOT NULL`",
      [WHO],
    ],
    [
      "funds compared wrongly",
      "a.balance >= s.given_amount)`",
      "a.balance > s.given_amount)`",
      [BOOK, RACES, AMOUNTS],
    ],
    [
      "funds of pending counted",
      "AND a.kind = 'available' AND a.balance >= s.given_amount)`",
      "AND a.balance >= s.given_amount)`",
      [PRECONDITIONS],
    ],
    [
      "buyer's limit dropped",
      '        AND ${canReceive(atom("s.buyer_id"), atom("s.asset"), expr`CAST(s.amount AS INTEGER)`)}\n',
      "",
      [LIMITS],
    ],
    [
      "seller's limit dropped",
      '${canReceive(atom("s.seller_id"), USDC_KEY, atom("s.usdc_amount"))}\n        AND',
      "",
      [LIMITS],
    ],
    [
      "house's limit dropped",
      "\n        AND ${canReceive(FEES_OWNER, USDC_KEY, expr`s.taker_fee + s.maker_fee`)}`",
      "`",
      [LIMITS],
    ],
    [
      "losers keep their reserve",
      "      releaseQuotesEndedBy(group, matchId),\n",
      "",
      [BOOK, MODEL],
    ],
    [
      "losers stay open",
      "SELECT quote_id FROM quotes WHERE status = 'open' AND request_id = (${ofMatch})",
      "SELECT quote_id FROM quotes WHERE 0 AND request_id = (${ofMatch})",
      [BOOK],
    ],
    [
      "request stays open",
      "WHERE request_id = (${ofMatch})`,\n      // The losing",
      "WHERE 0 AND request_id = (${ofMatch})`,\n      // The losing",
      [PRECONDITIONS],
    ],
    [
      "protection leaves quotes open",
      "UNION ALL ${quotesOfTripped(matchId)}",
      "UNION ALL SELECT NULL",
      [PROTECTION],
    ],
    [
      "refused because of a damaged quote elsewhere",
      "cancelsOthers ? { fallback:",
      "cancelsOthers && false ? { fallback:",
      [SET_ASIDE],
    ],
    ["seller pays no fee", "m.seller_fee AS amount", "0 AS amount", [BOOK, MODEL, RACES]],
    ["buyer pays no fee", "m.buyer_fee AS amount", "0 AS amount", [BOOK, MODEL, RACES]],
  ]),
  ...of("disconnect", "src/rfq/armed-sockets.ts", [
    [
      "cancels nothing",
      "AND EXISTS (SELECT 1 FROM armed_sockets a WHERE ${live} AND NOT ${newer})",
      "AND 0",
      [DISCONNECT],
    ],
    ["never taken over", "WHERE ${live} AND NOT ${newer})", "WHERE ${live})", [DISCONNECT]],
    [
      "taken over by an older socket",
      "AND n.taken_over_at IS NULL AND n.armed_id > a.armed_id",
      "AND n.taken_over_at IS NULL AND n.armed_id <> a.armed_id",
      [DISCONNECT],
    ],
    ["taken over on another stream", "AND n.stream = a.stream", "", [DISCONNECT]],
    ["taken over by another key", "WHERE n.api_key_id = a.api_key_id\n", "WHERE 1\n", [DISCONNECT]],
    ["quotes of other keys cancelled", " AND credential = ${uuid(apiKeyId)}", "", [DISCONNECT]],
    [
      "late quotes of a socket that was taken over refused",
      "taken_over_at = ${at} WHERE ${live} AND ${newer}",
      "taken_over_at = NULL WHERE ${live} AND ${newer}",
      [DISCONNECT],
    ],
    ["cron ends sockets that are open", "if (!open.has(id)) await", "await", [DISCONNECT]],
  ]),
  ...of("timer", "src/rfq/cancel-timer.ts", [
    ["never runs out", "t.cancel_at <= ${at}", "t.cancel_at < 0", [TIMERS]],
  ]),
  ...of("timer", "src/rfq/cancel-after.ts", [
    ["moved by anyone", "WHERE ${mayWrite(actor, NOW)}\n", "WHERE 1\n", [WHO]],
    ["moved after it ran out", "WHERE cancel_at > ${NOW}\n", "WHERE 1\n", [TIMERS]],
    [
      "removed by anyone",
      "DELETE FROM cancel_timers WHERE credential = ${credential} AND ${mayWrite(actor, at)}",
      "DELETE FROM cancel_timers WHERE credential = ${credential}",
      [WHO],
    ],
    [
      "closes quotes of other keys",
      "\n      AND credential = ${credential} AND EXISTS",
      "\n      AND EXISTS",
      [TIMERS],
    ],
    [
      "closes before it runs out",
      "WHERE credential = ${credential} AND cancel_at <= ${at}`",
      "WHERE credential = ${credential}`",
      [TIMERS],
    ],
  ]),
  ...of("timer", "src/rfq/accept-quote.ts", [
    ["accepted after it ran out", 'timerNotPassed(atom("s.credential"), at)', "expr`1`", [TIMERS]],
  ]),
  ...of("protection", "src/rfq/protection-record.ts", [
    [
      "never blocks",
      "p.tripped_at IS NOT NULL AND ifnull",
      "p.tripped_at IS NULL AND ifnull",
      [PROTECTION, PROTECTION_CLOCK],
    ],
    [
      "blocks after its cooldown",
      "p.blocked_until > ${at}, 1)",
      "p.blocked_until IS NOT NULL, 1)",
      [PROTECTION_CLOCK],
    ],
  ]),
  ...of("protection", "src/rfq/protection.ts", [
    [
      "saved by anyone",
      "WHERE ${mayWrite(actor, group.at)}\n      ON CONFLICT",
      "WHERE 1\n      ON CONFLICT",
      [WHO],
    ],
    ["reset by anyone", "WHERE ${mine} AND ${mayWrite(actor, group.at)}", "WHERE ${mine}", [WHO]],
    [
      "not counted anew when saved",
      "cooldown_secs = excluded.cooldown_secs, period = period + 1",
      "cooldown_secs = excluded.cooldown_secs, period = period",
      [PROTECTION],
    ],
  ]),
  ...of("protection", "migrations/0001_schema.sql", [
    [
      "window never slides",
      "c.at > NEW.at - protections.window_secs * 1000",
      "c.at > 0",
      [PROTECTION_CLOCK],
    ],
    ["matches unlimited", ">= max_matches OR", "> max_matches OR", [PROTECTION]],
    ["USDC unlimited", ">= max_usdc\n", "> max_usdc\n", [PROTECTION]],
    [
      "totals overflow",
      "usdc = min(usdc + NEW.usdc_amount, 4611686018427387904)",
      "usdc = usdc + NEW.usdc_amount",
      [PROTECTION],
    ],
    [
      "counted anew only when reset",
      "period = period + 1, matches = 0, usdc = 0\n    WHERE user_id = NEW.maker_id AND",
      "matches = matches\n    WHERE user_id = NEW.maker_id AND",
      [PROTECTION_CLOCK],
    ],
  ]),
  ...of("place", "migrations/0003_place_quote.sql", [
    ["ended socket unchecked", " WHERE a.socket_id = NEW.socket_id", "", [DISCONNECT]],
    ["timer unchecked", "t.cancel_at <= NEW.at", "t.cancel_at < 0", [TIMERS]],
    [
      "protection unchecked",
      "WHERE p.user_id = NEW.maker_id",
      "WHERE p.user_id = NEW.maker_id AND 0",
      [PROTECTION],
    ],
    ["frozen maker quotes", "NEW.maker_id AND frozen_at IS NULL)", "NEW.maker_id)", [WHO]],
    ["revoked key quotes", "                  AND revoked_at IS NULL\n", "", [WHO]],
    [
      "ended session quotes",
      "                  AND session_epoch = NEW.session_epoch\n",
      "",
      [WHO],
    ],
    ["expired session quotes", "AND NEW.at < NEW.session_expires_at", "AND 1", [WHO]],
    ["own request quoted", "r.requester_id <> NEW.maker_id", "r.requester_id IS NOT NULL", [WHO]],
    [
      "request status unchecked",
      "r.status = 'open' AND r.expires_at > NEW.at",
      "r.expires_at > NEW.at",
      [BOOK, CLOSE],
    ],
    [
      "request expiry unchecked",
      "r.status = 'open' AND r.expires_at > NEW.at",
      "r.status = 'open'",
      [RACES, MODEL],
    ],
    ["closed market unchecked", "k.closed_at IS NOT NULL OR", "0 OR", [MARKETS]],
    ["paused venue unchecked", "WHERE p.venue = substr(", "WHERE 0 AND p.venue = substr(", [WHO]],
    ["side unchecked", "AND r.side IN (NEW.side, 'TwoWay')", "AND 1", [TWO_WAY]],
    ["another's quote replaced", "              AND o.maker_id = NEW.maker_id\n", "", [REPLACE]],
    [
      "quote on another request replaced",
      "              AND o.request_id = NEW.request_id\n",
      "",
      [REPLACE],
    ],
    ["other side replaced", "              AND o.side = NEW.side\n", "", [REPLACE]],
    ["ended quote replaced", "              AND o.status = 'open'\n", "", [REPLACE]],
    ["reserve not reused", "NEW.reserve - (", "NEW.reserve - 0 * (", [REPLACE]],
    ["replaced quote counted", ") - (NEW.replaces IS NOT NULL) < 50", ") < 50", [REPLACE]],
    ["side not needed", "NEW.side IS NOT NULL AND r.side", "1 AND r.side", [TWO_WAY]],
    ["full database ignored", "WHERE name = 'storage_full'", "WHERE 0", [LIMITS]],
    ["funds unchecked", "AND balance >= (", "AND 0 <= (", [BOOK]],
    ["key unchecked", "AND k.key_hash = NEW.key_hash", "AND 0", [BOOK, MODEL, RACES]],
    ["deadline ignored", "OR NEW.at < NEW.not_after", "OR 1", [DEADLINES]],
    [
      "limit of own quotes dropped",
      ") < NEW.max_open_quotes",
      ") < NEW.max_open_quotes + 1",
      [PRECONDITIONS],
    ],
    ["nothing reserved", "NEW.reserve AS amount", "0 AS amount", [BOOK]],
    ["key forgotten", "WHERE NEW.key_hash IS NOT NULL", "WHERE 0", [BOOK, MODEL]],
    ["key lives on", "AND k.at > NEW.at - 86400000", "", [MODEL]],
  ]),
  ...of("group", "src/rfq/operation.ts", [
    [
      "commands overtake",
      "const from = Math.max(0, ...keys.map((key) => latest.get(key) ?? 0));",
      "const from = 0 * keys.length;",
      [node("test/rfq/operation.node.test.ts")],
    ],
  ]),
  ...of("open", "src/rfq/open-request.ts", [
    ["credential unchecked", "    actorMayWrite(actor, at),\n", "", [WHO]],
    ["closed market unchecked", '    marketOpen(atom("?", [asset]), at),\n', "", [MARKETS]],
    [
      "life beyond the close",
      "${expiry(command, group.at)}",
      "${group.at} + ${command.expiresInSecs * 1_000}",
      [MARKETS],
    ],
    ["unlisted asset allowed", "    ...marketListed(asset, settings),\n", "", [MARKETS]],
    [
      "paused venue unchecked",
      "expr`NOT EXISTS (SELECT 1 FROM paused_venues WHERE venue = ${venue})`",
      "expr`${venue} IS NOT NULL`",
      [WHO],
    ],
    ["full database ignored", "    storageLeft,\n", "", [LIMITS]],
    ["key unchecked", "    ...keyIsUnused(keyUse(command), at),\n", "", [PRECONDITIONS]],
  ]),
  ...of("cancel-quote", "src/rfq/cancel-quote.ts", [
    [
      "credential unchecked",
      "rowMayWrite(c.user_id, c, c.at)",
      "expr`${rowMayWrite(c.user_id, c, c.at)} OR 1`",
      [WHO],
    ],
    [
      "owner unchecked",
      "expr`quotes.maker_id = ${c.user_id}`",
      "expr`quotes.maker_id IS NOT NULL`",
      [WHO],
    ],
    [
      "expired quote cancelled",
      "expr`quotes.status = 'open' AND quotes.expires_at > ${c.at}`",
      "expr`quotes.status = 'open'`",
      [RACES, MODEL],
    ],
    [
      "reserve kept",
      "rows.map(({ operation_id: id }) => String(id))",
      "rows.slice(1).map(({ operation_id: id }) => String(id))",
      [BOOK],
    ],
  ]),
  ...of("cancel-request", "src/rfq/cancel-request.ts", [
    ["credential unchecked", "    actorMayWrite(actor, at),\n", "", [WHO]],
    [
      "owner unchecked",
      "expr`requests.requester_id = ${uuid(actor.userId)}`",
      "expr`requests.requester_id IS NOT NULL`",
      [WHO],
    ],
    [
      "matched request cancelled",
      "expr`requests.status <> 'matched'`",
      "expr`requests.status IS NOT NULL`",
      [BOOK],
      "`status = 'open'` in the last precondition excludes it too; only the reason would differ.",
    ],
    ["quotes stay open", "WHERE status = 'open' AND stuck_at IS NULL\n", "WHERE 0\n", [BOOK]],
    ["reserves kept", "      releaseQuotesEndedBy(group, operationId),\n", "", [BOOK]],
  ]),
  ...of("cancel-quotes", "src/rfq/cancel-quotes.ts", [
    [
      "credential unchecked",
      "AND expires_at > ${group.at} AND ${mayWrite(actor, group.at)} AND ${which}`",
      "AND expires_at > ${group.at} AND ${which}`",
      [WHO],
    ],
    [
      "owner unchecked",
      "WHERE maker_id = ${uuid(actor.userId)} AND status = 'open' AND stuck_at IS NULL\n        AND expires_at",
      "WHERE maker_id IS NOT NULL AND status = 'open' AND stuck_at IS NULL\n        AND expires_at",
      [WHO],
    ],
    [
      "expired quotes cancelled",
      "AND expires_at > ${group.at} AND ${mayWrite",
      "AND ${mayWrite",
      [PRECONDITIONS],
    ],
    ["reserves kept", "    releaseQuotesEndedBy(group, operation),\n", "", [BOOK, CLOSE]],
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
      "await stepUp(db, settings, request, { duringHold: true });",
      "{ holdUntil: settings.AUTH_SECURITY_DELAY_SECS - request.actor.credential.epoch };",
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
      'if (frozen === "self" && secondFactor === "off")',
      'if (frozen === "self" && secondFactor === "off" && epoch < 0)',
      [FREEZE],
    ],
    [
      "sessions stay",
      "          session_epoch = session_epoch + 1\n        WHERE user_id = ${uuid(userId)} AND ${written}`,\n      auditRow({",
      "          session_epoch = session_epoch\n        WHERE user_id = ${uuid(userId)} AND ${written}`,\n      auditRow({",
      [FREEZE],
    ],
  ]),
  ...of("reset", "src/auth/reset-account.ts", [
    ["no hold", "${group.at} + ${holdMs})", "${group.at})", [RESET]],
    ["keys stay", "      ...(keepKeys\n", "      ...(keepKeys || holdMs > 0\n", [RESET]],
  ]),
  ...of("security hold", "src/auth/step-up.ts", [
    [
      "ignored",
      "if (!duringHold && holdUntil",
      'if (!duringHold && email === "" && holdUntil',
      [RESET],
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
  ...of("cancel", "src/custody/cancel-withdrawal.ts", [
    [
      "signed withdrawal cancelled",
      " AND NOT EXISTS (\n        SELECT 1 FROM batch_members m WHERE m.withdrawal_id = w.withdrawal_id)`",
      "`",
      [CANCEL],
    ],
    [
      "any status cancelled",
      "expr`w.status IN ('awaiting_approval', 'queued') AND NOT EXISTS (",
      "expr`w.status IS NOT NULL AND NOT EXISTS (",
      [CANCEL],
    ],
    [
      "halt ignored",
      "l.chain = w.chain AND l.halted_at IS NOT NULL",
      "l.chain = w.chain AND l.halted_at < 0",
      [CANCEL],
    ],
    [
      "amount kept",
      "w.ended_by = ${uuid(group.id)} AND w.status = 'cancelled'`,",
      "w.ended_by = ${uuid(group.id)} AND w.status = 'failed'`,",
      [CANCEL],
    ],
    [
      "owner unchecked",
      " AND w.user_id = ${uuid(actor.userId)}`;",
      "`;",
      [CANCEL],
      "findWithdrawal has found the owner's withdrawal by the same id",
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
  ...of("withdrawal-policy", "src/custody/withdraw.ts", [
    [
      "sum of the day ignored",
      "          AND ${withdrawnLastDay(user, at)} + ${bounded(amount)} > p.",
      "          AND ${bounded(amount)} > p.",
      [WITHDRAWAL_POLICY],
    ],
    [
      "splitting avoids approval",
      "      AND ${unapprovedLastDay(user, at)} + ${bounded(terms.amount)} > p.",
      "      AND ${bounded(terms.amount)} > p.",
      [WITHDRAWAL_POLICY],
    ],
    [
      "address book ignored",
      "      expr: addressAllowed(targetOf({ actor, terms }), at),",
      "      expr: TRUE,",
      [WITHDRAWAL_POLICY],
    ],
  ]),
  ...of("address-book", "src/custody/withdrawal-addresses.ts", [
    [
      "new address usable at once",
      "        AND b.active_from <= ${at}))`;",
      "        AND ${at} > 0))`;",
      [WITHDRAWAL_POLICY],
    ],
  ]),
  ...of("approval", "src/custody/approve-withdrawal.ts", [
    [
      "expired approval",
      "w.status = 'awaiting_approval' AND w.approval_expires_at > ${at}`,",
      "w.status = 'awaiting_approval' AND ${at} > 0`,",
      [WITHDRAWAL_POLICY],
    ],
    [
      "without a code",
      '  if (secondFactor === "off")\n',
      '  if (secondFactor === "off" && clientIp === "none")\n',
      [WITHDRAWAL_POLICY],
    ],
    [
      "address book ignored",
      "      expr: addressAllowed(targetOf(actor), at),",
      "      expr: expr`${at} > 0`,",
      [WITHDRAWAL_POLICY],
    ],
  ]),
  ...of("key-limits", "src/rfq/trade-limits.ts", [
    [
      "venue unchecked",
      "    AND ((k.limits ->> 'venues' IS NOT NULL",
      "    AND ((k.limits ->> 'venues' IS NULL",
      [TRADE_LIMITS],
    ],
    [
      "one trade unchecked",
      "      : expr`${exposure} > (k.limits ->> 'max_usdc_per_trade')\n        OR",
      "      : expr`",
      [TRADE_LIMITS],
    ],
    [
      "a day unchecked",
      "          AND ${usedByKey(trader, at)} + ${exposure}\n            > (k.limits",
      "          AND ${exposure}\n            > (k.limits",
      [TRADE_LIMITS],
    ],
    [
      "account unchecked",
      "      AND ${usedByUser(trader, at)} + ${exposure} > p.max_trade_usdc_per_day)`;",
      "      AND ${exposure} > p.max_trade_usdc_per_day)`;",
      [POLICY],
    ],
    [
      "session allowed",
      "  return expr`${key} IS NOT NULL OR ${sessionsMayTrade(user, at)}`;",
      "  return expr`${key} IS NOT NULL OR ${at} > 0`;",
      [POLICY],
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
      "  const { secondFactor } = await stepUp(db, settings, { actor, fields, clientIp });\n",
      '  const secondFactor = fields.password === clientIp ? "off" : "passed";\n',
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
      "replaced quote counted",
      "sql` AND quote_id IS NOT ${replaces}`",
      "sql` AND ${replaces} IS NOT 0`",
      [TRADE_LIMITS],
    ],
    [
      "total overflows",
      "      SET usdc = min(usdc + excluded.usdc, 4611686018427387904)`;",
      "      SET usdc = usdc + excluded.usdc`;",
      [TRADE_LIMITS],
    ],
  ]),
  ...of("idempotency", "src/http/serve-route.ts", [
    [
      "key in the body not required",
      '  return actor?.credential.kind === "api_key" && actor.credential.requireIdempotency === true;',
      "  return actor === undefined;",
      [KEY_LIMITS],
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
  ...of("terms", "src/rfq/trade-terms.ts", [
    [
      "cost rounded down",
      "(trade.amount * trade.price + PRICE_SCALE - 1n) / PRICE_SCALE",
      "(trade.amount * trade.price) / PRICE_SCALE",
      [TERMS],
    ],
    [
      "fee rounded up",
      "(usdcAmount * trade.makerFeeBps) / 10_000n",
      "(usdcAmount * trade.makerFeeBps + 9_999n) / 10_000n",
      [TERMS],
    ],
    ["maker's fee not reserved", "reserve: usdcAmount + makerFee", "reserve: usdcAmount", [TERMS]],
  ]),
  ...of("release", "src/rfq/release.ts", [
    [
      "accepted quotes released",
      " AND q.status IN ('cancelled', 'expired', 'rejected')`",
      "`",
      [BOOK, MODEL],
    ],
    [
      "late ends not expired",
      "iif(expires_at <= ${group.at}, 'expired', ${status})",
      "iif(expires_at < 0, 'expired', ${status})",
      [RACES, MODEL],
    ],
  ]),
  ...of("idempotency", "src/rfq/idempotency.ts", [
    [
      "terms not compared",
      "  if (terms !== hashOf(idempotency.terms)) {",
      '  if (terms === "") {',
      [BOOK, workers("test/rfq/routes.test.ts")],
    ],
    ["key lives on", "\n    AND k.at > ${at} - ${literal(KEY_LIFE_MS)}`", "`", [PRECONDITIONS]],
  ]),
  ...of("commit", "src/platform/commit.ts", [
    [
      "fence skipped",
      "    return fence(db, group, cause);",
      '    return { committed: false, reason: "lost", cause };',
      [RACES],
    ],
    [
      "unknown taken for none",
      '    if (claim === "voided") return',
      '    if (claim !== "committed") return',
      [RACES, REGISTRATION],
    ],
    [
      "time goes back",
      "  coalesce((SELECT at FROM commit_groups ORDER BY seq DESC LIMIT 1), 0))`",
      "  0)`",
      [RACES, AMOUNTS],
    ],
  ]),
  ...of("committer", "src/rfq/group-committer.ts", [
    [
      "one bad command fails all",
      'outcome.reason === "constraint" && group.length > 1)',
      'outcome.reason === "constraint" && group.length > 1_000)',
      [BOOK, RACES],
    ],
    [
      "does not wait for an unknown outcome",
      '    while (outcome === "unknown") {',
      '    while (outcome === "voided") {',
      [REGISTRATION, RACES],
    ],
  ]),
  ...of("streams", "src/streams/socket-host.ts", [
    [
      "push ignores a gap",
      "      else await this.#catchUpTo(last.seq);",
      "      else this.#broadcast(fresh);",
      [REGISTRATION],
    ],
    [
      "join sends nothing of the meantime",
      "upTo: this.#position.last ?? stands }",
      "upTo: stands }",
      [REGISTRATION],
    ],
    [
      "join leaves the others behind",
      "    } else if ((await this.#position.read()) < stands) {",
      "    } else if ((await this.#position.read()) < 0) {",
      [REGISTRATION],
    ],
    [
      "never registers again",
      "at - this.#checkedAt < CHECK_MS",
      "at - this.#checkedAt >= 0",
      [REGISTRATION],
    ],
  ]),
  ...of("streams", "src/streams/sent-position.ts", [
    [
      "memory off by one",
      "if (since + 1 < (this.#recent[0]?.seq ?? last + 1)) return undefined;",
      "if (since + 2 < (this.#recent[0]?.seq ?? last + 1)) return undefined;",
      [REGISTRATION],
    ],
  ]),
  ...of("streams", "src/streams/subscription.ts", [
    ["token not renewed", "    this.#ctx.storage.kv.delete(TOKEN);\n", "", [REGISTRATION]],
  ]),
  ...of("streams", "src/streams/replay.ts", [
    [
      "trimmed events not noticed",
      "since + 1 < head.firstKept",
      "since + 3 < head.firstKept",
      [STREAMS],
      "The replay notices the missing events and asks for a resync, too; only its reason differs.",
    ],
    [
      "gap not noticed",
      "if (last?.seq !== from + page.length) throw",
      "if (last === undefined) throw",
      [REGISTRATION],
    ],
  ]),
  ...of("streams", "src/streams/notify.ts", [
    [
      "cron notifies nobody",
      "WHERE s.pushed_seq < s.last_seq ORDER",
      "WHERE s.pushed_seq < s.last_seq - 1 ORDER",
      [STREAMS],
    ],
  ]),
  ...of("streams", "src/streams/close-ended.ts", [
    [
      "unfrozen users disconnected",
      "\n        AND (a.kind <> 'account_frozen' OR u.frozen_at IS NOT NULL)`",
      "`",
      [REGISTRATION],
    ],
  ]),
  ...of("withdraw", "src/custody/withdraw.ts", [
    ["credential unchecked", "    actorPrecondition(actor, at),\n", "", [WHO]],
    [
      "pause ignored",
      "expr`NOT EXISTS (SELECT 1 FROM kill_switches WHERE name = 'withdrawals_paused')\n        AND NOT EXISTS",
      "expr`NOT EXISTS",
      [WITHDRAW],
    ],
    [
      "halted payer ignored",
      "\n        AND NOT EXISTS (SELECT 1 FROM payer_leases WHERE chain = ${chain}\n          AND halted_at IS NOT NULL)`",
      "`",
      [CUSTODY_LIMITS],
    ],
    [
      "maximum ignored",
      "(amount <= maximum || maximum >= MAX_NATIVE_UNITS)",
      "(amount <= maximum || maximum > 0n)",
      [WITHDRAW],
    ],
    [
      "daily limit off by one",
      "${queuedToday(user, at, limits)} < ${limits.WITHDRAWAL_DAILY_COUNT}`",
      "${queuedToday(user, at, limits)} <= ${limits.WITHDRAWAL_DAILY_COUNT}`",
      [WITHDRAW],
    ],
    [
      "reverted payments ignored",
      "AND to_address = ${blob(toAddress)}) < ${MAX_REVERTED_PAYMENTS}`",
      "AND to_address = ${blob(toAddress)}) < 1000000`",
      [WITHDRAW],
    ],
    [
      "funds unchecked",
      "expr: hasAvailable(actor.userId, asset, amount),",
      "expr: TRUE,",
      [WITHDRAW],
    ],
    [
      "chain's submitted payments ignored",
      "AND status IN ('queued', 'submitted')), 0)`",
      "AND status IN ('queued')), 0)`",
      [CUSTODY_LIMITS],
    ],
    [
      "repeat with another address",
      "    row.to_address.toLowerCase() === terms.toAddress.slice(2).toLowerCase() &&\n",
      "",
      [WITHDRAW],
    ],
    [
      "repeat with another amount",
      "    BigInt(row.amount) === terms.amount &&\n",
      '    row.amount !== "" &&\n',
      [WITHDRAW],
    ],
  ]),
  ...of("settle", "src/custody/watcher/settle-withdrawal.ts", [
    [
      "amount not compared",
      "e.asset IS w.asset AND e.amount IS CAST(w.amount AS TEXT)\n",
      "e.asset IS w.asset\n",
      [PAID_OTHERWISE],
    ],
    ["address not compared", "\n  AND e.to_address IS w.to_address`", "`", [PAID_OTHERWISE]],
    [
      "token not compared",
      "e.asset IS w.asset AND e.amount IS CAST(w.amount AS TEXT)\n",
      "e.amount IS CAST(w.amount AS TEXT)\n",
      [PAID_OTHERWISE],
    ],
  ]),
  ...of("deadline", "src/platform/deadline.ts", [
    ["ignored", "expr`${at} < ${notAfter}`", "expr`${at} IS NOT NULL`", [DEADLINES]],
  ]),
  ...of("credit", "src/custody/watcher/credit-deposit.ts", [
    [
      "neighbours pass the bound",
      "WHERE place = 1 OR after < 4.6e18)",
      "WHERE place = 1 OR after < 9.2e18)",
      [CUSTODY_LIMITS],
    ],
    [
      "too much for the ledger",
      "        OR CAST(amount AS INTEGER) + ${issued} > 4611686018427387904)`",
      "        OR CAST(amount AS INTEGER) < 0)`",
      [CUSTODY_LIMITS],
    ],
  ]),
  ...of("schema", SCHEMA, [
    [
      "transfers inserted twice",
      "      OR EXISTS (SELECT 1 FROM transfers\n        WHERE ref = NEW.ref AND step = NEW.step AND line = NEW.line);",
      ";",
      [GUARDS],
    ],
    [
      "time goes back",
      "    WHERE NEW.at < (SELECT at FROM transfers ORDER BY transfer_id DESC LIMIT 1);\n",
      "    WHERE NEW.at < 0;\n",
      [APPEND_ONLY],
    ],
    [
      "lines",
      "    WHERE NEW.line <> 0 AND (NEW.line, NEW.reason) <> (1, 7);",
      "    WHERE NEW.line < 0;",
      [GUARDS],
    ],
    [
      "two assets",
      "        IS NOT (SELECT asset FROM accounts WHERE account_id = NEW.to_account)\n",
      "        IS NULL\n",
      [GUARDS],
    ],
    [
      "overdraft",
      "      AND f.balance - NEW.amount >= iif(f.kind = 'external', -4611686018427387904, 0)\n",
      "",
      [GUARDS],
      "The CHECK accounts_balance rejects it, too.",
    ],
    [
      "overflow",
      "      AND t.balance + NEW.amount <= 4611686018427387904;",
      ";",
      [GUARDS, AMOUNTS],
      "The CHECK accounts_balance rejects it, too.",
    ],
    [
      "transfer updated",
      "  SELECT RAISE(ABORT, 'append-only: a transfer never changes');",
      "  SELECT 1;",
      [GUARDS],
    ],
    [
      "wrong balance on a transfer",
      "        AND NEW.from_balance = f.balance - NEW.amount AND",
      "        AND",
      [GUARDS],
    ],
    [
      "balance set without a transfer",
      "    WHERE (t.from_account = OLD.account_id AND NEW.balance = t.from_balance\n        AND",
      "    WHERE (t.from_account = OLD.account_id AND 1\n        OR",
      [GUARDS],
    ],

    [
      "transfer deleted",
      "        ORDER BY up_to_transfer, number LIMIT 1) IS NULL\n",
      "        ORDER BY up_to_transfer, number LIMIT 1) = 0\n",
      [GUARDS, RELEASE],
    ],
    [
      "balance written",
      "  SELECT RAISE(ABORT, 'a balance moves only by a transfer') WHERE NOT EXISTS (",
      "  SELECT 1 WHERE NOT EXISTS (",
      [GUARDS],
    ],
    [
      "account's asset changed",
      "      OR NEW.asset <> OLD.asset OR NEW.kind <> OLD.kind;",
      "      OR NEW.kind <> OLD.kind;",
      [GUARDS],
      "accounts_update lets no update pass that no transfer has caused.",
    ],
    [
      "ended request changed",
      "CREATE TRIGGER requests_closed BEFORE UPDATE ON requests WHEN OLD.status <> 'open' BEGIN",
      "CREATE TRIGGER requests_closed BEFORE UPDATE ON requests WHEN 0 BEGIN",
      [APPEND_ONLY],
    ],
    [
      "ended quote changed",
      "CREATE TRIGGER quotes_closed BEFORE UPDATE ON quotes WHEN OLD.status <> 'open' BEGIN",
      "CREATE TRIGGER quotes_closed BEFORE UPDATE ON quotes WHEN 0 BEGIN",
      [APPEND_ONLY],
    ],
    [
      "event numbers skip",
      "    WHERE NEW.seq IS NOT 1 + (",
      "    WHERE NEW.seq < 1 + (",
      [APPEND_ONLY],
    ],
    ["event changed", "  SELECT RAISE(ABORT, 'append-only: event');", "  SELECT 1;", [APPEND_ONLY]],
    [
      "withdrawal's terms changed",
      "  OR NEW.amount <> OLD.amount OR NEW.to_address <> OLD.to_address BEGIN",
      "  OR NEW.amount <> OLD.amount BEGIN",
      [APPEND_ONLY],
    ],
    [
      "closed withdrawal changed",
      "WHEN OLD.status IN ('settled', 'failed', 'cancelled') BEGIN",
      "WHEN OLD.status IN ('settled') BEGIN",
      [APPEND_ONLY],
    ],
  ]),
  ...of("expire", "src/rfq/expire.ts", [
    [
      "a minute late",
      "AND asset = ${asset} AND expires_at <= ${at}\n      LIMIT ${MAX_EXPIRED_PER_GROUP})\n    UNION",
      "AND asset = ${asset} AND expires_at <= ${at} - 60000\n      LIMIT ${MAX_EXPIRED_PER_GROUP})\n    UNION",
      [RACES, MODEL],
    ],
    [
      "a maker's quotes elsewhere stay open",
      "AND q.stuck_at IS NULL AND q.expires_at <= ${at}\n",
      "AND q.stuck_at IS NULL AND q.expires_at < 0\n",
      [PRECONDITIONS],
    ],
    [
      "request ends before its quotes",
      "        AND q.status = 'open' AND q.stuck_at IS NULL)\n",
      "        AND q.status = 'accepted')\n",
      [PRECONDITIONS, RACES],
    ],
  ]),
  ...of("reconcile", "src/ledger/reconcile-journal.ts", [
    [
      "stuck reserves ignored",
      "GROUP BY owner, asset HAVING sum(balance) <> sum(expected)",
      "GROUP BY owner, asset HAVING sum(balance) < sum(expected)",
      [RECONCILE],
    ],
  ]),
  ...of("reconcile", "src/ledger/reconcile-records.ts", [
    [
      "late postings ignored",
      '      AND coalesce(${raw(groups.join(", "))}, 0) <= ${checkedGroup}`;',
      '      AND coalesce(${raw(groups.join(", "))}, 0) < 0 - ${checkedGroup}`;',
      [TAMPERING],
    ],
    [
      "payments not compared",
      "AND e.chain = w.chain AND e.kind = 'Paid' AND e.to_address = w.to_address",
      "AND e.chain = w.chain AND e.kind = 'Paid'",
      [TAMPERING],
    ],
  ]),
  ...of("archive", SCHEMA, [
    [
      "transfer of an open quote deleted",
      "      OR EXISTS (SELECT 1 FROM quotes WHERE quote_id = OLD.ref AND status = 'open')\n",
      "",
      [RELEASE],
    ],
    [
      "seal leaves transfers out",
      "          IS NOT (s.number + 1, s.up_to_transfer, s.up_to_group, s.sha256)",
      "          IS NOT (s.number + 1, NEW.after_transfer, s.up_to_group, s.sha256)",
      [SEALER],
    ],
    [
      "released with fewer transfers",
      "      AND NEW.transfers <> (SELECT count(*) FROM transfers",
      "      AND NEW.transfers < (SELECT count(*) FROM transfers",
      [RELEASE],
    ],
  ]),
  ...of("archive", "src/archive/release.ts", [
    [
      "a record's first transfer deleted before its last is sealed",
      "    OR EXISTS (SELECT 1 FROM transfers n WHERE n.ref = t.ref AND n.transfer_id > ${upTo})`",
      "`",
      [RELEASE],
    ],
    [
      "the newest record's first transfer deleted",
      "t.ref = (SELECT ref FROM transfers ORDER BY transfer_id DESC LIMIT 1)",
      "t.transfer_id = (SELECT max(transfer_id) FROM transfers)",
      [RELEASE],
    ],
    ["object not read", "return sha256 === next.sha256", "return sha256 !== ''", [RELEASE]],
  ]),
  ...of("archive", "src/archive/seal-round.ts", [
    [
      "another object taken",
      "if (again.sha256 === stored.sha256) return stored;",
      "if (again.sha256 !== '') return stored;",
      [SEALER],
    ],
  ]),
  ...of("archive", "src/archive/sealer-memory.ts", [
    ["lost transfers ignored", "if (highest < memory.highest)", "if (highest < 0)", [SEALER]],
  ]),
  ...of("archive", "src/archive/choose-range.ts", [
    [
      "unwalked transfers sealed",
      "return Math.min(cold, row?.unchecked ?? cold);",
      "return Math.min(cold, cold + (row?.unchecked ?? 0));",
      [SEALER],
    ],
  ]),
  ...of("archive", "src/ledger/history.ts", [
    [
      "archive not asked",
      "  if (rows.length >= page.limit || archive.archived !== 1) return rows;",
      "  if (rows.length >= page.limit || archive.archived !== 2) return rows;",
      [RELEASE, COLD],
    ],
    [
      "held transfers taken for the whole record",
      "newest.entry_id >= 2 * (archive.delivered + 1)",
      "newest.entry_id >= 0 * (archive.delivered + 1)",
      [COLD],
    ],
  ]),
];
