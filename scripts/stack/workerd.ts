/**
 * The bundled Worker in workerd, driven through Miniflare, with the bindings of wrangler.toml and state in files.
 *
 * Miniflare restarts a workerd that died, with the same ports and state; `kill` and `restart` build on that.
 */
import diagnostics from "node:diagnostics_channel";
import type { ChildProcess } from "node:child_process";
import { appendFileSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Log, LogLevel, Miniflare, convertV4MiniflareOptions } from "miniflare";
import { unstable_getMiniflareWorkerOptions } from "wrangler";
import { type BundledModule, OFFLINE, WRANGLER_CONFIG } from "./bundle.ts";
import { AS_SENT, withLocalEntry } from "./local-entry.ts";
import { killWithParent } from "./watchdog.ts";

export type Workerd = {
  /** CF-Connecting-IP is 127.0.0.1, whatever the client sends. */
  baseUrl: string;
  /** workerd itself, without Miniflare's entry worker in front, and CF-Connecting-IP as it was sent: for the fuzzer. */
  directUrl: string;
  /** Leads to the entrypoint `Operator`. */
  operatorUrl: string;
  pid(): number | null;
  database(): ReturnType<Miniflare["getD1Database"]>;
  /** Runs the Worker's scheduled handler once. */
  runCron(): Promise<void>;
  /** SIGKILL, as a crash would end it. Resolves when it is dead; the next one comes up by itself. */
  kill(): Promise<void>;
  /** Puts messages on the withdrawals queue, as the Worker itself does. */
  ring(messages: readonly object[]): Promise<void>;
  /**
   * A new workerd on the same state, with changed settings where given; between the two, `whileStopped` has the files to
   * itself. Resolves when it answers.
   */
  restart(settings?: Record<string, string>, whileStopped?: () => void): Promise<void>;
  stop(): Promise<void>;
};

export type WorkerdOptions = {
  port: number;
  directPort: number;
  operatorPort: number;
  modules: BundledModule[];
  stateDir: string;
  logFile: string;
  settings: Record<string, string>;
};

const HEALTH_TIMEOUT_MS = 30_000;

export async function startWorkerd(options: WorkerdOptions): Promise<Workerd> {
  Object.assign(process.env, OFFLINE);
  const watch = watchChildren();
  let settings = options.settings;
  const start = () =>
    withoutSignalHandlers(() => new Miniflare(miniflareOptions({ ...options, settings })));
  let miniflare = start();
  const baseUrl = `http://127.0.0.1:${options.port}`;
  const kill = () => void watch.kill();
  process.once("exit", kill);

  const stop = async () => {
    process.removeListener("exit", kill);
    watch.close();
    await miniflare.dispose();
  };
  try {
    await miniflare.ready;
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    baseUrl,
    directUrl: `http://127.0.0.1:${options.directPort}`,
    operatorUrl: `http://127.0.0.1:${options.operatorPort}`,
    pid: () => watch.current()?.pid ?? null,
    database: () => miniflare.getD1Database("DB"),
    runCron: async () => {
      const worker = await miniflare.getWorker();
      const result = await worker.scheduled({ cron: "* * * * *" });
      if (result.outcome !== "ok")
        throw new Error(
          `The scheduled handler ended with "${result.outcome}", see ${options.logFile}`,
        );
    },
    kill: () => watch.kill(),
    ring: async (messages) => {
      const queue = await miniflare.getQueueProducer<object>("WITHDRAWALS");
      await queue.sendBatch(messages.map((body) => ({ body })));
    },
    restart: async (changed, whileStopped) => {
      settings = { ...settings, ...changed };
      if (whileStopped === undefined) {
        await miniflare.setOptions(miniflareOptions({ ...options, settings }));
      } else {
        await miniflare.dispose();
        whileStopped();
        miniflare = start();
      }
      await miniflare.ready;
      await untilHealthy(baseUrl);
    },
    stop,
  };
}

/** Resolves once GET /health says ok. Throws what it said last when that takes too long. */
export async function untilHealthy(baseUrl: string): Promise<void> {
  const deadline = Date.now() + HEALTH_TIMEOUT_MS;
  for (;;) {
    let last: string;
    try {
      const response = await fetch(`${baseUrl}/health`, { signal: AbortSignal.timeout(5_000) });
      if (response.ok) return void (await response.arrayBuffer());
      last = `${response.status} ${await response.text()}`;
    } catch (error) {
      last = error instanceof Error ? error.message : String(error);
    }
    if (Date.now() > deadline)
      throw new Error(`The Worker is not healthy: GET ${baseUrl}/health: ${last}`);
    await sleep(50);
  }
}

function miniflareOptions(options: WorkerdOptions) {
  // The bundler has applied the module rules; what is left of them, Miniflare would refuse.
  const { modulesRules: _, ...workerOptions } =
    unstable_getMiniflareWorkerOptions(WRANGLER_CONFIG).workerOptions;
  const modules = withLocalEntry(options.modules).map((module) => ({
    ...module,
    path: resolve(module.path),
  }));
  const host = "127.0.0.1";
  return convertV4MiniflareOptions({
    ...workerOptions,
    name: "rfq-custody",
    modules,
    modulesRoot: dirname(modules[0]?.path ?? "."),
    bindings: Object.assign({}, workerOptions.bindings, options.settings),
    unsafeDirectSockets: [
      { host, port: options.directPort, entrypoint: AS_SENT },
      { host, port: options.operatorPort, entrypoint: "Operator" },
    ],
    host,
    port: options.port,
    cf: false,
    logRequests: false,
    resourcePersistencePath: resolve(options.stateDir),
    log: new FileLog(options.logFile),
    handleStructuredLogs: ({ timestamp, level, message }) =>
      appendFileSync(options.logFile, `${new Date(timestamp).toISOString()} ${level} ${message}\n`),
  });
}

/** Miniflare's own words (a crash, a bad option) go where the Worker's go. */
class FileLog extends Log {
  readonly #file: string;

  constructor(file: string) {
    super(LogLevel.WARN);
    this.#file = file;
  }

  override log(message: string): void {
    appendFileSync(this.#file, `${new Date().toISOString()} miniflare ${message}\n`);
  }
}

/** Miniflare would end the process at a signal, before a script has put its things away; our exit hook ends workerd too. */
function withoutSignalHandlers<T>(make: () => T): T {
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

/** Knows the workerd that Miniflare last spawned, and ends it even when we are killed without a chance to. */
function watchChildren() {
  let workerd: ChildProcess | null = null;
  const onSpawn = (message: unknown) => {
    const child = (message as { process: ChildProcess }).process;
    // The channel speaks before the spawn: file and pid are known a tick later.
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
      const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
      child.kill("SIGKILL");
      await ended;
    },
  };
}
