/** `npm run drill`: each incident calls somebody, says what to do, and closes once it is mended. */
import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { INCIDENTS } from "../../scripts/drill/incidents.ts";
import { runScriptFile } from "../support/node/processes.ts";

const dir = join(".stack", `test-drill-${process.pid}-${randomBytes(4).toString("hex")}`);
afterAll(() => rmSync(dir, { recursive: true, force: true }));

it("every incident is paged, explained and closed", { timeout: 3_600_000 }, async () => {
  const run = runScriptFile("scripts/drill.ts", { args: ["--dir", dir] });
  expect(await run.exited, run.output()).toBe(0);
  for (const { name, alerts } of INCIDENTS) {
    const line = run
      .output()
      .split("\n")
      .find((one) => one.startsWith(name));
    for (const kind of alerts) expect(line).toContain(kind);
  }
  expect(INCIDENTS.length).toBeGreaterThanOrEqual(15);
});
