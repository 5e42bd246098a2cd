import { type Sql, sql } from "../platform/sql.ts";

/** The next transfer gets a number above this one, so that a restore reuses no lost number. */
export function skipTransfers(upTo: number): Sql[] {
  return [
    sql`UPDATE sqlite_sequence SET seq = max(seq, ${upTo}) WHERE name = 'transfers'`,
    // SQLite adds the row with the first transfer.
    sql`INSERT INTO sqlite_sequence (name, seq) SELECT 'transfers', ${upTo}
      WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'transfers')`,
  ];
}
