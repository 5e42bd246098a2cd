/**
 * Runs each check of the reconciliation alone. Somebody who can write SQL can set a row to a value
 * on which a check throws. Then that is a difference (`check_failed`), and all other checks run. If
 * D1 did not respond, the reconciliation ends, and the next one continues.
 */
import { isD1Error } from "../platform/platform-limits.ts";
import { errorFields, log } from "../platform/log.ts";
import { queriesLeft, QueryLimitReached } from "../platform/query-limit.ts";
import type { Difference } from "./difference.ts";

/** Rows with `after < id <= upTo`. */
export type Chunk = { readonly after: number; readonly upTo: number };
/** What the ids of a chunk number. */
export type Rows = "transfer" | "group" | "account" | "stream" | "user" | "address";
type Part = { readonly db: D1Database; readonly rows: Rows; readonly chunk: Chunk };
type Check = (part: Chunk) => Promise<readonly Difference[]>;
/** By name. */
export type Checks = Readonly<Record<string, Check>>;

/** Rows to which a check that throws is narrowed down. Each costs the reads of some chunks. */
const MAX_ROWS_NAMED = 10;
/** Queries of the invocation that narrowing down leaves to the other checks of the chunk. */
const QUERIES_OF_OTHERS = 50;
const MAX_REASON = 200;

/** Returns what the check finds, or the difference `check_failed` if it throws. */
export async function checkAlone(
  name: string,
  check: () => Promise<readonly Difference[]>,
): Promise<readonly Difference[]> {
  try {
    return await check();
  } catch (error) {
    if (isAway(error)) throw error;
    return [checkFailed(name, "the whole check", error)];
  }
}

/**
 * As `checkAlone`. If the check throws, each half of the chunk is checked, and so on, until the row
 * is known or the invocation has few queries left. So the other rows of the chunk are checked, too.
 */
export async function checkRowsAlone(
  { db, name, rows, chunk }: Part & { readonly name: string },
  check: Check,
): Promise<readonly Difference[]> {
  let named = 0;
  const checkPart: Check = async (part) => {
    const { after, upTo } = part;
    try {
      return await check(part);
    } catch (error) {
      if (isAway(error)) throw error;
      const middle = after + Math.floor((upTo - after) / 2);
      // No integer lies between them: it is one row, or the numbers are too large for a double.
      const isRow = middle <= after || middle >= upTo;
      if (isRow || named >= MAX_ROWS_NAMED || queriesLeft(db) < QUERIES_OF_OTHERS) {
        named++;
        const where = `${rows} ${after + 1 === upTo ? upTo : `${after + 1} to ${upTo}`}`;
        return [checkFailed(name, where, error)];
      }
      const below = await checkPart({ after, upTo: middle });
      return [...below, ...(await checkPart({ after: middle, upTo }))];
    }
  };
  return checkPart(chunk);
}

/** Runs all checks of a chunk, each as `checkRowsAlone`. */
export async function checkEach(part: Part, checks: Checks): Promise<Difference[]> {
  const found = Object.entries(checks).map(([name, check]) =>
    checkRowsAlone({ ...part, name }, check),
  );
  return (await Promise.all(found)).flat();
}

/** Makes something of each row. A row on which that throws is the difference `check_failed`. */
export function mapAlone<Row, Result>(
  name: string,
  rows: readonly Row[],
  use: { readonly of: (row: Row) => Result; readonly nameOf: (row: Row) => string },
): { readonly results: readonly Result[]; readonly failed: readonly Difference[] } {
  const results: Result[] = [];
  const failed: Difference[] = [];
  for (const row of rows) {
    try {
      results.push(use.of(row));
    } catch (error) {
      failed.push(checkFailed(name, use.nameOf(row), error));
    }
  }
  return { results, failed };
}

/**
 * D1 has not carried out the statement, so no row is wrong. An error of SQLite has its code. One
 * about a column or table means that a migration of this release has not been applied yet.
 */
function isAway(error: unknown): boolean {
  if (error instanceof QueryLimitReached) return true;
  if (isD1Error(error, "unapplied")) return true;
  return isD1Error(error, "away") && !isD1Error(error, "sqlite");
}

function checkFailed(name: string, where: string, error: unknown): Difference {
  log("error", "ledger.check_failed", { check: name, where, ...errorFields(error) });
  const reason = String(errorFields(error)["message"] ?? "it threw no error").slice(0, MAX_REASON);
  const account = `all/check/${name}`;
  return { check: "check_failed", account, amount: "0", detail: `${where}: ${reason}` };
}
