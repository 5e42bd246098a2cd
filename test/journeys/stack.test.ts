import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Match, type Stream, type StreamMessage } from "../../src/client/index.ts";
import { type TestStack, type Trader, fund, newAsset, newTrader, startTestStack, until } from "../support/node/stack.ts";

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

const matchesIn = (messages: StreamMessage[]) => messages.flatMap((message) => (message.type === "match.created" ? [message.data] : []));

describe("a killed workerd", () => {
  /** From before the commit until after the push: which moment a delay hits differs from run to run. */
  const KILL_AFTER_MS = [1, 3, 6, 10, 15, 25];

  it("loses no match that was committed and tells of none that was not: since replays it to both parties, once", async () => {
    const [taker, maker] = await Promise.all([newTrader(stack), newTrader(stack)]);
    const asset = newAsset();
    const rounds = BigInt(KILL_AFTER_MS.length);
    await fund(stack, [
      { trader: taker, usdc: 1_000_000n * rounds },
      { trader: maker, tokens: { asset, amount: 1_000_000n * rounds } },
    ]);
    const streams = [taker.client.accountStream(), maker.client.accountStream()];
    const seen = streams.map(record);
    try {
      for (const delay of KILL_AFTER_MS) {
        await Promise.all(streams.map((stream) => stream.ready()));
        await killDuringAccept({ taker, maker, asset, delay });
      }
      const matches = await taker.client.rfq.matches().all();
      const committed = matches.map(({ match_id }) => match_id).sort();
      await until("both parties to be told of every match", 90_000, async () =>
        seen.every((messages) => matchesIn(messages).length >= committed.length) ? true : null,
      );
      for (const messages of seen)
        expect(
          matchesIn(messages)
            .map(({ match_id }) => match_id)
            .sort(),
        ).toEqual(committed);
      const tokens = await taker.client.custody.balance(asset);
      expect(tokens.balance).toBe(1_000_000n * BigInt(committed.length));
      const usdc = await taker.client.custody.usdcBalance();
      expect(usdc).toEqual({ balance: 1_000_000n * rounds - 500_000n * BigInt(committed.length), pending_balance: 0n });
    } finally {
      for (const stream of streams) stream.close();
    }
  });
});

/** The client's own repeats are off: what a lost answer left behind is what is looked at. */
async function killDuringAccept(round: { taker: Trader; maker: Trader; asset: ReturnType<typeof newAsset>; delay: number }): Promise<void> {
  const { taker, maker, asset, delay } = round;
  const request = await taker.client.rfq.request({ ...asset, amount: 1_000_000n, side: "Bid" });
  const quote = await maker.client.rfq.quote({ request_id: request.request_id, price: 500_000, expires_in_secs: 120 });
  const body = JSON.stringify({ quote_id: quote.quote_id });
  const { access_token } = await taker.session.auth.login({ email: taker.email, password: taker.password });
  const answer = fetch(`${stack.baseUrl}/rfq/accept`, {
    method: "POST",
    headers: { authorization: `Bearer ${access_token}`, "content-type": "application/json" },
    body,
  }).then(
    async (response) => (response.ok ? ((await response.json()) as Match) : null),
    () => null,
  );
  await sleep(delay);
  await stack.killWorkerd();
  const told = await answer;
  await stack.restartWorker();
  const matches = await taker.client.rfq.matches({ limit: 1 }).page();
  // A match that was answered is committed.
  if (told !== null) expect(matches.items[0]?.match_id).toBe(told.match_id);
  if (matches.items[0]?.quote_id !== quote.quote_id) await taker.client.rfq.cancelRequest({ request_id: request.request_id });
}

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

  it("brings workerd back by itself after a crash", async () => {
    const before = stack.workerdPid();
    await stack.killWorkerd();
    await until("the next workerd", 15_000, async () => {
      const response = await fetch(`${stack.baseUrl}/health`).catch(() => null);
      return response?.ok === true ? true : null;
    });
    expect(stack.workerdPid()).not.toBe(before);
  });

  it("serves no operator work on its public address", async () => {
    for (const path of ["/", "/operator", "/cdn-cgi/handler/scheduled"]) {
      const response = await fetch(`${stack.baseUrl}${path}`, { method: "POST", body: '{"command":["reconcile"],"operator":"x"}' });
      expect(response.ok).toBe(false);
      await response.arrayBuffer();
    }
  });

  it("runs the scheduled handler when asked to", async () => {
    await stack.runCron();
  });
});
