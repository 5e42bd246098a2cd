/**
 * The steps from an empty account to a deployed service. Each looks at the account first and does
 * what is missing, so the command can be killed anywhere and started again.
 */
import { userInfo } from "node:os";
import { join } from "node:path";
import { commandText } from "../../src/platform/command-text.ts";
import { config } from "../../src/platform/config.ts";
import { type Rpc, wrongContracts } from "./contracts.ts";
import { applyMigrations, differences, isUsed } from "./database.ts";
import { completed, payersOf, readSecrets, type Secrets, writeSecrets } from "./secrets.ts";
import { type DeploySettings, readSettings, wranglerConfig, writeConfig } from "./settings.ts";
import { type Run, type Wrangler, wranglerOf } from "./wrangler.ts";

export type Deployment = {
  readonly env: string;
  /** Says what would be done, and changes nothing. */
  readonly plan: boolean;
  readonly root: string;
  readonly wrangler: Run;
  readonly operator: Run;
  readonly rpc: Rpc;
  readonly log: (line: string) => void;
};

/** What wrangler says of a Worker that does not exist. Its exit code is that of any failure. */
const WORKER_UNKNOWN = /Worker "[^"]*" not found|\[code: (10007|10090)\]/;

type Step = (
  name: string,
  isDone: () => Promise<boolean>,
  work: () => Promise<void>,
) => Promise<void>;

/** What `deploy` begins with: the settings, wrangler for them, and what the account lacks. */
export async function prepare(deployment: Deployment) {
  const { env, root, plan, log } = deployment;
  const settings = readSettings(root, env);
  const template = wranglerConfig(root, env, settings);
  const path = writeConfig(root, env);
  const wrangler = wranglerOf((args, input) =>
    deployment.wrangler([...args, "--config", path], input),
  );
  const account = plan ? await wrangler(["d1", "list"]) : undefined;
  const isUnseen = account !== undefined && account.code !== 0;
  if (isUnseen) log(`cannot see the account: ${reasonOf(account.output)}`);
  const step: Step = async (name, isDone, work) => {
    if (isUnseen) return log(`would ${name}, unless it is there`);
    if (await isDone()) return log(`kept  ${name}`);
    if (plan) return log(`would ${name}`);
    await work();
    log(`done  ${name}`);
  };
  await makeResources(wrangler, step, template, settings);
  return { settings, template, wrangler, step };
}

export async function deploy(deployment: Deployment): Promise<void> {
  const { root, plan, log } = deployment;
  const { settings, template, wrangler, step } = await prepare(deployment);
  await step("migrations", never, async () => {
    await applyMigrations(wrangler);
    const differing = await differences(wrangler);
    if (differing.length > 0)
      throw new Error(`The schema differs from migrations/: ${differing.join(", ")}`);
  });
  const given = { settings, wrangler, required: template.secrets.required };
  if (!plan) return deployWorker(deployment, given);
  const secrets = readSecrets(secretsPath(deployment));
  for (const line of await wrongContracts(root, settings, secrets, deployment.rpc))
    log(`left  ${line}`);
  log("would deploy the Worker with its secrets, doctor");
}

/** The message of wrangler's error, without the help around it. */
function reasonOf(output: string): string {
  return /\[ERROR\] (.*)/.exec(output)?.[1] ?? output;
}

export const secretsPath = ({ root, env }: Deployment) => join(root, `.secrets.${env}.json`);

const never = async () => false;

/** All at once, because wrangler takes two seconds to start. */
async function makeResources(
  wrangler: Wrangler,
  step: Step,
  { d1_databases: [d1], queues, r2_buckets }: ReturnType<typeof wranglerConfig>,
  { location, jurisdiction }: DeploySettings,
): Promise<void> {
  const succeeds = (args: readonly string[]) => async () => (await wrangler(args)).code === 0;
  const run = (args: readonly string[]) => async () => void (await wrangler.must(args));
  const stays = jurisdiction === undefined ? [] : ["--jurisdiction", jurisdiction];
  const place = jurisdiction === undefined ? ["--location", location] : stays;
  const database = async (name: string) => {
    const isThere = async () => {
      const { stdout } = await wrangler.must(["d1", "list", "--json"]);
      return (JSON.parse(stdout) as { name: string }[]).some((one) => one.name === name);
    };
    await step(`database ${name}`, isThere, run(["d1", "create", name, ...place]));
  };
  const queue = async (name: string) =>
    step(
      `queue ${name}`,
      succeeds(["queues", "info", name]),
      run(["queues", "create", name, ...stays]),
    );
  const bucket = async (name: string, lock: string) => {
    const looked = wrangler(["r2", "bucket", "lock", "list", name, ...stays]);
    const isThere = async () => (await looked).code === 0;
    const create = ["r2", "bucket", "create", name, ...place];
    await step(`bucket ${name}`, isThere, run(create));
    // Nobody, not even with the account's token, can then change what the service wrote.
    const isLocked = async () =>
      (await isThere()) &&
      new RegExp(`\\b${lock}\\b`).test((await looked).stdout.replaceAll(name, ""));
    const rule = [lock, `${lock}/`, "--retention-indefinite", "--force", ...stays];
    await step(`lock ${name}`, isLocked, run(["r2", "bucket", "lock", "add", name, ...rule]));
  };
  const made = await Promise.allSettled([
    database(d1?.database_name ?? ""),
    ...queues.consumers.map((one) => queue(one.queue)),
    ...r2_buckets.map(({ binding, bucket_name }) =>
      bucket(bucket_name, binding === "AUDIT" ? "audit" : "journal"),
    ),
  ]);
  for (const one of made) if (one.status === "rejected") throw one.reason;
}

