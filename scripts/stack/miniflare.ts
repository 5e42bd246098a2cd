/** What Miniflare lacks for scripts that start and end it. */
import type { ChildProcess } from "node:child_process";
import diagnostics from "node:diagnostics_channel";
import { appendFileSync } from "node:fs";
import { basename } from "node:path";
import { Log, LogLevel } from "miniflare";
import { killWithParent } from "./watchdog.ts";

/** Writes the log of Miniflare, for example a crash, to the log of the Worker. */
export class FileLog extends Log {
  readonly #file: string;

  constructor(file: string) {
    super(LogLevel.WARN);
    this.#file = file;
  }

  override log(message: string): void {
    appendFileSync(this.#file, `${new Date().toISOString()} miniflare ${message}\n`);
  }
}

/**
 * Removes the signal handlers of Miniflare, which would end the process before a script has cleaned
 * up. The exit hook above ends workerd too.
 */
export function withoutSignalHandlers<T>(make: () => T): T {
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  const before = new Map(signals.map((signal) => [signal, new Set(process.listeners(signal))]));
  const made = make();
  for (const signal of signals) {
    for (const listener of process.listeners(signal)) {
      if (before.get(signal)?.has(listener) === false) process.removeListener(signal, listener);
    }
  }
  return made;
}

/** Tracks the workerd that Miniflare spawned last, and kills it when this process ends. */
export function watchChildren() {
  let workerd: ChildProcess | null = null;
  const onSpawn = (message: unknown) => {
    const child = (message as { process: ChildProcess }).process;
    // The channel reports before the spawn. File and pid are known one tick later.
    queueMicrotask(() => {
      if (child.pid === undefined || !basename(child.spawnfile).startsWith("workerd")) return;
      workerd = child;
      killWithParent(child);
      child.once("exit", () => {
        if (workerd === child) workerd = null;
      });
    });
  };
  diagnostics.subscribe("child_process", onSpawn);
  return {
    current: () => workerd,
    close: () => diagnostics.unsubscribe("child_process", onSpawn),
    kill: async () => {
      const child = workerd;
      if (child === null) return;
      const ended = new Promise<void>((done) => child.once("exit", () => done()));
      child.kill("SIGKILL");
      await ended;
    },
  };
}
