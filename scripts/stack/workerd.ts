/**
 * Runs the bundled Worker in workerd through Miniflare, with the bindings of wrangler.toml and its
 * state in files. docs/decisions/0001-local-stack.md says why this is not `wrangler dev`.
 *
 * `kill` and `restart` rely on Miniflare, which restarts a dead workerd on the same ports and
 * state.
 */
import { randomBytes } from "node:crypto";
import { appendFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Miniflare, convertV4MiniflareOptions } from "miniflare";
import { unstable_getMiniflareWorkerOptions } from "./wrangler-library.ts";
import { type BundledModule, OFFLINE, WRANGLER_CONFIG } from "./bundle.ts";
import { AS_SENT, LOCAL_OPERATOR, withLocalEntry } from "./local-entry.ts";
import { FileLog, watchChildren, withoutSignalHandlers } from "./miniflare.ts";

export type Workerd = {
  /** CF-Connecting-IP is always 127.0.0.1 here. */
  baseUrl: string;
  /** workerd without Miniflare's entry worker, and CF-Connecting-IP as sent. `soak -- verbs` uses it. */
  directUrl: string;
  /** The entrypoint `Operator`. */
  operatorUrl: string;
  pid: () => number | null;
  database: () => ReturnType<Miniflare["getD1Database"]>;
  archive: () => ReturnType<Miniflare["getR2Bucket"]>;
  /** Runs the Worker's scheduled handler once. */
  runCron: () => Promise<void>;
  /**
   * Sends SIGKILL once workerd has started, and resolves when it is dead. The next one starts
   * automatically.
   */
  kill: () => Promise<void>;
  /** Sends messages to the withdrawals queue, as the Worker does. */
  sendWakeUps: (messages: readonly object[]) => Promise<void>;
  /**
   * Starts a new workerd on the same state, with the given settings changed, and resolves when it
   * is healthy. `whileStopped` runs between the two, while no process uses the files.
   */
  restart: (settings?: Record<string, string>, whileStopped?: () => void) => Promise<void>;
  stop: () => Promise<void>;
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
  const operatorToken = randomBytes(24).toString("base64url");
  let settings: Record<string, string> = {
    ...options.settings,
    LOCAL_OPERATOR_TOKEN: operatorToken,
  };
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
    operatorUrl: `http://127.0.0.1:${options.operatorPort}/${operatorToken}`,
    pid: () => watch.current()?.pid ?? null,
    database: () => miniflare.getD1Database("DB"),
    archive: () => miniflare.getR2Bucket("ARCHIVE"),
    runCron: async () => {
      const worker = await miniflare.getWorker();
      const result = await worker.scheduled({ cron: "* * * * *" });
      if (result.outcome !== "ok")
        throw new Error(
          `The scheduled handler ended with "${result.outcome}", see ${options.logFile}`,
        );
    },
    kill: async () => {
      // Miniflare starts no other workerd if one dies while it starts.
      await miniflare.ready;
      await watch.kill();
    },
    sendWakeUps: async (messages) => {
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

/** Resolves when GET /health returns 200. After a timeout it throws the last response. */
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
  // The bundler has applied the module rules, and Miniflare would reject them.
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
      { host, port: options.operatorPort, entrypoint: LOCAL_OPERATOR },
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
