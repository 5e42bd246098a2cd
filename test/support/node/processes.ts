/** Scripts as child processes, and what is left of them afterwards. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync, readdirSync } from "node:fs";

export type ScriptRun = {
  child: ChildProcess;
  /** Everything it has printed so far. */
  output(): string;
  exited: Promise<number | null>;
};

/** A child that the test run cannot leave behind. */
export function runScriptFile(
  script: string,
  options: { env?: Record<string, string>; args?: string[] } = {},
): ScriptRun {
  const child = spawn(process.execPath, [script, ...(options.args ?? [])], {
    env: { ...process.env, NO_COLOR: "1", ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const kill = () => void child.kill("SIGKILL");
  process.once("exit", kill);
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const exited = new Promise<number | null>((resolve) => {
    child.once("close", (code) => {
      process.removeListener("exit", kill);
      resolve(code);
    });
  });
  return { child, output: () => output, exited };
}

/** Resolves when the script has printed the text. Throws when it ends, or takes too long, without. */
export async function untilPrinted(
  run: ScriptRun,
  text: string,
  timeoutMs = 30_000,
): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  while (!run.output().includes(text)) {
    if (run.child.exitCode !== null)
      throw new Error(`It ended with ${run.child.exitCode} without "${text}":\n${run.output()}`);
    if (Date.now() > deadline)
      throw new Error(`It did not print "${text}" within ${timeoutMs} ms:\n${run.output()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** The pids below this one, all generations. Linux only: elsewhere there is no /proc to read. */
export function descendants(pid: number): number[] {
  if (!existsSync("/proc/self/stat")) return [];
  const children = new Map<number, number[]>();
  for (const name of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
    const parent = parentOf(name);
    if (parent !== null) children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const found: number[] = [];
  const queue = [pid];
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    const below = children.get(next) ?? [];
    found.push(...below);
    queue.push(...below);
  }
  return found;
}

export function alive(pids: number[]): number[] {
  return pids.filter((pid) => parentOf(String(pid)) !== null);
}

function parentOf(pid: string): number | null {
  try {
    // The name in brackets may hold spaces; the parent is the second field after it. A zombie is as good as gone.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ");
    return fields?.[0] === "Z" ? null : Number(fields?.[1]);
  } catch {
    return null;
  }
}
