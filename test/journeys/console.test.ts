/**
 * The console in a real browser against a whole stack: the story of the demo by clicks, with two
 * users in two contexts. It writes the screenshots of docs/console/ if CONSOLE_SCREENSHOTS is set.
 */
import { readFileSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { inBrowser } from "../support/node/browser.ts";
import {
  fund,
  newTrader,
  startTestStack,
  untilServing,
  type TestStack,
  type Trader,
} from "../support/node/stack.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SCREENSHOTS = process.env["CONSOLE_SCREENSHOTS"];
const MARKET = { venue_id: "venue_one", asset_id: "0x51a7" } as const;
const TITLE = "Will the ferry to the island run on Sunday?";
const PAGES = ["trade", "maker", "wallet", "account"];

/** Runs in the page, whose globals Node's types do not have. */
const FRAME_GAPS = `(async () => {
  const until = performance.now() + 4_000;
  const gaps = [];
  for (let last = performance.now(); last < until; ) {
    const at = await new Promise((resolve) => requestAnimationFrame(resolve));
    gaps.push(at - last);
    last = at;
  }
  return gaps.toSorted((one, other) => one - other);
})()`;

let stack: TestStack;
let taker: Trader;
let maker: Trader;

beforeAll(async () => {
  stack = await startTestStack();
  [taker, maker] = await Promise.all([newTrader(stack), newTrader(stack)]);
  const listed = await stack.operator({
    command: ["market", "set"],
    options: {
      venue: MARKET.venue_id,
      "asset-id": MARKET.asset_id,
      title: TITLE,
      outcome: "Yes",
    },
  });
  expect(listed).toMatchObject({ ok: true });
  await fund(stack, [
    { trader: taker, usdc: 1_000_000_000n },
    { trader: maker, usdc: 1_000_000_000n, tokens: { asset: MARKET, amount: 1_000_000_000n } },
  ]);
});
afterAll(() => stack?.stop());

describe("the console", () => {
  it("plays a trade by clicks, survives a crash and an ended session", () =>
    inBrowser(async (browser) => {
      const asking = await signIn(browser, taker);
      const quoting = await signIn(browser, maker);
      await ask(asking);
      await quote(quoting);
      await accept(asking);
      await quoting.getByRole("link", { name: "Make markets" }).click();
      await expectText(quoting, "1 of your last 1 quotes traded (100 %).");

      await stack.killWorkerd();
      await untilServing(stack);
      for (const page of [asking, quoting]) await live(page);
      await ask(asking);
      await expectText(quoting, "Open requests of all venues (1)");

      await taker.session.auth.endSessions();
      await expectText(asking, "Your session has ended");
      await asking.getByLabel("Password").fill(taker.password);
      await asking.getByRole("button", { name: "Go on" }).click();
      await live(asking);
    }));

  it("has no violations of accessibility, on a phone and on a desk, in light and dark", () =>
    inBrowser(async (browser) => {
      for (const width of [320, 1_440])
        for (const colorScheme of ["light", "dark"] as const) {
          const page = await signIn(browser, maker, { width, colorScheme });
          for (const name of PAGES) {
            await page.goto(`${stack.baseUrl}/console/#${name}`);
            await page.getByRole("table").first().waitFor();
            expect(await violations(page), `${name} at ${width} in ${colorScheme}`).toEqual([]);
            const overflow = await page.evaluate(
              "document.documentElement.scrollWidth - document.documentElement.clientWidth",
            );
            expect(overflow, `${name} at ${width} scrolls sideways`).toBe(0);
            if ((width === 320) === (colorScheme === "dark"))
              await screenshot(page, `${name}-${width}-${colorScheme}`);
          }
          await page.context().close();
        }
    }));

  it("asks for the password before the session ends", () =>
    inBrowser(async (browser) => {
      const page = await browser.newPage();
      await page.clock.install();
      await enter(page, taker);
      await page.clock.fastForward(3_500_000);
      await expectText(page, "Your session ends soon");
    }));

  it("loads nothing from elsewhere and keeps the session in memory", () =>
    inBrowser(async (browser) => {
      const page = await browser.newPage();
      const hosts = new Set<string>();
      page.on("request", (request) => hosts.add(new URL(request.url()).host));
      await enter(page, taker);
      expect([...hosts].filter((host) => host !== "")).toEqual([new URL(stack.baseUrl).host]);
      const stored = await page.evaluate<number>("localStorage.length + sessionStorage.length");
      expect(stored + (await page.context().cookies()).length).toBe(0);
      await page.reload();
      await page.getByRole("button", { name: "Sign in" }).waitFor();
    }));

  it("shows sixty changes of the board a second", () =>
    inBrowser(async (browser) => {
      const page = await signIn(browser, maker);
      await page.getByRole("link", { name: "Make markets" }).click();
      const frames = page.evaluate<number[]>(FRAME_GAPS);
      let sent = 0;
      const until = performance.now() + 4_000;
      const sendOne = async () => {
        while (performance.now() < until) {
          const { request_id } = await taker.client.rfq.request({
            ...MARKET,
            amount: 1_000_000n,
            side: "Bid",
          });
          await taker.client.rfq.cancelRequest({ request_id });
          sent += 2;
        }
      };
      await Promise.all([sendOne(), sendOne(), sendOne(), sendOne()]);
      const gaps = await frames;
      const at = (share: number) => (gaps[Math.floor(gaps.length * share)] ?? 0).toFixed(1);
      const view = await page.evaluate<number>(
        "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0",
      );
      console.info(
        `${sent / 4} changes a second; a frame took ${at(0.5)} ms (median), ${at(0.99)} ms (p99); ` +
          `first view after ${view.toFixed(0)} ms`,
      );
      expect(sent).toBeGreaterThan(0);
      await expectText(page, "Live");
    }));
});

async function signIn(
  browser: Browser,
  trader: Trader,
  { width = 1_440, colorScheme = "light" as "light" | "dark" } = {},
): Promise<Page> {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
  const page = await context.newPage();
  await enter(page, trader);
  return page;
}

async function enter(page: Page, trader: Trader): Promise<void> {
  page.on("pageerror", (error) => expect.soft(error.message).toBe(""));
  await page.goto(`${stack.baseUrl}/console/`);
  await page.getByLabel("Email").fill(trader.email);
  await page.getByLabel("Password").fill(trader.password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await live(page);
}

async function live(page: Page): Promise<void> {
  await page.getByText("Live", { exact: true }).waitFor();
}

async function ask(page: Page): Promise<void> {
  const form = page.getByRole("form", { name: "Ask for a price" });
  if (await form.getByLabel("Find a market").isVisible()) {
    await form.getByLabel("Find a market").fill("ferry sunday");
    await form.getByRole("button", { name: TITLE }).click();
  }
  await form.getByLabel("Size", { exact: true }).fill("100");
  await form.getByRole("button", { name: "Ask makers" }).click();
  await expectText(page, `Buy 100.00 ${TITLE}: Yes`);
}

async function quote(page: Page): Promise<void> {
  await page.getByRole("link", { name: "Make markets" }).click();
  const board = page.getByRole("region", { name: "Board" });
  await board.getByLabel(`Price in cents for ${TITLE}: Yes`).fill("64.5");
  await board.getByRole("button", { name: `Quote ${TITLE}: Yes` }).click();
  await page.getByRole("button", { name: "Cancel the quote at 64.50¢" }).waitFor();
}

async function accept(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Buy at 64.50¢" }).click();
  await expectText(page, `Bought 100.00 ${TITLE}: Yes`);
  await page.getByRole("region", { name: "Tokens held" }).getByText("100.00").first().waitFor();
}

async function expectText(page: Page, text: string): Promise<void> {
  await page.getByText(text).first().waitFor();
}

type Axe = { run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> };

async function violations(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const { violations: found } = await page.evaluate(() =>
    (globalThis as unknown as { axe: Axe }).axe.run(),
  );
  return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}

async function screenshot(page: Page, name: string): Promise<void> {
  if (SCREENSHOTS === undefined) return;
  mkdirSync(SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`), fullPage: true });
}
