import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import type { BundledModule } from "../../scripts/stack/bundle.ts";
import { bundledWorker } from "../support/node/bundles.ts";

const textOf = ([main]: readonly BundledModule[]) => readFileSync(main?.path ?? "", "utf8");

it("only the bundle of the kill tests can call a failpoint", async () => {
  const plain = await bundledWorker();
  const failpoints = await bundledWorker({ failpoints: true });
  expect(textOf(failpoints)).toContain("FAILPOINT_URL");
  expect(textOf(plain)).not.toContain("FAILPOINT_URL");
});