type Given = {
  settings: DeploySettings;
  wrangler: Wrangler;
  required: string[];
};

async function deployWorker(deployment: Deployment, given: Given): Promise<void> {
  const { env, root, rpc, operator, log } = deployment;
  const { settings, wrangler, required } = given;
  const path = secretsPath(deployment);
  const { secrets, missing } = await secretsOf(path, given);
  log(`done  secrets: ${missing.length} new, in ${path}`);
  const wrong = await wrongContracts(root, settings, secrets, rpc);
  if (wrong.length > 0) {
    const payers = payersOf(secrets).map(([chain, account]) => `operator of ${chain}: ${account}`);
    throw new Error([...wrong, ...payers, "docs/deploy.md, Contracts"].join("\n"));
  }
  log("kept  contracts");
  if (required.every((name) => name in secrets))
    config({ ...wranglerConfig(root, env, settings).vars, ...secrets });
  await upload(wrangler, missing, secrets);
  log(`done  Worker ${settings.name}`);
  const args = ["doctor", "--env", env, "--json"];
  const { code, stdout } = await operator(args);
  log(code === 0 ? "done  doctor" : `left  doctor: ${stdout.trim() || "not reachable"}`);
  for (const line of left(env, settings, secrets)) log(`left  ${line}`);
}

/** Sends the missing secrets with the Worker, which does not start without them. */
async function upload(
  wrangler: Wrangler,
  missing: readonly string[],
  secrets: Secrets,
): Promise<void> {
  if (missing.length === 0) return void (await wrangler.must(["deploy"]));
  const sent = Object.fromEntries(missing.map((name) => [name, secrets[name] ?? ""]));
  // A file of them would stay behind if this process were killed.
  await wrangler.must(["deploy", "--secrets-file", "/dev/stdin"], JSON.stringify(sent));
}

/**
 * The secrets of the file, and the names of those that the account does not have. A secret that is
 * deployed is never sent again: another ADDRESS_KEY would lose every deposit address.
 */
async function secretsOf(
  path: string,
  { settings, wrangler, required }: Given,
): Promise<{ secrets: Secrets; missing: string[] }> {
  const listed = await wrangler(["secret", "list", "--format", "json"]);
  if (listed.code !== 0 && !WORKER_UNKNOWN.test(listed.output)) throw new Error(listed.output);
  const there = listed.code === 0 ? (JSON.parse(listed.stdout) as { name: string }[]) : [];
  const missing = required.filter((name) => !there.some((one) => one.name === name));
  const known = readSecrets(path);
  const unknown = missing.filter((name) => !(name in known));
  if (unknown.includes("ADDRESS_KEY") && (await isUsed(wrangler)))
    throw new Error(`The database is in use, so its secrets must be in ${path}. Put them back.`);
  const secrets = { ...known, ...completed(missing, known, settings) };
  writeSecrets(path, secrets);
  return { secrets, missing };
}

function left(env: string, settings: DeploySettings, secrets: Secrets): string[] {
  const { domain, operators, deployment } = settings;
  const command = commandText.bind(undefined, { DEPLOY_ENV: env });
  const named = ["--deployment", deployment];
  const url = `https://${settings.name}.<account>.workers.dev`;
  return [
    ...payersOf(secrets).map(
      ([chain, account]) =>
        `${chain}: send gas to ${account}, which needs PAYER_ROLE, SWEEPER_ROLE`,
    ),
    "the vault's limits (docs/deploy.md, Contracts)",
    `copy .secrets.${env}.json to your secret store, then delete it`,
    ...(Object.keys(operators).length > 0
      ? []
      : [command("operator", "key", "create", "--name", userInfo().username, ...named)]),
    domain === undefined ? "a domain" : `the settings of ${domain} (docs/deploy.md, Domain)`,
    command("smoke", ...(domain === undefined ? ["--url", url] : []), "--users", "users.json"),
  ];
}
