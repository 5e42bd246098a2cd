/** Starts the whole service on loopback: anvil, contracts, D1 and the Worker in workerd. */
import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Address, Hex } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { paymentId } from "../../src/chain/payment-id.ts";
import { LOCAL_VENUES, venueRecord } from "./local-venues.ts";
import { type Anvil, startAnvil } from "./anvil.ts";
import { type BundledModule, bundleWorker } from "./bundle.ts";
import { type Deployment, deployContracts } from "./deploy-contracts.ts";
import { CHAIN_SAVED, CHAIN_STATE, KEPT_FILE, claimDirectory } from "./directory.ts";
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
import { freePort, requireFreePorts } from "./ports.ts";
import {
  DEFAULT_STACK_DIR,
  type DemoUser,
  localKey,
  type OperatorFile,
  type StackFile,
} from "./stack-file.ts";
import { type Workerd, startWorkerd, untilHealthy } from "./workerd.ts";

export type StackOptions = {
  /** Port of the service; 8787 by default. */
  port?: number;
  /** Port of anvil; 8545 by default. */
  rpcPort?: number;
  /** Directory of state, logs and stack.json. It is emptied first unless `keep` is set. */
  dir?: string;
  /** Continues with the state of an earlier stack in `dir`, chain included. */
  keep?: boolean;
  /**
   * Saves the state of the chain, so that a later start can `keep` it; the value of `keep` by
   * default.
   */
  saveChain?: boolean;
  /** Settings that override the local ones. */
  vars?: Record<string, string>;
  /** Seconds between blocks; 1 by default. */
  blockTimeSecs?: number;
  /** Bundles the failpoints, which call this URL (src/platform/failpoint.ts). */
  failpointUrl?: string;
  /** The Worker, if it is bundled already. */
  modules?: BundledModule[];
  /** Receives one line about each step. */
  log?: (line: string) => void;
};

/** The scheduled handler also runs every 60 s automatically. */
export type Stack = Pick<
  Workerd,
  "archive" | "baseUrl" | "database" | "directUrl" | "runCron" | "sendWakeUps"
> & {
  rpcUrl: string;
  file: StackFile;
  dir: string;
  workerLog: string;
  deployment: Deployment;
  /** The operator account, which pays. */
  payer: Address;
  /** The id under which the vault pays a withdrawal. */
  paymentId: (userId: string, clientWithdrawalId: string) => Hex;
  /** Writes the users to stack.json. */
  announceUsers: (users: DemoUser[]) => void;
  /** Sends an operator command, as `npm run operator` does. */
  operator: (command: OperatorRequest) => Promise<OperatorResponse>;
  workerdPid: Workerd["pid"];
  killWorkerd: Workerd["kill"];
  restartWorker: Workerd["restart"];
  stop: () => Promise<void>;
};

const CRON_INTERVAL_MS = 60_000;
/** anvil needs about a second to save a day of blocks. */
const CHAIN_SAVE_TIMEOUT_MS = 10_000;

/** What a start with `keep` needs from the one before. */
type Kept = {
  secrets: LocalSecrets;
  deployment: Omit<Deployment, "deployedAtBlock"> & { deployedAtBlock: string };
};

/** Resolves when GET /health returns 200. If a part fails to start, the others are stopped. */
export async function startStack(options: StackOptions = {}): Promise<Stack> {
  const {
    port = 8787,
    rpcPort = 8545,
    dir = DEFAULT_STACK_DIR,
    keep = false,
    saveChain = keep,
  } = options;
  const log = options.log ?? (() => {});
  await requireFreePorts({ PORT: port, RPC_PORT: rpcPort });
  const started: { stop(): Promise<void> }[] = [claimDirectory(dir, keep)];
  const stop = async () => {
    for (const part of started.splice(0).toReversed()) await part.stop();
  };
  try {
    const { failpointUrl } = options;
    const bundling =
      options.modules === undefined
        ? bundleWorker(join(dir, "bundle"), { failpoints: failpointUrl !== undefined })
        : Promise.resolve(options.modules);
    // Awaited below. If the chain fails first, this must not become an unhandled rejection.
    bundling.catch(() => {});
    const anvil = await startChain({ ...options, rpcPort, dir, saveChain });
    started.push(anvil);
    log(`anvil listens on ${anvil.rpcUrl}`);
    const { secrets, deployment } = await contractsOf({ dir, rpcUrl: anvil.rpcUrl });
    log(`the contracts are deployed: vault ${deployment.vault}`);
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
    log(`the Worker listens on ${workerd.baseUrl}`);
    started.push(repeatCron(workerd, workerLog));
    return stackOf({ anvil, workerd, deployment, secrets, dir, workerLog, stop });
  } catch (error) {
    await stop();
    throw error;
  }
}

