/** The console in a real browser: keys, the second factor, addresses and withdrawals by clicks. */
import { Secret, TOTP } from "otpauth";
import type { Page } from "playwright-core";
import { beforeAll, expect, it } from "vitest";
import { inBrowser } from "../../scripts/actors/browser.ts";
import {
  fund,
  newTrader,
  sharedStack,
  type TestStack,
  type Trader,
} from "../support/node/stack.ts";
import { signIn } from "../support/node/story.ts";

let stack: TestStack;
beforeAll(async () => {
  stack = await sharedStack();
});

it("makes and revokes a key, turns TOTP on, lists an address and cancels a withdrawal", () =>
  inBrowser(async (browser) => {
    const owner = await newTrader(stack);
    await fund(stack, [{ trader: owner, usdc: 100_000_000n }]);
    const page = await signIn(browser, { baseUrl: stack.baseUrl, trader: owner });
    await page.getByRole("link", { name: "Account" }).click();
    const pastedKey = await withdrawKey(page, owner);
    await makeLastingKey(page, owner);
    await makeAndRevokeKey(page, owner);
    const totp = await turnTotpOn(page, owner);

    await page.getByRole("link", { name: "Wallet" }).click();
    const moves = page.getByRole("region", { name: "Deposits and withdrawals", exact: true });
    await moves.getByText("credited").waitFor();
    await page.getByRole("link", { name: "Addresses and limits" }).click();
    const policy = page.getByRole("region", { name: "Limits" });
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

/** Asks for a key that withdraws, has the operator approve it, and copies its receipt. */
async function withdrawKey(page: Page, { password }: Trader): Promise<string> {
  const keys = page.getByRole("region", { name: "API keys", exact: true });
  await keys.getByText("New key").click();
  await keys.getByLabel("Label").fill("payments");
  await keys.getByLabel("withdraw, once the operator has approved the key").check();
  await keys.getByLabel("only to my address book").check();
  await keys.getByLabel("Allowed addresses").fill("127.0.0.1, ::1");
  await keys.getByLabel("Expires after days").fill("30");
  await keys.getByLabel("Your password").fill(password);
  await keys.getByRole("button", { name: "Create the key" }).click();
  const receipt = keys.getByRole("status").filter({ hasText: "It is shown once." });
  await receipt.waitFor();
  const copied = await receipt.locator("p").first().innerText();
  const [id = ""] = await receipt.locator("code").allInnerTexts();
  await keys.getByText("withdraw to listed addresses (waits for approval)").waitFor();
  const approved = await stack.operator({ command: ["api-key", "approve"], options: { id } });
  expect(approved).toMatchObject({ ok: true });
  await keys.getByRole("button", { name: "I have copied it" }).click();
  await keys.getByText("New key").click();
  return copied.replaceAll("\n", "");
}

/** A key that only reads asks for the password if it lasts longer than usual. */
async function makeLastingKey(page: Page, { password }: Trader): Promise<void> {
  const keys = page.getByRole("region", { name: "API keys", exact: true });
  await keys.getByText("New key").click();
  await keys.getByLabel("Label").fill("reads for a year");
  await keys.getByLabel("Expires after days").fill("365");
  await keys.getByLabel("Your password").fill(password);
  await keys.getByRole("button", { name: "Create the key" }).click();
  await keys.getByText("It is shown once.").waitFor();
  await keys.getByRole("button", { name: "I have copied it" }).click();
  await keys.getByText("New key").click();
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
  await keys.getByText("Programs that use by clicks stop.").waitFor();
  await keys.getByRole("button", { name: "Yes, revoke" }).click();
  await keys.getByText(/^revoked /).waitFor();
  await page.getByText("The key by clicks is revoked.").waitFor();
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
