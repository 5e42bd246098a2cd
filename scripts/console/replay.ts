/**
 * The built console without a stack: a loopback server that gives it the recorded answers of
 * recording.jsonl (`npm run record:console`), with the headers of the real one. Only the history
 * of prices is made up, because the recorded market lived for a minute.
 */
import { readFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { buildConsole } from "../../packages/console/build.ts";

/** The instant at which a replayed console lives. */
export const NOW = Date.parse("2026-11-24T12:00:00Z");
export const RECORDING = join(import.meta.dirname, "recording.jsonl");
export const ASSETS = join(import.meta.dirname, "../../dist/assets");

type Body = { readonly [name: string]: unknown };
/** `call`: method, path and query of a request, or `SOCKET`, path and venue of a stream. */
export type Recorded = { readonly call: string; readonly body: unknown };
type Frame = Body & { readonly type: string; readonly seq: number };
type Socket = { send(text: string): void; on(event: "message", received: () => void): void };
/** `ws` has no types. */
type Sockets = new (options: { server: unknown }) => {
  on(event: "connection", opened: (socket: Socket, request: { url: string }) => void): void;
};

export type Replay = {
  readonly baseUrl: string;
  /** Answers that are not the recorded ones, by method and path. `FAILURE` has status 500. */
  readonly answers: Map<string, (url: URL) => unknown>;
  /** The answer to a call, without all of its parameters the nearest one. A stream's last frame. */
  readonly recorded: (call: string) => Body;
  /** Sends events to every socket of a stream, as the recording names it. */
  readonly send: (stream: string, events: readonly { type: string; data: unknown }[]) => void;
  readonly stop: () => void;
};

const TYPES: Record<string, string> = {
  ".css": "text/css",
  ".html": "text/html",
  ".js": "text/javascript",
  ".woff2": "font/woff2",
};
/** An answer that says that the service failed. */
export const FAILURE = {
  type: "about:blank",
  title: "Internal error",
  status: 500,
  code: "internal",
};
/** About what a request takes over a network, so that pages show how they look while they load. */
const ANSWER_MS = 30;

export async function startReplay(): Promise<Replay> {
  await buildConsole();
  const recording = readFileSync(RECORDING, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { call: string; body: Body });
  const answers = new Map<string, (url: URL) => unknown>();
  const recorded = (call: string) =>
    recording.findLast((one) => one.call === call && call.startsWith("SOCKET"))?.body ??
    nearest(recording, call);
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://localhost");
    if (url.pathname.startsWith("/console/")) return serveFile(url.pathname, response);
    const replaced = answers.get(`${request.method} ${url.pathname}`);
    const call = `${request.method} ${url.pathname}${url.search}`;
    const body =
      replaced === undefined ? withHistory(url, recorded(call), recorded) : replaced(url);
    setTimeout(() => {
      const [status, type] = body === FAILURE ? [500, "problem+json"] : [200, "json"];
      response.writeHead(status, { "content-type": `application/${type}` });
      response.end(JSON.stringify(body));
    }, ANSWER_MS);
  });
  const { WebSocketServer } = createRequire(import.meta.url)("ws") as { WebSocketServer: Sockets };
  const streams = new Map<string, { seq: number; sockets: Socket[] }>();
  new WebSocketServer({ server }).on("connection", (socket, { url }) => {
    const { pathname, searchParams } = new URL(url, "http://localhost");
    const stream = `SOCKET ${pathname} ${searchParams.get("venue_id") ?? ""}`.trim();
    const frames = recording.filter(({ call }) => call === stream).map(({ body }) => body as Frame);
    const state = streams.get(stream) ?? { seq: frames.at(-1)?.seq ?? 0, sockets: [] };
    streams.set(stream, { ...state, sockets: [...state.sockets, socket] });
    for (const frame of frames) socket.send(JSON.stringify({ ...frame, seq: state.seq }));
    // A ping.
    socket.on("message", () => socket.send(JSON.stringify({ type: "pong", seq: 0 })));
  });
  const send: Replay["send"] = (stream, events) => {
    const state = streams.get(stream) ?? { seq: 0, sockets: [] };
    for (const { type, data } of events) {
      state.seq += 1;
      const at = new Date(NOW).toISOString();
      const text = JSON.stringify({ type, stream, seq: state.seq, at, data });
      for (const socket of state.sockets) socket.send(text);
    }
  };
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const stop = () => {
    server.closeAllConnections();
    server.close();
  };
  return { baseUrl, answers, recorded, send, stop };
}

/**
 * Signs in at `NOW`. With `ticking` the clock goes on from there, for what is measured; otherwise
 * it stands still.
 */
export async function openReplay(
  browser: Browser,
  replay: Replay,
  options: BrowserContextOptions & { ticking?: boolean } = {},
): Promise<Page> {
  const page = await openAsVisitor(browser, replay, options);
  await page.evaluate("location.hash = 'sign-in'");
  await page.getByLabel("Email").fill("ada@desk.example");
  await page.getByLabel("Password").fill("replayed");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("Live", { exact: true }).waitFor();
  return page;
}

