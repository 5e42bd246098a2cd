import { COLD, FULL_SCAN, RECONCILE, RELEASE, TAMPERING, of, type Mutant } from "./mutant.ts";

export const LEDGER_MUTANTS: readonly Mutant[] = [
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
