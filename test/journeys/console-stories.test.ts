/**
 * What people come to the console for, told by roles and accessible names alone. A story fails if
 * it takes more actions than its number.
 */
import { Secret, TOTP } from "otpauth";
import { readFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { getAddress } from "viem";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Client } from "../../packages/client/src/index.ts";
import { withdrawKey } from "../../scripts/actors/withdraw-key.ts";
import { inBrowser } from "../../scripts/actors/browser.ts";
import {
  fund,
  newAddress,
  newTrader,
  startTestStack,
  type TestStack,
  type Trader,
} from "../support/node/stack.ts";
import { signIn, Story } from "../support/node/story.ts";

const MARKET = { venue_id: "venue_one", asset_id: "0x51a7" } as const;
const KEY = "API key with the scope withdraw";
/** Runs in the page. */
const STORED = `(async () => {
  const caches_ = (await caches.keys()).join();
  const databases = (await indexedDB.databases()).map(({ name }) => name).join();
  return JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, caches_,
    databases, location.href, history.state, name]);
})()`;
const TITLE = "Will the ferry to the island run on Sunday?";

let stack: TestStack;
let maker: Trader;

beforeAll(async () => {
  stack = await startTestStack();
  maker = await newTrader(stack);
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
  const tokens = { asset: MARKET, amount: 1_000_000_000n };
  await fund(stack, [{ trader: maker, usdc: 1_000_000_000n, tokens }]);
});
afterAll(() => stack?.stop());

