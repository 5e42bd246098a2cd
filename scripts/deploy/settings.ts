/** The settings of one deployment, and the configuration that wrangler gets for it. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { experimental_readRawConfig } from "../stack/wrangler-library.ts";

const address = z.string().regex(/^0x[0-9a-fA-F]{40}$/);

/** deploy.<env>.json. deploy.example.json is one. */
const DeploySettings = z.strictObject({
  /** Of the Worker. Database, buckets and queues have it as prefix. */
  name: z.string().regex(/^[a-z][a-z0-9-]{2,40}$/),
  account_id: z
    .string()
    .regex(/^[0-9a-f]{32}$/)
    .optional(),
  /** DEPLOYMENT: different in each deployment. */
  deployment: z.string(),
  /** Of database, buckets and objects. They never move. */
  location: z.enum(["wnam", "enam", "weur", "eeur", "apac", "oc"]),
  /** Where all of these must stay. It cannot change. */
  jurisdiction: z.enum(["eu", "fedramp"]).optional(),
  /** Without one the service is on workers.dev. */
  domain: z.string().optional(),
  /** A cloud region near the location, such as aws:eu-central-1. */
  placement: z.string().optional(),
  /** The first of 11 numbers that no other Worker of the account uses. */
  rate_limit_ids_from: z.int().min(1),
  /** Names and public keys. */
  operators: z.record(z.string(), z.string()),
  chains: z.array(
    z.looseObject({
      chain: z.string(),
      vault: address,
      factory: address,
      rpc_urls: z.array(z.url()).default([]),
    }),
  ),
  venues: z.array(z.looseObject({})),
  /** Other settings (`npm run settings`). */
  vars: z.record(z.string(), z.string()).default({}),
});
export type DeploySettings = z.infer<typeof DeploySettings>;

export function readSettings(root: string, env: string): DeploySettings {
  const path = join(root, `deploy.${env}.json`);
  if (!existsSync(path)) throw new Error(`${path} is missing. deploy.example.json is an example.`);
  const parsed = DeploySettings.safeParse(JSON.parse(readFileSync(path, "utf8")));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new Error(`${path}: ${issue?.path.join(".")}: ${issue?.message}`);
}

/** The part of wrangler.toml that differs between deployments. */
type WranglerConfig = {
  name: string;
  account_id?: string;
  secrets: { required: string[] };
  vars: Record<string, string>;
  d1_databases: { database_name: string }[];
  r2_buckets: { binding: string; bucket_name: string; jurisdiction?: string }[];
  queues: { consumers: { queue: string }[] };
  ratelimits: { namespace_id: string }[];
} & Record<string, unknown>;

/** Writes wrangler.<env>.json, which follows from deploy.<env>.json alone. Returns its path. */
export function writeConfig(root: string, env: string): string {
  const path = join(root, `wrangler.${env}.json`);
  const config = wranglerConfig(root, env, readSettings(root, env));
  writeFileSync(path, `${JSON.stringify(config, null, 2)}\n`);
  return path;
}

/**
 * The configuration of a deployment, made from wrangler.toml, whose `[env.*]` would inherit neither
 * bindings nor variables. Names that begin with `rfq-custody` begin with the deployment's instead.
 * wrangler finds the database by its name.
 */
export function wranglerConfig(
  root: string,
  env: string,
  settings: DeploySettings,
): WranglerConfig {
  const { rawConfig } = experimental_readRawConfig({ config: join(root, "wrangler.toml") });
  const base = JSON.parse(
    JSON.stringify(rawConfig).replaceAll('"rfq-custody', `"${settings.name}`),
  ) as WranglerConfig;
  const { domain, placement, account_id, vars, jurisdiction } = settings;
  return {
    ...base,
    name: settings.name,
    ...(account_id !== undefined && { account_id }),
    ...(placement !== undefined && { placement: { region: placement } }),
    ...(domain !== undefined && {
      workers_dev: false,
      preview_urls: false,
      routes: [{ pattern: domain, custom_domain: true }],
    }),
    // What is no secret of this deployment, such as the URL of a receiver.
    secrets: { required: base.secrets.required.filter((name) => !(name in vars)) },
    vars: {
      ...base.vars,
      DEPLOYMENT: settings.deployment,
      DEPLOY_ENV: env,
      BOOK_LOCATION: settings.location,
      JURISDICTION: jurisdiction ?? "",
      CHAINS: JSON.stringify(settings.chains),
      VENUES: JSON.stringify(settings.venues),
      ...vars,
    },
    r2_buckets: base.r2_buckets.map((one) => ({ ...one, ...(jurisdiction && { jurisdiction }) })),
    ratelimits: base.ratelimits.map((one, index) => ({
      ...one,
      namespace_id: String(settings.rate_limit_ids_from + index),
    })),
  };
}
