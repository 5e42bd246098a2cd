/**
 * Starts the bundle of `wrangler deploy` in workerd with D1 in files, and the peer in the same one.
 * There is no proxy, chain, cron or rate limit, so that nothing else runs during a measurement.
 */
import { randomBytes } from "node:crypto";
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { unstable_getMiniflareWorkerOptions } from "../scripts/stack/wrangler-library.ts";
import {
  type BundledModule,
  bundleWorker,
  OFFLINE,
  ROOT,
  WRANGLER_CONFIG,
} from "../scripts/stack/bundle.ts";
import { LOCAL_CHAIN, makeSecrets } from "../scripts/stack/local-settings.ts";
import { applyMigrations } from "../scripts/stack/migrate.ts";
import { FileLog, watchChildren } from "../scripts/stack/miniflare.ts";
import { freePort } from "../scripts/stack/ports.ts";
import type { Meter } from "./prices.ts";

export type Database = Awaited<ReturnType<Miniflare["getD1Database"]>>;
type Bucket = Awaited<ReturnType<Miniflare["getR2Bucket"]>>;

export type BenchStack = {
  /** Port of the Worker itself, without Miniflare's entry worker. */
  readonly port: number;
  readonly peerPort: number;
  /** The secrets that seal API keys, by id. */
  readonly masterKeys: Record<string, string>;
  readonly addressKey: string;
  readonly db: Database;
  /** The sealed objects. */
  readonly archive: Bucket;
  /** The peer's own database. */
  readonly peerDb: Database;
  /** Resident memory of workerd, in MB. */
  rssMb: () => number;
  /** Processor time of workerd so far, in milliseconds. */
  cpuMs: () => number;
  databaseFile: () => string;
  /** Errors that the Worker logged. */
  failures: () => string[];
  /** Makes the object of a webhook look for its row. */
  wakeWebhook: (endpointId: string) => Promise<void>;
  /** Runs a task of cron once. Resolves to whether it has more to do. */
  runTask: (name: string) => Promise<boolean>;
  /** Runs the Worker's scheduled handler once. Only of a stack with `cron`. */
  runCron: () => Promise<void>;
  /** From now on, adds these milliseconds to each call. Only of a stack with `meter`. */
  setNetwork: (network: Network) => Promise<void>;
  /** What Cloudflare bills, since the last call. Only of a stack with `meter`. */
  readMeter: () => Promise<Meter & { readonly statements: readonly StatementMeter[] }>;
  stop: () => Promise<void>;
};

/** Milliseconds to D1, or to an object, and back. */
export type Network = { readonly d1Ms: number; readonly objectMs: number };

/** What one statement was billed. The name is the beginning of its text. */
type StatementMeter = {
  readonly name: string;
  readonly calls: number;
  readonly rowsRead: number;
  readonly rowsWritten: number;
};

export type StackOptions = {
  readonly settings?: Record<string, string>;
  /** A Worker of bench/peers/ with its own database and its class as the Durable Object `PEER`. */
  readonly peer?: "lean";
  /** Wraps the bundle with bench/peers/meter.mjs, which adds latency and counts rows and calls. */
  readonly meter?: boolean;
  /** Wraps the bundle with bench/peers/limits.mjs, which counts rate limits in memory. */
  readonly limits?: boolean;
  /** Wraps the bundle with bench/peers/cron.mjs, which runs the scheduled handler on request. */
  readonly cron?: boolean;
  /** Keeps the files of D1 in memory, so that the disk delays no commit. Linux only. */
  readonly inMemory?: boolean;
};

const ADDRESS = `0x${"11".repeat(20)}`;
/** No rate limits, and limits per user that a few very busy users do not reach. */
const SETTINGS = {
  RATE_LIMITS: "off",
  RFQ_OPEN_REQUESTS_PER_USER: "10000",
  RFQ_OPEN_QUOTES_PER_USER: "10000",
  RFQ_DAILY_REQUESTS: "10000000",
  STREAM_SOCKETS_PER_USER: "1000",
  STREAM_DAILY_TICKETS: "1000000",
};

const METER_SETTLES_MS = 300;
/** workerd closes idle connections, so a later call on one of them may fail. */
export const ONE_CALL = { headers: { connection: "close" } };
const WRAPPERS = ["meter", "limits", "cron"] as const;
const MEMORY_FOLDER = "/dev/shm";

let bundle: Promise<{ dir: string; modules: BundledModule[] }> | undefined;

/** All stacks of a run share one bundle. */
function bundled(): Promise<{ dir: string; modules: BundledModule[] }> {
  bundle ??= (async () => {
    const dir = temporaryFolder("bench-bundle-");
    return { dir, modules: await bundleWorker(dir) };
  })();
  return bundle;
}

