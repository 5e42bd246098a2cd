import { type ChildProcess, spawn } from "node:child_process";
import { Socket } from "node:net";

/**
 * Kills the child when this process ends, also when this process gets SIGKILL and can run no exit
 * hook. A shell waits for the end of its standard input, which the kernel closes with this process.
 */
export function killWithParent(child: ChildProcess): void {
  if (child.pid === undefined) return;
  const watchdog = spawn("sh", ["-c", `cat >/dev/null; kill -9 ${child.pid} 2>/dev/null`], {
    stdio: ["pipe", "ignore", "ignore"],
  });
  watchdog.stdin.on("error", () => {});
  // Neither the watchdog nor the pipe to it may keep this process alive.
  watchdog.unref();
  if (watchdog.stdin instanceof Socket) watchdog.stdin.unref();
  // The system may give the pid of a dead child to another process.
  child.once("exit", () => watchdog.kill("SIGKILL"));
}
