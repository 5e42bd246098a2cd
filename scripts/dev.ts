/** `npm run dev` runs the whole service on loopback, with funded users and a market maker. */
import type { Address } from "viem";
import type { Client } from "../packages/client/src/index.ts";
import { Settings } from "../src/platform/config.ts";
import { startMarketMaker } from "./market-maker.ts";
import { readArguments, refuse } from "./stack/arguments.ts";
import { DEMO_USERS, enter } from "./stack/demo-users.ts";
import { listExampleMarkets, TEST_MARKET } from "./stack/example-markets.ts";
import { type Faucet, openFaucet } from "./stack/faucet.ts";
import { portFrom } from "./stack/ports.ts";
import { runScript } from "./stack/shutdown.ts";
import { DEFAULT_STACK_DIR } from "./stack/stack-file.ts";
import { type Stack, startStack } from "./stack/start-stack.ts";

const USAGE = `npm run dev -- [--no-maker] [--keep] [--dir <path>] [--set NAME=VALUE …]

Runs the whole service on loopback until Ctrl-C, with three funded users and a market maker that
quotes every request with the account maker@demo.example.

  --no-maker         without the market maker, so that only your own programs quote
  --keep             keep the users, balances and chain of the last start
  --dir <path>       the directory of state, logs and stack.json (default: ${DEFAULT_STACK_DIR})
  --set NAME=VALUE   a setting of the Worker (docs/settings.md); may be repeated

The service listens on PORT (8787) and the chain on RPC_PORT (8545) of the environment.`;

const USDC = 100_000_000_000n;
const TOKENS = 100_000_000_000n;
/** Every user starts with this asset on every venue. The market maker mints others when needed. */
const FIRST_ASSET_ID = 1n;
const CREDIT_TIMEOUT_MS = 30_000;
const MAKER_KEY = "market maker of npm run dev";

const {
  set,
  "no-maker": noMaker,
  ...where
} = readArguments(USAGE, {
  "no-maker": { type: "boolean", default: false },
  keep: { type: "boolean", default: false },
  dir: { type: "string", default: DEFAULT_STACK_DIR },
  set: { type: "string", multiple: true, default: [] },
});
const vars = settingsFrom(set);

await runScript(async (onStop) => {
  const stack = await startStack({
    port: portFrom("PORT", 8787),
    rpcPort: portFrom("RPC_PORT", 8545),
    ...where,
    saveChain: true,
    vars,
    log: (line) => console.log(`  ${line}`),
  });
  onStop(() => stack.stop());
  const faucet = await openFaucet({ rpcUrl: stack.rpcUrl, usdc: stack.deployment.usdc });
  const entered = await Promise.all(DEMO_USERS.map((user) => enter(stack.baseUrl, user)));
  const clients = entered.map(({ client }) => client);
  const newcomers = entered.filter(({ isNew }) => isNew).map(({ client }) => client);
  if (newcomers.length > 0) await fund(stack, faucet, newcomers);
  stack.announceUsers(DEMO_USERS);
  console.log(`  ${await listExampleMarkets(stack)} example markets are listed`);
  if (!noMaker) {
    const maker =
      clients[DEMO_USERS.findIndex(({ role }) => role === "maker")] ?? raise("no maker");
    onStop(await startMaker(stack, faucet, maker));
  }
  greet(stack, { quotes: !noMaker });
  return new Promise<number>(() => {});
});

/** Starts the market maker with a key of its own. Returns how to stop it. */
async function startMaker(
  stack: Stack,
  faucet: Faucet,
  maker: Client,
): Promise<() => Promise<void>> {
  // Keys of earlier starts would add up to the limit of keys per user.
  for (const { api_key_id, label, revoked_at } of await maker.auth.apiKeys().all()) {
    if (label === MAKER_KEY && revoked_at === null) await maker.auth.revokeApiKey({ api_key_id });
  }
  const key = await maker.auth.createApiKey({ label: MAKER_KEY, scopes: ["read", "trade"] });
  const marketMaker = await startMarketMaker({
    client: maker.withApiKey({ apiKeyId: key.api_key_id, secret: key.secret }),
    faucet,
    outcomeTokens: stack.deployment.outcomeTokens,
    log: (line) => console.log(line),
  });
  return async () => {
    // workerd may be gone already, because a terminal sends the signal to every process.
    await Promise.race([
      marketMaker.stop(),
      new Promise((resolve) => setTimeout(resolve, 2_000)),
    ]).catch(() => {});
  };
}

