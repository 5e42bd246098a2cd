/** `npm run seed` fills the local database of `npx wrangler dev`, while that runs. */
import { randomBytes } from "node:crypto";
import { join, resolve } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { unstable_readConfig } from "./stack/wrangler-library.ts";
import { assetKey, USDC } from "../src/assets/asset.ts";
import { readArguments, refuse } from "./stack/arguments.ts";
import { ROOT, WRANGLER_CONFIG } from "./stack/bundle.ts";
import { newGroup, commit } from "../src/platform/commit.ts";
import { sql } from "../src/platform/sql.ts";
import { credit } from "./stack/credit.ts";
import { DEMO_USERS, enter } from "./actors/users.ts";
import { TEST_MARKET } from "./stack/example-markets.ts";
import { applyMigrations } from "./stack/migrate.ts";
import { runScript } from "./stack/shutdown.ts";

const USAGE = `npm run seed -- [--url <url>] [--state <path>]

Applies the migrations to the local database of \`npx wrangler dev\`, registers three users, and
credits each with 100 000 USDC and 100 000 of asset 0x1 that no chain has seen. Lists the market
of \`npm run smoke\`.

  --url <url>     where \`wrangler dev\` listens (default: http://127.0.0.1:8787)
  --state <path>  its --persist-to (default: .wrangler/state)`;

const FIRST_ASSET = { venue: "venue_one", assetId: "0x1" };
const TEST_ASSET = { venue: TEST_MARKET.venue_id, assetId: TEST_MARKET.asset_id };
const AMOUNT = 100_000_000_000n;

const { url, state } = readArguments(USAGE, {
  url: { type: "string", default: "http://127.0.0.1:8787" },
  state: { type: "string", default: join(ROOT, ".wrangler", "state") },
});
if (!/^(127\.0\.0\.1|localhost)$/.test(new URL(url).hostname))
  refuse("--url must be on this machine.", USAGE);

await runScript(async (onStop) => {
  const database = await openDatabase(onStop);
  const applied = await applyMigrations(database);
  console.log(`migrations: ${applied.length === 0 ? "none was due" : applied.join(", ")}`);
  await listTestMarket(database);
  for (const user of DEMO_USERS) {
    const { client } = await enter(url, user);
    // USDC comes last, so it is there if all else is.
    if ((await client.custody.usdcBalance()).balance === 0n)
      await fund(database, (await client.auth.whoami()).user_id);
    console.log(`${user.role} ${user.email} ${user.password}`);
  }
  return 0;
});

/** The D1 that `wrangler dev` uses, in a workerd of its own. */
async function openDatabase(onStop: (stop: () => Promise<void>) => void) {
  const [d1] = unstable_readConfig({ config: WRANGLER_CONFIG }).d1_databases;
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      modules: true,
      script: "export default {}",
      d1Databases: { DB: d1?.preview_database_id ?? "DB" },
      resourcePersistencePath: resolve(state, "v3"),
    }),
  );
  onStop(() => miniflare.dispose());
  return miniflare.getD1Database("DB");
}

/** The market that `npm run smoke` trades in. There is no operator here who could list it. */
async function listTestMarket(database: Awaited<ReturnType<typeof openDatabase>>): Promise<void> {
  const group = newGroup();
  await commit(database, group, [
    sql`INSERT INTO markets (asset, title, outcome, test, changed_group)
      VALUES (${assetKey(TEST_ASSET)}, ${TEST_MARKET.title}, ${TEST_MARKET.outcome}, 1,
        ${group.seq})
      ON CONFLICT DO NOTHING`,
  ]);
}

async function fund(
  database: Awaited<ReturnType<typeof openDatabase>>,
  userId: string,
): Promise<void> {
  for (const asset of [assetKey(FIRST_ASSET), assetKey(TEST_ASSET), USDC]) {
    const address = `0x${randomBytes(20).toString("hex")}`;
    await credit(database, { userId, asset, amount: AMOUNT, chain: "local", address });
  }
}
