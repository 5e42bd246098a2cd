/** `npm run settings` lists every setting with its default and its meaning. */
import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";
import { Settings } from "../../src/platform/config.ts";

const lines = execFileSync(process.execPath, ["scripts/settings.ts"], { encoding: "utf8" })
  .trim()
  .split("\n");

it("lists exactly the settings, each with a comment", () => {
  const listed = lines.filter((line) => !/^(CHAINS|VENUES)\b/.test(line));
  const names = Object.keys(Settings.shape).filter((name) => !["CHAINS", "VENUES"].includes(name));
  expect(listed.map((line) => /^(\w+) \(.*?\) {2}\w?./.exec(line)?.[1])).toEqual(names);
});

it.each([
  "SESSION_SECRETS (secret)",
  "DEPLOYMENT (required)",
  "AUTH_SESSION_TTL_SECS (3600)",
  "WITHDRAWAL_MAX_UNITS (4611686018427387904)",
  "CHAINS: poll_ms (12_000)",
  "CHAINS: explorer (optional)",
  "CHAINS: vault (required)",
  "VENUES: min_deposit (1)",
])("says %s", (start) => {
  expect(lines.filter((line) => line.startsWith(start))).toHaveLength(1);
});
