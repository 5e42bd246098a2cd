import { spawn } from "node:child_process";

export type Ran = {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
};

/** Runs a program to its end, without a terminal. It ends with this process. */
export async function runChild(
  program: string,
  args: readonly string[],
  { input = "", ...options }: { cwd?: string; env?: NodeJS.ProcessEnv; input?: string } = {},
): Promise<Ran> {
  const child = spawn(program, args, { ...options, stdio: "pipe" });
  // A Ctrl-C may end only this process. wrangler's script passes this signal on to its bundler.
  const kill = () => child.kill("SIGTERM");
  process.once("exit", kill);
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  child.stdin.end(input);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  process.removeListener("exit", kill);
  return { code, stdout, stderr };
}
