/** `npm run platform`: writes docs/platform.md from src/platform/platform-limits.ts. */
import { writeFileSync } from "node:fs";
import { D1_ERRORS, PLATFORM, type PlatformLimit } from "../src/platform/platform-limits.ts";

const row = ({ what, number, source, read, local, file, check }: PlatformLimit) =>
  `| [${what}](${source}) | ${number.toLocaleString("en").replaceAll(",", " ")} | ${read} | ` +
  `${local ? "yes" : "no"} | \`${file}\` | ${check.replaceAll(/[^ ,]+/g, "`$&`")} |`;
const error = ({ pattern, means }: { pattern: string; means: string }) =>
  `| \`${pattern.replaceAll("|", "\\|")}\` | ${means} |`;

export const platformPage = `# The platform's limits

Generated from \`src/platform/platform-limits.ts\` by \`npm run platform\`. *Local* says whether the
workerd of the tests enforces a limit. *Kept by* has our own check or size, and *test* fails without
it.

| Limit | Number | Read | Local | Kept by | Test |
|---|---:|---|---|---|---|
${Object.values(PLATFORM).map(row).join("\n")}

Errors of D1 have no codes of their own. These are the texts that decide something:

| Text | Means |
|---|---|
${Object.values(D1_ERRORS).map(error).join("\n")}
`;

if (import.meta.main) writeFileSync("docs/platform.md", platformPage);
