/** The whole service on loopback: anvil with the contracts, D1 with the migrations, the Worker in workerd. */
import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { privateKeyToAccount } from "viem/accounts";
import { VENUES } from "../../src/platform/venues.ts";
import { type Anvil, startAnvil } from "./anvil.ts";
import { bundleWorker } from "./bundle.ts";
import { type Deployment, deployContracts } from "./deploy-contracts.ts";
import { CHAIN_SAVED, CHAIN_STATE, KEPT, claimDirectory } from "./directory.ts";
import { ANVIL_ACCOUNT_KEYS } from "./faucet.ts";
import {
  LOCAL_CHAIN,
  type LocalSecrets,
  localSettings,
  makeSecrets,
  payerAddress,
} from "./local-settings.ts";
import { applyMigrations } from "./migrate.ts";
import { type OperatorResponse, type OperatorRequest, callOperator } from "./operator-call.ts";
import { freePort, requireFreePort } from "./ports.ts";
import { DEFAULT_STACK_DIR, type DemoUser, type StackFile } from "./stack-file.ts";
import { venueRecord } from "./venue-record.ts";
import { type Workerd, startWorkerd, untilHealthy } from "./workerd.ts";

export type StackOptions = {
  /** Of the service; 8787 when left out. */
  port?: number;
  /** Of anvil; 8545 when left out. */
  rpcPort?: number;
  /** Where state, logs and stack.json lie; emptied first unless `keep`. */
  dir?: string;
  /** Goes on with what an earlier stack left in `dir`, chain included. */
  keep?: boolean;
  /** Writes the chain's state beside the database, so that a later start can `keep` both; as `keep` when left out. */
  saveChain?: boolean;
  /** Settings over the local ones. */
  vars?: Record<string, string>;
  /** Seconds between blocks; 1 when left out. */
  blockTimeSecs?: number;
  /** Bundles the failpoints, which call this URL (src/platform/failpoint.ts). */
  failpointUrl?: string;
  /** One line about each thing that was done. */
  log?: (line: string) => void;
};

export type Stack = {
  baseUrl: string;
  /** workerd without Miniflare's entry worker in front, which believes CF-Connecting-IP: for the fuzzer. */
  directUrl: string;
  rpcUrl: string;
  file: StackFile;
  dir: string;
  workerLog: string;
  deployment: Deployment;
  /** Writes users into stack.json. */
  announceUsers(users: DemoUser[]): void;
  /** Runs the Worker's scheduled handler once; it also runs by itself every 60 s. */
  runCron(): Promise<void>;
  /** What `npm run operator` does. */
  operator(command: OperatorRequest): Promise<OperatorResponse>;
  workerdPid(): number | null;
  /** SIGKILL. Resolves when workerd is dead; another one comes up by itself on the same state. */
  killWorkerd(): Promise<void>;
  /** Puts messages on the withdrawals queue. */
  ring(messages: readonly object[]): Promise<void>;
  /** A new workerd on the same state, with changed settings where given. `whileStopped` runs while there is none. Resolves when it is healthy. */
  restartWorker(vars?: Record<string, string>, whileStopped?: () => void): Promise<void>;
  stop(): Promise<void>;
};

const CRON_INTERVAL_MS = 60_000;
/** A day of blocks takes it about a second. */
const CHAIN_SAVE_TIMEOUT_MS = 10_000;

/** What has to outlive the processes for `keep`. */
type Kept = {
  secrets: LocalSecrets;
  deployment: Omit<Deployment, "deployedAtBlock"> & { deployedAtBlock: string };
};

/** Starts everything and resolves when GET /health says ok. On a failure nothing is left running. */
export async function startStack(options: StackOptions = {}): Promise<Stack> {
  const {
    port = 8787,
    rpcPort = 8545,
    dir = DEFAULT_STACK_DIR,
    keep = false,
    saveChain = keep,
  } = options;
  const log = options.log ?? (() => {});
  await requireFreePort(port, "PORT");
  await requireFreePort(rpcPort, "RPC_PORT");
  const started: { stop(): Promise<void> }[] = [claimDirectory(dir, keep)];
  const stop = async () => {
    for (const part of started.splice(0).reverse()) await part.stop();
  };
  try {
    const { failpointUrl } = options;
    const bundling = bundleWorker(join(dir, "bundle"), { failpoints: failpointUrl !== undefined });
    // Waited for below; until then a failure of the chain must not leave this one unheard.
    bundling.catch(() => {});
    const anvil = await startChain({
      rpcPort,
      dir,
      saveChain,
      blockTimeSecs: options.blockTimeSecs ?? 1,
    });
    started.push(anvil);
    log(`anvil answers on ${anvil.rpcUrl}`);
    const { secrets, deployment } = await contractsOf({ dir, rpcUrl: anvil.rpcUrl });
    log(`contracts are deployed: vault ${deployment.vault}`);
    const modules = await bundling;
    log("the Worker is bundled");
    const workerLog = join(dir, "worker.log");
    const workerd = await startWorkerd({
      port,
      directPort: await freePort(),
      operatorPort: await freePort(),
      modules,
      // `wrangler d1 execute --local --persist-to <dir>/state` looks here.
      stateDir: join(dir, "state", "v3"),
      logFile: workerLog,
      settings: {
        ...localSettings({ secrets, deployment, rpcUrl: anvil.rpcUrl }),
        ...(failpointUrl === undefined ? {} : { FAILPOINT_URL: failpointUrl }),
        ...options.vars,
      },
    });
    started.push(workerd);
    const applied = await applyMigrations(await workerd.database());
    log(`migrations are applied: ${applied.length === 0 ? "none was due" : applied.join(", ")}`);
    await untilHealthy(workerd.baseUrl);
    log(`the Worker answers on ${workerd.baseUrl}`);
    started.push(repeatCron(workerd, workerLog));
    return stackOf({ anvil, workerd, deployment, dir, workerLog, stop });
  } catch (error) {
    await stop();
    throw error;
  }
}

