/**
 * The console in a real browser against a whole stack: the story of the demo by clicks, with two
 * users in two contexts. console-replay.test.ts has what needs no stack.
 */
import type { Browser, Page } from "playwright-core";
import { beforeAll, describe, expect, it } from "vitest";
import { inBrowser } from "../../scripts/actors/browser.ts";
import {
  fund,
  newTrader,
  SLOW_MACHINE,
  sharedStack,
  untilServing,
  type TestStack,
  type Trader,
} from "../support/node/stack.ts";
import { enter, signIn } from "../support/node/story.ts";
import { inRelease } from "../support/depth.ts";

const MARKET = { venue_id: "venue_one", asset_id: "0x51a7" } as const;
const TITLE = "Will the ferry to the island run on Sunday?";

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
  stack = await sharedStack();
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

describe("the console", () => {
  it("plays a trade by clicks, survives a crash and an ended session", () =>
    inBrowser(async (browser) => {
      const asking = await signedIn(browser, taker);
      const quoting = await signedIn(browser, maker);
      await ask(asking);
      await quote(quoting);
      await replace(quoting);
      await accept(asking);
      await quoting.getByRole("link", { name: "Make markets" }).click();
      await expectText(quoting, "1 of your last 1 quotes traded");

      await stack.killWorkerd();
      await untilServing(stack);
      for (const page of [asking, quoting]) await live(page);
      await ask(asking);
      await expectText(quoting, "1 request");

      await taker.session.auth.endSessions({ revoke_keys: false });
      await expectText(asking, "Your session has ended");
      await asking.getByLabel("Password").fill(taker.password);
      await asking.getByRole("button", { name: "Go on" }).click();
      await live(asking);
    }));

  it("accepts at the price that the button showed, or a better one, and no worse one", () =>
    inBrowser(async (browser) => {
      for (const { request_id } of (await taker.client.rfq.myRequests().page()).items)
        await taker.client.rfq.cancelRequest({ request_id });
      const page = await signedIn(browser, taker);
      await page.goto(`${stack.baseUrl}/console/#market/venue_one/${MARKET.asset_id}`);
      const matches = async () => (await taker.client.rfq.matches({ limit: 100 }).page()).items;
      const before = (await matches()).length;
      const pressed = async (
        lives: number,
        meanwhile: (quote: { request_id: string; quote_id: string }) => Promise<unknown>,
      ) => {
        const form = page.getByRole("form", { name: "Ask for quotes" });
        await form.getByLabel("Size", { exact: true }).fill("10");
        await form.getByRole("button", { name: "Ask for quotes" }).click();
        await expectText(page, "Buying 10 Yes");
        const [request] = (await taker.client.rfq.myRequests({ limit: 1 }).page()).items;
        const { request_id } = request ?? expect.fail("no open request");
        const terms = { request_id, price: 650_000, expires_in_secs: lives };
        const { quote_id } = await maker.client.rfq.quote(terms, SLOW_MACHINE);
        await page.getByRole("button", { name: "Accept, pay 6.50 USDC" }).hover();
        await page.mouse.down();
        await meanwhile({ request_id, quote_id });
        await page.mouse.up();
        return quote_id;
      };
      const over = () => expectText(page, "This quote has ended.");

      // Replaced by a worse one, taken back, and expired: nothing is accepted.
      await pressed(60, async ({ request_id, quote_id }) => {
        await maker.client.rfq.quote(
          { request_id, replaces: quote_id, price: 660_000 },
          SLOW_MACHINE,
        );
        await over();
      });
      await page.getByRole("button", { name: "Accept, pay 6.60 USDC" }).waitFor();
      await page.getByRole("button", { name: "Cancel request" }).click();
      await pressed(60, async ({ quote_id }) => {
        await maker.client.rfq.cancelQuote({ quote_id });
        await over();
      });
      await page.getByRole("button", { name: "Cancel request" }).click();
      await pressed(5, over);
      await expectText(page, "The quote has ended.");
      await page.getByRole("button", { name: "Ask again" }).click();
      await expectText(page, "Buying 10 Yes");
      await expectText(page, "No maker sells yet.");
      await page.getByRole("button", { name: "Cancel request" }).click();
      expect(await matches()).toHaveLength(before);

      // The quote ends while the answer is on its way: what happened stays to be read.
      await pressed(60, async ({ quote_id }) => {
        await page.route("**/rfq/accept", async (route) => {
          await maker.client.rfq.cancelQuote({ quote_id });
          await over();
          await route.continue();
        });
      });
      const said = page.getByRole("alert").filter({ hasText: "Not traded. The quote had ended" });
      await said.waitFor();
      await expectText(page, "The quote has ended.");
      expect(await said.isVisible()).toBe(true);
      await page.unroute("**/rfq/accept");
      await page.getByRole("button", { name: "Cancel request" }).click();
      expect(await matches()).toHaveLength(before);

      // A better one came while the button was pressed: it is taken.
      await pressed(60, async ({ request_id }) => {
        await maker.client.rfq.quote({ request_id, price: 640_000 }, SLOW_MACHINE);
        await page.getByRole("button", { name: "Accept, pay 6.40 USDC" }).waitFor();
      });
      await expectText(page, "Bought 10 Yes");
      expect((await matches())[0]).toMatchObject({ price: 640_000 });
    }));

  it("takes the first quote that is as good as the limit, in four actions", () =>
    inBrowser(async (browser) => {
      const page = await signedIn(browser, taker);
      await page.goto(`${stack.baseUrl}/console/#market/venue_one/${MARKET.asset_id}`);
      const form = page.getByRole("form", { name: "Ask for quotes" });
      await form.getByLabel("Size", { exact: true }).fill("10");
      await form.getByLabel("Take it at, ¢ or better").fill("62");
      await form.getByRole("button", { name: "Ask for quotes" }).click();
      await expectText(page, "The first quote at 62.00¢ or better is taken at once.");
      const [request] = (await taker.client.rfq.myRequests({ limit: 1 }).page()).items;
      const { request_id } = request ?? expect.fail("no open request");
      await maker.client.rfq.quote({ request_id, price: 630_000 }, SLOW_MACHINE);
      await page.getByRole("button", { name: "Accept, pay 6.30 USDC" }).waitFor();
      await maker.client.rfq.quote({ request_id, price: 610_000 }, SLOW_MACHINE);
      await expectText(page, "Bought 10 Yes");
      await expectText(page, "6.10 USDC");
    }));

  it("asks for the password before the session ends", () =>
    inBrowser(async (browser) => {
      const page = await browser.newPage();
      await page.clock.install();
      await enter(page, { baseUrl: stack.baseUrl, trader: taker });
      await page.clock.fastForward(3_500_000);
      await expectText(page, "Your session ends soon");
    }));

  it("loads nothing from elsewhere and keeps the session in memory", () =>
    inBrowser(async (browser) => {
      const page = await browser.newPage();
      const hosts = new Set<string>();
      page.on("request", (request) => hosts.add(new URL(request.url()).host));
      await enter(page, { baseUrl: stack.baseUrl, trader: taker });
      expect([...hosts].filter((host) => host !== "")).toEqual([new URL(stack.baseUrl).host]);
      const stored = await page.evaluate<number>("localStorage.length + sessionStorage.length");
      expect(stored + (await page.context().cookies()).length).toBe(0);
      await page.reload();
      await page.getByRole("link", { name: "Sign in" }).waitFor();
    }));

  inRelease(() => {
    it("shows sixty changes of the board a second", () =>
      inBrowser(async (browser) => {
        const page = await signedIn(browser, maker);
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
});

function signedIn(browser: Browser, trader: Trader): Promise<Page> {
  return signIn(browser, { baseUrl: stack.baseUrl, trader });
}

async function live(page: Page): Promise<void> {
  await page.getByText("Live", { exact: true }).waitFor();
}

async function ask(page: Page): Promise<void> {
  const form = page.getByRole("form", { name: "Ask for quotes" });
  const again = page.getByRole("button", { name: "Trade again" });
  if (await again.isVisible()) await again.click();
  else {
    await page.getByRole("searchbox").fill("ferry sunday");
    await page.getByRole("link", { name: TITLE }).click();
  }
  await form.getByLabel("Size", { exact: true }).fill("100");
  await form.getByRole("button", { name: "Ask for quotes" }).click();
  await expectText(page, "Buying 100 Yes");
}

async function quote(page: Page): Promise<void> {
  await page.getByRole("link", { name: "Make markets" }).click();
  const field = page.getByLabel(`You sell at, ${TITLE}: Yes, cents`);
  await field.fill("64.5");
  await field.press("Enter");
  await page.getByText("firm,").waitFor();
}

async function replace(page: Page): Promise<void> {
  const field = page.getByLabel(`You sell at, ${TITLE}: Yes, cents`);
  await field.fill("64.25");
  await field.press("Enter");
  await page.getByPlaceholder("64.25").waitFor();
}

async function accept(page: Page): Promise<void> {
  await page.getByText("64.25¢").first().waitFor();
  await page.getByRole("button", { name: "Accept, pay 64.25 USDC" }).click();
  await expectText(page, "Bought 100 Yes");
  await page.getByRole("region", { name: "Your position" }).getByText("100 Yes").waitFor();
}

async function expectText(page: Page, text: string): Promise<void> {
  await page.getByText(text).first().waitFor();
}