/** The settings of a Worker that no limit stops, with `more` settings of its own. */
function benchSettings(
  more: Record<string, string> = {},
  secrets = makeSecrets(),
): Record<string, string> {
  return {
    AUTH_REGISTRATION: "closed",
    CHAINS: JSON.stringify([
      {
        chain: LOCAL_CHAIN,
        chain_id: 31_337,
        rpc_urls: ["http://127.0.0.1:9"],
        factory: ADDRESS,
        vault: ADDRESS,
        usdc: ADDRESS,
        confirmations: 2,
        default: true,
      },
    ]),
    VENUES: JSON.stringify([
      {
        venue_id: "venue_one",
        chain: LOCAL_CHAIN,
        outcome_tokens: ADDRESS,
        min_request: 1,
      },
    ]),
    DEPLOYMENT: "bench",
    SESSION_SECRETS: JSON.stringify({ s1: secrets.sessionSecret }),
    MASTER_KEYS: JSON.stringify({ m1: secrets.masterKey }),
    AUDIT_KEYS: JSON.stringify({ a1: randomBytes(32).toString("base64url") }),
    ADDRESS_KEY: secrets.addressKey,
    PAYER_KEYS: JSON.stringify({ [LOCAL_CHAIN]: secrets.payerKey }),
    ...SETTINGS,
    ...more,
  };
}

/** The `n` of the row that the text selects. */
export async function numberIn(db: Database, text: string, ...params: string[]): Promise<number> {
  const n = await db
    .prepare(text)
    .bind(...params)
    .first<number>("n");
  return n ?? Number.NaN;
}

