import {
  AMOUNTS,
  DEADLINES,
  KEY_LIMITS,
  node,
  of,
  RACES,
  REGISTRATION,
  workers,
  type Mutant,
} from "./mutant.ts";

const CRON = workers("test/platform/cron.test.ts");

export const PLATFORM_MUTANTS: readonly Mutant[] = [
  ...of("idempotency", "src/http/serve-route.ts", [
    [
      "key in the body not required",
      '  return actor?.credential.kind === "api_key" && actor.credential.requireIdempotency === true;',
      "  return actor === undefined;",
      [KEY_LIMITS],
    ],
  ]),
  ...of("query-limit", "src/platform/query-limit.ts", [
    ["is not kept", "if (statements > this.left) throw", "if (statements < 0) throw", [CRON]],
  ]),
  ...of("cron", "src/cron.ts", [
    [
      "runs a late task twice",
      "since !== undefined && began - since < TASK_LOST_MS",
      "since !== undefined && began - since < 0",
      [CRON],
    ],
  ]),
  ...of("scan", "src/reconcile/reconcile.ts", [
    ["ignores the limit", "if (queriesLeft(db) < 2 * QUERIES_PER_CHUNK) return false;", "", [CRON]],
  ]),
  ...of("json", "src/http/json.ts", [
    [
      "any text taken as canonical",
      " && JSON.stringify(value) === text;",
      ";",
      [node("test/http/json.node.test.ts")],
    ],
    [
      "escapes taken as canonical",
      'return !text.includes("\\\\u") && isWithinLimits',
      "return isWithinLimits",
      [node("test/http/json.node.test.ts")],
    ],
  ]),
  ...of("body", "src/http/request.ts", [
    [
      "the stated length believed",
      "  return first.byteLength <= Number(stated) ? first : readRest(body, [first]);",
      "  return first;",
      [workers("test/http/edge.test.ts")],
    ],
    [
      "a byte too many accepted",
      "  if (first.byteLength > BODY_LIMIT_BYTES) throw bodyTooLarge();\n",
      "",
      [workers("test/http/edge.test.ts")],
    ],
  ]),
  ...of("commit", "src/platform/commit.ts", [
    [
      "fence skipped",
      "    return fence(db, group, cause);",
      '    return { committed: false, reason: "lost", cause };',
      [RACES],
    ],
    [
      "unknown taken for none",
      '    if (claim === "voided") return',
      '    if (claim !== "committed") return',
      [RACES, REGISTRATION],
    ],
    [
      "time goes back",
      "  coalesce((SELECT at FROM commit_groups ORDER BY seq DESC LIMIT 1), 0))`",
      "  0)`",
      [RACES, AMOUNTS],
    ],
  ]),
  ...of("deadline", "src/platform/deadline.ts", [
    ["ignored", "expr`${at} < ${notAfter}`", "expr`${at} IS NOT NULL`", [DEADLINES]],
  ]),
];
