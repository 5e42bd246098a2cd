/** The built client in a browser, against the whole stack: WebCrypto, fetch and WebSocket are the browser's own. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { chromium } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import type * as ClientModule from "../../packages/client/src/index.ts";
import { newAsset, startTestStack, type TestStack } from "../support/node/stack.ts";

const BUILT = resolve(".stack", `client-browser-${process.pid}`);
const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(
  (path) => existsSync(path),
);
const BROWSER_ARGS = [
  "--no-sandbox",
  "--disable-quic",
  "--disable-background-networking",
  // A page that playwright fulfils is from nowhere, and Chromium lets no such page open a socket to loopback.
  "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets",
];
/** Hands the client's module to what the test evaluates, where an import would be rewritten by vitest. */
const PAGE = `<!doctype html><link rel=icon href="data:,">
<script type=module>import * as client from "./index.js"; globalThis.client = client;</script>`;

let stack: TestStack;
beforeAll(async () => {
  if (CHROMIUM === undefined) return;
  execFileSync(resolve("node_modules/.bin/tsc"), [
    "-p",
    "packages/client/tsconfig.json",
    "--outDir",
    BUILT,
  ]);
  stack = await startTestStack();
});
afterAll(async () => {
  await stack?.stop();
  rmSync(BUILT, { recursive: true, force: true });
});

it("signs, asks for a price and hears of it over a socket in a browser", async () => {
  if (CHROMIUM === undefined)
    return console.warn("skipped: no chromium here (Debian's package chromium)");
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: BROWSER_ARGS });
  try {
    const page = await browser.newPage();
    const errors: string[] = [];
    page.on("pageerror", (error) => errors.push(error.message));
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
    // A page and the client's files, beside the service.
    await page.route(`${stack.baseUrl}/page/**`, (route) => {
      const name = new URL(route.request().url()).pathname.slice("/page/".length);
      if (name === "") return route.fulfill({ contentType: "text/html", body: PAGE });
      return route.fulfill({
        contentType: "text/javascript",
        body: readFileSync(join(BUILT, name)),
      });
    });
    await page.goto(`${stack.baseUrl}/page/`);
    await page.waitForFunction(() => "client" in globalThis);
    const book = newAsset("venue_one");
    const seen = await page.evaluate(
      async ({ baseUrl, asset }) => {
        const { Client, Problem } = (globalThis as unknown as { client: typeof ClientModule })
          .client;
        const guest = new Client({ baseUrl });
        const password = crypto.randomUUID();
        const session = guest.withSession(
          await guest.auth.register({ email: `${crypto.randomUUID()}@browser.test`, password }),
        );
        const key = await session.auth.createApiKey({
          label: "browser",
          scopes: ["read", "trade"],
        });
        // An hour off: the first call corrects it.
        const now = () => Date.now() + 3_600_000;
        const client = new Client({
          baseUrl,
          now,
          credential: { apiKeyId: key.api_key_id, secret: key.secret },
        });
        const { credential } = await client.auth.whoami();
        const stream = client.bookStream(asset);
        await stream.ready();
        const request = await client.rfq.request({ ...asset, amount: 10n ** 24n, side: "Bid" });
        let heard = "";
        for await (const message of stream) {
          if (message.type !== "request.opened") continue;
          heard = String(message.data.amount);
          break;
        }
        const own: unknown = await client.rfq
          .quote({ ...request, price: 1 })
          .catch((error: unknown) => error);
        const { status } = await client.rfq.cancelRequest(request);
        return { credential, heard, code: own instanceof Problem ? own.code : String(own), status };
      },
      { baseUrl: stack.baseUrl, asset: book },
    );
    expect(seen).toEqual({
      credential: "api_key",
      heard: String(10n ** 24n),
      code: "own_request",
      status: "cancelled",
    });
    // The browser's own report of the two refusals.
    expect(errors.filter((error) => !/status of (401|409)/.test(error))).toEqual([]);
  } finally {
    await browser.close();
  }
});