export async function startBenchStack(options: StackOptions = {}): Promise<BenchStack> {
  Object.assign(process.env, OFFLINE);
  const { dir, modules } = await bundled();
  const inMemory = options.inMemory === true && existsSync(MEMORY_FOLDER);
  const state = temporaryFolder("bench-state-", inMemory ? MEMORY_FOLDER : tmpdir());
  const logFile = join(state, "worker.log");
  const [port, peerPort] = [await freePort(), await freePort()];
  const secrets = makeSecrets();
  const watch = watchChildren();
  const miniflare = new Miniflare(
    miniflareOptions(options, {
      dir,
      modules,
      state,
      logFile,
      ports: [port, peerPort],
      settings: benchSettings(options.settings, secrets),
    }),
  );
  const kill = () => void watch.kill();
  process.once("exit", kill);
  let stopped = false;
  const stop = async () => {
    if (stopped) return;
    stopped = true;
    process.removeListener("exit", kill);
    watch.close();
    await miniflare.dispose();
    rmSync(state, { recursive: true, force: true });
  };
  try {
    await miniflare.ready;
    const db = await miniflare.getD1Database("DB", "rfq-custody");
    await applyMigrations(db);
    const archive = await miniflare.getR2Bucket("ARCHIVE", "rfq-custody");
    const peerDb = options.peer === undefined ? db : await miniflare.getD1Database("DB", "peer");
    // Safe cast: the class of the objects has this method.
    const webhooks = (await miniflare.getDurableObjectNamespace(
      "WEBHOOK",
      "rfq-custody",
    )) as unknown as { getByName: (name: string) => { wake: (id: string) => Promise<void> } };
    const tasks = (await miniflare.getDurableObjectNamespace("CRON", "rfq-custody")) as unknown as {
      getByName: (name: string) => { run: (task: string) => Promise<boolean> };
    };
    return {
      port,
      peerPort,
      masterKeys: { m1: secrets.masterKey },
      addressKey: secrets.addressKey,
      db,
      archive,
      peerDb,
      ...usageOf(watch.current()?.pid),
      databaseFile: () => largestSqlite(state),
      failures: () =>
        existsSync(logFile) ? readFileSync(logFile, "utf8").split("\n").filter(Boolean) : [],
      wakeWebhook: (id) => webhooks.getByName(id).wake(id),
      runTask: (name) => tasks.getByName("cron").run(name),
      ...wrapperCalls(port),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

type Parts = {
  readonly dir: string;
  readonly modules: BundledModule[];
  readonly state: string;
  readonly logFile: string;
  readonly ports: readonly [ours: number, peer: number];
  readonly settings: Record<string, string>;
};

function miniflareOptions(
  options: StackOptions,
  { dir, modules, state, logFile, ...parts }: Parts,
) {
  const wrapper = WRAPPERS.find((name) => options[name] === true) ?? null;
  const { workerOptions } = unstable_getMiniflareWorkerOptions(WRANGLER_CONFIG);
  // The bundler has already applied the module rules, and Miniflare rejects them. With assets it
  // puts Workers of its own in front, which would take most of the time of a small request.
  const {
    modulesRules: _,
    assets: __,
    ...wrangler
  } = workerOptions as typeof workerOptions & {
    assets?: unknown;
  };
  const [port, peerPort] = parts.ports;
  const peers =
    options.peer === undefined
      ? []
      : [peerWorker(options.peer, peerPort, workerOptions.compatibilityDate)];
  return convertV4MiniflareOptions({
    workers: [
      {
        ...wrangler,
        name: "rfq-custody",
        modules: wrapped(modules, dir, wrapper),
        modulesRoot: dir,
        bindings: Object.assign({}, wrangler.bindings, parts.settings, {
          BENCH_RATE_LIMITS: JSON.stringify(rateLimits(workerOptions)),
        }),
        unsafeDirectSockets: [{ host: "127.0.0.1", port }],
      },
      ...peers,
    ],
    host: "127.0.0.1",
    port: 0,
    cf: false,
    logRequests: false,
    resourcePersistencePath: state,
    log: new FileLog(logFile),
    // There is a line per request. Only failures are written, to save processor time.
    handleStructuredLogs: ({ level, message }: { level: string; message: string }) => {
      if (level === "error" || level === "warn") appendFileSync(logFile, `${level} ${message}\n`);
    },
  } as Parameters<typeof convertV4MiniflareOptions>[0]);
}

function usageOf(pid: number | undefined): Pick<BenchStack, "rssMb" | "cpuMs"> {
  const read = (name: string) => readFileSync(`/proc/${pid}/${name}`, "utf8");
  const stats = () => read("stat").split(") ")[1]?.split(" ") ?? [];
  return {
    rssMb: () => Number(/VmRSS:\s+(\d+)/.exec(read("status"))?.[1]) / 1_024,
    // Fields 14 and 15 of proc(5). The index counts after the name. A tick is 10 ms on Linux.
    cpuMs: () => 10 * (Number(stats()[11]) + Number(stats()[12])),
  };
}

/** Calls of the Workers that wrap ours. */
function wrapperCalls(port: number): Pick<BenchStack, "runCron" | "setNetwork" | "readMeter"> {
  const call = async (name: string, init: RequestInit = {}): Promise<Response> => {
    const response = await fetch(`http://127.0.0.1:${port}/bench/${name}`, {
      ...init,
      ...ONE_CALL,
    });
    if (!response.ok) throw new Error(`/bench/${name} answered ${response.status}`);
    return response;
  };
  return {
    runCron: async () => void (await call("cron", { method: "POST" })),
    setNetwork: async (network) =>
      void (await call("network", { method: "POST", body: JSON.stringify(network) })),
    readMeter: async () => {
      // Notifications of streams follow the response.
      await sleep(METER_SETTLES_MS);
      const response = await call("meter");
      return (await response.json()) as Awaited<ReturnType<BenchStack["readMeter"]>>;
    },
  };
}

/** The limits of wrangler.toml by the name of their binding. */
function rateLimits(workerOptions: object): Record<string, unknown> {
  // Safe cast: wrangler checks its file, but its type leaves this member out.
  const { ratelimits = {} } = workerOptions as {
    ratelimits?: Record<string, { simple: { limit: number; period: number } }>;
  };
  return Object.fromEntries(Object.entries(ratelimits).map(([name, { simple }]) => [name, simple]));
}

export function peerWorker(peer: string, port: number, compatibilityDate: unknown) {
  return {
    name: "peer",
    modules: [
      { type: "ESModule", path: join(import.meta.dirname, "peers", `${peer}.mjs`) },
      ...signatureFiles(),
    ],
    modulesRoot: ROOT,
    compatibilityDate: String(compatibilityDate),
    compatibilityFlags: ["nodejs_compat"],
    d1Databases: { DB: "bench-peer" },
    durableObjects: { PEER: { className: "Peer", useSQLite: true } },
    unsafeDirectSockets: [{ host: "127.0.0.1", port }],
  };
}

/** The service's own verification of signatures. */
function signatureFiles() {
  const [hmac, noble] = ["src/auth/hmac.ts", "node_modules/@noble/hashes/utils.js"];
  const text = stripTypeScriptTypes(readFileSync(join(ROOT, hmac), "utf8"));
  return [
    {
      type: "ESModule",
      path: join(ROOT, hmac),
      contents: text.replace("@noble/hashes/utils.js", `../../${noble}`),
    },
    { type: "ESModule", path: join(ROOT, noble) },
  ];
}

/** The wrapper is copied to the bundle, because it imports the bundle's main module by name. */
function wrapped(
  modules: readonly BundledModule[],
  dir: string,
  wrapper: (typeof WRAPPERS)[number] | null,
): BundledModule[] {
  if (wrapper === null) return [...modules];
  const path = join(dir, `${wrapper}.mjs`);
  copyFileSync(join(import.meta.dirname, "peers", `${wrapper}.mjs`), path);
  return [{ type: "ESModule", path }, ...modules];
}

const folders: string[] = [];
function temporaryFolder(prefix: string, parent = tmpdir()): string {
  if (folders.length === 0)
    process.once("exit", () =>
      folders.forEach((folder) => rmSync(folder, { recursive: true, force: true })),
    );
  const folder = mkdtempSync(join(parent, prefix));
  folders.push(folder);
  return folder;
}

function largestSqlite(folder: string): string {
  const [largest] = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter(
      (name) =>
        name.endsWith(".sqlite") &&
        basename(name) !== "metadata.sqlite" &&
        basename(dirname(name)).includes("D1"),
    )
    .map((name) => join(folder, name))
    .toSorted((a, b) => statSync(b).size - statSync(a).size);
  if (largest === undefined) throw new Error(`no D1 file under ${folder}`);
  return largest;
}
