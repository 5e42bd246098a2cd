/** `npm run dev` runs the whole service on loopback, with funded users and a market maker. */
import type { Client } from "../packages/client/src/index.ts";
import { Settings } from "../src/platform/config.ts";
import { startLivingMarket, type Trader } from "./living-market.ts";
import { startMarketMaker } from "./market-maker.ts";
import { readArguments, refuse } from "./stack/arguments.ts";
import {
  EXAMPLE_MARKETS,
  EXAMPLE_PAIR,
  listExampleMarkets,
  listExamplePair,
  TEST_MARKET,
} from "./stack/example-markets.ts";
import { type Faucet, openFaucet } from "./stack/faucet.ts";
import { LOCAL_VENUES } from "./stack/local-venues.ts";
import { portFrom } from "./stack/ports.ts";
import { runScript } from "./stack/shutdown.ts";
import { DEFAULT_STACK_DIR } from "./stack/stack-file.ts";
import { type Stack, startStack } from "./stack/start-stack.ts";
import { DEMO_USERS, enterUnchanged, fundAll, withKey } from "./actors/users.ts";

/** Of each kind. More would show no more, and a laptop runs all of it. */
const MAX_TRADERS = 50;

const USAGE = `npm run dev -- [--no-maker | --makers <n> --takers <n>] [--keep] [--dir <path>]
                [--set NAME=VALUE …]

Runs the whole service on loopback until Ctrl-C, with three funded users and a market maker that
quotes every request with the account maker@demo.example.

  --no-maker         without the market maker, so that only your own programs quote
  --makers <n>       instead of the market maker, makers who quote the example markets at prices
                     that wander; up to ${MAX_TRADERS}
  --takers <n>       with them takers who trade there now and then; up to ${MAX_TRADERS}
  --keep             keep the users, balances and chain of the last start
  --dir <path>       the directory of state, logs and stack.json (default: ${DEFAULT_STACK_DIR})
  --set NAME=VALUE   a setting of the Worker (npm run settings); may be repeated

The service listens on PORT (8787) and the chain on RPC_PORT (8545) of the environment.`;

const FUNDS = { usdc: 100_000_000_000n, tokens: 100_000_000_000n };
/** Every user starts with this asset on every venue. The market maker mints others when needed. */
const FIRST_ASSET_ID = "0x1";
const KEY = "npm run dev";

const {
  set,
  "no-maker": withoutMaker,
  makers: makersText,
  takers: takersText,
  ...where
} = readArguments(USAGE, {
  "no-maker": { type: "boolean", default: false },
  makers: { type: "string", default: "0" },
  takers: { type: "string", default: "0" },
  keep: { type: "boolean", default: false },
  dir: { type: "string", default: DEFAULT_STACK_DIR },
  set: { type: "string", multiple: true, default: [] },
});
const vars = settingsFrom(set);
const [makers, takers] = [countOf("makers", makersText), countOf("takers", takersText)];
const noMaker = withoutMaker || makers > 0;

await runScript(async (onStop) => {
  const stack = await startStack({
    port: portFrom("PORT", 8787),
    rpcPort: portFrom("RPC_PORT", 8545),
    ...where,
    saveChain: true,
    vars,
    log: note,
  });
  onStop(() => stack.stop());
  const faucet = await openFaucet(stack);
  const entered = await Promise.all(
    DEMO_USERS.map((user) => enterUnchanged(stack.baseUrl, user, note)),
  );
  const newcomers = entered.flatMap((user) => (user?.isNew === true ? [user.client] : []));
  const first = [
    TEST_MARKET,
    ...LOCAL_VENUES.map((venue_id) => ({ venue_id, asset_id: FIRST_ASSET_ID })),
  ];
  await fundAll(faucet, newcomers, { ...FUNDS, assets: first });
  if (newcomers.length > 0) note(`${newcomers.length} users are funded`);
  stack.announceUsers(DEMO_USERS);
  note(`${await listExampleMarkets(stack)} example markets are listed`);
  const maker = noMaker ? null : entered[DEMO_USERS.findIndex(({ role }) => role === "maker")];
  if (maker) onStop(await startMaker(faucet, maker.client));
  if (makers + takers > 0) onStop(await startCrowd(stack, faucet));
  greet(stack, { quotes: Boolean(maker) || makers > 0 });
  return new Promise<number>(() => {});
});

