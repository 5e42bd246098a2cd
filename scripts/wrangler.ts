/** `npm run wrangler -- <command> --env <name>` runs wrangler for the deployment of that name. */
import { spawnSync } from "node:child_process";
import { writeConfig } from "./deploy/settings.ts";
import { PROGRAM } from "./deploy/wrangler.ts";
import { readCommand } from "./deploy/wrangler-command.ts";

const { refused, env, args } = readCommand(process.argv.slice(2));
if (refused !== undefined) {
  console.error(refused);
  process.exitCode = 2;
} else {
  const config = env === undefined ? [] : ["--config", writeConfig(process.cwd(), env)];
  const { status } = spawnSync(process.execPath, [PROGRAM, ...args, ...config], {
    stdio: "inherit",
  });
  process.exitCode = status ?? 1;
}