function settingsFrom(texts: readonly string[]): Record<string, string> {
  const known: Record<string, { safeParse(value: unknown): { success: boolean } }> = Settings.shape;
  return Object.fromEntries(
    texts.map((text) => {
      const [, name = "", value = ""] = /^([A-Z_]+)=(.*)$/s.exec(text) ?? [];
      const setting = Object.hasOwn(known, name) ? known[name] : undefined;
      if (setting === undefined) return refuse(`--set ${text}: unknown setting.`, USAGE);
      if (!setting.safeParse(value).success) refuse(`--set ${text}: invalid value.`, USAGE);
      return [name, value];
    }),
  );
}

async function fund(stack: Stack, faucet: Faucet, clients: Client[]): Promise<void> {
  const tokens = Object.values(stack.deployment.outcomeTokens);
  for (const client of clients) {
    const to = (await client.custody.createDepositAddress()).address as Address;
    await faucet.usdc(to, USDC);
    const smoke = { to, id: BigInt(TEST_MARKET.asset_id), amount: TOKENS };
    await faucet.outcomeTokens(stack.deployment.outcomeTokens[TEST_MARKET.venue_id], smoke);
    for (const token of tokens)
      await faucet.outcomeTokens(token, { to, id: FIRST_ASSET_ID, amount: TOKENS });
  }
  const deadline = Date.now() + CREDIT_TIMEOUT_MS;
  for (;;) {
    const credited = await Promise.all(
      clients.map((client) => client.custody.deposits({ status: "credited" }).all()),
    );
    if (credited.every((deposits) => deposits.length > tokens.length + 1)) break;
    if (Date.now() > deadline)
      throw new Error(
        `The deposits of the demo users were not credited in time. See ${stack.workerLog}`,
      );
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  console.log("  the demo users are funded");
}

function greet({ baseUrl, rpcUrl, dir, workerLog }: Stack, { quotes }: { quotes: boolean }): void {
  const [taker, , ownMaker] = DEMO_USERS;
  const quoted = quotes
    ? "sleep 1"
    : `MAKER=$(curl -s $RFQ_URL/auth/login -H 'content-type: application/json' \\
  -d '{"email":"${ownMaker?.email}","password":"${ownMaker?.password}"}' | pick access_token)
TAKER=$TOKEN TOKEN=$MAKER
call /rfq/quote -d '{"request_id":"'$REQUEST_ID'","price":650000}'
TOKEN=$TAKER`;
  const isDefault = dir === DEFAULT_STACK_DIR;
  const again = `npm run dev -- ${isDefault ? "" : `--dir ${dir} `}--keep`;
  console.log(`
Ready on ${baseUrl}
Console: ${baseUrl}/console/

Users (each began with 100 000 USDC, and 100 000 of asset 0x1 on every venue):
${DEMO_USERS.map(({ role, email, password }) => `  ${role}  ${email}  ${password}`).join("\n")}
${quotes ? "" : "\nNobody quotes, because of --no-maker. Start your own maker (examples/README.md).\n"}
Log in, ask for a quote, see ${quotes ? "what makers offer" : "the one of your own maker"}, and accept it:
export RFQ_URL=${baseUrl} RPC_URL=${rpcUrl}${isDefault ? "" : ` RFQ_DIR=${dir}`}
pick() { sed 's/.*"'$1'":"\\([^"]*\\)".*/\\1/'; }
TOKEN=$(curl -s $RFQ_URL/auth/login -H 'content-type: application/json' \\
  -d '{"email":"${taker?.email}","password":"${taker?.password}"}' | pick access_token)
call() { curl -s "$RFQ_URL$1" -H "authorization: Bearer $TOKEN" \\
  -H 'content-type: application/json' "\${@:2}"; echo; }
call /custody/get-usdc-balance
REQUEST_ID=$(call /rfq/request \\
  -d '{"venue_id":"venue_one","asset_id":"0x1","amount":"1000000","side":"Bid"}' | pick request_id)
${quoted}
call "/rfq/quote?request_id=$REQUEST_ID"
QUOTE_ID=$(call "/rfq/quote?request_id=$REQUEST_ID&limit=1" | pick quote_id)
call /rfq/accept -d '{"quote_id":"'$QUOTE_ID'"}'

Chain: ${rpcUrl}   Addresses: ${dir}/stack.json   Log: ${workerLog}
Operator: npm run operator -- --help
More to try: examples/README.md
Ctrl-C stops the stack. To continue later: ${again}`);
}

function raise(message: string): never {
  throw new Error(message);
}
