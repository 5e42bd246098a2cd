/** Runs scripts as child processes, and finds the processes that they leave. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync, readdirSync } from "node:fs";

export type Script = {
  child: ChildProcess;
  /** Everything that it has printed so far. */
  output(): string;
  exited: Promise<number | null>;
};

/** Starts a script. It is killed when this process exits. */
export function runScriptFile(
  script: string,
  options: { env?: Record<string, string>; args?: string[] } = {},
): Script {
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

/** Resolves when the script has printed the text. Throws if it exits first or takes too long. */
export async function untilPrinted(
  script: Script,
  text: string,
  timeoutMs = 90_000,
): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  while (!script.output().includes(text)) {
    if (script.child.exitCode !== null)
      throw new Error(
        `it exited with ${script.child.exitCode} without "${text}":\n${script.output()}`,
      );
    if (Date.now() > deadline)
      throw new Error(`it did not print "${text}" within ${timeoutMs} ms:\n${script.output()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** The pids of all descendants. Linux only, because other systems have no /proc. */
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
    // The name in brackets may contain spaces. The parent is the second field after it. A zombie
    // has ended.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ");
    return fields?.[0] === "Z" ? null : Number(fields?.[1]);
  } catch {
    return null;
  }
}
