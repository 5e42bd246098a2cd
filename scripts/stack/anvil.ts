/** Runs anvil, a local chain, on loopback. It ends with the process that started it. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { closeSync, existsSync, openSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ANVIL_CHAIN } from "./anvil-chain.ts";
import { freePort } from "./ports.ts";
import { SetupError } from "./setup-error.ts";
import { killWithParent } from "./watchdog.ts";

export type Anvil = {
  rpcUrl: string;
  port: number;
  pid: number;
  /** Kills anvil and resolves when it is gone. May be called twice. */
  stop(): Promise<void>;
};

export type AnvilOptions = {
  /** A free port by default. */
  port?: number;
  /** Seconds between blocks; by default each transaction makes a block. */
  blockTimeSecs?: number;
  /** The file for the output of anvil; by default the output is discarded. */
  logFile?: string;
  /** Further arguments of anvil. */
  args?: readonly string[];
};

/** anvil usually starts within a second, but a loaded machine may need far longer. */
const START_TIMEOUT_MS = 30_000;
/** Another process may take a free port before anvil does. */
const START_TRIES = 3;

/** Starts anvil and resolves when it responds. Throws if anvil is missing or does not start. */
export async function startAnvil(options: AnvilOptions = {}): Promise<Anvil> {
  const binary = findAnvil();
  for (let attempt = 1; ; attempt++) {
    const port = options.port ?? (await freePort());
    try {
      return await launch(binary, port, options);
    } catch (error) {
      if (options.port !== undefined || attempt === START_TRIES) throw error;
    }
  }
}

async function launch(binary: string, port: number, options: AnvilOptions): Promise<Anvil> {
  const log = options.logFile === undefined ? "ignore" : openSync(options.logFile, "a");
  const args = [
    "--host",
    "127.0.0.1",
    "--port",
    String(port),
    "--chain-id",
    String(ANVIL_CHAIN.id),
    // Old states stay in memory. On disk they would remain after each kill, gigabytes a test run.
    "--max-persisted-states",
    "0",
  ];
  if (options.blockTimeSecs !== undefined) args.push("--block-time", String(options.blockTimeSecs));
  args.push(...(options.args ?? []));
  const child = spawn(binary, args, { stdio: ["ignore", log, log] });
  if (typeof log === "number") closeSync(log);
  const exited = new Promise<void>((resolve) => {
    child.once("exit", () => resolve());
    child.once("error", () => resolve());
  });
  const { pid } = child;
  if (pid === undefined) throw new Error(`anvil did not start: ${binary}`);

  killWithParent(child);
  const kill = () => void child.kill("SIGKILL");
  process.once("exit", kill);
  void exited.then(() => process.removeListener("exit", kill));
  child.unref();

  const stop = async () => {
    // This process could end before the child does if the child stayed unreferenced.
    child.ref();
    kill();
    await exited;
  };
  const rpcUrl = `http://127.0.0.1:${port}`;
  try {
    await untilItAnswers(rpcUrl, child);
  } catch (error) {
    await stop();
    throw error;
  }
  return { rpcUrl, port, pid, stop };
}

async function untilItAnswers(rpcUrl: string, child: ChildProcess): Promise<void> {
  const deadline = Date.now() + START_TIMEOUT_MS;
  while (Date.now() < deadline) {
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(`anvil ended before it responded on ${rpcUrl}`);
    if ((await chainId(rpcUrl)) === ANVIL_CHAIN.id) {
      // If another anvil has the port, ours ends a moment later.
      await sleep(20);
      if (child.exitCode === null && child.signalCode === null) return;
    }
    await sleep(30);
  }
  throw new Error(`anvil did not respond on ${rpcUrl} within ${START_TIMEOUT_MS} ms`);
}

async function chainId(rpcUrl: string): Promise<number | null> {
  try {
    const response = await fetch(rpcUrl, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "eth_chainId" }),
      signal: AbortSignal.timeout(1_000),
    });
    const { result } = (await response.json()) as { result?: string };
    return result === undefined ? null : Number(result);
  } catch {
    return null;
  }
}

/**
 * The binary of the optional npm package, else `anvil` from the PATH. Throws when there is neither.
 */
function findAnvil(): string {
  const cpu = process.arch === "x64" ? "amd64" : process.arch;
  const name = `@foundry-rs/anvil-${process.platform}-${cpu}`;
  try {
    const manifest = createRequire(import.meta.url).resolve(`${name}/package.json`);
    const binary = join(dirname(manifest), "bin", "anvil");
    if (existsSync(binary)) return binary;
  } catch {
    // npm skips an optional package that it cannot install on this platform.
  }
  try {
    execFileSync("anvil", ["--version"], { stdio: "ignore" });
    return "anvil";
  } catch {
    throw new SetupError(
      `anvil is missing: ${name} is not installed and no \`anvil\` is on the PATH.\n` +
        "Run `npm install` again. If npm has no such package, install Foundry: https://getfoundry.sh",
    );
  }
}
