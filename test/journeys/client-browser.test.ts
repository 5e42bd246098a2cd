/** The built client against a stack, with the WebCrypto, fetch and WebSocket of a browser. */
import { execFileSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type * as ClientModule from "../../packages/client/src/index.ts";
import { inBrowser } from "../../scripts/actors/browser.ts";
import { newAsset, sharedStack, type TestStack } from "../support/node/stack.ts";

const BUILT = resolve(".stack", `client-browser-${process.pid}`);
/** Provides the client's module to the evaluated code, in which vitest would rewrite an import. */
const PAGE = `<!doctype html><link rel=icon href="data:,">
<script type=module>import * as client from "./index.js"; globalThis.client = client;</script>`;

let stack: TestStack;
beforeAll(async () => {
  execFileSync(resolve("node_modules/.bin/tsc"), [
    "-p",
    "packages/client/tsconfig.json",
    "--outDir",
    BUILT,
  ]);
  stack = await sharedStack();
});
afterAll(() => rmSync(BUILT, { recursive: true, force: true }));

it("signs, requests a price and receives the event in a browser", () =>
  inBrowser(async (browser) => {
    const page = await browser.newPage();
    const errors: string[] = [];
    page.on("pageerror", (error) => errors.push(error.message));
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
    // The page and the client's files have the origin of the service.
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
        // The clock is an hour off. The first call corrects it.
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
        let received = "";
        for await (const message of stream) {
          if (message.type !== "request.opened") continue;
          received = String(message.data.amount);
          break;
        }
        const own: unknown = await client.rfq
          .quote({ ...request, price: 1 }, { maxAgeMs: 30_000 })
          .catch((error: unknown) => error);
        const { status } = await client.rfq.cancelRequest(request);
        return {
          credential,
          received,
          code: own instanceof Problem ? own.code : String(own),
          status,
        };
      },
      { baseUrl: stack.baseUrl, asset: book },
    );
    expect(seen).toEqual({
      credential: "api_key",
      received: String(10n ** 24n),
      code: "own_request",
      status: "cancelled",
    });
    // The browser reports the two rejected calls itself.
    expect(errors.filter((error) => !/status of (401|409)/.test(error))).toEqual([]);
  }));
