import { ideas, type Mutant } from "../mutant.ts";

export const CUSTODY: readonly Mutant[] = [
  ...ideas("src/custody/approve-withdrawal.ts", "custody/withdrawal-policy", {
    "without a code": [
      '  if (secondFactor === "off")\n',
      '  if (secondFactor === "off" && clientIp === "none")\n',
    ],
  }),
  ...ideas("src/custody/cancel-withdrawal.ts", "custody/cancel-withdrawal", {
    "amount kept": ['releaseEnded(group, "cancelled")', 'releaseEnded(group, "failed")'],
  }),
  ...ideas("src/custody/change-withdrawal.ts", "custody/withdrawal-races", {
    "reported by what the payer overwrites": [
      "FROM withdrawals w WHERE ${mine} AND ${audited(auditId)}`",
      "${changed(group)}`",
    ],
  }),
  ...ideas("src/custody/expire-approvals.ts", "chain/restore-claimed", {
    "halt ignored": ['      AND NOT ${isHalted(atom("w.chain"))}\n', ""],
  }),
  ...ideas("src/custody/payer/park-withdrawal.ts", "chain/withdrawals", {
    unchecked: [
      "= alteredTerms(context.settings, row);",
      "= rows.length < 0 ? alteredTerms(context.settings, row) : undefined;",
    ],
    "altered ones paid": ["    if (problem === undefined) {", "    if (row !== undefined) {"],
  }),
  ...ideas("src/custody/payer/restore-payments.ts", "chain/restore-claimed", {
    "any withdrawal with the id will do": [
      "w.status ${NOT_RETURNED} AND ${AS_ORDERED}",
      "w.status IS NOT NULL",
    ],
    "what waits is not settled": [
      "AND status = 'awaiting_approval' AND ${lost}",
      "AND status = 'queued' AND ${lost}",
    ],
  }),
  ...ideas("src/custody/watcher/credit-deposit.ts", "custody/limits", {
    "neighbours pass the bound": [
      "WHERE place = 1 OR after < 4.6e18)",
      "WHERE place = 1 OR after < 9.2e18)",
    ],
    "too much for the ledger": [
      "        OR CAST(amount AS INTEGER) + ${issued} > ${MAX_NATIVE})`",
      "        OR CAST(amount AS INTEGER) < 0)`",
    ],
  }),
  ...ideas("src/custody/watcher/settle-withdrawal.ts", "chain/paid-otherwise", {
    "amount not compared": [
      "e.asset IS w.asset AND e.amount IS CAST(w.amount AS TEXT)\n",
      "e.asset IS w.asset\n",
    ],
    "address not compared": ["\n  AND e.to_address IS w.to_address`", "`"],
    "token not compared": [
      "e.asset IS w.asset AND e.amount IS CAST(w.amount AS TEXT)\n",
      "e.amount IS CAST(w.amount AS TEXT)\n",
    ],
  }),
  ...ideas("src/custody/withdraw.ts", "custody/withdrawal-policy custody/withdraw custody/limits", {
    "repeat with another address": [
      "    row.to_address.toLowerCase() === terms.toAddress.slice(2).toLowerCase() &&\n",
      "",
    ],
    "repeat with another amount": [
      "    BigInt(row.amount) === terms.amount &&\n",
      '    row.amount !== "" &&\n',
    ],
    "splitting avoids approval": [
      "      AND ${unapprovedLastDay(user, at)} + ${bounded(terms.amount)} > p.",
      "      AND ${bounded(terms.amount)} > p.",
    ],
    "maximum ignored": [
      "(amount <= maximum || maximum >= MAX_NATIVE_UNITS)",
      "(amount <= maximum || maximum > 0n)",
    ],
    "daily limit off by one": [
      "${queuedToday(user, at, settings)} < ${settings.WITHDRAWAL_DAILY_COUNT}`",
      "${queuedToday(user, at, settings)} <= ${settings.WITHDRAWAL_DAILY_COUNT}`",
    ],
  }),
  ...ideas("src/ledger/liquidity.ts", "custody/withdraw custody/withdrawal-policy", {
    "chain's submitted payments ignored": [
      "AND o.status ${IN_FLIGHT}), 0)`",
      "AND o.status ${IN_FLIGHT} AND o.status = 'queued'), 0)`",
    ],
  }),
  ...ideas("src/custody/withdrawal-policy.ts", "custody/withdrawal-policy", {
    "sum of the day ignored": [
      "        AND ${withdrawnLastDay(user, at, withdrawal)} + ${amount} > p.",
      "        AND ${amount} > p.",
    ],
  }),
];
