/**
 * What people come to the console for, told by roles and accessible names alone. A story fails if
 * it takes more actions than its number.
 */
import type { Browser, Page } from "playwright-core";
import { getAddress } from "viem";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Client } from "../../packages/client/src/index.ts";
import { inBrowser } from "../support/node/browser.ts";
import {
  fund,
  newTrader,
  startTestStack,
  type TestStack,
  type Trader,
} from "../support/node/stack.ts";
import { signIn, Story } from "../support/node/story.ts";

const MARKET = { venue_id: "venue_one", asset_id: "0x51a7" } as const;
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
      const { story } = await begin(browser, taker, 6);
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
      await stack.faucet.usdc(getAddress(copied), 25_000_000n);
      await story.read("cell", "credited");
      await story.read("link", "25.00 USDC");
    }));
});

async function begin(
  browser: Browser,
  trader: Pick<Trader, "email" | "password">,
  atMost: number,
): Promise<{ story: Story; page: Page }> {
  const permissions = ["clipboard-read", "clipboard-write"];
  const page = await signIn(browser, { baseUrl: stack.baseUrl, trader }, { permissions });
  return { story: new Story(page, atMost), page };
}
