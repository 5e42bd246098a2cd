/**
 * The operator's console as its users run it: the command as a process, the page in a browser,
 * against a whole stack.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { request } from "node:http";
import { createRequire } from "node:module";
import type { Browser, Page } from "playwright-core";
import { createTestClient, http } from "viem";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { inBrowser } from "../support/node/browser.ts";
import {
  fund,
  newTrader,
  withdrawalClient,
  startTestStack,
  untilServing,
  type TestStack,
  type Trader,
} from "../support/node/stack.ts";
import { FULL } from "../support/depth.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let stack: TestStack;
let trader: Trader;
let tool: ChildProcess;
let url: string;

beforeAll(async () => {
  stack = await startTestStack();
  trader = await newTrader(stack);
  await fund(stack, [{ trader, usdc: 5_000_000n }]);
  tool = spawn(process.execPath, ["scripts/operator.ts", "console", "--json", "--dir", stack.dir], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(tool.stdout!, "data")) as [Buffer];
  ({ url } = (JSON.parse(line.toString()) as { result: { url: string } }).result);
});
afterAll(async () => {
  tool?.kill("SIGKILL");
  await stack?.stop();
});

/** Sends a request whose Host may be foreign, which fetch does not allow. */
function statusOf(
  path: string,
  { host = new URL(url).host, method = "GET" } = {},
): Promise<{ status: number; body: string; cors: string | undefined; csp: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(
      new URL(path, url).href,
      { method, headers: { host, origin: "https://evil.example" } },
      (response) => {
        let body = "";
        response.on("data", (chunk: Buffer) => (body += chunk.toString()));
        response.on("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            body,
            cors: response.headers["access-control-allow-origin"],
            csp: String(response.headers["content-security-policy"]),
          }),
        );
      },
    );
    sent.on("error", reject).end();
  });
}