describe("a story of the console", () => {
  it("finds a market and trades in it for the first time", () =>
    inBrowser(async (browser) => {
      const taker = await newTrader(stack);
      await fund(stack, [{ trader: taker, usdc: 100_000_000n }]);
      const { story, page } = await begin(browser, taker, 6);
      await story.key("/");
      await story.write("searchbox", "Search markets", "ferry sunday");
      await story.press("link", `${TITLE}, Yes no trade in a day`);
      await story.press("button", "100", "Ask for quotes");
      await story.press("button", "Ask for quotes");
      await story.read("heading", "Buying 100 Yes");
      const [request] = (await taker.client.rfq.myRequests({ limit: 1 }).page()).items;
      const { request_id } = request ?? expect.fail("no open request");
      await maker.client.rfq.quote({ request_id, price: 650_000 });
      await story.press("button", "Accept, pay 65.00 USDC");
      await story.read("heading", "Bought 100 Yes", "Settled");

      const selling = new Story(page, 3);
      await page.getByRole("link", { name: "See portfolio" }).click();
      await selling.press("link", `Sell ${TITLE}: Yes`);
      await expect.poll(() => page.getByLabel("Size", { exact: true }).inputValue()).toBe("100");
      await selling.press("button", "Ask for quotes");
      await selling.read("heading", "Selling 100 Yes");
      const [offer] = (await taker.client.rfq.myRequests({ limit: 1 }).page()).items;
      await maker.client.rfq.quote({ request_id: offer?.request_id ?? "", price: 640_000 });
      await selling.press("button", "Accept, get 64.00 USDC");
      await selling.read("heading", "Sold 100 Yes", "Settled");
      await page.getByRole("link", { name: "See portfolio" }).click();
      // Bought for 65, sold for 64.
      await page.getByRole("cell", { name: "−1.00 −1.5%" }).waitFor();
    }));

  it("withdraws for the first time on one page", () =>
    inBrowser(async (browser) => {
      const owner = await newTrader(stack);
      await fund(stack, [{ trader: owner, usdc: 100_000_000n }]);
      const key = await withdrawKey(stack, owner.session, { scopes: ["withdraw"] });
      // Four clicks and five fields.
      const { story, page } = await begin(browser, owner, 9);
      await story.press("link", "Wallet");
      await story.press("link", "Withdraw…");
      const form = page.getByRole("form", { name: "Add an address" });
      await form.waitFor();
      await story.fill("Address", newAddress());
      await story.fill("Label", "savings");
      await story.fill("Your password", owner.password);
      await story.press("button", "Add");
      await story.read("radio", /^savings/);
      await story.fill("Amount", "20");
      await story.fill(KEY, `${key.api_key_id} ${key.secret}`);
      await story.press("button", "Send 20.00 USDC to savings");
      await story.read("heading", "20.00 USDC to savings", "Withdrawal");
      await page.getByRole("status").filter({ hasText: "Arrived" }).waitFor();
      await page.getByText("Your withdrawal of 20.00 has arrived.").waitFor();
    }));

  it("deposits for the first time", () =>
    inBrowser(async (browser) => {
      // Not by `newTrader`, because the account has no deposit address yet.
      const account = { email: "first-deposit@test.example", password: "three words and a number" };
      await new Client({ baseUrl: stack.baseUrl }).auth.register(account);
      const { story, page } = await begin(browser, account, 3);
      await story.press("link", "Wallet");
      await story.press("button", "Create a deposit address");
      await story.press("button", "Copy", "Deposit");
      const copied = await page.evaluate<string>("navigator.clipboard.readText()");
      await stack.faucet.mint(null, getAddress(copied), 25_000_000n);
      await story.read("cell", "credited");
      await story.read("link", "25.00 USDC");
    }));

  it("withdraws with an approval, and reads why it waits", () =>
    inBrowser(async (browser) => {
      const owner = await withdrawer();
      const asking = await begin(browser, owner, 8);
      const reading = await begin(browser, owner, 2);
      const code = await approveAbove(owner, 10_000_000n);
      const { story, page } = asking;
      await story.press("link", "Wallet");
      await story.press("link", "Withdraw");
      await story.read("radio", new RegExp(`^cold wallet .*${owner.to} on local$`));
      // One that rests can not be chosen.
      await expect
        .poll(() => page.getByRole("radio", { name: /^new wallet usable in 23 h/ }).isDisabled())
        .toBe(true);
      await story.fill("Amount", "20");
      await page.getByText("your approval needed, above your 10 a day").waitFor();
      await story.fill(KEY, `${owner.key.api_key_id} ${owner.key.secret}`);
      await story.press("button", "Send 20.00 USDC to cold wallet");
      await story.read("heading", "20.00 USDC to cold wallet", "Withdrawal");

      await reading.story.press("link", "Wallet");
      await reading.page
        .getByRole("cell", { name: "It lifts the sum of a day to 20, above your limit of 10." })
        .waitFor();

      await story.fill("Your password", owner.password);
      await story.fill("Code of your authenticator app", code());
      await story.press("button", "Approve 20.00 USDC");
      await page.getByRole("status").filter({ hasText: "Arrived" }).waitFor();
      const [paid] = (await owner.session.custody.withdrawals({ limit: 1 }).page()).items;
      const { transaction_hash } = paid ?? expect.fail("no withdrawal");
      await page.getByTitle(transaction_hash ?? "no hash").waitFor();
    }));

  it("quotes twenty requests by keyboard", () =>
    inBrowser(async (browser) => {
      const taker = await newTrader(stack);
      await fund(stack, [{ trader: taker, usdc: 10_000_000n }]);
      const ask = (expires_in_secs: number) =>
        taker.client.rfq.request({ ...MARKET, amount: 1_000_000n, side: "Bid", expires_in_secs });
      // The default price is around this trade.
      const { request_id } = await ask(60);
      await taker.client.rfq.accept(await maker.client.rfq.quote({ request_id, price: 640_000 }));
      const asked = [];
      for (let second = 0; second < 20; second++) asked.push(await ask(300 + second));

      const { story, page } = await begin(browser, maker, 55);
      await story.press("link", "Make markets");
      await story.read("heading", "20 requests");
      await page.getByPlaceholder("64.8").nth(19).waitFor();
      const focused = page.locator(":focus");
      const isPrice = async () =>
        (await focused.getAttribute("aria-label"))?.startsWith("You sell");
      while ((await isPrice()) !== true) await story.key("Tab");
      for (let row = 0; row < 20; row++) {
        // The keys of a price do not count.
        if (row % 2 === 0) await page.keyboard.type("65.5");
        await story.key("Enter");
        // A quote that is not placed within a second is never placed, and this machine is busy.
        await page.getByText("sending…").first().waitFor({ state: "hidden" });
      }
      const firm = (count: number) =>
        expect.poll(() => page.getByText("firm,").count(), { timeout: 20_000 }).toBe(count);
      await firm(20);
      const open = await maker.session.rfq.myQuotes({ status: "open" }).all();
      const priceOf = ({ request_id: id }: { request_id: string }) =>
        open.find((quote) => quote.request_id === id)?.price;
      expect(asked.map(priceOf)).toEqual(asked.map((_, row) => (row % 2 ? 648_000 : 655_000)));

      // Rows keep their places under the keyboard when requests end and begin.
      await page.keyboard.press("ArrowUp");
      const before = await focused.boundingBox();
      await taker.client.rfq.cancelRequest(asked[3] ?? expect.fail());
      await ask(60);
      await page.getByText("20 requests").waitFor();
      await page.getByRole("cell", { name: "over" }).waitFor();
      expect(await focused.boundingBox()).toEqual(before);

      await page.keyboard.press("Escape");
      await firm(18);
      await page.setViewportSize({ width: 390, height: 844 });
      await page.mouse.wheel(0, 10_000);
      const all = page.getByRole("button", { name: "Cancel all quotes (18)" });
      const { y = Infinity, height = 0 } = (await all.boundingBox()) ?? {};
      expect(y).toBeGreaterThanOrEqual(0);
      expect(y + height).toBeLessThanOrEqual(844);
      await page.keyboard.press("Shift+Escape");
      await page.getByText("18 quotes cancelled.").waitFor();
      expect(await maker.session.rfq.myQuotes({ status: "open" }).all()).toEqual([]);
    }));
});

