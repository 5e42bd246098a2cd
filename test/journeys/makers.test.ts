/**
 * The makers and takers that people copy, from the READMEs and from examples/, on a real stack. The
 * makers keep a request quoted through cuts, expiry, outages and restarts. Every taker trades.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Quote, QuoteRequest } from "../../packages/client/src/index.ts";
import { FULL, rounds } from "../support/depth.ts";
import { pythonWithClient, readmePrograms } from "../support/node/python.ts";
import {
  fund,
  newAsset,
  newTrader,
  sharedStack,
  type TestStack,
  type Trader,
  until,
  untilServing,
} from "../support/node/stack.ts";
import { startTcpProxy, type TcpProxy } from "../support/node/tcp-proxy.ts";

const WORK = resolve(".stack", `makers-${process.pid}`);
/** How soon a maker quotes again once it can. */
const FRESH_MS = 3_000;
/** How long a stream waits at most before it reconnects, after an outage. */
const BACK_OFF_MS = 10_000;
const AWAY_MS = FULL ? 60_000 : 5_000;
/** The life of a quote whose maker gives none. */
const QUOTE_LIFE_MS = 30_000;
/** The asset of the READMEs, which the makers sell. */
const README_ASSET = { venue_id: "venue_one", asset_id: "0x1" };
const TRADES = rounds(3, 20);

type Running = { trader: Trader; output: string; child: ChildProcess; ended: Promise<unknown> };

let stack: TestStack;
let proxy: TcpProxy;
let requester: Trader;
let request: QuoteRequest;
const commands = new Map<string, () => Promise<Running>>();
const makers = new Map<string, Running>();

const blocks = readFileSync("packages/client/README.md", "utf8").matchAll(/^```ts\n(.*?)^```/gms);
const tsBlocks = [...blocks].map(([, block = ""]) => block);
const blockWith = (text: string) =>
  tsBlocks.find((block) => block.includes(text)) ?? expect.fail(`no block has ${text}`);

async function credentials(trader: Trader): Promise<Record<string, string>> {
  const key = await trader.session.auth.createApiKey({ label: "own", scopes: ["read", "trade"] });
  return { RFQ_API_KEY_ID: key.api_key_id, RFQ_SECRET: key.secret };
}

function start(trader: Trader, command: readonly string[], env: NodeJS.ProcessEnv): Running {
  const [program = "", ...args] = command;
  const child = spawn(program, args, { env });
  const ended = new Promise((done) => child.once("close", done));
  const running = { trader, output: "", child, ended };
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => (running.output += chunk.toString()));
  return running;
}

beforeAll(async () => {
  stack = await sharedStack();
  proxy = await startTcpProxy(stack.baseUrl);
  mkdirSync(WORK, { recursive: true });
  requester = await newTrader(stack);
}, 120_000);

afterAll(async () => {
  for (const { child, ended } of makers.values()) {
    child.kill("SIGKILL");
    await ended;
  }
  await proxy.stop();
  for (const { request_id } of await requester.client.rfq.myRequests({ status: "open" }).all())
    await requester.client.rfq.cancelRequest({ request_id });
  rmSync(WORK, { recursive: true, force: true });
});

/** The README's maker, with a client of the environment instead of the README's login. */
function typescriptMaker(): string {
  const file = join(WORK, "maker.ts");
  const code = `
    import { Client } from "@rfq-custody/client";
    const { RFQ_URL: baseUrl = "", RFQ_API_KEY_ID: apiKeyId = "", RFQ_SECRET: secret = "" } = process.env;
    const client = new Client({ baseUrl, credential: { apiKeyId, secret } });`;
  writeFileSync(file, `${code}\n${blockWith("keepQuoted")}`);
  return file;
}

/** Whether each maker has one open quote on the request. The quotes by maker, once they have. */
async function quotes(): Promise<Map<string, Quote> | null> {
  const found = new Map<string, Quote>();
  for (const [name, { trader, child, output }] of makers) {
    expect(child.exitCode, `${name} has ended:\n${output}`).toBeNull();
    const own = await trader.client.rfq.myQuotes({ status: "open" }).all();
    const open = own.filter(({ request_id }) => request_id === request.request_id);
    if (open.length !== 1 || open[0] === undefined) return null;
    found.set(name, open[0]);
  }
  return found;
}

/** Waits until each maker has one open quote, other than `before` if that is given. */
function quoted(within: number, before?: ReadonlyMap<string, Quote>): Promise<Map<string, Quote>> {
  const outputs = () => [...makers].map(([name, { output }]) => `${name}:\n${output}`).join("\n");
  return until(
    () => `one quote of each maker\n${outputs()}`,
    within,
    async () => {
      const now = await quotes();
      const isNew = (name: string) => now?.get(name)?.quote_id !== before?.get(name)?.quote_id;
      return now !== null && (before === undefined || [...now.keys()].every(isNew)) ? now : null;
    },
  );
}

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));

