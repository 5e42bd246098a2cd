/** `npm run smoke` tries a running service from outside, after each deployment. */
import { readFileSync } from "node:fs";
import * as z from "zod";
import {
  Client,
  type Match,
  type MarketAsset,
  type Quote,
  type QuoteRequest,
} from "../packages/client/src/index.ts";
import { commandText } from "../src/platform/command-text.ts";
import { readSettings } from "./deploy/settings.ts";
import { readArguments, refuse } from "./stack/arguments.ts";
import { DEMO_USERS } from "./actors/users.ts";

const USAGE = `npm run smoke -- (--env <name> | --url <url>) [--users <file>] [--trade]

Reads, logs in, makes a key, opens a socket, requests, quotes and cancels. Takes less than a minute,
moves no money, and can be repeated. Uses the first open market for tests, else an asset that nobody
lists. Exits with 1 at the first step that fails.

  --env <name>     the deployed service of deploy.<name>.json
  --url <url>      a local service, or one that is not on its domain (then with --env)
  --users <file>   JSON list of two accounts without one-time codes, taker and maker:
                   [{"email":"…","password":"…"}, …] (default: those of a local service)
  --trade          also accepts, and trades back at the same price, in a market for tests
                   (operator: market set --test). One of the two must hold the smallest amount`;

const LIMIT_MS = 55_000;
const STEP_MS = 10_000;
const EXPIRES_IN_SECS = 60;
/** One USDC for one token. */
const PRICE = 1_000_000;
const UNLISTED = "0x736d6f6b65";
const ROLLBACK = ["rollback", "--durable-objects-code-update-mode", "immediate"];

const {
  url: given,
  env,
  users,
  trade,
} = readArguments(USAGE, {
  env: { type: "string" },
  url: { type: "string" },
  users: { type: "string" },
  trade: { type: "boolean", default: false },
});
const domain = env === undefined ? undefined : readSettings(process.cwd(), env).domain;
const url = given ?? (domain === undefined ? undefined : `https://${domain}`);
if (url === undefined || !URL.canParse(url)) refuse("--url is required.", USAGE);
const isLocal = /^(127\.0\.0\.1|localhost)$/.test(new URL(url).hostname);
if (env === undefined && !isLocal) refuse("--env is required.", USAGE);
const deployed = { DEPLOY_ENV: env ?? "" };
const [takerLogin, makerLogin] = readUsers();

/** The last step that began. */
let current = "";
const late = setTimeout(() => fail(new Error(`not done within ${LIMIT_MS / 1_000} s`)), LIMIT_MS);
try {
  await smoke(url);
  clearTimeout(late);
} catch (error) {
  fail(error);
}

async function smoke(baseUrl: string): Promise<void> {
  const guest = new Client({ baseUrl });
  const asset = await step("read", () => readPublic(guest));
  const [takerSession, maker] = await step("login", () =>
    Promise.all([takerLogin, makerLogin].map((login) => Client.login({ baseUrl, ...login }))),
  );
  const key = await step("key", async () => {
    const expires_at = new Date(Date.now() + 10 * 60_000).toISOString();
    const scopes = ["read" as const, "trade" as const];
    return takerSession!.auth.createApiKey({ label: "smoke", scopes, expires_at });
  });
  try {
    const taker = takerSession!.withApiKey({ apiKeyId: key.api_key_id, secret: key.secret });
    await step("signature", () => taker.auth.whoami());
    await tryBook({ taker, maker: maker! }, asset);
  } finally {
    await takerSession!.auth.revokeApiKey(key);
  }
}

type Pair = { taker: Client; maker: Client };

/** The smallest request of an asset. */
type Terms = MarketAsset & { readonly amount: bigint };

