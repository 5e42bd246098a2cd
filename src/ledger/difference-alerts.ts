/**
 * Differences as alerts. One stays open until the operator resolves it, because the scan that found
 * it has moved on.
 */
import { and, desc, eq, isNull } from "drizzle-orm";
import { NOW } from "../platform/commit.ts";
import { log } from "../platform/log.ts";
import { read } from "../platform/read.ts";
import { all, sql } from "../platform/sql.ts";
import { alerts } from "../platform/tables.ts";
import { mapAlone } from "./check-alone.ts";
import type { Check, Difference } from "./difference.ts";

const MAX_LISTED = 200;

/** Raises an alert for each difference that has none yet, and logs it. */
export async function report(db: D1Database, differences: readonly Difference[]): Promise<void> {
  for (const difference of differences) {
    const subject = subjectOf(difference);
    const raised = await all(
      db,
      sql`INSERT INTO alerts (kind, subject, detail, at)
        SELECT 'reconciliation', ${subject}, ${JSON.stringify(difference)}, ${NOW}
        WHERE NOT EXISTS (SELECT 1 FROM alerts
          WHERE kind = 'reconciliation' AND subject = ${subject} AND resolved_at IS NULL)
        RETURNING alert_id`,
    );
    if (raised.length > 0) log("error", "ledger.difference", { ...difference });
  }
}

/** As `report`, but differences of this check that are no longer found are resolved. */
export async function reportStanding(
  db: D1Database,
  check: Check,
  differences: readonly Difference[],
): Promise<void> {
  await report(db, differences);
  const standing = JSON.stringify(differences.map(subjectOf));
  await all(
    db,
    sql`UPDATE alerts SET resolved_at = ${NOW}
      WHERE kind = 'reconciliation' AND resolved_at IS NULL AND subject LIKE ${`${check} %`}
        AND subject NOT IN (SELECT value FROM json_each(${standing}))`,
  );
}

/** Checks that compare the same account again and again, with an amount that may change. */
const CHECKS_OF_ACCOUNTS: ReadonlySet<Check> = new Set([
  "balance_mismatch",
  "pending_mismatch",
  "holdings_short",
  "expiry_overdue",
  "rights_mismatch",
  "address_mismatch",
]);

/** The alert's key: one per account for these checks, otherwise one per entry or record. */
function subjectOf({ check, account, detail }: Difference): string {
  const subject = `${check} ${account}`;
  return CHECKS_OF_ACCOUNTS.has(check) ? subject : `${subject}: ${detail}`;
}

export async function resolve(db: D1Database, check: Check, account: string): Promise<void> {
  await all(
    db,
    sql`UPDATE alerts SET resolved_at = ${NOW}
      WHERE kind = 'reconciliation' AND subject = ${`${check} ${account}`} AND resolved_at IS NULL`,
  );
}

export async function openDifferences(db: D1Database): Promise<Difference[]> {
  const rows = await read(db, ({ select }) =>
    select({ id: alerts.alertId, detail: alerts.detail })
      .from(alerts)
      .where(and(eq(alerts.kind, "reconciliation"), isNull(alerts.resolvedAt)))
      .orderBy(desc(alerts.alertId))
      .limit(MAX_LISTED),
  );
  const { results, failed } = mapAlone("open differences", rows, {
    of: ({ detail }) => readDifference(detail),
    nameOf: ({ id }) => `alert ${id}`,
  });
  return [...results, ...failed];
}

/** Safe cast: only `report` writes these details. */
function readDifference(detail: string): Difference {
  return JSON.parse(detail) as Difference;
}