function stackOf(parts: {
  anvil: Anvil;
  workerd: Workerd;
  deployment: Deployment;
  secrets: LocalSecrets;
  dir: string;
  workerLog: string;
  stop: () => Promise<void>;
}): Stack {
  const { anvil, workerd, deployment, secrets, dir } = parts;
  const keys = secrets.operators;
  const idSecret = { ADDRESS_KEY: secrets.addressKey };
  const file: StackFile = {
    base_url: workerd.baseUrl,
    chain: LOCAL_CHAIN,
    chain_id: deployment.chainId,
    rpc_url: anvil.rpcUrl,
    vault: deployment.vault,
    usdc: deployment.usdc,
    venues: venueRecord(
      LOCAL_VENUES.map((venue) => [venue, { outcome_tokens: deployment.outcomeTokens[venue] }]),
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
    `${JSON.stringify({ url: workerd.operatorUrl, keys } satisfies OperatorFile, null, 2)}\n`,
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
    payer: payerAddress(secrets),
    paymentId: (userId, clientWithdrawalId) => paymentId(idSecret, userId, clientWithdrawalId),
    announceUsers,
    archive: workerd.archive,
    database: workerd.database,
    runCron: workerd.runCron,
    operator: async (command) =>
      callOperator(
        (request) => fetch(request),
        workerd.operatorUrl,
        localKey(keys, command.operator),
        command,
      ),
    workerdPid: workerd.pid,
    killWorkerd: workerd.kill,
    sendWakeUps: workerd.sendWakeUps,
    restartWorker: workerd.restart,
    stop: parts.stop,
  };
}

async function startChain({
  rpcPort,
  dir,
  saveChain,
  blockTimeSecs = 1,
}: Pick<StackOptions, "blockTimeSecs"> & { rpcPort: number; dir: string; saveChain: boolean }) {
  const saved = join(dir, CHAIN_SAVED);
  const anvil = await startAnvil({
    port: rpcPort,
    blockTimeSecs,
    logFile: join(dir, "anvil.log"),
    args: saveChain ? ["--state", join(dir, CHAIN_STATE)] : [],
  });
  rmSync(saved, { force: true });
  if (!saveChain) return anvil;
  return {
    ...anvil,
    stop: async () => {
      // anvil writes its state at SIGINT. A Ctrl-C in a terminal has sent it one already.
      if (await endGently(anvil.pid)) writeFileSync(saved, "");
      await anvil.stop();
    },
  };
}

/** Deploys the contracts once. A kept stack reads their addresses and its secrets again. */
async function contractsOf({ dir, rpcUrl }: { dir: string; rpcUrl: string }) {
  const path = join(dir, KEPT_FILE);
  if (existsSync(path)) {
    const { secrets, deployment } = JSON.parse(readFileSync(path, "utf8")) as Kept;
    return {
      secrets,
      deployment: { ...deployment, deployedAtBlock: BigInt(deployment.deployedAtBlock) },
    };
  }
  const secrets = makeSecrets();
  const deployment = await deployContracts({
    rpcUrl,
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

/** Calls the scheduled handler, because only Cloudflare runs crons automatically. */
function repeatCron(workerd: Workerd, logFile: string): { stop(): Promise<void> } {
  const run = () => {
    workerd
      .runCron()
      .catch((error: unknown) =>
        appendFileSync(logFile, `${new Date().toISOString()} cron ${String(error)}\n`),
      );
  };
  // The first call starts the watchers, which would wait a minute otherwise.
  run();
  const timer = setInterval(run, CRON_INTERVAL_MS);
  timer.unref();
  return {
    stop: async () => clearInterval(timer),
  };
}

/** Sends SIGINT. Returns whether the process ended in time. */
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
