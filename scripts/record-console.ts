/**
 * `npm run record:console` writes scripts/console/recording.jsonl: what a real stack
 * answers to the console of a user who trades, makes markets, deposits and withdraws, and the first
 * frames of its sockets. Replayed, it shows every page filled without a stack.
 */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Secret, TOTP } from "otpauth";
import type { Page, Response } from "playwright-core";
import { getAddress } from "viem";
import type { Client } from "../packages/client/src/index.ts";
import { NOW, RECORDING, type Recorded } from "./console/replay.ts";
import { inBrowser } from "./actors/browser.ts";
import { startLivingMarket, type Trader } from "./living-market.ts";
import { EXAMPLE_MARKETS, listExampleMarkets } from "./stack/example-markets.ts";
import { openFaucet } from "./stack/faucet.ts";
import { freePort } from "./stack/ports.ts";
import { runScript } from "./stack/shutdown.ts";
import { type Stack, startStack } from "./stack/start-stack.ts";
import { enter, fundAll, withKey } from "./actors/users.ts";
import { withdrawKey } from "./actors/withdraw-key.ts";

const ADA = { email: "ada@desk.example", password: "ada-demo-password", role: "taker" as const };
const [MAKERS, TAKERS] = [3, 10];
const FUNDS = { usdc: 25_000_000_000n, tokens: 2_000_000_000n, assets: EXAMPLE_MARKETS };
const MARKET_LIVES_MS = 60_000;
const PAGE_MS = 4_000;
/** A page has more of nothing. */
const MOST_ITEMS = 30;
const REQUESTS = 50;
/** Times older than the last seconds are stretched, so that a minute looks like a day. */
const [RECENT_MS, STRETCH] = [15_000, 1_000];
const DAY_MS = 86_400_000;

await runScript(async (onStop) => {
  const dir = join(".stack", `record-${process.pid}`);
  const log = (line: string) => console.log(line);
  const stack = await startStack({ port: await freePort(), rpcPort: await freePort(), dir });
  onStop(async () => {
    await stack.stop();
    rmSync(dir, { recursive: true, force: true });
  });
  const faucet = await openFaucet(stack);
  await listExampleMarkets(stack);
  const { client: session } = await enter(stack.baseUrl, ADA);
  const ada = await withKey(session, "trading");
  const traders: Trader[] = [{ client: ada, role: "maker" }];
  for (let number = 1; number <= MAKERS + TAKERS; number++) {
    const role = number <= MAKERS ? "maker" : "taker";
    const user = { email: `${number}@desk.example`, password: "desk-demo-password", role } as const;
    const { client: entered } = await enter(stack.baseUrl, user);
    traders.push({ client: await withKey(entered, "trading"), role });
  }
  await fundAll(
    faucet,
    traders.map(({ client }) => client),
    FUNDS,
  );
  log("users are funded");
  const market = await startLivingMarket({ traders, markets: EXAMPLE_MARKETS, log });
  onStop(async () => market.stop());
  await Promise.all([tradeAs(ada), new Promise((resolve) => setTimeout(resolve, MARKET_LIVES_MS))]);
  const takers = traders.filter(({ role }) => role === "taker").map(({ client }) => client);
  await inBrowser(async (browser) => {
    const page = await browser.newPage({ viewport: { width: 1_440, height: 900 } });
    const recorded = record(page, new URL(stack.baseUrl).host);
    await page.goto(`${stack.baseUrl}/console/`);
    await page.waitForTimeout(PAGE_MS);
    await page.getByLabel("Email").fill(ADA.email);
    await page.getByLabel("Password").fill(ADA.password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("Live", { exact: true }).waitFor();
    await useWallet(stack, session);
    const [first, second] = EXAMPLE_MARKETS;
    const address = (asset: { venue_id: string; asset_id: string } | undefined) =>
      `market/${asset?.venue_id}/${asset?.asset_id}`;
    const wallet = ["wallet", "wallet/withdraw", "wallet/safety", "wallet/ledger"];
    for (const hash of ["markets", address(first), "portfolio", ...wallet, "account"])
      await visit(page, hash);
    for (let number = 0; number < REQUESTS; number++) await open(takers, number);
    await visit(page, "maker");
    const wanted = { ...(second ?? first), amount: 250_000_000n, side: "Bid" as const };
    await ada.rfq.request({ venue_id: "venue_one", asset_id: "0x3", ...wanted });
    await visit(page, address(second));
    await visit(page, "portfolio");
    const answers = await recorded();
    writeFileSync(RECORDING, answers.map((answer) => `${JSON.stringify(answer)}\n`).join(""));
    log(`${answers.length} answers and frames are in ${RECORDING}`);
  });
  return 0;
});

/**
 * Keeps the last answer to each call, and the first greeting and snapshot of each stream, with all
 * times as seen from `NOW`.
 */
function record(page: Page, host: string): () => Promise<Recorded[]> {
  const answers = new Map<string, Promise<Recorded>>();
  const frames = new Map<string, Recorded>();
  const keep = async (call: string, response: Response, at: number) => ({
    call,
    body: shifted(await response.json(), at),
  });
  page.on("response", (response) => {
    const url = new URL(response.url());
    if (url.host !== host || url.pathname.startsWith("/console/") || !response.ok()) return;
    const call = `${response.request().method()} ${url.pathname}${url.search}`;
    answers.set(call, keep(call, response, Date.now()));
  });
  page.on("websocket", (socket) => {
    const { pathname, searchParams } = new URL(socket.url());
    const call = `SOCKET ${pathname} ${searchParams.get("venue_id") ?? ""}`.trim();
    socket.on("framereceived", ({ payload }) => {
      const body = JSON.parse(String(payload)) as { type: string };
      const id = `${call} ${body.type}`;
      if (["hello", "snapshot"].includes(body.type) && !frames.has(id))
        frames.set(id, { call, body: shifted(body, Date.now()) });
    });
  });
  return async () => [...(await Promise.all(answers.values())), ...frames.values()];
}

function shifted(body: unknown, at: number): unknown {
  const text = JSON.stringify(body, (key, value: unknown) => {
    if (key === "access_token" || key === "ticket") return "replayed";
    return key === "items" && Array.isArray(value) ? value.slice(0, MOST_ITEMS) : value;
  });
  return JSON.parse(
    text.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (instant) => {
      const ahead = Date.parse(instant) - at;
      // Markets close when they close.
      if (ahead > DAY_MS) return instant;
      const recent = Math.max(ahead, -RECENT_MS);
      return new Date(NOW + recent + (ahead - recent) * STRETCH).toISOString();
    }),
  ) as unknown;
}

