/** Directories in which the scripts and the real wrangler meet a fake of Cloudflare's API. */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { keccak256 } from "viem";
import { onTestFinished } from "vitest";
import { FakeCloudflare } from "../support/node/fake-cloudflare.ts";

export type Scene = {
  readonly root: string;
  readonly cloudflare: FakeCloudflare;
  /** What the chain has at the addresses of the contracts. */
  readonly chain: { code: string; url: string };
};

/** With a Worker that has only the classes of ours, because that is soon built. */
export async function newScene(accounts = 1): Promise<Scene> {
  const root = mkdtempSync(join(tmpdir(), "deploy-"));
  const cloudflare = await new FakeCloudflare(accounts).start();
  const { chain, close } = await startChain();
  onTestFinished(async () => {
    await Promise.all([cloudflare.stop(), close()]);
    rmSync(root, { recursive: true, force: true });
  });
  const toml = readFileSync("wrangler.toml", "utf8");
  const classes = [...toml.matchAll(/class_name = "(\w+)"/g)].map(([, name]) => name);
  const artifact = JSON.stringify({ deployedBytecodeHash: keccak256("0x01") });
  for (const [path, text] of [
    ["wrangler.toml", toml.replace(/^command = .*$/m, 'command = "true"')],
    ["src/worker.ts", ["export default {};", ...classes.map(classText)].join("\n")],
    ["dist/assets/index.html", ""],
    ["contracts/artifacts/Vault.json", artifact],
    ["contracts/artifacts/DepositFactory.json", artifact],
  ] as const) {
    mkdirSync(join(root, path, ".."), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  symlinkSync(resolve("migrations"), join(root, "migrations"));
  const scene = { root, cloudflare, chain };
  changeSettings(scene, { vars: { HEARTBEAT_URL: "https://watch.example" } });
  return scene;
}

const classText = (name = "") => `export class ${name} {}`;

/** deploy.example.json with other values, as deploy.staging.json. */
export function changeSettings({ root, chain }: Scene, change: object): void {
  const example = JSON.parse(readFileSync("deploy.example.json", "utf8")) as { chains: object[] };
  const chains = example.chains.map((one) => ({ ...one, rpc_urls: [chain.url] }));
  const settings = { ...example, chains, ...change };
  writeFileSync(join(root, "deploy.staging.json"), JSON.stringify(settings));
}

async function startChain() {
  const chain = { code: "0x01", url: "" };
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      const { method } = JSON.parse(body) as { method: string };
      response.end(JSON.stringify({ result: method === "eth_chainId" ? "0x89" : chain.code }));
    });
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  // Safe cast: a server of TCP has such an address.
  chain.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { chain, close: () => new Promise((done) => server.close(done)) };
}

export const secretsPath = ({ root }: Scene) => join(root, ".secrets.staging.json");

type Ended = { code: number | null; lines: string[] };
type How = {
  /** Kills everything with SIGKILL after the change of the account for which it is true. */
  killAt?: (call: string) => boolean;
  env?: Record<string, string>;
  input?: string;
};

export const deployOnce = (scene: Scene, how: How = {}, ...args: string[]) =>
  runScript(scene, how, "deploy.ts", "--env", "staging", ...args);

/** Runs a script of scripts/ as its npm script does. */
export async function runScript(
  { root, cloudflare }: Scene,
  { killAt, env, input }: How,
  script: string,
  ...args: string[]
): Promise<Ended> {
  const child = spawn(process.execPath, [resolve("scripts", script), ...args], {
    cwd: root,
    // A group of its own.
    detached: true,
    // Logs, logins and operators' keys are in the scene.
    env: { ...process.env, ...cloudflare.env, XDG_CONFIG_HOME: root, HOME: root, CI: "1", ...env },
  });
  cloudflare.afterChange = (call) => {
    if (child.pid === undefined || killAt?.(call) !== true) return false;
    process.kill(-child.pid, "SIGKILL");
    return true;
  };
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()));
  child.stdin.end(input);
  const code = await new Promise<number | null>((done) => child.once("close", done));
  cloudflare.afterChange = () => false;
  return { code, lines: output.trim().split("\n") };
}

/** What an account has, without ids and values of secrets. */
export function shown({ cloudflare: { account } }: Scene) {
  const { databases, queues, buckets, workers } = account;
  return {
    databases: [...databases].map(([name, { location, db }]) => ({
      name,
      location,
      migrations: db.prepare("SELECT count(*) AS n FROM d1_migrations").get()?.["n"],
    })),
    queues: Object.fromEntries(
      [...queues].map(([name, { consumers }]) => [name, consumers.length]),
    ),
    buckets: Object.fromEntries(buckets),
    workers: [...workers].map(([name, { secrets, schedules, domains }]) => ({
      name,
      secrets: Object.keys(secrets).toSorted(),
      schedules,
      domains,
      running: ((account.running(name)["bindings"] ?? []) as Binding[])
        .map(likeOthers)
        .toSorted((one, other) => one.name.localeCompare(other.name)),
    })),
  };
}

type Binding = { name: string; type: string; text?: string; id?: string | undefined };

/** Without what each scene has of its own: secrets, the id of the database, the port of the chain. */
function likeOthers({ text, ...binding }: Binding): Binding {
  const known = binding.type === "secret_text" ? "" : text?.replace(/127\.0\.0\.1:\d+/, "chain");
  return { ...binding, ...(known === undefined ? {} : { text: known }), id: undefined };
}
