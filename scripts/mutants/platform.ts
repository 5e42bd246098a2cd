import { AMOUNTS, DEADLINES, KEY_LIMITS, RACES, REGISTRATION, of, type Mutant } from "./mutant.ts";

export const PLATFORM_MUTANTS: readonly Mutant[] = [
  ...of("idempotency", "src/http/serve-route.ts", [
    [
      "key in the body not required",
      '  return actor?.credential.kind === "api_key" && actor.credential.requireIdempotency === true;',
      "  return actor === undefined;",
      [KEY_LIMITS],
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