describe("a withdrawal in the console", () => {
  it("is made once when its answer is lost and it is sent again", () =>
    inBrowser(async (browser) => {
      const owner = await withdrawer();
      const { page } = await begin(browser, owner, 0);
      const ids = new Set<string>();
      page.on("request", (request) => {
        if (request.url().endsWith("/custody/withdraw"))
          ids.add(
            (request.postDataJSON() as { client_withdrawal_id: string }).client_withdrawal_id,
          );
      });
      await page.route("**/custody/withdraw", async (route) => {
        await route.fetch();
        await route.abort();
      });
      await fillWithdrawal(page, owner);
      await page.getByRole("button", { name: "Send 20.00 USDC to cold wallet" }).click();
      await page.getByRole("alert").filter({ hasText: "No answer came" }).waitFor();
      expect(await page.getByLabel("Amount").isDisabled()).toBe(true);
      await page.unroute("**/custody/withdraw");
      await page.getByRole("button", { name: "Send 20.00 USDC again" }).click();
      await page.waitForURL(/#wallet\/withdraw\/[0-9a-f-]{36}$/);
      expect(ids.size).toBe(1);
      expect(await owner.session.custody.withdrawals().all()).toHaveLength(1);
    }));

  it("forgets the key when the page is left, and stores it nowhere", () =>
    inBrowser(async (browser) => {
      const owner = await withdrawer();
      const { page } = await begin(browser, owner, 0);
      await fillWithdrawal(page, owner);
      // Longer than the user's balance, so that the key was read and the form stays.
      await page.getByLabel("Amount").fill("9999");
      await page.getByRole("button", { name: /^Send/ }).click();
      await page.getByText("You can withdraw at most 100 USDC now.").waitFor();
      expect(await page.getByLabel(KEY).inputValue()).toContain(owner.key.secret);
      const stored = await page.evaluate<string>(STORED);
      expect(stored).not.toContain(owner.key.secret);
      expect(JSON.stringify(await page.context().storageState())).not.toContain(owner.key.secret);
      await page.getByRole("link", { name: "Ledger", exact: true }).click();
      await page.getByRole("heading", { name: "Ledger" }).waitFor();
      await page.goBack();
      expect(await page.getByLabel(KEY).inputValue()).toBe("");
      await page.getByLabel(KEY).fill(owner.key.secret);
      await page.evaluate("dispatchEvent(new Event('pagehide'))");
      expect(await page.getByLabel(KEY).inputValue()).toBe("");
      await page.getByLabel(KEY).fill(owner.key.secret);
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByRole("button", { name: "Sign in" }).waitFor();
      expect(await page.getByLabel(KEY).count()).toBe(0);
    }));

  it("saves the ledger of the filters chosen as a file, and says how far it is", () =>
    inBrowser(async (browser) => {
      const owner = await newTrader(stack);
      await fund(stack, [{ trader: owner, usdc: 100_000_000n }]);
      await owner.client.rfq.request({ ...MARKET, amount: 1_000_001n, side: "Bid" });
      const { page } = await begin(browser, owner, 0);
      const [request] = (await owner.client.rfq.myRequests().page()).items;
      const { request_id } = request ?? expect.fail("no open request");
      const { quote_id } = await maker.client.rfq.quote({ request_id, price: 650_000 });
      await owner.client.rfq.accept({ quote_id });
      const saved = async () => {
        const download = page.waitForEvent("download");
        await page.getByRole("button", { name: "Download CSV" }).click();
        return readFileSync(await (await download).path(), "utf8")
          .trim()
          .split("\r\n");
      };
      await page.getByRole("link", { name: "Portfolio" }).click();
      const [titles, trade, ...others] = await saved();
      expect(titles).toMatch(/^time,market,venue_id,/);
      expect(trade).toContain(`${TITLE}: Yes,venue_one,0x51a7,requester,bought,1.000001,0.65,`);
      expect(others).toEqual([]);

      // The chart of a slow service comes when the page is shown, and moves no button.
      const seen = Promise.withResolvers<void>();
      await page.route(/get-ledger\?.*usdc=true/, async (route) => {
        await seen.promise;
        await route.continue();
      });
      await page.getByRole("link", { name: "Wallet" }).click();
      await page.getByRole("link", { name: "Ledger" }).click();
      const filter = page.getByRole("button", { name: "Filter" });
      await filter.waitFor();
      const before = await filter.boundingBox();
      seen.resolve();
      await page.locator(".chart svg").waitFor();
      expect(await filter.boundingBox()).toEqual(before);
      await page.unrouteAll({ behavior: "wait" });
      await page.getByLabel("Direction").selectOption("out");
      await page.getByLabel("Asset").selectOption("USDC");
      await filter.click();
      await expect.poll(() => page.getByRole("row").count()).toBe(3);
      await page.route("**/custody/get-ledger?*", async (route) => {
        await page.getByText("0 rows read…").waitFor();
        await route.continue();
      });
      const [, ...entries] = await saved();
      // Exact, and negative amounts are numbers.
      expect(entries.map((entry) => entry.split(",")[7])).toEqual(["-0.650001", "-0.650001"]);
    }));

  it("shows an error beside the field that caused it", () =>
    inBrowser(async (browser) => {
      const owner = await withdrawer();
      const { page } = await begin(browser, owner, 0);
      const wrong = async (key: string, told: RegExp) => {
        await fillWithdrawal(page, { key: { api_key_id: key, secret: "c2VjcmV0" } });
        await page.getByRole("button", { name: /^Send/ }).click();
        const field = page.getByLabel(KEY);
        await expect.poll(() => field.getAttribute("aria-invalid")).toBe("true");
        const described = (await field.getAttribute("aria-describedby"))?.split(" ") ?? [];
        const error = page.locator(`[id="${described.at(-1) ?? ""}"]`);
        expect(await error.innerText()).toMatch(told);
      };
      await wrong("no id", /Enter the id/);
      const reading = await owner.session.auth.createApiKey({ label: "reads", scopes: ["read"] });
      await wrong(reading.api_key_id, /secret|signature/i);
      expect(await owner.session.custody.withdrawals().all()).toEqual([]);
    }));
});

type Withdrawer = Trader & { key: { api_key_id: string; secret: string }; to: string };

/** With 100 USDC, a key that withdraws, one address that can be used, and one that rests. */
async function withdrawer(): Promise<Withdrawer> {
  const owner = await newTrader(stack);
  await fund(stack, [{ trader: owner, usdc: 100_000_000n }]);
  const key = await withdrawKey(stack, owner.session, { scopes: ["withdraw"] });
  const { password } = owner;
  const to = newAddress();
  const list = (address: string, label: string) =>
    owner.session.custody.createWithdrawalAddress({ address, label, password });
  await list(to, "cold wallet");
  await stack.restartWorker({ AUTH_SECURITY_DELAY_SECS: "86400" });
  await list(newAddress(), "new wallet");
  await stack.restartWorker({ AUTH_SECURITY_DELAY_SECS: "0" });
  return { ...owner, key, to };
}

/** Turns TOTP on, and returns what makes the code of the approval. */
async function approveAbove(
  { session, password }: Trader,
  withdraw_approval_above: bigint,
): Promise<() => string> {
  const { secret } = await session.auth.startTotp({ password });
  const totp = new TOTP({ secret: Secret.fromBase32(secret) });
  // A code is used once. That of the step before is valid, and that of the next one already.
  const codeOf = (steps: number) => totp.generate({ timestamp: Date.now() + steps * 30_000 });
  await session.auth.confirmTotp({ totp_code: codeOf(-1) });
  await session.auth.setPolicy({ password, totp_code: codeOf(0), withdraw_approval_above });
  return () => codeOf(1);
}

async function fillWithdrawal(page: Page, { key }: Pick<Withdrawer, "key">): Promise<void> {
  await page.goto(`${stack.baseUrl}/console/#wallet/withdraw`);
  await page.getByText("You can use 100 USDC").waitFor();
  await page.getByLabel("Amount").fill("20");
  await page.getByLabel(KEY).fill(`${key.api_key_id} ${key.secret}`);
}

async function begin(
  browser: Browser,
  trader: Pick<Trader, "email" | "password">,
  atMost: number,
): Promise<{ story: Story; page: Page }> {
  const permissions = ["clipboard-read", "clipboard-write"];
  const page = await signIn(browser, { baseUrl: stack.baseUrl, trader }, { permissions });
  return { story: new Story(page, atMost), page };
}
