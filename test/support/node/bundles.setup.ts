/** Bundles the Worker once for the stacks of all journeys, without and with failpoints. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { type BundledModule, bundleWorker } from "../../../scripts/stack/bundle.ts";

type Bundles = { readonly plain: BundledModule[]; readonly failpoints: BundledModule[] };

declare module "vitest" {
  interface ProvidedContext {
    bundles: Bundles;
  }
}

export default async function setup(project: TestProject): Promise<() => void> {
  const dir = join(".stack", `bundles-${process.pid}`);
  const [plain, failpoints] = await Promise.all([
    bundleWorker(join(dir, "plain")),
    bundleWorker(join(dir, "failpoints"), { failpoints: true }),
  ]);
  project.provide("bundles", { plain, failpoints });
  return () => rmSync(dir, { recursive: true, force: true });
}
