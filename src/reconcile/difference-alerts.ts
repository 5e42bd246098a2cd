/** Differences as alerts. They stay open until resolved, because their scan has moved on. */
import { and, desc, eq, isNull } from "drizzle-orm";
import { inChunks } from "../platform/chunks.ts";
import { alertRows } from "../platform/alert.ts";
import { NOW } from "../platform/commit.ts";
import { read } from "../platform/read.ts";
import { log } from "../platform/log.ts";
import { all, listed, type Sql, sql } from "../platform/sql.ts";
import { mapAlone } from "./check-alone.ts";
import type { Check, Difference } from "./difference.ts";
import { alerts } from "../platform/tables.ts";

const MAX_LISTED = 200;
/** Differences that one statement stores, a few hundred bytes each. */
const PER_STATEMENT = 500;

/** Raises an alert for each difference that has none yet, and logs it. */
export async function report(db: D1Database, differences: readonly Difference[]): Promise<void> {
  const bySubject = new Map(differences.map((one) => [subjectOf(one), one]));
  const subjects = [...bySubject.keys()];
  for (const chunk of inChunks(subjects, PER_STATEMENT)) {
    const some = chunk.map((subject) => [subject, JSON.stringify(bySubject.get(subject))] as const);
    const raised = await all<{ subject: string }>(
      db,
      sql`${alertRows({ at: NOW }, "reconciliation", listedDifferences(some))} RETURNING subject`,
    );
    for (const { subject } of raised)
      log("error", "ledger.difference", { ...bySubject.get(subject) });
  }
}

function listedDifferences(some: readonly (readonly [subject: string, detail: string])[]): Sql {
  return sql`SELECT j.value ->> 0 AS subject, j.value ->> 1 AS detail
    FROM json_each(${JSON.stringify(some)}) j ORDER BY j.key`;
}

/** As `report`, but differences of this check that are no longer found are resolved. */
export async function reportStanding(
  db: D1Database,
  check: Check,
  differences: readonly Difference[],
): Promise<void> {
  await report(db, differences);
  const standing = listed(differences.map(subjectOf));
  await close(db, sql`subject LIKE ${`${check} %`} AND subject NOT IN (${standing})`);
}

/** Checks that compare the same account again and again, with an amount that may change. */
const CHECKS_OF_ACCOUNTS: ReadonlySet<Check> = new Set([
  "balance_mismatch",
  "pending_mismatch",
  "holdings_short",
  "expiry_overdue",
  "address_mismatch",
]);

/** The alert's key: one per account for these checks, otherwise one per entry or record. */
function subjectOf({ check, account, detail }: Difference): string {
  const subject = `${check} ${account}`;
  return CHECKS_OF_ACCOUNTS.has(check) ? subject : `${subject}: ${detail}`;
}

/** Closes the differences of accounts that are right again. */
export async function resolveDifferences(
  db: D1Database,
  check: Check,
  accounts: readonly string[],
): Promise<void> {
  if (accounts.length === 0) return;
  await close(db, sql`subject IN (${listed(accounts.map((account) => `${check} ${account}`))})`);
}

async function close(db: D1Database, which: Sql): Promise<void> {
  await all(
    db,
    sql`UPDATE alerts SET resolved_at = ${NOW}
      WHERE kind = 'reconciliation' AND resolved_at IS NULL AND ${which}`,
  );
}

export async function openDifferences(db: D1Database): Promise<Difference[]> {
  const rows = await read(db, ({ select }) =>
    select()
      .from(alerts)
      .where(and(eq(alerts.kind, "reconciliation"), isNull(alerts.resolvedAt)))
      .orderBy(desc(alerts.alertId))
      .limit(MAX_LISTED),
  );
  const { results, failed } = mapAlone("open differences", rows, {
    // Safe cast: only `report` writes these details.
    of: ({ detail }) => JSON.parse(detail) as Difference,
    nameOf: ({ alertId }) => `alert ${alertId}`,
  });
  return [...results, ...failed];
}
