/**
 * The limits of Cloudflare that the code is built for, and the texts of D1's errors that it knows.
 * `npm run platform` writes docs/platform.md from them. A local workerd enforces only some limits,
 * so the file that is named has a check of our own for the others.
 */

const DOCS = "https://developers.cloudflare.com";
const D1_PAGE = { source: `${DOCS}/d1/platform/limits/`, read: "2026-04-21" };
const WORKERS_PAGE = { source: `${DOCS}/workers/platform/limits/`, read: "2026-11-23" };
const OBJECTS_PAGE = { source: `${DOCS}/durable-objects/platform/limits/`, read: "2026-11-23" };
const ALARMS_PAGE = { source: `${DOCS}/durable-objects/api/alarms/`, read: "2026-11-23" };

export type PlatformLimit = {
  readonly what: string;
  readonly number: number;
  readonly source: string;
  /** The date that the page bore when it was read, or when it was tried. */
  readonly read: string;
  /** Whether a local workerd enforces it. A test tries those of D1. */
  readonly local: boolean;
  /** What keeps to it, … */
  readonly file: string;
  /** … and what fails if that does not. */
  readonly check: string;
};

export const PLATFORM = {
  queries: {
    what: "D1: statements of an invocation, or of one call of an object",
    number: 1_000,
    ...D1_PAGE,
    local: false,
    file: "src/platform/query-limit.ts",
    check: "test/platform/cron.test.ts, test/platform/platform-limits.node.test.ts",
  },
  params: {
    what: "D1: parameters of a statement",
    number: 100,
    ...D1_PAGE,
    local: true,
    file: "src/platform/sql.ts",
    check: "test/platform/platform-limits.node.test.ts",
  },
  statementBytes: {
    what: "D1: bytes of a statement",
    number: 100_000,
    ...D1_PAGE,
    local: true,
    file: "src/platform/sql.ts",
    check: "test/platform/platform-limits.node.test.ts",
  },
  functionArguments: {
    what: "D1: arguments of an SQL function",
    number: 32,
    ...D1_PAGE,
    local: false,
    file: "src/platform/sql.ts",
    check: "test/platform/platform-limits.node.test.ts",
  },
  valueBytes: {
    what: "D1: bytes of a value, and of a row",
    number: 2_000_000,
    ...D1_PAGE,
    local: false,
    file: "src/platform/sql.ts",
    check: "test/platform/platform-limits.node.test.ts",
  },
  database: {
    what: "D1: bytes of a database",
    number: 10_000_000_000,
    ...D1_PAGE,
    local: false,
    file: "src/platform/config.ts",
    check: "test/platform/growth.test.ts",
  },
  batchMs: {
    what: "D1: milliseconds of a batch",
    number: 30_000,
    ...D1_PAGE,
    local: false,
    file: "src/platform/windows.ts",
    check: "test/platform/windows.node.test.ts",
  },
  subrequests: {
    what: "Workers: calls of other services and objects in an invocation",
    number: 10_000,
    ...WORKERS_PAGE,
    local: false,
    file: "src/rfq/cancel-on-disconnect.ts",
    check: "test/rfq/disconnect.test.ts",
  },
  connections: {
    what: "Workers: open connections of an invocation, and of all calls of an object",
    number: 6,
    ...WORKERS_PAGE,
    local: false,
    file: "src/streams/socket-host.ts",
    check: "test/platform/room.node.test.ts",
  },
  memoryBytes: {
    what: "Workers: bytes of memory of an isolate, which objects of a class may share",
    number: 128_000_000,
    ...WORKERS_PAGE,
    local: false,
    file: "src/archive/block-index.ts",
    check: "test/platform/room.node.test.ts",
  },
  settingBytes: {
    what: "Workers: bytes of a variable or secret",
    number: 5_000,
    ...WORKERS_PAGE,
    local: false,
    file: "src/platform/config.ts",
    check: "test/platform/config.node.test.ts",
  },
  storedBytes: {
    what: "Objects: bytes of a stored value",
    number: 2_000_000,
    ...OBJECTS_PAGE,
    local: true,
    file: "src/platform/metrics-object.ts",
    check: "test/operator/metrics.test.ts",
  },
  alarmRetries: {
    what: "Objects: retries of an alarm that throws, which is dropped then",
    number: 6,
    ...ALARMS_PAGE,
    local: true,
    file: "src/custody/payer/payer.ts",
    check: "test/platform/platform-limits.test.ts",
  },
} as const satisfies Record<string, PlatformLimit>;

/** What an error of D1 says, as far as the code decides by it. */
export const D1_ERRORS = {
  constraint: {
    pattern: "SQLITE_CONSTRAINT|constraint failed|balance not moved|append-only",
    means: "A constraint or a trigger refused a statement. The batch was rolled back.",
  },
  impossible: {
    pattern:
      "SQLITE_(TOOBIG|FULL|MISMATCH|RANGE)|too big|too many SQL variables|maximum DB size|" +
      "no such (table|column)|syntax error|datatype mismatch",
    means: "No repetition of a statement can succeed. The batch was rolled back.",
  },
  group: {
    pattern: "commit_groups\\.group_id",
    means: "A batch of this id has committed, perhaps this one. The fence decides.",
  },
  unapplied: {
    pattern: "no such (?:column|table)",
    means: "A migration of this release is not applied yet, so no row is wrong.",
  },
  away: {
    pattern:
      "D1_ERROR|D1 DB|overloaded|Network connection lost|internal error|was reset|" +
      "storage caused object to be reset",
    means: "D1 did not answer. What was sent may have committed.",
  },
  sqlite: {
    pattern: "SQLITE_",
    means: "The answer is SQLite's own, so D1 is not away.",
  },
} as const satisfies Record<string, { readonly pattern: string; readonly means: string }>;

const compiled = new Map(
  Object.entries(D1_ERRORS).map(([name, { pattern }]) => [name, new RegExp(pattern, "i")]),
);

/** Whether an error, or its cause, has one of D1's texts. */
export function isD1Error(error: unknown, kind: keyof typeof D1_ERRORS): boolean {
  if (!(error instanceof Error)) return compiled.get(kind)?.test(String(error)) === true;
  return compiled.get(kind)?.test(`${error.message} ${String(error.cause)}`) === true;
}
