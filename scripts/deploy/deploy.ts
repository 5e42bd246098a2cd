/**
 * The steps from an empty account to a deployed service. Each looks at the account first and does
 * what is missing, so the command can be killed anywhere and started again.
 */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { config } from "../../src/platform/config.ts";
import { type Rpc, wrongContracts } from "./contracts.ts";
import { applyMigrations, differences, isUsed } from "./database.ts";
import { completed, payersOf, readSecrets, type Secrets, writeSecrets } from "./secrets.ts";
import { type DeploySettings, readSettings, wranglerConfig } from "./settings.ts";
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

/** Before the database exists. */
const NO_ID = "00000000-0000-0000-0000-000000000000";
/** Of Cloudflare: the Worker does not exist. */
const WORKER_UNKNOWN = "[code: 10007]";

type Step = (
  name: string,
  isDone: () => Promise<boolean>,
  work: () => Promise<void>,
) => Promise<void>;

export async function deploy(deployment: Deployment): Promise<void> {
  const { env, root, plan, log } = deployment;
  const settings = readSettings(root, env);
  const configPath = join(root, `wrangler.${env}.json`);
  const plain = wranglerOf(deployment.wrangler);
  const step: Step = async (name, isDone, work) => {
    if (await isDone()) return log(`kept  ${name}`);
    if (plan) return log(`would ${name}`);
    await work();
    log(`done  ${name}`);
  };
  const template = wranglerConfig(root, settings, NO_ID);
  await makeResources(plain, step, template, settings);
  const database = template.d1_databases[0]?.database_name ?? "";
  if (!plan) {
    const made = (await databases(plain)).find(({ name }) => name === database);
    const final = wranglerConfig(root, settings, made?.uuid ?? NO_ID);
    writeFileSync(configPath, `${JSON.stringify(final, null, 2)}\n`);
  }
  const wrangler = wranglerOf((args) => deployment.wrangler([...args, "--config", configPath]));
  await step("migrations", never, async () => {
    await applyMigrations(wrangler, database);
    const differing = await differences(wrangler, database);
    if (differing.length > 0)
      throw new Error(`The schema differs from migrations/: ${differing.join(", ")}`);
  });
  if (plan) return log("would compare contracts, deploy the Worker with its secrets, doctor");
  await deployWorker(deployment, {
    settings,
    wrangler,
    database,
    required: template.secrets.required,
  });
}

const never = async () => false;

async function makeResources(
  wrangler: Wrangler,
  step: Step,
  { d1_databases: [d1], queues, r2_buckets }: ReturnType<typeof wranglerConfig>,
  { location }: DeploySettings,
): Promise<void> {
  const succeeds = (args: readonly string[]) => async () => (await wrangler(args)).code === 0;
  const run = (args: readonly string[]) => async () => void (await wrangler.must(args));
  const name = d1?.database_name ?? "";
  const isThere = async () => (await databases(wrangler)).some((one) => one.name === name);
  await step(`database ${name}`, isThere, run(["d1", "create", name, "--location", location]));
  for (const { queue } of queues.consumers)
    await step(
      `queue ${queue}`,
      succeeds(["queues", "info", queue]),
      run(["queues", "create", queue]),
    );
  for (const { binding, bucket_name: bucket } of r2_buckets) {
    const create = ["r2", "bucket", "create", bucket, "--location", location];
    await step(`bucket ${bucket}`, succeeds(["r2", "bucket", "info", bucket]), run(create));
    // Nobody, not even with the account's token, can then change what the service wrote.
    const lock = binding === "AUDIT" ? "audit" : "journal";
    const isLocked = async () => {
      const { code, stdout } = await wrangler(["r2", "bucket", "lock", "list", bucket]);
      return code === 0 && new RegExp(`\\b${lock}\\b`).test(stdout.replaceAll(bucket, ""));
    };
    const rule = [lock, `${lock}/`, "--retention-indefinite", "--force"];
    await step(`lock ${bucket}`, isLocked, run(["r2", "bucket", "lock", "add", bucket, ...rule]));
  }
}