async function visit(page: Page, hash: string): Promise<void> {
  await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
  await page.waitForTimeout(PAGE_MS);
}

/** Buys in each market, and sells some of it again. */
async function tradeAs(client: Client): Promise<void> {
  for (const [index, { venue_id, asset_id }] of EXAMPLE_MARKETS.entries()) {
    const side = index % 4 === 3 ? "Ask" : "Bid";
    const amount = BigInt(40 + 35 * index) * 1_000_000n;
    const request = await client.rfq.request({ venue_id, asset_id, amount, side });
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    const { items } = await client.rfq.quotes({ ...request, status: "open", limit: 1 }).page();
    const [best] = items;
    await (best === undefined ? client.rfq.cancelRequest(request) : client.rfq.accept(best));
  }
}

/** A settled withdrawal, one that waits for approval, and an address book. */
async function useWallet(stack: Stack, session: Client): Promise<void> {
  const book = [
    { label: "Treasury", address: getAddress(`0x${"7a".repeat(20)}`) },
    { label: "Cold storage of the desk", address: getAddress(`0x${"c0".repeat(20)}`) },
  ] as const;
  const { password } = ADA;
  for (const entry of book) await session.custody.createWithdrawalAddress({ ...entry, password });
  const [{ address: to_address }] = book;
  const key = await withdrawKey(stack, session, { label: "payments", scopes: ["withdraw"] });
  const payer = session.withApiKey({ apiKeyId: key.api_key_id, secret: key.secret });
  const withdraw = (amount: bigint) =>
    payer.custody.withdraw({ client_withdrawal_id: crypto.randomUUID(), amount, to_address });
  await withdraw(120_000_000n);
  const { secret } = await session.auth.startTotp({ password });
  const totp = new TOTP({ secret: Secret.fromBase32(secret) });
  const before = totp.generate({ timestamp: Date.now() - 30_000 });
  await session.auth.confirmTotp({ totp_code: before });
  const totp_code = totp.generate();
  const limits = {
    withdraw_approval_above: 1_000_000_000n,
    withdraw_max_usdc_per_day: 50_000_000_000n,
  };
  await session.auth.setPolicy({ password, totp_code, ...limits });
  await withdraw(2_500_000_000n);
}

async function open(takers: readonly Client[], number: number): Promise<void> {
  const asset = EXAMPLE_MARKETS[number % EXAMPLE_MARKETS.length];
  if (asset === undefined) return;
  const { venue_id, asset_id } = asset;
  const size = BigInt(25 * (1 + (number % 9))) * 1_000_000n;
  await takers[number % takers.length]?.rfq.request({
    venue_id,
    asset_id,
    ...(number % 5 === 0 ? { usdc_amount: size } : { amount: size }),
    side: (["Bid", "Ask", "Bid", "TwoWay"] as const)[number % 4] ?? "Bid",
    expires_in_secs: 120 + 30 * (number % 8),
  });
}
