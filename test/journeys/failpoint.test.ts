import { readFileSync } from "node:fs";
import { expect, inject, it } from "vitest";
import type { BundledModule } from "../../scripts/stack/bundle.ts";

const textOf = ([main]: readonly BundledModule[]) => readFileSync(main?.path ?? "", "utf8");

it("only the bundle of the kill tests can call a failpoint", () => {
  const { plain, failpoints } = inject("bundles");
  expect(textOf(failpoints)).toContain("FAILPOINT_URL");
  expect(textOf(plain)).not.toContain("FAILPOINT_URL");
});
