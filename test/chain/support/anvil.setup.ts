/** A chain for the workerd tests that need one; they cannot start processes, so it runs beside them. */
import type { AnvilUrl } from "./provided.ts";
import type { TestProject } from "vitest/node";
import { startAnvil } from "../../../scripts/stack/anvil.ts";

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const anvil = await startAnvil({ args: ["--silent"] });
  project.provide("anvilUrl", anvil.rpcUrl satisfies AnvilUrl);
  return () => anvil.stop();
}
