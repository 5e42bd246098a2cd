/** Starts two anvil chains for the tests in workerd, which cannot start processes. */
import type { AnvilUrl } from "./provided.ts";
import type { TestProject } from "vitest/node";
import { startAnvil } from "../../../scripts/stack/anvil.ts";

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const [anvil, other] = await Promise.all([
    startAnvil({ args: ["--silent"] }),
    startAnvil({ args: ["--silent"] }),
  ]);
  project.provide("anvilUrl", anvil.rpcUrl satisfies AnvilUrl);
  project.provide("otherAnvilUrl", other.rpcUrl satisfies AnvilUrl);
  return async () => void (await Promise.all([anvil.stop(), other.stop()]));
}
