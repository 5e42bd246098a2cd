/**
 * Cloudflare's limits (developers.cloudflare.com, pages "limits" of D1 of 2026-04-21, of Workers
 * and of Durable Objects of 2026-11-23), and texts of D1's errors. workerd enforces `params`,
 * `statementBytes` and `storedBytes` only. Beyond these, D1 allows a LIKE pattern 50 bytes and a
 * result 50 000 000, and an alarm that throws is retried six times. A socket receives frames of up
 * to 32 MiB. The code may have 64 MiB and take 1 s to start. Queues take 5 000 messages a second of
 * up to 128 000 bytes, deliver each at least once, and retry it up to 100 times. Workers Logs keep
 * 256 kB of an invocation, for 7 days.
 */
export const PLATFORM = {
  /** D1: statements of an invocation, or of one call of an object. */
  queries: 1_000,
  /** D1: parameters of a statement. */
  params: 100,
  /** D1: bytes of a statement. */
  statementBytes: 100_000,
  /** D1: arguments of an SQL function. */
  functionArguments: 32,
  /** D1: bytes of a value, and of a row. */
  valueBytes: 2_000_000,
  /** D1: bytes of a database. */
  database: 10_000_000_000,
  /** D1: milliseconds of a batch. */
  batchMs: 30_000,
  /** Workers: calls of other services and objects in an invocation. */
  subrequests: 10_000,
  /** Workers: open connections of an invocation, and of all calls of an object. */
  connections: 6,
  /** Workers: bytes of a variable or secret. */
  settingBytes: 5_000,
  /** Objects: bytes of a stored value. */
  storedBytes: 2_000_000,
} as const;

const anyOf = (...texts: readonly string[]) => new RegExp(texts.join("|"), "i");

/** What an error of D1 says, as far as the code decides by it. */
export const D1_ERRORS = {
  /** A constraint or a trigger refused a statement. The batch was rolled back. */
  constraint: anyOf("SQLITE_CONSTRAINT", "constraint failed", "balance not moved", "append-only"),
  /** No repetition of a statement can succeed. The batch was rolled back. */
  impossible: anyOf(
    "SQLITE_(TOOBIG|FULL|MISMATCH|RANGE)",
    "too big",
    "too many SQL variables",
    "maximum DB size",
    "no such (table|column)",
    "syntax error",
    "datatype mismatch",
  ),
  /** A batch of this id has committed, perhaps this one. The fence decides. */
  group: /commit_groups\.group_id/i,
  /** A migration of this release is not applied yet, so no row is wrong. */
  unapplied: /no such (?:column|table)/i,
  /** D1 did not answer. What was sent may have committed. */
  away: anyOf(
    "D1_ERROR",
    "D1 DB",
    "overloaded",
    "Network connection lost",
    "internal error",
    "was reset",
    "storage caused object to be reset",
  ),
  /** The answer is SQLite's own, so D1 is not away. */
  sqlite: /SQLITE_/i,
} as const;

/** Whether an error, or its cause, has one of D1's texts. */
export function isD1Error(error: unknown, kind: keyof typeof D1_ERRORS): boolean {
  const text = error instanceof Error ? `${error.message} ${String(error.cause)}` : String(error);
  return D1_ERRORS[kind].test(text);
}
