/**
 * Bundles the Worker once for the stacks of all journeys, without and with failpoints. Other tests
 * run meanwhile: a journey waits for the bundle that it needs (bundles.ts).
 */
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { bundleWorker } from "../../../scripts/stack/bundle.ts";
import { OUTCOME } from "./bundles.ts";

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dir = join(tmpdir(), `rfq-bundles-${process.pid}`);
  // Only journeys of the release run stop at failpoints.
  const kinds = process.env["TEST_DEPTH"] === "full" ? [false, true] : [false];
  const bundled = Promise.all(
    kinds.map((failpoints) => bundle(join(dir, failpoints ? "failpoints" : "plain"), failpoints)),
  );
  project.provide("bundlesDir", dir);
  return async () => {
    await bundled;
    rmSync(dir, { recursive: true, force: true });
  };
}

/** Writes the modules or the failure beside the bundle. */
async function bundle(dir: string, failpoints: boolean): Promise<void> {
  const outcome = await bundleWorker(dir, { failpoints }).then(
    (modules) => ({ modules }),
    (error: unknown) => ({ failure: String(error) }),
  );
  writeFileSync(`${dir}.draft`, JSON.stringify(outcome));
  renameSync(`${dir}.draft`, `${dir}${OUTCOME}`);
}
