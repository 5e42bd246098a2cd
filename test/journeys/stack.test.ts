import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "vitest";
import {
  Client,
  type Match,
  NoAnswer,
  type Stream,
  type StreamMessage,
  signedHeaders,
} from "../../packages/client/src/index.ts";
import {
  newTrader,
  openMarket,
  quotedBid,
  sharedStack,
  type TestStack,
  type Trader,
  until,
  untilServing,
} from "../support/node/stack.ts";

const AMOUNT = 1_000_000n;

let stack: TestStack;
beforeAll(async () => {
  stack = await sharedStack();
});

/** Every message of a stream, in order. */
function record(stream: Stream): StreamMessage[] {
  const messages: StreamMessage[] = [];
  void (async () => {
    for await (const message of stream) messages.push(message);
  })();
  return messages;
}

const matchesIn = (messages: StreamMessage[]) =>
  messages.flatMap((message) => (message.type === "match.created" ? [message.data] : []));

/** A client that retries nothing, so that the test sees each lost response. */
async function withoutRetries({ email, password }: Trader): Promise<Client> {
  return Client.login({ baseUrl: stack.baseUrl, email, password, attempts: 1 });
}

/** Waits until each stream has every match, and throws if one has a match twice. */
async function untilNotified(seen: StreamMessage[][], committed: string[]): Promise<void> {
  await until("both parties to be notified of every match", 90_000, async () =>
    seen.every((messages) => matchesIn(messages).length >= committed.length) ? true : null,
  );
  // Time for a duplicate to arrive.
  await sleep(500);
  for (const messages of seen) {
    const ids = matchesIn(messages).map(({ match_id }) => match_id);
    expect(ids.toSorted()).toEqual(committed.toSorted());
  }
}

describe("an accept while workerd is killed", () => {
  /** From before the commit to after the push. Which step a delay hits differs from run to run. */
  const KILL_AFTER_MS = [1, 5, 12];

  it("is committed if its response arrived, and each commit is pushed once", async () => {
    const rounds = BigInt(KILL_AFTER_MS.length);
    const market = await openMarket(stack, AMOUNT * rounds);
    const { requester, maker, asset } = market;
    const streams = [requester.client.accountStream(), maker.client.accountStream()];
    const seen = streams.map(record);
    const once = await withoutRetries(requester);
    try {
      for (const delay of KILL_AFTER_MS) {
        await Promise.all(streams.map((stream) => stream.ready()));
        const { request, quote } = await quotedBid(market, AMOUNT);
        const accepted = once.rfq
          .accept({ quote_id: quote.quote_id })
          .catch((error: unknown) => error);
        await sleep(delay);
        await stack.killWorkerd();
        const result = await accepted;
        await untilServing(stack);
        const [latest] = (await requester.client.rfq.matches({ limit: 1 }).page()).items;
        if (!(result instanceof NoAnswer))
          expect(latest).toMatchObject({ match_id: (result as Match).match_id });
        if (latest?.quote_id !== quote.quote_id)
          await requester.client.rfq.cancelRequest({ request_id: request.request_id });
      }
      const matches = await requester.client.rfq.matches().all();
      await untilNotified(
        seen,
        matches.map(({ match_id }) => match_id),
      );
      const traded = AMOUNT * BigInt(matches.length);
      expect((await requester.client.custody.balance(asset)).balance).toBe(traded);
      expect(await requester.client.custody.usdcBalance()).toMatchObject({
        balance: AMOUNT * rounds - traded / 2n,
        pending_balance: 0n,
        promised: 0n,
      });
    } finally {
      for (const stream of streams) stream.close();
    }
  });
});

describe("the stack", () => {
  it("keeps its state when the Worker restarts with other settings", async () => {
    const trader = await newTrader(stack);
    await stack.restartWorker({ AUTH_REGISTRATION: "closed" });
    try {
      expect(await trader.client.auth.whoami()).toMatchObject({ user_id: trader.userId });
      await expect(newTrader(stack)).rejects.toMatchObject({ code: "registration_closed" });
    } finally {
      await stack.restartWorker({ AUTH_REGISTRATION: "open" });
    }
  });

  it("ignores the client address that a caller claims", async () => {
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

  it("mints again after a mint that failed", async () => {
    const { faucet } = stack;
    const to = "0x000000000000000000000000000000000000dEaD";
    const usdc = await Promise.allSettled([
      faucet.mint(null, to, 1n),
      faucet.mint(null, to, 2n ** 256n),
      faucet.mint(null, to, 2n),
    ]);
    expect(usdc.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    const hash = await faucet.mint({ venue_id: "venue_one", asset_id: "0x1" }, to, 1n);
    expect(await faucet.client.waitForTransactionReceipt({ hash, timeout: 10_000 })).toMatchObject({
      status: "success",
    });
  });

  it("restarts workerd automatically after a crash", async () => {
    const before = stack.workerdPid();
    await stack.killWorkerd();
    await untilServing(stack);
    expect(stack.workerdPid()).not.toBe(before);
  });

  it("serves no operator command on its public address", async () => {
    for (const path of ["/", "/operator", "/cdn-cgi/handler/scheduled"]) {
      const response = await fetch(`${stack.baseUrl}${path}`, {
        method: "POST",
        body: '{"command":["reconcile"],"operator":"x"}',
      });
      expect(response.ok).toBe(false);
      await response.arrayBuffer();
    }
  });

  it("runs the scheduled handler on request", async () => {
    await stack.runCron();
  });
});
