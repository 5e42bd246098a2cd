/** The bundles of bundles.setup.ts. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { inject } from "vitest";
import type { BundledModule } from "../../../scripts/stack/bundle.ts";

declare module "vitest" {
  interface ProvidedContext {
    bundlesDir: string;
  }
}

export const OUTCOME = ".json";

/** Waits until the Worker is bundled. Throws if it does not bundle. */
export async function bundledWorker(
  { failpoints }: { failpoints: boolean } = { failpoints: false },
): Promise<BundledModule[]> {
  const path = join(inject("bundlesDir"), `${failpoints ? "failpoints" : "plain"}${OUTCOME}`);
  while (!existsSync(path)) await sleep(50);
  const { modules, failure } = read(path);
  if (modules === undefined) throw new Error(failure);
  return modules;
}

type Outcome = { modules?: BundledModule[]; failure?: string };

function read(path: string): Outcome {
  return JSON.parse(readFileSync(path, "utf8")) as Outcome;
}
