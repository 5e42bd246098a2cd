/** `npm run deploy -- --env staging` deploys the checkout to a Cloudflare account. */
import { callRpc } from "./deploy/contracts.ts";
import { deploy } from "./deploy/deploy.ts";
import { runOperator, runWrangler } from "./deploy/wrangler.ts";
import { readArguments, refuse } from "./stack/arguments.ts";
import { runScript } from "./stack/shutdown.ts";

const USAGE = `npm run deploy -- --env <name> [--plan]

Creates what deploy.<name>.json needs and the account lacks, applies the migrations, compares schema
and contracts with the checkout, deploys the Worker, and prints what is left. It can be repeated,
also after it was killed. docs/deploy.md explains the settings.

  --env <name>   which deploy.<name>.json
  --plan         say what would be done, and change nothing`;

const { env, plan } = readArguments(USAGE, {
  env: { type: "string" },
  plan: { type: "boolean", default: false },
});
if (env === undefined || !/^[a-z][a-z0-9-]{0,31}$/.test(env)) refuse("--env is required.", USAGE);

await runScript(async () => {
  const root = process.cwd();
  await deploy({
    env,
    plan,
    root,
    wrangler: runWrangler(root),
    operator: runOperator(root),
    rpc: callRpc,
    log: (line) => console.log(line),
  });
  return 0;
});
