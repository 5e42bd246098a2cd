/** A stack's directory belongs to one running stack. */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Where programs look for a running stack; gone when it is gone, or they would ask whoever has its ports next. */
const SIGNS = ["stack.json", "operator.json", "stack.pid"];
/** Anvil's. */
export const CHAIN_STATE = "anvil-state.json";
/** Says that it is as new as the database: anvil came to write it at its end. */
export const CHAIN_SAVED = "anvil-state.saved";
/** Secrets and addresses of the contracts. */
export const KEPT = "local.json";
/** Everything a stack writes. Nothing else in the directory is touched: `.stack/` also holds other stacks and tools. */
const CONTENTS = [
  ...SIGNS,
  "state",
  "bundle",
  KEPT,
  CHAIN_STATE,
  CHAIN_SAVED,
  "anvil.log",
  "worker.log",
];

/** Empties the directory unless `keep`, and marks it as ours. Throws when another stack runs in it, or there is a database without its chain to `keep`. */
export function claimDirectory(dir: string, keep: boolean): { stop(): Promise<void> } {
  const pidFile = join(dir, "stack.pid");
  const owner = readPid(pidFile);
  if (owner !== null && owner !== process.pid && isAlive(owner)) {
    throw new Error(
      `A stack is already running in ${dir} (process ${owner}). Stop it, or give this one another directory with --dir.`,
    );
  }
  // The database would be ahead of its chain, which the service takes for a deep reorganisation: it would halt.
  if (keep && existsSync(join(dir, KEPT)) && !existsSync(join(dir, CHAIN_SAVED))) {
    throw new Error(
      `Nothing to keep in ${dir}: the last stack there was killed before the state of its chain was saved. Start without --keep, which begins anew.`,
    );
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
