/** workerd is killed between the commit of an accept and its push to the streams. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { type FailpointServer, startFailpointServer } from "../support/node/failpoint-server.ts";
import {
  fund,
  newAsset,
  newTrader,
  startTestStack,
  type TestStack,
  until,
} from "../support/node/stack.ts";

let failpoints: FailpointServer;
let stack: TestStack;

beforeAll(async () => {
  failpoints = await startFailpointServer();
  stack = await startTestStack({ failpointUrl: failpoints.url });
});

afterAll(async () => {
  await stack?.stop();
  failpoints?.close();
});

it("the parties' streams replay a match whose push died with workerd, and the accept answers it again", async () => {
  const [taker, maker] = [await newTrader(stack), await newTrader(stack)];
  const asset = newAsset();
  await fund(stack, [
    { trader: taker, usdc: 1_000_000n },
    { trader: maker, tokens: { asset, amount: 1_000_000n } },
  ]);
  const request = await taker.client.rfq.request({ ...asset, amount: 1_000_000n, side: "Bid" });
  const quote = await maker.client.rfq.quote({
    request_id: request.request_id,
    price: 500_000,
    expires_in_secs: 120,
  });

  const reached = failpoints.stopAt("match_committed");
  const lost = taker.client.rfq
    .accept({ quote_id: quote.quote_id })
    .catch((error: unknown) => error);
  await reached;
  await stack.killWorkerd();
  await until(
    "the Worker to be back",
    30_000,
    async () =>
      (await fetch(`${stack.baseUrl}/health`).then(
        (answer) => answer.ok,
        () => false,
      )) || null,
  );

  const match = await taker.client.rfq.accept({ quote_id: quote.quote_id });
  expect(match).toMatchObject({
    quote_id: quote.quote_id,
    usdc_amount: 500_000n,
    role: "requester",
  });
  for (const { client } of [taker, maker]) {
    const stream = client.accountStream({ since: 0 });
    try {
      for await (const message of stream) {
        if (message.type !== "match.created") continue;
        expect(message.data.match_id).toBe(match.match_id);
        break;
      }
    } finally {
      stream.close();
    }
  }
  expect(await taker.client.custody.balance(asset)).toMatchObject({
    balance: 1_000_000n,
    pending_balance: 0n,
  });
  expect(await maker.client.custody.usdcBalance()).toEqual({
    balance: 500_000n,
    pending_balance: 0n,
  });
  await lost;
});
