/** Checks the reference page in a browser, and the descriptions of REST and streams against use. */
import { Secret, TOTP } from "otpauth";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import type { Client, MarketAsset } from "../../packages/client/src/index.ts";
import {
  readRestDescription,
  readStreamDescription,
  type RestResponse,
} from "../../scripts/openapi/conformance.ts";
import { inBrowser } from "../../scripts/actors/browser.ts";
import { openRawSocket, type RawMessage, type RawSocket } from "../support/node/raw-socket.ts";
import {
  fund,
  newAsset,
  newTrader,
  withdrawalClient,
  startTestStack,
  type TestStack,
  type Trader,
} from "../support/node/stack.ts";

let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack();
});
afterAll(() => stack?.stop());

it("GET /docs shows and calls every endpoint in a browser, without other origins", () =>
  inBrowser(async (browser) => {
    const page = await browser.newPage({ viewport: { width: 1_400, height: 1_000 } });
    const errors: string[] = [];
    const requested = new Set<string>();
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
    page.on("pageerror", (error) => errors.push(error.message));
    page.on("request", (request) => requested.add(new URL(request.url()).pathname));
    // No other origin can be reached.
    await page.route(
      (url) => url.protocol !== "data:" && url.protocol !== "blob:" && url.origin !== stack.baseUrl,
      (route) => {
        errors.push(`request to another origin: ${route.request().url()}`);
        return route.abort();
      },
    );
    await page.goto(`${stack.baseUrl}/docs`);
    await page.getByRole("heading", { name: "Custody and RFQ trading" }).waitFor();
    const { paths } = (await (await fetch(`${stack.baseUrl}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, { summary: string; tags: string[] }>>;
    };
    const operations = Object.values(paths).flatMap((methods) => Object.values(methods));
    for (const tag of ["Auth", "Custody", "RFQ", "Streams", "Webhooks"])
      await page
        .getByRole("button", { name: `Open Group - ${tag}` })
        .first()
        .click();
    const shown = (await page.locator("nav, aside").first().innerText()).replaceAll(/\s+/g, " ");
    expect(
      operations.map(({ summary }) => summary).filter((summary) => !shown.includes(summary)),
    ).toEqual([]);

    await page.getByRole("link", { name: "Ask for a price" }).first().click();
    await page.getByText("/rfq/request").first().waitFor();
    await page.getByRole("link", { name: "The server's time" }).first().click();
    await page.getByRole("button", { name: /Test Request.*\/time/ }).click();
    const response = page.waitForResponse(`${stack.baseUrl}/time`);
    await page.getByRole("button", { name: /^Send/ }).first().click();
    expect((await response).status()).toBe(200);
    await page.goto(`${stack.baseUrl}/docs?api=streams`);
    await page.getByRole("heading", { name: "Custody and RFQ trading, streams" }).waitFor();
    await page.getByText("Somebody traded").first().waitFor({ state: "attached" });
    expect(requested).toContain("/asyncapi.json");
    expect(errors).toEqual([]);
    const loaded = [...requested].filter((path) => path.startsWith("/docs/"));
    expect(loaded).toHaveLength(1);
  }));

/** Records every response that the clients of this process receive. */
function recordResponses(): RestResponse[] {
  const responses: RestResponse[] = [];
  const send = globalThis.fetch;
  vi.stubGlobal("fetch", async (input: string | Request, init?: RequestInit) => {
    const response = await send(input, init);
    if (typeof input === "string" && input.startsWith(stack.baseUrl)) {
      const type = response.headers.get("content-type") ?? "";
      const body = type.includes("json") ? ((await response.clone().json()) as unknown) : undefined;
      responses.push({
        method: init?.method ?? "GET",
        path: new URL(input).pathname,
        status: response.status,
        type,
        body,
      });
    }
    return response;
  });
  return responses;
}

it("every response and message fits docs/openapi.json and docs/asyncapi.yaml", async () => {
  const description = readStreamDescription();
  const responses = recordResponses();
  const asset = newAsset("venue_one");
  const [requester, maker] = [await newTrader(stack), await newTrader(stack)];
  const withdrawer = await withdrawalClient(stack, requester);
  const stream = (who: typeof requester, target: string) =>
    openRawSocket(who.client, stack.baseUrl, target);
  const sockets: RawSocket[] = [
    await stream(requester, "/account/stream"),
    await stream(maker, "/account/stream"),
  ];
  const [requesterAccount, makerAccount] = [sockets[0]!, sockets[1]!];
  const book = await stream(maker, `/rfq/stream?venue_id=venue_one&asset_id=${asset.asset_id}`);
  const venue = await stream(maker, "/rfq/stream?venue_id=venue_one");
  sockets.push(book, venue);

  await fund(stack, [
    { trader: requester, usdc: 10_000_000n },
    { trader: maker, tokens: { asset, amount: 10_000_000n } },
  ]);
  // More than a balance can hold.
  const other_id = `0x${(BigInt(asset.asset_id) + 1n).toString(16)}`;
  const junk = { ...asset, asset_id: other_id };
  await stack.faucet.mint(junk, maker.depositAddress, 2n ** 62n + 1n);

  const request = (more: object = {}) =>
    requester.client.rfq.request({ ...asset, amount: 1_000_000n, side: "Bid", ...more });
  const first = await request({ disclose_identity: true });
  await book.one("request.opened");
  const commands = [
    {
      id: "1",
      op: "quote",
      request_id: first.request_id,
      price: 500_000,
      expires_in_secs: 60,
      idempotency_key: "a",
    },
    { id: "2", op: "quote", request_id: first.request_id, price: 510_000 },
    { id: "3", op: "quote", request_id: first.request_id, price: 0, surplus: 1 },
  ];
  for (const command of commands) book.send(command);
  const placed = await book.one("result", ({ id }) => id === "1");
  const other = await book.one("result", ({ id }) => id === "2");
  await book.one("error", ({ id }) => id === "3");
  const cancel = { id: "4", op: "cancel_quote", quote_id: String(other.data?.["quote_id"]) };
  const accept = { id: "5", op: "accept", quote_id: String(placed.data?.["quote_id"]) };
  book.send(cancel);
  await book.one("result", ({ id }) => id === "4");
  await tripWith(maker, async () => {
    requesterAccount.send(accept);
    await requesterAccount.one("result", ({ id }) => id === "5");
    await makerAccount.one("protection.tripped");
  });
  await makerAccount.one("protection.reset");
  book.send("not JSON");
  await book.one("error", ({ id }) => id === null);
  book.send("ping");
  await book.one("pong");
  await requester.client.rfq.cancelRequest({ request_id: (await request()).request_id });
  await request({ expires_in_secs: 1 });
  await book.one("request.closed", ({ data }) => data?.["reason"] === "expired");

  const destination = "0x00000000000000000000000000000000000c0ffe";
  await withdrawer.custody.withdraw({
    client_withdrawal_id: "paid",
    amount: 1_000_000n,
    to_address: destination,
  });
  await requesterAccount.one("withdrawal.settled");
  await requireApproval(requester);
  const waiting = await withdrawer.custody.withdraw({
    client_withdrawal_id: "waiting",
    amount: 1_000_000n,
    to_address: destination,
  });
  await requesterAccount.one("withdrawal.awaiting_approval");
  await withdrawer.custody.cancelWithdrawal({ withdrawal_id: waiting.withdrawal_id });
  await requesterAccount.one("withdrawal.cancelled");
  await makerAccount.one("deposit.quarantined");
  sockets.push(await stream(requester, "/account/stream?since=1"));
  sockets.push(await stream(requester, "/account/stream?since=999999"));
  sockets.push(
    await stream(
      requester,
      `/rfq/stream?venue_id=venue_one&asset_id=${asset.asset_id}&since=999999`,
    ),
  );
  await readEveryRoute(requester.client, asset);
  await expect(maker.client.rfq.accept({ quote_id: accept.quote_id })).rejects.toThrow(
    "not_request_owner",
  );
  await stack.operator({ command: ["user", "freeze"], options: { email: maker.email } });
  await makerAccount.one("account.notice");

  vi.unstubAllGlobals();
  const errorsOfResponse = readRestDescription();
  expect(responses.flatMap((response) => errorsOfResponse(response))).toEqual([]);
  const messages = sockets.flatMap((socket) => socket.messages);
  expect(
    messages.flatMap((message: RawMessage) =>
      description.errorsOf(message).map((error) => `${message.type}: ${error}`),
    ),
  ).toEqual([]);
  expect(commands.map((command) => description.errorsOfCommand(command).length > 0)).toEqual([
    false,
    false,
    true,
  ]);
  expect([cancel, accept].flatMap((command) => description.errorsOfCommand(command))).toEqual([]);
  // They need a reorganisation, a minimum, a failed payment and a deposit that is seen before it is
  // final, which test/chain reads on a socket, a result (test/rfq/results.test.ts) and chosen
  // assets (test/streams/asset-filter.test.ts).
  const seen = new Set([
    ...messages.map(({ type }) => type),
    "deposit.detected",
    "deposit.orphaned",
    "deposit.below_minimum",
    "withdrawal.failed",
    "market.result",
    "market.corrected",
    // test/rfq/standing-accept.test.ts, test/rfq/pairs.test.ts
    "accept.refused",
    "token.redeemed",
    "skipped",
  ]);
  expect(description.types.filter((type) => !seen.has(type))).toEqual([]);
  for (const socket of sockets) socket.close();
});

/** The next match of the maker trips their protection, which is then reset. */
async function tripWith({ client }: Trader, trade: () => Promise<void>): Promise<void> {
  await client.rfq.saveProtection({
    window_secs: 60,
    max_matches: 1,
    max_usdc: null,
    cooldown_secs: null,
  });
  await trade();
  await client.rfq.resetProtection();
}

/** Every withdrawal of the user waits for approval from now on. */
async function requireApproval({ session, password }: Trader): Promise<void> {
  const { secret } = await session.auth.startTotp({ password });
  const totp = new TOTP({ secret: Secret.fromBase32(secret) });
  await session.auth.confirmTotp({ totp_code: totp.generate() });
  // A code is used once, and that of the next step is valid already.
  const totp_code = totp.generate({ timestamp: Date.now() + 30_000 });
  await session.auth.setPolicy({ password, totp_code, withdraw_approval_above: 0n });
}

async function readEveryRoute(client: Client, asset: MarketAsset): Promise<void> {
  const { custody, rfq, auth } = client;
  const lists = [
    custody.ledger(),
    custody.balances(),
    custody.deposits(),
    custody.withdrawals(),
    rfq.matches(),
    rfq.myQuotes(),
    rfq.myRequests(),
    rfq.openRequests(),
    auth.apiKeys(),
    auth.auditEvents(),
  ];
  for (const list of lists) await list.page();
  await custody.balance(asset);
  await custody.usdcBalance();
  await custody.depositAddresses();
  await custody.withdrawal({ client_withdrawal_id: "paid" });
  await auth.whoami();
  await client.time();
  await client.config();
}
