import { setTimeout as sleep } from "node:timers/promises";
import type { Address } from "viem";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  Client,
  type MarketAsset,
  type Match,
  NoAnswer,
  type Stream,
  type StreamMessage,
  signedHeaders,
} from "../../packages/client/src/index.ts";
import {
  type TestStack,
  type Trader,
  fund,
  newAsset,
  newTrader,
  startTestStack,
  until,
} from "../support/node/stack.ts";

let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack();
});
afterAll(async () => {
  await stack?.stop();
});

/** Everything that a stream shows, in order. */
function record(stream: Stream): StreamMessage[] {
  const messages: StreamMessage[] = [];
  void (async () => {
    for await (const message of stream) messages.push(message);
  })();
  return messages;
}

const matchesIn = (messages: StreamMessage[]) =>
  messages.flatMap((message) => (message.type === "match.created" ? [message.data] : []));

const AMOUNT = 1_000_000n;
const PRICE = 500_000;

type Market = { taker: Trader; maker: Trader; asset: MarketAsset };

/** Two people with money for so many trades. */
async function openMarket(trades: bigint): Promise<Market> {
  const [taker, maker] = await Promise.all([newTrader(stack), newTrader(stack)]);
  const asset = newAsset();
  await fund(stack, [
    { trader: taker, usdc: AMOUNT * trades },
    { trader: maker, tokens: { asset, amount: AMOUNT * trades } },
  ]);
  return { taker, maker, asset };
}

async function offer({ taker, maker, asset }: Market) {
  const request = await taker.client.rfq.request({ ...asset, amount: AMOUNT, side: "Bid" });
  const quote = await maker.client.rfq.quote({
    request_id: request.request_id,
    price: PRICE,
    expires_in_secs: 120,
  });
  return { request, quote };
}

/** A client that repeats nothing: what a lost answer leaves behind is what is looked at. */
async function impatient({ email, password }: Trader): Promise<Client> {
  return Client.login({ baseUrl: stack.baseUrl, email, password, attempts: 1 });
}

function untilBack(): Promise<true> {
  return until("the Worker to be back", 30_000, async () => {
    const response = await fetch(`${stack.baseUrl}/health`).catch(() => null);
    return response?.ok === true ? true : null;
  });
}

async function untilToldOf(seen: StreamMessage[][], committed: string[]): Promise<void> {
  await until("both parties to be told of every match", 90_000, async () =>
    seen.every((messages) => matchesIn(messages).length >= committed.length) ? true : null,
  );
  // Once more to come would come now.
  await sleep(500);
  for (const messages of seen) {
    const told = matchesIn(messages).map(({ match_id }) => match_id);
    expect(told.toSorted()).toEqual([...committed].toSorted());
  }
}

describe("a killed workerd", () => {
  /** From before the commit until after the push: which moment a delay hits differs from run to run. */
  const KILL_AFTER_MS = [1, 5, 12];

  it("at any moment: a match that was answered is committed, and each committed one is told once", async () => {
    const rounds = BigInt(KILL_AFTER_MS.length);
    const market = await openMarket(rounds);
    const { taker, asset } = market;
    const streams = [taker.client.accountStream(), market.maker.client.accountStream()];
    const seen = streams.map(record);
    const once = await impatient(taker);
    try {
      for (const delay of KILL_AFTER_MS) {
        await Promise.all(streams.map((stream) => stream.ready()));
        const { request, quote } = await offer(market);
        const answer = once.rfq
          .accept({ quote_id: quote.quote_id })
          .catch((error: unknown) => error);
        await sleep(delay);
        await stack.killWorkerd();
        const told = await answer;
        await untilBack();
        const [latest] = (await taker.client.rfq.matches({ limit: 1 }).page()).items;
        if (!(told instanceof NoAnswer))
          expect(latest).toMatchObject({ match_id: (told as Match).match_id });
        if (latest?.quote_id !== quote.quote_id)
          await taker.client.rfq.cancelRequest({ request_id: request.request_id });
      }
      const committed = (await taker.client.rfq.matches().all()).map(({ match_id }) => match_id);
      await untilToldOf(seen, committed);
      const spent = (AMOUNT / 2n) * BigInt(committed.length);
      expect((await taker.client.custody.balance(asset)).balance).toBe(
        AMOUNT * BigInt(committed.length),
      );
      expect(await taker.client.custody.usdcBalance()).toEqual({
        balance: AMOUNT * rounds - spent,
        pending_balance: 0n,
      });
    } finally {
      for (const stream of streams) stream.close();
    }
  });
});

describe("the stack", () => {
  it("keeps its state over a restart of the Worker, with other settings where asked for", async () => {
    const trader = await newTrader(stack);
    await stack.restartWorker({ AUTH_REGISTRATION: "closed" });
    try {
      expect(await trader.client.auth.whoami()).toMatchObject({ user_id: trader.userId });
      await expect(newTrader(stack)).rejects.toMatchObject({ code: "registration_closed" });
    } finally {
      await stack.restartWorker({ AUTH_REGISTRATION: "open" });
    }
  });

  it("takes every call for one from 127.0.0.1, whatever the client says", async () => {
    const trader = await newTrader(stack);
    const call = async (allowed_ips: string[], claimed: Record<string, string>) => {
      const key = await trader.session.auth.createApiKey({
        label: "ip",
        scopes: ["read"],
        allowed_ips,
      });
      const headers = await signedHeaders({
        apiKeyId: key.api_key_id,
        secret: key.secret,
        timestampMs: Date.now(),
        method: "GET",
        pathAndQuery: "/auth/whoami",
      });
      return (await fetch(`${stack.baseUrl}/auth/whoami`, { headers: { ...headers, ...claimed } }))
        .status;
    };
    const claim = { "cf-connecting-ip": "203.0.113.9" };
    expect(await call(["127.0.0.1"], {})).toBe(200);
    expect(await call(["127.0.0.1"], claim)).toBe(200);
    expect(await call(["203.0.113.9"], {})).toBe(403);
    expect(await call(["203.0.113.9"], claim)).toBe(403);
  });

  it("mints on after a mint that cannot be sent", async () => {
    const { faucet, file } = stack;
    const to = "0x000000000000000000000000000000000000dEaD";
    const usdc = await Promise.allSettled([
      faucet.usdc(to, 1n),
      faucet.usdc(to, 2n ** 256n),
      faucet.usdc(to, 2n),
    ]);
    expect(usdc.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    const hash = await faucet.outcomeTokens(file.venues.venue_one.outcome_tokens as Address, {
      to,
      id: 1n,
      amount: 1n,
    });
    expect(await faucet.client.waitForTransactionReceipt({ hash, timeout: 10_000 })).toMatchObject({
      status: "success",
    });
  });

  it("brings workerd back by itself after a crash", async () => {
    const before = stack.workerdPid();
    await stack.killWorkerd();
    await untilBack();
    expect(stack.workerdPid()).not.toBe(before);
  });

  it("serves no operator work on its public address", async () => {
    for (const path of ["/", "/operator", "/cdn-cgi/handler/scheduled"]) {
      const response = await fetch(`${stack.baseUrl}${path}`, {
        method: "POST",
        body: '{"command":["reconcile"],"operator":"x"}',
      });
      expect(response.ok).toBe(false);
      await response.arrayBuffer();
    }
  });

  it("runs the scheduled handler when asked to", async () => {
    await stack.runCron();
  });
});
