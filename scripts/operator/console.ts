/**
 * `npm run operator -- console`: a page on this machine that shows whether all is well. The key of
 * the operator stays in this process. The page can only read, and only who has its address, which
 * contains a random token, can ask for it.
 */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { ROOT } from "../stack/bundle.ts";
import type { OperatorRequest, OperatorResponse } from "../stack/operator-call.ts";
import type { Call } from "./channel.ts";
import { type Overview, overviewOf, type Section, sectionsOf } from "./console-view.ts";
import type { ServiceStatus } from "./results.ts";

export type ConsoleOptions = {
  readonly call: Call;
  /** 0: any free port. */
  readonly port: number;
  /** What follows the commands that the page shows, for example `--remote`. */
  readonly flags: readonly string[];
};

export type Console = { readonly url: string; readonly close: () => Promise<void> };

const FOLDER = join(ROOT, "scripts", "operator", "console");
const FILES: Readonly<Record<string, readonly [file: string, type: string]>> = {
  "": ["page.html", "text/html; charset=utf-8"],
  // The look of the users' console: its tokens and its elements.
  "style.css": ["../../../packages/console/src/style.css", "text/css; charset=utf-8"],
  "page.css": ["page.css", "text/css; charset=utf-8"],
  "page.js": ["page.js", "text/javascript; charset=utf-8"],
};

const HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "cache-control": "no-store",
};

const POLL_TIMEOUT_MS = 10_000;
/** `storage` reads every row. */
const SCAN_TIMEOUT_MS = 120_000;
/** Several tabs share one reading of this age. Each order is a row of the database for a day. */
const SHARED_FOR_MS = 3_000;
const MAX_CONNECTIONS = 32;
const MAX_EMAIL_LENGTH = 254;
const MAX_WITHDRAWALS = "500";
const AUDIT_EVENTS = "20";

class Rejected extends Error {}

export async function startConsole({ call, port, flags }: ConsoleOptions): Promise<Console> {
  const token = randomBytes(24).toString("base64url");
  const data = dataRoutes(call, flags);
  let host = "";
  const server = createServer((request, response) => {
    const refused = refusalOf(request, { host, token });
    if (refused !== undefined) return send(response, refused, "text/plain", "refused\n");
    const { pathname, searchParams } = new URL(request.url ?? "/", `http://${host}`);
    const name = pathname.slice(token.length + 2);
    if (Object.hasOwn(FILES, name)) {
      const [file, type] = FILES[name]!;
      return send(response, 200, type, readFileSync(join(FOLDER, file), "utf8"));
    }
    const read = data.get(name);
    if (read === undefined) return send(response, 404, "text/plain", "not found\n");
    void answer(response, () => read(searchParams));
  });
  server.maxConnections = MAX_CONNECTIONS;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: `http://${host}/${token}/`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** The Host is compared, because a page elsewhere may let its own name resolve to 127.0.0.1. */
function refusalOf(
  { headers, method, url = "/" }: IncomingMessage,
  expected: { host: string; token: string },
): number | undefined {
  if (headers.host !== expected.host) return 421;
  const [, token = "", rest] = (url.split("?")[0] ?? "").split("/");
  const digest = (text: string) => createHash("sha256").update(text).digest();
  if (rest === undefined || !timingSafeEqual(digest(token), digest(expected.token))) return 403;
  return method === "GET" ? undefined : 405;
}

/** `at`: when the reading began, so that a shared result is not shown as newer than it is. */
type Reading = { readonly at: string; readonly result: unknown };
type Read = (query: URLSearchParams) => Promise<Reading>;

function dataRoutes(call: Call, flags: readonly string[]): ReadonlyMap<string, Read> {
  const resultOf = async (order: OperatorRequest, timeoutMs = POLL_TIMEOUT_MS) =>
    accepted(await call(order, timeoutMs));
  const sections = async (...of: Parameters<typeof resultOf>): Promise<Section[]> =>
    sectionsOf(await resultOf(...of));
  return new Map<string, Read>([
    ["data/overview", shared(() => readOverview(resultOf, flags))],
    ["data/storage", shared(() => sections({ command: ["storage"] }, SCAN_TIMEOUT_MS))],
    ["data/liabilities", shared(() => sections({ command: ["liabilities"] }))],
    [
      "data/user",
      (query) => {
        const email = query.get("email")?.trim() ?? "";
        if (email === "" || email.length > MAX_EMAIL_LENGTH)
          return Promise.reject(new Rejected("Enter an email address."));
        return dated(() => sections({ command: ["user", "show"], options: { email } }));
      },
    ],
  ]);
}

type Ask = (order: OperatorRequest) => Promise<unknown>;

async function readOverview(ask: Ask, flags: readonly string[]): Promise<Overview> {
  const list = (status: string) =>
    ask({ command: ["withdrawals", "list"], options: { status, limit: MAX_WITHDRAWALS } });
  // Safe cast: the result of the command.
  const status = (await ask({ command: ["chain", "status"] })) as ServiceStatus;
  // Most readings have none of one status, and each list is an order.
  const waiting = (["queued", "submitted"] as const).filter((name) =>
    status.chains.some(({ withdrawals }) => withdrawals[name] > 0),
  );
  const withdrawals = await Promise.all(waiting.map(list));
  const [approvals, audit] = await Promise.all([
    ask({ command: ["approvals", "list"] }),
    ask({ command: ["audit", "list"], options: { limit: AUDIT_EVENTS } }),
  ]);
  return overviewOf(
    { status, withdrawals: withdrawals.flat(), approvals, audit },
    { now: Date.now(), flags },
  );
}

function accepted(response: OperatorResponse): unknown {
  if (response.ok) return response.result;
  const { code, detail, title } = response.problem;
  throw new Rejected(`${code}: ${detail ?? title ?? "rejected"}`);
}

/** Calls at the same time, or soon after one that succeeded, share its result. */
function shared(read: () => Promise<unknown>): Read {
  let last: { until: number; reading: Promise<Reading> } | undefined;
  return () => {
    if (last !== undefined && performance.now() < last.until) return last.reading;
    const own = { until: Infinity, reading: dated(read) };
    own.reading.then(
      () => (own.until = performance.now() + SHARED_FOR_MS),
      () => (own.until = 0),
    );
    last = own;
    return own.reading;
  };
}

async function dated(read: () => Promise<unknown>): Promise<Reading> {
  const at = new Date().toISOString();
  return { at, result: await read() };
}

/** 422: the service rejected the order. 503: it did not respond. */
async function answer(response: ServerResponse, read: () => Promise<Reading>): Promise<void> {
  const json = (status: number, body: object) =>
    send(response, status, "application/json", JSON.stringify(body));
  try {
    json(200, await read());
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error);
    json(error instanceof Rejected ? 422 : 503, { detail });
  }
}

function send(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, { ...HEADERS, "content-type": type }).end(body);
}