describe("the operator's console", () => {
  it("refuses a foreign Host, a missing token and every method but GET", async () => {
    const page = await statusOf(url);
    expect(page).toMatchObject({ status: 200, cors: undefined });
    expect(page.csp).toContain("default-src 'none'");
    expect(page.csp).not.toContain("unsafe");
    for (const path of [url, `${url}data/overview`]) {
      const { port } = new URL(url);
      for (const host of ["evil.example", `evil.example:${port}`, `localhost:${port}`])
        expect(await statusOf(path, { host })).toMatchObject({ status: 421, body: "refused\n" });
      for (const method of ["POST", "OPTIONS"])
        expect(await statusOf(path, { method })).toMatchObject({ status: 405, cors: undefined });
    }
    const wrong = `/${"A".repeat(32)}/`;
    for (const path of ["/", "/data/overview", "/page.js", wrong, `${wrong}data/overview`])
      expect(await statusOf(path)).toMatchObject({ status: 403, body: "refused\n" });
    expect(await statusOf(`${url}../../package.json`)).toMatchObject({ status: 403 });
    expect(await statusOf(`${url}constructor`)).toMatchObject({ status: 404 });
  });

  it("shows whether all is well, and what prevents it", () =>
    inBrowser(async (browser) => {
      const page = await open(browser);
      await text(page, "Nothing needs you");
      for (const name of ["Chain local", "Payer local", "Reconciliation", "Storage"])
        await page.getByText(name, { exact: true }).first().waitFor();

      expect(await stack.operator({ command: ["withdrawals", "pause"] })).toMatchObject({
        ok: true,
      });
      await text(page, "Look at what is marked");
      await text(page, "Attention: paused since");
      await text(page, "withdrawals_paused");
      await stack.operator({ command: ["withdrawals", "resume"] });
      await text(page, "Nothing needs you");
    }));

  it("finds a user and shows their waiting withdrawal", () =>
    inBrowser(async (browser) => {
      const page = await open(browser);
      await page.getByLabel("Email").fill(`nobody-${trader.email}`);
      await page.getByRole("button", { name: "Look up" }).click();
      await text(page, "user_unknown");
      await page.getByLabel("Email").fill(trader.email);
      await page.getByRole("button", { name: "Look up" }).click();
      const user = page.getByRole("region", { name: "User", exact: true });
      await user.getByText(trader.userId).first().waitFor();
      await user.getByText("5 USDC").first().waitFor();

      const paying = await withdrawalClient(stack, trader);
      await mineEvery(0);
      await paying.custody.withdraw({
        client_withdrawal_id: "console",
        amount: 1_000_000n,
        to_address: "0x000000000000000000000000000000000000dEaD",
      });
      const waiting = page.getByRole("region", { name: "Unfinished withdrawals" });
      await waiting.getByText("1 USDC").waitFor();
      await mineEvery(1);
      await waiting.getByText("None").waitFor();
    }));

  it("shows a lost connection, greys old data and heals after a kill of workerd", () =>
    inBrowser(async (browser) => {
      const page = await open(browser);
      await text(page, "Live");
      const stale = page.locator("#polled.stale");
      expect(await stale.count()).toBe(0);
      const pid = stack.workerdPid();
      if (pid === null) throw new Error("workerd does not run");
      // It accepts calls and does not answer them, until it is killed.
      process.kill(pid, "SIGSTOP");
      await text(page, "Connection lost, trying again");
      await text(page, "Not known: the data below is old");
      expect(await stale.count()).toBe(1);
      await stack.killWorkerd();
      await untilServing(stack);
      await page.getByText("Live", { exact: true }).waitFor();
      expect(await stale.count()).toBe(0);
      await text(page, "Nothing needs you");
    }));

  it("shows an order that waits for another operator, with the next command", () =>
    inBrowser(async (browser) => {
      await stack.restartWorker({ OPERATOR_APPROVALS: "2" });
      const options = { email: trader.email };
      const proposed = await stack.operator({ command: ["user", "unfreeze"], options });
      const { proposal_id } = (proposed as { result: { proposal_id: string } }).result;
      const page = await open(browser);
      const row = page.getByRole("region", { name: "Pending approvals" }).getByRole("row").nth(1);
      await row.getByText("unfreeze").waitFor();
      const command = `npm run operator -- approve --id ${proposal_id} --dir ${stack.dir}`;
      await row.getByText(command).waitFor();
      await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
      await row.getByRole("button").click();
      await row.getByText("Copied").waitFor();
      expect(await page.evaluate("navigator.clipboard.readText()")).toBe(command);
    }));

  it("has no violations of accessibility at 320 and 1 440 px, in light and dark", () =>
    inBrowser(async (browser) => {
      for (const width of [320, 1_440])
        for (const colorScheme of ["light", "dark"] as const) {
          // A small run has each width and each scheme once.
          if (!FULL && (width === 320) === (colorScheme === "light")) continue;
          const page = await open(browser, { width, colorScheme });
          for (const name of ["Read storage", "Read liabilities"])
            await page.getByRole("button", { name }).click();
          await page.getByText("As of").nth(1).waitFor();
          const at = `at ${width} in ${colorScheme}`;
          expect(await violations(page), at).toEqual([]);
          expect(
            await page.evaluate(
              "document.documentElement.scrollWidth - document.documentElement.clientWidth",
            ),
            `scrolls sideways ${at}`,
          ).toBe(0);
          await page.context().setOffline(true);
          await text(page, "Connection lost");
          expect(await violations(page), `stale ${at}`).toEqual([]);
          await page.context().close();
        }
    }));

  it("ends on Ctrl-C", async () => {
    tool.kill("SIGINT");
    expect(await once(tool, "exit")).toEqual([130, null]);
    await expect(statusOf(url)).rejects.toThrow("ECONNREFUSED");
  });
});

async function open(
  browser: Browser,
  { width = 1_440, colorScheme = "light" as "light" | "dark" } = {},
): Promise<Page> {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
  const page = await context.newPage();
  page.on("pageerror", (error) => expect.soft(error.message).toBe(""));
  await page.goto(url);
  await page.getByText("Live", { exact: true }).waitFor();
  return page;
}

/** 0: the chain makes no block, so no withdrawal settles. */
async function mineEvery(seconds: number): Promise<void> {
  await createTestClient({ mode: "anvil", transport: http(stack.rpcUrl) }).setIntervalMining({
    interval: seconds,
  });
}

async function text(page: Page, expected: string): Promise<void> {
  await page.getByText(expected).first().waitFor();
}

type Axe = { run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> };

async function violations(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const { violations: found } = await page.evaluate(() =>
    (globalThis as unknown as { axe: Axe }).axe.run(),
  );
  return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}
