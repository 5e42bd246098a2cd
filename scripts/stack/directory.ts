/** A stack's directory belongs to one running stack. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Where programs look for a running stack; gone when it is gone, or they would ask whoever has its ports next. */
const SIGNS = ["stack.json", "operator.json", "stack.pid"];
/** Everything a stack writes. Nothing else in the directory is touched: `.stack/` also holds other stacks and tools. */
const CONTENTS = [...SIGNS, "state", "bundle", "local.json", "anvil-state.json", "anvil.log", "worker.log"];

/** Empties the directory unless `keep`, and marks it as ours. Throws when another stack runs in it. */
export function claimDirectory(dir: string, keep: boolean): { stop(): Promise<void> } {
  const pidFile = join(dir, "stack.pid");
  const owner = readPid(pidFile);
  if (owner !== null && owner !== process.pid && isAlive(owner)) {
    throw new Error(`A stack is already running in ${dir} (process ${owner}). Stop it, or give this one another directory.`);
  }
  mkdirSync(dir, { recursive: true });
  remove(dir, keep ? SIGNS : CONTENTS);
  writeFileSync(pidFile, `${process.pid}\n`);
  const release = () => remove(dir, SIGNS);
  // Also when the process ends before there was a stack that could be stopped.
  process.once("exit", release);
  return {
    stop: async () => {
      process.removeListener("exit", release);
      release();
    },
  };
}

function remove(dir: string, names: readonly string[]): void {
  for (const name of names) rmSync(join(dir, name), { recursive: true, force: true });
}

function readPid(path: string): number | null {
  try {
    const pid = Number(readFileSync(path, "utf8"));
    return Number.isInteger(pid) && pid > 0 ? pid : null;
  } catch {
    return null;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
