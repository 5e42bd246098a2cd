/** Starts anvil chains for the tests in workerd, which cannot start processes. */
import { existsSync, readFileSync } from "node:fs";
import type { AnvilUrl } from "./provided.ts";
import type { TestProject } from "vitest/node";
import { startAnvil } from "../../../scripts/stack/anvil.ts";

/** The contract of the large venues. Of the package only this is used. */
const CONDITIONAL_TOKENS =
  "node_modules/@gnosis.pm/conditional-tokens-contracts/build/contracts/ConditionalTokens.json";

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const start = () => startAnvil({ args: ["--silent"] });
  const anvils = await Promise.all(Array.from({ length: project.config.maxWorkers }, start));
  const other = await start();
  project.provide("anvilUrls", anvils.map(({ rpcUrl }) => rpcUrl) satisfies AnvilUrl[]);
  project.provide("otherAnvilUrl", other.rpcUrl satisfies AnvilUrl);
  // Safe cast: truffle's artifact.
  const artifact = existsSync(CONDITIONAL_TOKENS)
    ? (JSON.parse(readFileSync(CONDITIONAL_TOKENS, "utf8")) as { bytecode: string })
    : { bytecode: "" };
  project.provide("conditionalTokens", artifact.bytecode);
  return async () => void (await Promise.all([...anvils, other].map((anvil) => anvil.stop())));
}