it("makers quote what was open before they started", { timeout: 180_000 }, async ({ skip }) => {
  const { python, env } = await pythonWithClient(skip);
  const programs: Record<string, readonly string[]> = {
    "README of the TypeScript client": [process.execPath, typescriptMaker()],
    "examples/maker.py": [python, "examples/maker.py"],
    "examples/market-maker.ts": [process.execPath, "examples/market-maker.ts"],
  };
  const asset = newAsset("venue_one");
  const tokens = { asset: README_ASSET, amount: 1_000_000_000n };
  await fund(stack, [
    { trader: requester, usdc: 1_000_000_000n, tokens: { asset, amount: 1_000_000n } },
  ]);
  for (const [name, command] of Object.entries(programs)) {
    const trader = await newTrader(stack);
    await fund(stack, [{ trader, usdc: 10_000_000n, tokens }]);
    const own = { ...env, ...(await credentials(trader)), RFQ_URL: proxy.baseUrl };
    commands.set(name, async () => start(trader, [...command, "venue_one"], own));
  }
  const terms = { ...asset, amount: 1_000_000n, side: "Ask", expires_in_secs: 3_600 } as const;
  request = await requester.client.rfq.request(terms);
  for (const [name, run] of commands) makers.set(name, await run());
  expect([...(await quoted(60_000)).keys()]).toHaveLength(4);
});

it("makers quote again when their quotes have expired", { timeout: 90_000 }, async () => {
  const before = await quoted(FRESH_MS);
  const ends = Math.max(...[...before.values()].map(({ expires_at }) => Date.parse(expires_at)));
  const after = await quoted(ends - Date.now() + FRESH_MS, before);
  for (const [name, { created_at }] of after) {
    const since = Date.parse(created_at) - Date.parse(before.get(name)?.expires_at ?? "");
    expect(since, name).toBeLessThan(FRESH_MS);
  }
});

it("makers quote again after their sockets were cut", { timeout: 60_000 }, async () => {
  for (let cut = 0; cut < rounds(2, 10); cut++) {
    proxy.sever();
    // The end of the armed sockets cancels the quotes, unless the makers were faster.
    await pause(1_000);
    await quoted(FRESH_MS);
  }
});

it("makers quote again after a restart of the service", { timeout: 90_000 }, async () => {
  await stack.killWorkerd();
  await untilServing(stack);
  await quoted(BACK_OFF_MS + FRESH_MS);
});

it("makers quote again after an outage", { timeout: AWAY_MS + 90_000 }, async () => {
  proxy.cut();
  proxy.sever();
  await pause(AWAY_MS);
  proxy.heal();
  proxy.sever();
  await quoted(BACK_OFF_MS + FRESH_MS);
});

it("makers quote again after they were killed and started", { timeout: 90_000 }, async () => {
  for (const [name, run] of commands) {
    makers.get(name)?.child.kill("SIGKILL");
    await makers.get(name)?.ended;
    makers.set(name, await run());
  }
  await quoted(30_000);
  await pause(QUOTE_LIFE_MS / 10);
  await quoted(FRESH_MS);
});

it(
  "the README's takers trade each time",
  { timeout: 120_000 + TRADES * 5_000 },
  async ({ skip }) => {
    const { python, env } = await pythonWithClient(skip);
    const own = await credentials(requester);
    const [call = ""] = readmePrograms();
    const program = call
      .replace("http://127.0.0.1:8787", stack.baseUrl)
      .replace("<api_key_id>", own["RFQ_API_KEY_ID"] ?? "")
      .replace("<secret>", own["RFQ_SECRET"] ?? "")
      .replace(/^asyncio\.run/m, `for _ in range(${TRADES}):\n    asyncio.run`);
    writeFileSync(join(WORK, "taker.py"), program);
    const login = blockWith("Client.login")
      .replace("http://127.0.0.1:8787", stack.baseUrl)
      .replace("taker@demo.example", requester.email)
      .replace("taker-demo-password", requester.password);
    const trade = `for (let run = 0; run < ${TRADES}; run++) {\n${blockWith("client.rfq.accept(message")}}`;
    writeFileSync(join(WORK, "taker.ts"), `${login}\n${trade}`);
    const runs = [
      start(requester, [python, join(WORK, "taker.py")], env),
      start(requester, [process.execPath, join(WORK, "taker.ts")], env),
    ];
    const printed = () => runs.map(({ output }) => output.match(/^(paid|bought) /gm)?.length ?? 0);
    const late = pause(60_000 + TRADES * 4_000);
    await Promise.race([late, Promise.all(runs.map(({ ended }) => ended))]);
    const outputs = [...runs, ...makers.values()].map(({ output }) => output).join("\n");
    for (const { child } of runs) child.kill();
    expect(printed(), outputs).toEqual([TRADES, TRADES]);
    expect([...makers.values()].some(({ output }) => output.includes("traded"))).toBe(true);
  },
);