/** What to trade. */
async function readPublic(guest: Client): Promise<Terms> {
  await guest.health();
  const { unix_ms } = await guest.time();
  const ahead = Math.abs(unix_ms - Date.now());
  if (ahead > STEP_MS) throw new Error(`the clocks differ by ${ahead} ms`);
  const { venues, listed_only } = await guest.config();
  const [market] = await guest.markets({ test: true, status: "open" }).all();
  const amountAt = (venue_id: string) =>
    venues.find((venue) => venue.venue_id === venue_id)?.min_request ?? 1n;
  if (market !== undefined) {
    const { venue_id, asset_id } = market;
    return { venue_id, asset_id, amount: amountAt(venue_id) };
  }
  const [venue] = venues;
  if (trade || listed_only || venue === undefined)
    throw new Error("no market for tests is open: `market set --test` opens one");
  return { venue_id: venue.venue_id, asset_id: UNLISTED, amount: venue.min_request };
}

async function tryBook({ taker, maker }: Pair, terms: Terms): Promise<void> {
  const { amount: _, ...asset } = terms;
  const stream = maker.bookStream(asset);
  try {
    await step("socket", () => stream.ready());
    const messages = stream[Symbol.asyncIterator]();
    // Only the maker's USDC is set aside, so an account without tokens will do.
    const request = await step("request", () =>
      taker.rfq.request({ ...terms, expires_in_secs: EXPIRES_IN_SECS, side: "Ask" }),
    );
    await step("event", async () => {
      for (;;) {
        const { value, done } = await messages.next();
        if (done === true) throw new Error("the socket closed");
        if (value.type === "request.opened" && value.data.request_id === request.request_id) return;
      }
    });
    const quote = await step("quote", () => quoteOn(maker, request));
    await step("cancel", async () => {
      await maker.rfq.cancelQuote(quote);
      await taker.rfq.cancelRequest(request);
    });
    if (trade) await tradeBoth({ taker, maker }, terms);
  } finally {
    stream.close();
  }
}

/** Whoever has a token sells it first and then buys it back. */
async function tradeBoth(pair: Pair, terms: Terms): Promise<void> {
  const { balance } = await pair.maker.custody.balance(terms);
  const sides = balance >= terms.amount ? (["Bid", "Ask"] as const) : (["Ask", "Bid"] as const);
  for (const [index, side] of sides.entries())
    await step(index === 0 ? "trade" : "trade back", async (): Promise<Match> => {
      const request = await pair.taker.rfq.request({
        ...terms,
        expires_in_secs: EXPIRES_IN_SECS,
        side,
      });
      return pair.taker.rfq.accept(await quoteOn(pair.maker, request));
    });
}

function quoteOn(maker: Client, { request_id }: QuoteRequest): Promise<Quote> {
  const terms = { request_id, price: PRICE, expires_in_secs: 30 };
  return maker.rfq.quote(terms, { maxAgeMs: STEP_MS });
}

/** Prints one line about the work, with the time that it took. */
async function step<T>(name: string, work: () => Promise<T>): Promise<T> {
  current = name;
  const startedAt = performance.now();
  let timer: NodeJS.Timeout | undefined;
  const tooLate = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("no answer within 10 s")), STEP_MS);
  });
  const result = await Promise.race([work(), tooLate]).finally(() => clearTimeout(timer));
  console.log(`ok      ${name.padEnd(12)}${Math.round(performance.now() - startedAt)} ms`);
  return result;
}

function fail(error: unknown): never {
  console.log(
    `FAILED  ${current.padEnd(12)}${error instanceof Error ? error.message : String(error)}`,
  );
  if (!isLocal)
    console.log(`
If the last deployment caused it, and it applied no migration:
  ${commandText(deployed, "wrangler", ...ROLLBACK)}`);
  process.exit(1);
}

function readUsers() {
  const Login = z.object({ email: z.string(), password: z.string() });
  const Users = z.tuple([Login, Login]);
  if (users === undefined && !isLocal) return refuse("--users is required.", USAGE);
  const [taker, , maker] = DEMO_USERS;
  try {
    return Users.parse(
      users === undefined ? [taker, maker] : JSON.parse(readFileSync(users, "utf8")),
    );
  } catch {
    return refuse("--users: not a JSON list of two accounts.", USAGE);
  }
}
