/** `npm run restore-account -- --env production --from DIR` puts a backup into an empty account. */
import { callRpc } from "./deploy/contracts.ts";
import { compareAll, completeRestore, readRecords } from "./deploy/records.ts";
import { restoreFiles } from "./deploy/restore-files.ts";
import { runOperator, runWrangler } from "./deploy/wrangler.ts";
import { openChannel } from "./operator/channel.ts";
import { readArguments, refuse } from "./stack/arguments.ts";
import { runScript } from "./stack/shutdown.ts";

const USAGE = `npm run restore-account -- --env <name> --from <directory of the backup> [--verify]

Makes the account of deploy.<name>.json, puts the database and the archive there, deploys, gives the
recovery records back, restores what is later than the backup from the chains, and compares every
balance. It needs .secrets.<name>.json, and can be repeated, also after it was killed. docs/deploy.md
explains it.

  --verify   only compare`;

const { env, from, verify } = readArguments(USAGE, {
  env: { type: "string" },
  from: { type: "string" },
  verify: { type: "boolean", default: false },
});
if (env === undefined || from === undefined) refuse("--env and --from are required.", USAGE);

await runScript(async (onStop) => {
  const root = process.cwd();
  const log = (line: string) => console.log(line);
  const channel = openChannel({ env, dir: undefined });
  onStop(() => channel.close());
  if (!verify) {
    const [wrangler, operator] = [runWrangler(root), runOperator(root)];
    await restoreFiles({ env, plan: false, root, wrangler, operator, rpc: callRpc, log }, from);
    await completeRestore(channel.call, readRecords(from), { log });
  } else await compareAll(channel.call, log);
  await channel.close();
  return 0;
});
