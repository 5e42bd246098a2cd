import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { bundleWorker } from "../../scripts/stack/bundle.ts";

const dir = mkdtempSync(join(tmpdir(), "failpoint-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

async function mainModule(options: { failpoints: boolean }): Promise<string> {
  const [main] = await bundleWorker(join(dir, String(options.failpoints)), options);
  return readFileSync(main?.path ?? "", "utf8");
}

it("only the bundle of the kill tests can call a failpoint", { timeout: 60_000 }, async () => {
  expect(await mainModule({ failpoints: true })).toContain("FAILPOINT_URL");
  expect(await mainModule({ failpoints: false })).not.toContain("FAILPOINT_URL");
});