/** Starts the market maker with a key of its own. Returns how to stop it. */
async function startMaker(faucet: Faucet, maker: Client): Promise<() => Promise<void>> {
  const marketMaker = await startMarketMaker({
    client: await withFreshKey(maker),
    faucet,
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

/** Revokes the keys of earlier starts, which would add up to the limit of keys per user. */
async function withFreshKey(client: Client): Promise<Client> {
  for (const { api_key_id, label, revoked_at } of await client.auth.apiKeys().all()) {
    if (label === KEY && revoked_at === null) await client.auth.revokeApiKey({ api_key_id });
  }
  return withKey(client, KEY);
}

/** Users `maker-live-1@demo.example` and so on, each with a key. Returns how to stop them. */
async function startCrowd(stack: Stack, faucet: Faucet): Promise<() => Promise<void>> {
  const traders: Trader[] = [];
  const newcomers: Client[] = [];
  for (const [role, count] of [
    ["maker", makers],
    ["taker", takers],
  ] as const)
    for (let number = 1; number <= count; number++) {
      const email = `${role}-live-${number}@demo.example`;
      // One by one, because a network has few places where passwords are hashed.
      const user = { email, password: `${role}-live-demo-password`, role };
      const entered = await enterUnchanged(stack.baseUrl, user, note);
      if (entered === null) continue;
      if (entered.isNew) newcomers.push(entered.client);
      traders.push({ role, client: await withFreshKey(entered.client) });
    }
  await fundAll(faucet, newcomers, { ...FUNDS, assets: EXAMPLE_MARKETS });
  await listExamplePair(stack);
  const market = await startLivingMarket({
    traders,
    markets: [...EXAMPLE_MARKETS, ...EXAMPLE_PAIR],
    log: (line) => console.log(line),
  });
  note(`${makers} makers and ${takers} takers trade the example markets`);
  return async () => market.stop();
}

function note(line: string): void {
  console.log(`  ${line}`);
}

function countOf(name: string, text: string): number {
  if (/^\d{1,2}$/.test(text) && Number(text) <= MAX_TRADERS) return Number(text);
  return refuse(`--${name} ${text}: must be a number from 0 to ${MAX_TRADERS}.`, USAGE);
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

function greet({ baseUrl, rpcUrl, dir, workerLog }: Stack, { quotes }: { quotes: boolean }): void {
  const [taker, , ownMaker] = DEMO_USERS;
  const quoted = quotes
    ? ""
    : `MAKER=$(curl -s $RFQ_URL/auth/login -H 'content-type: application/json' \\
  -d '{"email":"${ownMaker?.email}","password":"${ownMaker?.password}"}' | pick access_token)
TAKER=$TOKEN TOKEN=$MAKER
call /rfq/quote -d '{"request_id":"'$REQUEST_ID'","price":650000}'
TOKEN=$TAKER
`;
  const isDefault = dir === DEFAULT_STACK_DIR;
  const again = `npm run dev -- ${isDefault ? "" : `--dir ${dir} `}--keep`;
  console.log(`
Ready on ${baseUrl}
Console: ${baseUrl}/console/

Users (each began with 100 000 USDC, 100 000 of asset 0x1 on every venue, and as many of the hidden
market that npm run smoke trades):
${DEMO_USERS.map(({ role, email, password }) => `  ${role}  ${email}  ${password}`).join("\n")}
${quotes ? "" : "\nNobody quotes. Start your own maker (examples/README.md).\n"}
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
${quoted}QUOTES="/rfq/quote?request_id=$REQUEST_ID&status=open"
until call "$QUOTES" | grep quote_id; do sleep 0.2; done
QUOTE_ID=$(call "$QUOTES&limit=1" | pick quote_id)
call /rfq/accept -d '{"quote_id":"'$QUOTE_ID'"}'

Chain: ${rpcUrl}   Addresses: ${dir}/stack.json   Log: ${workerLog}
Operator: npm run operator -- --help
More to try: examples/README.md
Ctrl-C stops the stack. To continue later: ${again}`);
}
