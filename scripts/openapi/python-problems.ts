/** problems.py of the Python client: an exception for each code, and one for each family. */
import type { OpenApi } from "./describe.ts";
import { docstring, HEAD } from "./python-types.ts";

/** The families, by status. A code that is newer than the package is of its family. */
const FAMILIES: ReadonlyMap<number, string> = new Map([
  [401, "Unauthorized"],
  [403, "Forbidden"],
  [404, "NotFound"],
  [409, "Conflict"],
  [429, "TooManyRequests"],
  [503, "ServiceUnavailable"],
]);

type Example = { readonly value: { readonly status: number; readonly title: string } };

export function pythonProblems({ components }: OpenApi): string {
  // Safe cast: scripts/openapi/problem-examples.ts has made them.
  const examples = Object.entries((components?.["examples"] ?? {}) as Record<string, Example>);
  const families = [...FAMILIES].map(([status, name]) => {
    const codes = examples.filter(([, { value }]) => value.status === status);
    const text = `Status ${status}: ${codes.map(([code]) => `\`${code}\``).join(", ")}.`;
    return `class ${name}(Problem, kind=${status}):\n${docstring(text, "    ")}`;
  });
  const classes = examples.map(([code, { value }]) => {
    const name = code.replaceAll(/(?:^|_)([a-z])/g, (_match, letter: string) =>
      letter.toUpperCase(),
    );
    const family = FAMILIES.get(value.status) ?? "Problem";
    return `class ${name}(${family}, kind="${code}"):\n${docstring(`${value.title}.`, "    ")}`;
  });
  return `${HEAD}"""The exceptions of the service by their cause: one for each code, within its family."""

from ._errors import Problem


${[...families, ...classes].join("\n\n\n")}
`;
}
