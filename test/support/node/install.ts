/** Installs what a test needs, from the registries that this machine is set up for. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { TestContext } from "vitest";

const run = promisify(execFile);

const NO_NETWORK =
  /Connection|Max retries|ProxyError|name resolution|dial tcp|no such host|i\/o timeout/;

/** Runs an installation. Skips the test if the registry cannot be reached. */
export async function install(
  skip: TestContext["skip"],
  program: string,
  args: readonly string[],
  options: { cwd: string },
): Promise<void> {
  try {
    await run(program, [...args], { ...options, maxBuffer: 2 ** 26 });
  } catch (error) {
    const output = String((error as { stderr?: string }).stderr ?? error);
    skip(NO_NETWORK.test(output), `${program} cannot reach its registry`);
    throw error;
  }
}
