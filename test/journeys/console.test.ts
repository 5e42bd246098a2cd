/**
 * The console in a real browser against a whole stack: the story of the demo by clicks, with two
 * users in two contexts. console-replay.test.ts has what needs no stack.
 */
import { Secret, TOTP } from "otpauth";
import type { Browser, Page } from "playwright-core";
import { beforeAll, describe, expect, it } from "vitest";
import { inBrowser } from "../support/node/browser.ts";
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

  it("accepts the quote that the button showed when it was pressed, and no worse one", () =>
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
      await page.getByRole("button", { name: "Cancel request" }).click();
      expect(await matches()).toHaveLength(before);

      // A better one came: the one that was pressed is accepted.
      const accepted = await pressed(60, async ({ request_id }) => {
        await maker.client.rfq.quote({ request_id, price: 640_000 }, SLOW_MACHINE);
        await page.getByRole("button", { name: "Accept, pay 6.40 USDC" }).waitFor();
      });
      await expectText(page, "Bought 10 Yes");
      expect((await matches())[0]).toMatchObject({ quote_id: accepted, price: 650_000 });
    }));

  it("makes and revokes a key, turns TOTP on, lists an address and cancels a withdrawal", () =>
    inBrowser(async (browser) => {
      const owner = await newTrader(stack);
      await fund(stack, [{ trader: owner, usdc: 100_000_000n }]);
      const page = await signedIn(browser, owner);
      await page.getByRole("link", { name: "Account" }).click();
      const pastedKey = await withdrawKey(page, owner);
      await makeAndRevokeKey(page, owner);
      const totp = await turnTotpOn(page, owner);

      await page.getByRole("link", { name: "Wallet" }).click();
      const moves = page.getByRole("region", { name: "Deposits and withdrawals", exact: true });
      await moves.getByText("credited").waitFor();
      await page.getByRole("link", { name: "Addresses and limits" }).click();
      const policy = page.getByRole("region", { name: "Policy" });
      await policy.getByText("Change it").click();
      await policy.getByLabel("Approve withdrawals above, USDC a day").fill("10");
      await policy.getByLabel("Your password").fill(owner.password);
      await policy.getByLabel("Code of your authenticator app").fill(totp.generate());
      await policy.getByRole("button", { name: "Change", exact: true }).click();
      await policy.getByText("10.00 USDC", { exact: true }).waitFor();
      const book = page.getByRole("region", { name: "Address book", exact: true });
      await book.getByText("Add an address").click();
      await book
        .getByLabel("Address", { exact: true })
        .fill("0x00000000000000000000000000000000000c0ffe");
      await book.getByLabel("Label").fill("coffee");
      await book.getByLabel("Your password").fill(owner.password);
      // A code is used once, and that of the next step is valid already.
      const next = totp.generate({ timestamp: Date.now() + 30_000 });
      await book.getByLabel("Code of your authenticator app").fill(next);
      await book.getByRole("button", { name: "Add", exact: true }).click();
      await book.getByRole("button", { name: "Remove coffee" }).waitFor();

      await page.getByRole("link", { name: "Withdraw", exact: true }).click();
      await page.getByLabel("Amount").fill("20");
      await page.getByLabel("API key with the scope withdraw").fill(pastedKey);
      await page.getByRole("button", { name: "Send 20.00 USDC to coffee" }).click();
      // The account's stream may show the withdrawal before the response has arrived.
      await page.waitForURL(/#wallet\/withdraw\/[0-9a-f-]{36}$/);
      const status = page.getByRole("region", { name: "Withdrawal", exact: true });
      await status.getByText("Waits for your approval").waitFor();
      await status.getByRole("button", { name: "Cancel the withdrawal of 20.00 USDC" }).click();
      await status.getByRole("status").getByText("Cancelled").waitFor();
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
      await page.getByRole("button", { name: "Sign in" }).waitFor();
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

/** Asks for a key that withdraws, has the operator approve it, and copies its receipt. */
async function withdrawKey(page: Page, { password }: Trader): Promise<string> {
  const keys = page.getByRole("region", { name: "API keys", exact: true });
  await keys.getByText("New key").click();
  await keys.getByLabel("Label").fill("payments");
  await keys.getByLabel("withdraw, once the operator has approved the key").check();
  await keys.getByLabel("Allowed addresses").fill("127.0.0.1, ::1");
  await keys.getByLabel("Expires after days").fill("30");
  await keys.getByLabel("Your password").fill(password);
  await keys.getByRole("button", { name: "Create the key" }).click();
  const receipt = keys.getByRole("status").filter({ hasText: "It is shown once." });
  await receipt.waitFor();
  const copied = await receipt.locator("p").innerText();
  const [id = ""] = await receipt.locator("code").allInnerTexts();
  await keys.getByText("waits for approval").waitFor();
  const approved = await stack.operator({ command: ["api-key", "approve"], options: { id } });
  expect(approved).toMatchObject({ ok: true });
  await keys.getByRole("button", { name: "I have copied it" }).click();
  await keys.getByText("New key").click();
  return copied.replaceAll("\n", "");
}

async function makeAndRevokeKey(page: Page, { password }: Trader): Promise<void> {
  const keys = page.getByRole("region", { name: "API keys", exact: true });
  await keys.getByText("New key").click();
  await keys.getByLabel("Label").fill("by clicks");
  await keys.getByLabel("At most USDC a trade").fill("50");
  await keys.getByLabel("trade", { exact: true }).check();
  await keys.getByLabel("Your password").fill(password);
  await keys.getByRole("button", { name: "Create the key" }).click();
  await keys.getByText("It is shown once.").waitFor();
  await keys.getByRole("button", { name: "I have copied it" }).click();
  await keys.getByText("50.00 a trade").waitFor();
  await keys.getByRole("button", { name: "Revoke the key by clicks" }).click();
  await keys.getByText(/^revoked /).waitFor();
}

async function turnTotpOn(page: Page, { password }: Trader): Promise<TOTP> {
  const section = page.getByRole("region", { name: "Authenticator app", exact: true });
  await section.getByLabel("Your password").fill(password);
  await section.getByRole("button", { name: "Turn it on" }).click();
  const secret = await section.locator("form code").innerText();
  const totp = new TOTP({ secret: Secret.fromBase32(secret) });
  // The code before the present one is valid, which leaves that for the next use.
  const before = totp.generate({ timestamp: Date.now() - 30_000 });
  await section.getByLabel("Code that the app shows").fill(before);
  await section.getByRole("button", { name: "Confirm" }).click();
  await section.getByRole("button", { name: "I have kept them" }).click();
  await section.getByText("On, with 10 recovery codes left.").waitFor();
  return totp;
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
