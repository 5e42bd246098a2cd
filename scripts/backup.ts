/** `npm run backup -- --env production --out DIR` copies what a lost account would take along. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { backup } from "./deploy/backup.ts";
import type { WranglerConfig } from "./deploy/settings.ts";
import { runWrangler } from "./deploy/wrangler.ts";
import { readArguments, refuse } from "./stack/arguments.ts";
import { ROOT } from "./stack/bundle.ts";
import { runScript } from "./stack/shutdown.ts";

const USAGE = `npm run backup -- --env <name> --out <directory>

Writes database.sql, objects.json (the archive's objects with their digests) and the objects. A
repeated backup into the same directory fetches only new objects. The database serves nobody while
it is exported. docs/deploy.md says how to restore.`;

const { env, out } = readArguments(USAGE, { env: { type: "string" }, out: { type: "string" } });
if (env === undefined || out === undefined) refuse("--env and --out are required.", USAGE);
const configPath = join(ROOT, `wrangler.${env}.json`);
if (!existsSync(configPath)) refuse(`${configPath} is missing. npm run deploy writes it.`, USAGE);
const { d1_databases, r2_buckets } = JSON.parse(readFileSync(configPath, "utf8")) as WranglerConfig;

await runScript(async () => {
  const run = runWrangler(ROOT);
  const { objects, fetched } = await backup({
    wrangler: (args) => run([...args, "--config", configPath]),
    database: d1_databases[0]?.database_name ?? "",
    bucket: r2_buckets.find(({ binding }) => binding === "ARCHIVE")?.bucket_name ?? "",
    out,
  });
  console.log(`${out}: database.sql and ${objects} objects, ${fetched} of them new`);
  return 0;
});
