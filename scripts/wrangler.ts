/** `npm run wrangler -- <command> --env <name>` runs wrangler for the deployment of that name. */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { readSecrets, writeSecrets } from "./deploy/secrets.ts";
import { writeConfig } from "./deploy/settings.ts";
import { PROGRAM } from "./deploy/wrangler.ts";
import { readCommand } from "./deploy/wrangler-command.ts";

const { refused, env, args } = readCommand(process.argv.slice(2));
if (refused === undefined) process.exitCode = run();
else {
  console.error(refused);
  process.exitCode = 2;
}

function run(): number {
  const config = env === undefined ? [] : ["--config", writeConfig(process.cwd(), env)];
  const [verb, put, name = ""] = args;
  const isPut = verb === "secret" && put === "put" && !process.stdin.isTTY;
  const value = isPut ? readFileSync(0, "utf8").trimEnd() : undefined;
  const { status } = spawnSync(process.execPath, [PROGRAM, ...args, ...config], {
    stdio: [value === undefined ? "inherit" : "pipe", "inherit", "inherit"],
    ...(value !== undefined && { input: value }),
  });
  if (status === 0 && verb === "secret" && put !== "list") keepCopy(name, value);
  return status ?? 1;
}

/** A lost account is restored with the copy of the secrets, so it must not be that of before. */
function keepCopy(name: string, value: string | undefined): void {
  const path = `.secrets.${env}.json`;
  const isHere = value !== undefined && existsSync(path);
  if (isHere) writeSecrets(path, { ...readSecrets(path), [name]: value });
  const here = isHere ? `${path} has it. ` : "";
  console.error(`${here}Change it in the copy of ${path} in your secret store, too.`);
}