async function databases(wrangler: Wrangler): Promise<{ name: string; uuid: string }[]> {
  const { stdout } = await wrangler.must(["d1", "list", "--json"]);
  return JSON.parse(stdout) as { name: string; uuid: string }[];
}

type Given = {
  settings: DeploySettings;
  wrangler: Wrangler;
  database: string;
  required: string[];
};

async function deployWorker(
  { env, root, rpc, operator, log }: Deployment,
  given: Given,
): Promise<void> {
  const { settings, wrangler, required } = given;
  const path = join(root, `.secrets.${env}.json`);
  const { secrets, missing } = await secretsOf(path, given);
  log(`done  secrets: ${missing.length} new, in ${path}`);
  const wrong = await wrongContracts(root, settings, secrets, rpc);
  if (wrong.length > 0) {
    const payers = payersOf(secrets).map(([chain, account]) => `operator of ${chain}: ${account}`);
    throw new Error([...wrong, ...payers, "docs/deploy.md, Contracts"].join("\n"));
  }
  log("kept  contracts");
  if (required.every((name) => name in secrets))
    config({ ...wranglerConfig(root, settings, NO_ID).vars, ...secrets });
  await upload(wrangler, `${path}.sent`, missing, secrets);
  log(`done  Worker ${settings.name}`);
  const args = ["doctor", "--remote", "--env", env, "--json"];
  const { code, stdout } = await operator(args);
  log(code === 0 ? "done  doctor" : `left  doctor: ${stdout.trim() || "not reachable"}`);
  for (const line of left(env, settings, secrets)) log(`left  ${line}`);
}

/** Sends the missing secrets with the Worker, which does not start without them. */
async function upload(
  wrangler: Wrangler,
  path: string,
  missing: readonly string[],
  secrets: Secrets,
): Promise<void> {
  if (missing.length === 0) return void (await wrangler.must(["deploy"]));
  writeSecrets(path, Object.fromEntries(missing.map((name) => [name, secrets[name] ?? ""])));
  try {
    await wrangler.must(["deploy", "--secrets-file", path]);
  } finally {
    rmSync(path, { force: true });
  }
}

/**
 * The secrets of the file, and the names of those that the account does not have. A secret that is
 * deployed is never sent again: another ADDRESS_KEY would lose every deposit address.
 */
async function secretsOf(
  path: string,
  { settings, wrangler, database, required }: Given,
): Promise<{ secrets: Secrets; missing: string[] }> {
  const listed = await wrangler(["secret", "list", "--format", "json"]);
  if (listed.code !== 0 && !listed.output.includes(WORKER_UNKNOWN)) throw new Error(listed.output);
  const there = listed.code === 0 ? (JSON.parse(listed.stdout) as { name: string }[]) : [];
  const missing = required.filter((name) => !there.some((one) => one.name === name));
  const known = readSecrets(path);
  const unknown = missing.filter((name) => !(name in known));
  if (unknown.includes("ADDRESS_KEY") && (await isUsed(wrangler, database)))
    throw new Error(`The database is in use, so its secrets must be in ${path}. Put them back.`);
  const secrets = { ...known, ...completed(missing, known, settings) };
  writeSecrets(path, secrets);
  return { secrets, missing };
}

function left(env: string, settings: DeploySettings, secrets: Secrets): string[] {
  const { domain, operators, deployment } = settings;
  return [
    ...payersOf(secrets).map(
      ([chain, account]) =>
        `${chain}: send gas to ${account}, which needs PAYER_ROLE, SWEEPER_ROLE`,
    ),
    "the vault's limits (docs/deploy.md, Contracts)",
    `copy .secrets.${env}.json to your secret store, then delete it`,
    ...(Object.keys(operators).length > 0
      ? []
      : [`npm run operator -- key create --name <you> --deployment ${deployment}`]),
    domain === undefined ? "a domain" : `the settings of ${domain} (docs/deploy.md, Domain)`,
    `npm run smoke -- --url https://${domain ?? `${settings.name}.<account>.workers.dev`} --users …`,
  ];
}
