/** A quote on a connection that is cut and heals later: it must not appear after its deadline. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Client } from "../../packages/client/src/index.ts";
import {
  type Market,
  openMarket,
  SLOW_MACHINE,
  startTestStack,
  type TestStack,
} from "../support/node/stack.ts";
import { startTcpProxy, type TcpProxy } from "../support/node/tcp-proxy.ts";

const AMOUNT = 1_000_000n;
/** Longer than the default deadline of a quote, shorter than every time-out of the client. */
const CUT_MS = 2_500;
/** What was held back arrives and is carried out within this time. */
const SETTLE_MS = 1_500;
const IN_TIME = 500_000;
const LATE = 510_000;

let stack: TestStack;
let proxy: TcpProxy;
beforeAll(async () => {
  stack = await startTestStack();
  proxy = await startTcpProxy(stack.baseUrl);
});
afterAll(async () => {
  await proxy?.stop();
  await stack?.stop();
});

/** The maker behind the proxy, and a request to quote. */
async function proxiedMaker({ requester, maker, asset }: Market) {
  const key = await maker.session.auth.createApiKey({ label: "p", scopes: ["read", "trade"] });
  const credential = { apiKeyId: key.api_key_id, secret: key.secret };
  const client = new Client({ baseUrl: proxy.baseUrl, credential });
  const { request_id } = await requester.client.rfq.request({
    ...asset,
    amount: AMOUNT,
    side: "Bid",
  });
  const prices = async () =>
    (await maker.client.rfq.myQuotes().all()).map(({ price }) => price).toSorted((a, b) => a - b);
  return { client, request_id, prices };
}

/** Cuts the connection, sends a quote, and heals the connection after the quote's deadline. */
async function quoteWhileCut(send: () => Promise<unknown>): Promise<unknown> {
  proxy.cut();
  const result = send().catch((error: unknown) => error);
  await sleep(CUT_MS);
  proxy.heal();
  await sleep(SETTLE_MS);
  return result;
}

it("a quote by REST that arrives late is not placed", async () => {
  const { client, request_id, prices } = await proxiedMaker(await openMarket(stack, 2n * AMOUNT));
  await client.rfq.quote({ request_id, price: IN_TIME }, SLOW_MACHINE);
  const result = await quoteWhileCut(() => client.rfq.quote({ request_id, price: LATE }));
  expect(result).toMatchObject({ code: "deadline_passed", status: 409 });
  expect(await prices()).toEqual([IN_TIME]);
});

it("a quote over a socket that arrives late is not placed", async () => {
  const { client, request_id, prices } = await proxiedMaker(await openMarket(stack, 2n * AMOUNT));
  const stream = client.accountStream();
  try {
    await stream.ready();
    await stream.quote({ request_id, price: IN_TIME }, SLOW_MACHINE);
    const result = await quoteWhileCut(() => stream.quote({ request_id, price: LATE }));
    expect(result).toMatchObject({ code: "deadline_passed", status: 409 });
    expect(await prices()).toEqual([IN_TIME]);
  } finally {
    stream.close();
  }
});

it("a quote without a deadline appears when the connection heals", async () => {
  const { client, request_id, prices } = await proxiedMaker(await openMarket(stack, 2n * AMOUNT));
  const options = { maxAgeMs: Infinity };
  await client.rfq.quote({ request_id, price: IN_TIME }, options);
  await quoteWhileCut(() => client.rfq.quote({ request_id, price: LATE }, options));
  expect(await prices()).toEqual([IN_TIME, LATE]);
});
