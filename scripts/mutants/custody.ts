import {
  CANCEL,
  CUSTODY_LIMITS,
  EDITS,
  PAID_OTHERWISE,
  RESTORE_CLAIMED,
  WHO,
  WITHDRAW,
  WITHDRAWAL_POLICY,
  WITHDRAWALS,
  of,
  workers,
  type Mutant,
} from "./mutant.ts";

export const CUSTODY_MUTANTS: readonly Mutant[] = [
  ...of("change of a withdrawal", "src/custody/change-withdrawal.ts", [
    ["owner unchecked", " AND w.user_id = ${uuid(actor.userId)}`;", "`;", [WHO]],
    [
      "reported by what the payer overwrites",
      "FROM withdrawals w WHERE ${mine} AND ${audited(auditId)}`",
      "${changed(group)}`",
      [workers("test/custody/withdrawal-races.test.ts")],
    ],
  ]),
  ...of("withdrawal mac", "src/ledger/withdrawal-mac.ts", [
    ["its destination not covered", "asset, amount, to];", "asset, amount];", [WITHDRAWALS]],
    ["its amount not covered", "asset, amount, to];", "asset, to];", [WITHDRAWALS]],
    ["its user not covered", "[state, withdrawalId, userId,", "[state, withdrawalId,", [EDITS]],
    [
      "what waits passes for what need not",
      "return [state, withdrawalId,",
      "return [withdrawalId,",
      [WITHDRAWAL_POLICY],
    ],
    ["approval not needed", "row.waited === 0 ||", "row.waited <= 1 ||", [WITHDRAWAL_POLICY]],
    [
      "any approval counts",
      '["approved", bareId(withdrawalId)]',
      '["approved", withdrawalId.slice(99)]',
      [WITHDRAWAL_POLICY],
    ],
  ]),
  ...of("terms to pay", "src/custody/payer/check-terms.ts", [
    [
      "unchecked",
      "= alteredTerms(context.settings, row);",
      "= rows.length < 0 ? alteredTerms(context.settings, row) : undefined;",
      [WITHDRAWALS],
    ],
    [
      "altered ones paid",
      "    if (problem === undefined) {",
      "    if (row !== undefined) {",
      [WITHDRAWALS],
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
  ]),
  ...of("withdrawal-limit", "src/custody/withdrawal-limit.ts", [
    [
      "sum of the day ignored",
      "      AND ${withdrawnLastDay(user, at, withdrawal)} + ${amount} > p.",
      "      AND ${amount} > p.",
      [WITHDRAWAL_POLICY],
    ],
  ]),
  ...of("withdrawal-limit", "src/auth/exposure.ts", [
    [
      "approved withdrawal counted on the day of its order",
      "max(created_at, coalesce(approved_at, 0)) >= ${from}",
      "created_at >= ${from}",
      [WITHDRAWAL_POLICY],
    ],
  ]),
  ...of("withdrawal-policy", "src/custody/withdraw.ts", [
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
      "limit of the day ignored",
      '      expr: withinDailyLimit(withdrawing(actor), atom("w.amount"), at),',
      "      expr: expr`${at} > 0`,",
      [WITHDRAWAL_POLICY],
    ],
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
      "${queuedToday(user, at, settings)} < ${settings.WITHDRAWAL_DAILY_COUNT}`",
      "${queuedToday(user, at, settings)} <= ${settings.WITHDRAWAL_DAILY_COUNT}`",
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
  ]),
  ...of("withdraw", "src/custody/earlier-withdrawal.ts", [
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
  ...of("restore", "src/custody/payer/restore-payments.ts", [
    [
      "any withdrawal with the id will do",
      "w.status IN ('queued', 'submitted', 'settled') AND ${AS_ORDERED}",
      "w.status IS NOT NULL",
      [RESTORE_CLAIMED],
    ],
    [
      "what waits is not settled",
      "AND status = 'awaiting_approval' AND ${lost}",
      "AND status = 'queued' AND ${lost}",
      [RESTORE_CLAIMED],
    ],
  ]),
  ...of("expiry of approvals", "src/custody/expire-approvals.ts", [
    [
      "halt ignored",
      "l.chain = w.chain AND l.halted_at IS NOT NULL",
      "l.chain = w.chain AND l.halted_at < 0",
      [RESTORE_CLAIMED],
    ],
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
];
