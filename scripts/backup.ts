/** `npm run backup -- --env production --out DIR` copies what a lost account would take along. */
import { backup } from "./deploy/backup.ts";
import { readSettings, wranglerConfig, writeConfig } from "./deploy/settings.ts";
import { type Run, runWrangler, wranglerOf } from "./deploy/wrangler.ts";
import { objectCaller } from "./deploy/objects.ts";
import { copyRecords } from "./deploy/records.ts";
import { openChannel } from "./operator/channel.ts";
import { readArguments, refuse } from "./stack/arguments.ts";
import { runScript } from "./stack/shutdown.ts";

const USAGE = `npm run backup -- [--env <name>] --out <directory> [--records]

Writes database.sql, objects.json (the archive's objects with their digests) and the objects. A
repeated backup into the same directory fetches only new objects. The database serves nobody while
it is exported. docs/deploy.md says how to restore.

  --records   only records.json: what was paid and which addresses were issued since; each minute.
              Without --env that of the local stack`;

const { env, out, records } = readArguments(USAGE, {
  env: { type: "string" },
  out: { type: "string" },
  records: { type: "boolean", default: false },
});
if (out === undefined || (env === undefined && !records))
  refuse("--env and --out are required.", USAGE);

await runScript(async (onStop) => {
  if (records || env === undefined) {
    const channel = openChannel({ env, dir: undefined });
    onStop(() => channel.close());
    console.log(`${out}: ${await copyRecords(channel.call, out)} records`);
    await channel.close();
    return 0;
  }
  const root = process.cwd();
  const settings = readSettings(root, env);
  const config = writeConfig(root, env);
  const { r2_buckets } = wranglerConfig(root, env, settings);
  const bucket = r2_buckets.find(({ binding }) => binding === "ARCHIVE")?.bucket_name ?? "";
  const run = runWrangler(root);
  const wrangler: Run = (args) => run([...args, "--config", config]);
  const { objects, fetched } = await backup({
    wrangler,
    callObject: await objectCaller(wranglerOf(wrangler), bucket, settings),
    out,
  });
  console.log(`${out}: database.sql and ${objects} objects, ${fetched} of them new`);
  return 0;
});
