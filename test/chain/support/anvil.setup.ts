/** Starts anvil chains for the tests in workerd, which cannot start processes. */
import type { AnvilUrl } from "./provided.ts";
import type { TestProject } from "vitest/node";
import { startAnvil } from "../../../scripts/stack/anvil.ts";

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const start = () => startAnvil({ args: ["--silent"] });
  const anvils = await Promise.all(Array.from({ length: project.config.maxWorkers }, start));
  const other = await start();
  project.provide("anvilUrls", anvils.map(({ rpcUrl }) => rpcUrl) satisfies AnvilUrl[]);
  project.provide("otherAnvilUrl", other.rpcUrl satisfies AnvilUrl);
  return async () => void (await Promise.all([...anvils, other].map((anvil) => anvil.stop())));
}