function stackOf(parts: {
  anvil: Anvil;
  workerd: Workerd;
  deployment: Deployment;
  dir: string;
  workerLog: string;
  stop(): Promise<void>;
}): Stack {
  const { anvil, workerd, deployment, dir } = parts;
  const file: StackFile = {
    base_url: workerd.baseUrl,
    chain: LOCAL_CHAIN,
    chain_id: deployment.chainId,
    rpc_url: anvil.rpcUrl,
    vault: deployment.vault,
    usdc: deployment.usdc,
    venues: venueRecord(
      VENUES.map((venue) => [venue, { outcome_tokens: deployment.outcomeTokens[venue] }]),
    ),
    users: [],
  };
  const announceUsers = (users: DemoUser[]) => {
    file.users = users;
    writeFileSync(join(dir, "stack.json"), `${JSON.stringify(file, null, 2)}\n`);
  };
  announceUsers([]);
  writeFileSync(
    join(dir, "operator.json"),
    `${JSON.stringify({ url: workerd.operatorUrl }, null, 2)}\n`,
    { mode: 0o600 },
  );
  return {
    baseUrl: workerd.baseUrl,
    directUrl: workerd.directUrl,
    rpcUrl: anvil.rpcUrl,
    file,
    dir,
    workerLog: parts.workerLog,
    deployment,
    announceUsers,
    runCron: workerd.runCron,
    operator: (command) => callOperator((request) => fetch(request), workerd.operatorUrl, command),
    workerdPid: workerd.pid,
    killWorkerd: workerd.kill,
    ring: workerd.ring,
    restartWorker: workerd.restart,
    stop: parts.stop,
  };
}

async function startChain(options: {
  rpcPort: number;
  dir: string;
  saveChain: boolean;
  blockTimeSecs: number;
}): Promise<Anvil> {
  const state = join(options.dir, CHAIN_STATE);
  const saved = join(options.dir, CHAIN_SAVED);
  const anvil = await startAnvil({
    port: options.rpcPort,
    blockTimeSecs: options.blockTimeSecs,
    logFile: join(options.dir, "anvil.log"),
    args: options.saveChain ? ["--state", state] : [],
  });
  rmSync(saved, { force: true });
  if (!options.saveChain) return anvil;
  return {
    ...anvil,
    stop: async () => {
      // SIGINT lets it write its state; the hard end comes after. A Ctrl-C in a terminal has told it already.
      if (await endGently(anvil.pid)) writeFileSync(saved, "");
      await anvil.stop();
    },
  };
}

/** Deploys once; a kept stack finds its contracts and secrets again. */
async function contractsOf(options: {
  dir: string;
  rpcUrl: string;
}): Promise<{ secrets: LocalSecrets; deployment: Deployment }> {
  const path = join(options.dir, KEPT);
  if (existsSync(path)) {
    const { secrets, deployment } = JSON.parse(readFileSync(path, "utf8")) as Kept;
    return {
      secrets,
      deployment: { ...deployment, deployedAtBlock: BigInt(deployment.deployedAtBlock) },
    };
  }
  const secrets = makeSecrets();
  const deployment = await deployContracts({
    rpcUrl: options.rpcUrl,
    deployer: privateKeyToAccount(ANVIL_ACCOUNT_KEYS.deployer),
    operator: payerAddress(secrets),
  });
  const kept: Kept = {
    secrets,
    deployment: { ...deployment, deployedAtBlock: String(deployment.deployedAtBlock) },
  };
  writeFileSync(path, JSON.stringify(kept), { mode: 0o600 });
  return { secrets, deployment };
}

/** Crons do not fire by themselves outside Cloudflare. */
function repeatCron(workerd: Workerd, logFile: string): { stop(): Promise<void> } {
  const run = () => {
    workerd
      .runCron()
      .catch((error: unknown) =>
        appendFileSync(logFile, `${new Date().toISOString()} cron ${String(error)}\n`),
      );
  };
  // The first run starts the watchers, which nobody should wait a minute for.
  run();
  const timer = setInterval(run, CRON_INTERVAL_MS);
  timer.unref();
  return {
    stop: async () => clearInterval(timer),
  };
}

/** Whether it ended in time. */
async function endGently(pid: number): Promise<boolean> {
  const deadline = Date.now() + CHAIN_SAVE_TIMEOUT_MS;
  try {
    for (process.kill(pid, "SIGINT"); Date.now() < deadline; process.kill(pid, 0)) {
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  } catch {
    return true;
  }
  return false;
}
