/**
 * Temporary files of the tests in memory. D1 and Durable Objects sync every commit to disk, and the
 * whole workerd waits for each: on a disk that others use, the tests take twice as long.
 */
import { mkdirSync, readdirSync, rmSync, statfsSync } from "node:fs";
import { join } from "node:path";

/** The file system in memory that every Linux has. Containers may have a small one. */
const MEMORY = "/dev/shm";
const PREFIX = "rfq-custody-tests-";
/** Several times what a run of all tests needs. */
const LEAST_FREE_BYTES = 2 ** 31;

/**
 * Makes a directory in memory that of all temporary files, also of child processes. It is removed
 * when this process ends. Without enough such memory nothing changes.
 */
export function useMemoryDirectory(): void {
  if (process.env["TMPDIR"] !== undefined || freeBytes() < LEAST_FREE_BYTES) return;
  removeAbandoned();
  const dir = join(MEMORY, `${PREFIX}${process.pid}`);
  mkdirSync(dir, { recursive: true });
  process.env["TMPDIR"] = dir;
  process.once("exit", () => rmSync(dir, { recursive: true, force: true }));
}

function freeBytes(): number {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize;
  } catch {
    return 0;
  }
}

/** A killed run leaves its directory, which would hold memory until the next boot. */
function removeAbandoned(): void {
  for (const name of readdirSync(MEMORY)) {
    if (!name.startsWith(PREFIX) || isRunning(Number(name.slice(PREFIX.length)))) continue;
    rmSync(join(MEMORY, name), { recursive: true, force: true });
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