/** As `openReplay`, without signing in. */
export async function openAsVisitor(
  browser: Browser,
  { baseUrl }: Replay,
  { ticking = false, ...options }: BrowserContextOptions & { ticking?: boolean } = {},
): Promise<Page> {
  const context = await browser.newContext({ timezoneId: "UTC", locale: "en-GB", ...options });
  await context.addInitScript(`{
    const Real = Date;
    const now = () => ${NOW} + ${ticking ? "Math.floor(performance.now())" : "0"};
    globalThis.Date = class extends Real {
      constructor(...given) { if (given.length === 0) super(now()); else super(...given); }
      static now() { return now(); }
    };
  }`);
  const page = await context.newPage();
  await page.goto(`${baseUrl}/console/`);
  return page;
}

/** Goes to a page of the console and waits until it has loaded what it shows. */
export async function goTo(page: Page, hash: string): Promise<void> {
  await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
  do await page.waitForTimeout(4 * ANSWER_MS);
  while (
    (await page
      .locator(".unseen")
      .or(page.getByText(/^Loading/))
      .count()) > 0
  );
}

function serveFile(path: string, response: ServerResponse): void {
  const file = path === "/console/" ? "/console/index.html" : path;
  const lines = readFileSync(join(ASSETS, "_headers"), "utf8").split("/console/assets/*")[0] ?? "";
  for (const [, name = "", value = ""] of lines.matchAll(/^ {2}([\w-]+): (.*)$/gm))
    response.setHeader(name, value);
  response.setHeader("content-type", TYPES[extname(file)] ?? "application/octet-stream");
  response.end(readFileSync(join(ASSETS, file)));
}

function nearest(recording: readonly { call: string; body: Body }[], call: string): Body {
  const [wanted = "", query] = call.split("?");
  const params = new URLSearchParams(query);
  const shared = (other: string) =>
    [...new URLSearchParams(other.split("?")[1])].reduce(
      (sum, [name, value]) => sum + (params.get(name) === value ? 2 : -1),
      0,
    );
  const [found] = recording
    .filter((one) => one.call.split("?")[0] === wanted)
    .toSorted((one, other) => shared(other.call) - shared(one.call));
  if (found === undefined) throw new Error(`${call} was not recorded: npm run record:console`);
  return found.body;
}

const STEP_MS: Record<string, number> = { "1m": 60_000, "1h": 3_600_000, "1d": 86_400_000 };
const [DAY, CANDLES] = [24, 240];

/**
 * Tickers with a day of prices, and candles that end at the newest trade, which the recorder read
 * later than the tickers. The rest as recorded.
 */
function withHistory(
  { pathname, searchParams }: URL,
  body: Body,
  recorded: (call: string) => Body,
): Body {
  if (pathname === "/time") return { ...body, unix_ms: NOW };
  const ids = searchParams.get("assets")?.split(",");
  if (pathname === "/markets" && ids !== undefined) {
    const all = recorded("GET /markets?limit=500")["items"] as readonly Body[];
    const isAsked = ({ venue_id, asset_id }: Body) =>
      venue_id === searchParams.get("venue_id") && ids.includes(String(asset_id));
    return { items: all.filter(isAsked), next_cursor: null };
  }
  const items = (body["items"] ?? []) as readonly Body[];
  const newest = ({ venue_id, asset_id }: Body) => {
    const { items: trades } = recorded(
      `GET /rfq/get-trades?venue_id=${String(venue_id)}&asset_id=${String(asset_id)}`,
    );
    const [trade] = trades as readonly Body[];
    return trade?.["asset_id"] === asset_id && trade?.["venue_id"] === venue_id ? trade : undefined;
  };
  if (pathname === "/rfq/get-tickers")
    return {
      ...body,
      items: items.map((ticker) => {
        const trade = newest(ticker);
        const { price, created_at } = trade ?? {};
        const last = trade === undefined ? {} : { last_price: price, last_price_at: created_at };
        return withDay({ ...ticker, ...last });
      }),
    };
  const [candle] = items;
  if (pathname !== "/rfq/get-candles" || candle === undefined) return body;
  const close = newest(Object.fromEntries(searchParams))?.["price"] ?? candle["close"];
  const step = STEP_MS[searchParams.get("interval") ?? "1h"] ?? DAY;
  const from = Date.parse(searchParams.get("from") ?? "") || 0;
  const count = Math.min(CANDLES, Math.floor((NOW - from) / step));
  const prices = pricesTo(Number(close), { seed: 7, count: count + 1 });
  const candles = prices.slice(1).map((end, index) => {
    const open = prices[index] ?? end;
    const start = new Date(NOW - (count - index) * step).toISOString();
    return {
      ...candle,
      start,
      open,
      close: end,
      high: Math.max(open, end),
      low: Math.min(open, end),
    };
  });
  return { ...body, items: candles.toReversed() };
}

function withDay(ticker: Body): Body {
  const last = Number(ticker["last_price"]);
  const prices = pricesTo(last, { seed: Number(ticker["asset_id"]) + last, count: DAY });
  return { ...ticker, prices, change: last - (prices[0] ?? last) };
}

/** A walk of prices that ends at the last one, the same each time. */
function pricesTo(last: number, { seed, count }: { seed: number; count: number }): number[] {
  let state = seed;
  const prices = [last];
  while (prices.length < count) {
    state = (state * 48_271) % 2_147_483_647;
    const before = (prices[0] ?? last) + ((state % 2_001) - 1_000) * 12;
    prices.unshift(Math.min(970_000, Math.max(30_000, before)));
  }
  return prices;
}
