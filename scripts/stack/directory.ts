/** The directory of a stack, which belongs to one running stack at a time. */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SetupError } from "./setup-error.ts";

/**
 * Programs find a running stack by these files. They are removed when it stops, because another
 * process may use its ports later.
 */
const DISCOVERY_FILES = ["stack.json", "operator.json", "stack.pid"];
export const CHAIN_STATE = "anvil-state.json";
/** Exists if anvil wrote its state when it stopped, so that the state is as new as the database. */
export const CHAIN_SAVED = "anvil-state.saved";
/** The secrets, and the addresses of the contracts. */
export const KEPT_FILE = "local.json";
/**
 * What a stack writes. Other files stay, because `.stack/` also contains other stacks and tools.
 */
const CONTENTS = [
  ...DISCOVERY_FILES,
  "state",
  "bundle",
  KEPT_FILE,
  CHAIN_STATE,
  CHAIN_SAVED,
  "anvil.log",
  "worker.log",
];

/**
 * Empties the directory unless `keep`, and marks it as used by this process. Throws if another
 * stack runs in it, or if `keep` is set and the state of the chain was not saved.
 */
export function claimDirectory(dir: string, keep: boolean): { stop(): Promise<void> } {
  const pidFile = join(dir, "stack.pid");
  const owner = readPid(pidFile);
  if (owner !== null && owner !== process.pid && isAlive(owner)) {
    throw new SetupError(
      `A stack is already running in ${dir} (process ${owner}). ` +
        "Stop it, or choose another directory with --dir.",
    );
  }
  // The database would be ahead of the chain, and the service would halt as after a deep
  // reorganisation.
  if (keep && existsSync(join(dir, KEPT_FILE)) && !existsSync(join(dir, CHAIN_SAVED))) {
    throw new SetupError(
      `Nothing to keep in ${dir}, because the last stack was killed before it saved its chain. ` +
        "Start without --keep, which begins with an empty database.",
    );
  }
  mkdirSync(dir, { recursive: true });
  remove(dir, keep ? DISCOVERY_FILES : CONTENTS);
  writeFileSync(pidFile, `${process.pid}\n`);
  const release = () => remove(dir, DISCOVERY_FILES);
  // The process may end before there is a stack to stop.
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
