import { ROOT } from "../stack/bundle.ts";
import { runChild } from "../stack/run-child.ts";
import type { Stack } from "../stack/start-stack.ts";

/**
 * Runs a command of an alert as a shell reads it, and returns what it prints. Throws if it is
 * refused. A report of something wrong is none: it ends with 1, too, but is printed.
 */
export async function runPrinted({ dir }: Pick<Stack, "dir">, command: string): Promise<string> {
  // npm prints the script's name otherwise.
  const env = { ...process.env, RFQ_DIR: dir, npm_config_loglevel: "silent" };
  const { code, stdout, stderr } = await runChild("sh", ["-c", command], { cwd: ROOT, env });
  if ((code === 0 || code === 1) && stdout.trim() !== "") return stdout;
  throw new Error(`${command}: ended with ${code}: ${stderr.trim()}`);
}
