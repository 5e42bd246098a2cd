import {
  COLD,
  FULL_SCAN,
  POSITIONS,
  RECONCILE,
  RELEASE,
  SCHEMA,
  TAMPERING,
  of,
  type Mutant,
} from "./mutant.ts";

export const LEDGER_MUTANTS: readonly Mutant[] = [
  ...of("positions", SCHEMA, [
    [
      "a purchase costs no fee",
      "SELECT m.usdc_amount + m.buyer_fee FROM match_sides",
      "SELECT m.usdc_amount FROM match_sides",
      [POSITIONS],
    ],
    [
      "a sum of trades rises without a trade",
      "WHERE NEW.balance = OLD.balance OR NEW.traded_usdc < OLD.traded_usdc",
      "WHERE NEW.traded_usdc < OLD.traded_usdc",
      [POSITIONS],
    ],
  ]),
  ...of("positions", "src/reconcile/check-positions.ts", [
    [
      "sums in the archive not compared",
      'WHERE ${within("a.account_id", chunk)} AND ${notTradedAfter(DELIVERED)}',
      'WHERE 0 AND ${within("a.account_id", chunk)} AND ${notTradedAfter(DELIVERED)}',
      [RELEASE],
    ],
    [
      "sums of recent trades not compared",
      "WHERE ${notTradedAfter(expr`${upTo}`)} AND ${isNext(scan, chunk)}",
      "WHERE 0 AND ${notTradedAfter(expr`${upTo}`)} AND ${isNext(scan, chunk)}",
      [TAMPERING],
    ],
  ]),
  ...of("positions", "src/archive/seal-row.ts", [
    [
      "a seal forgets what was traded",
      "SET balance = excluded.balance, ${addSums()}",
      "SET balance = excluded.balance",
      [RELEASE],
    ],
  ]),
  ...of("positions", "src/rfq/accept-quote.ts", [
    [
      "a sum of trades may overflow",
      '        AND ${canTrade(atom("s.buyer_id"), "available", TRADED)}\n',
      "",
      [POSITIONS],
    ],
  ]),
  ...of("reconcile", "src/reconcile/check-journal.ts", [
    [
      "a chunk is compared although it has been released",
      " AND ${DELIVERED} <= ${after}`",
      "`",
      [FULL_SCAN],
    ],
  ]),
  ...of("reconcile", "src/reconcile/check-balances.ts", [
    [
      "stuck reserves ignored",
      "GROUP BY owner, asset HAVING sum(held) <> sum(expected)",
      "GROUP BY owner, asset HAVING sum(held) < sum(expected)",
      [RECONCILE],
    ],
  ]),
  ...of("reconcile", "src/reconcile/check-records.ts", [
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
  ...of("archive", "src/ledger/history.ts", [
    [
      "archive not asked",
      "unsearched !== null || archive.archived !== 1)",
      "unsearched !== null || archive.archived !== 2)",
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
