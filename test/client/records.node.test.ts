/** Methods accept whole records and send only the fields that their route knows. */
import { afterEach, describe, expect, it } from "vitest";
import {
  type ApiKey,
  Client,
  type DepositAddress,
  type Match,
  type Quote,
  type QuoteRequest,
  type Withdrawal,
  WrongTerms,
} from "../../packages/client/src/index.ts";
import { type FakeService, startFakeService } from "../support/node/fake-service.ts";

const at = "2026-11-20T10:00:00.000Z";
const market = { venue_id: "venue_one", asset_id: "0xab" } as const;
const quote: Quote = {
  ...market,
  quote_id: "q",
  request_id: "r",
  amount: 5n,
  side: "Bid",
  price: 650_000,
  usdc_amount: 4n,
  fee: 0n,
  reserve: { ...market, amount: 5n },
  label: null,
  status: "open",
  close_reason: null,
  replaced_by: null,
  created_at: at,
  expires_at: at,
};
const request: QuoteRequest = {
  ...market,
  request_id: "r",
  user_id: null,
  amount: 5n,
  side: "Bid",
  status: "open",
  disclose_identity: false,
  label: null,
  created_at: at,
  expires_at: at,
  best_price: null,
  quote_count: 0,
};
const match: Match = {
  ...market,
  match_id: "m",
  request_id: "r",
  quote_id: "q",
  complement_asset_id: null,
  side: "Bid",
  amount: 5n,
  price: 650_000,
  usdc_amount: 4n,
  fee: 0n,
  role: "maker",
  label: null,
  status: "settled",
  created_at: at,
};
const withdrawal: Withdrawal & { chain: string } = {
  withdrawal_id: "w",
  job_id: "j",
  client_withdrawal_id: "mine",
  chain: "local",
  venue_id: null,
  asset_id: null,
  amount: 5n,
  to_address: "0x1",
  status: "queued",
  approval_expires_at: null,
  transaction_hash: null,
  failure: null,
  created_at: at,
  updated_at: at,
};
const apiKey: ApiKey = {
  api_key_id: "k",
  label: "bot",
  scopes: ["read"],
  created_at: at,
  expires_at: null,
  allowed_ips: null,
  last_used_at: null,
  revoked_at: null,
  minted_by: "session",
  limits: null,
  require_idempotency: false,
  only_listed: false,
  addresses: null,
  active_from: at,
  approved_at: null,
};
const address: DepositAddress = {
  address: "0x1",
  chain: "local",
  created_at: at,
  current: true,
  nonce: 0,
};
const running: FakeService[] = [];
afterEach(async () => {
  for (const service of running.splice(0)) await service.stop();
});

const parse = (body: Buffer): object => (body.length === 0 ? {} : JSON.parse(body.toString()));

/** Names of the query parameters and body fields that a call sends, without the idempotency key. */
async function fieldsOf(call: (client: Client) => Promise<unknown>): Promise<string[]> {
  const service = await startFakeService(({ body }) => ({
    body: { items: [], next_cursor: null, addresses: [], ...parse(body) },
  }));
  running.push(service);
  await call(new Client({ baseUrl: service.baseUrl, credential: { accessToken: "t" } }));
  const sent = service.received.at(-1) ?? expect.fail("nothing was sent");
  const body = parse(sent.body);
  const names = [
    ...new URL(sent.target, service.baseUrl).searchParams.keys(),
    ...Object.keys(body),
  ];
  return names.filter((name) => name !== "idempotency_key").toSorted();
}

const CALLS: [name: string, call: (client: Client) => Promise<unknown>, fields: string[]][] = [
  ["rfq.accept", ({ rfq }) => rfq.accept(quote), ["quote_id"]],
  ["rfq.accept of a match", ({ rfq }) => rfq.accept(match), ["quote_id"]],
  [
    "rfq.cancelQuotes",
    ({ rfq }) => rfq.cancelQuotes(request),
    ["asset_id", "request_id", "venue_id"],
  ],
  [
    "rfq.request",
    ({ rfq }) => rfq.request(request),
    ["amount", "asset_id", "disclose_identity", "side", "venue_id"],
  ],
  ["rfq.quote", ({ rfq }) => rfq.quote(quote), ["not_after", "price", "request_id", "side"]],
  ["rfq.openRequests", ({ rfq }) => rfq.openRequests(request).page(), ["asset_id", "venue_id"]],
  ["custody.balance", ({ custody }) => custody.balance(quote), ["asset_id", "venue_id"]],
  [
    "custody.createDepositAddress",
    ({ custody }) => custody.createDepositAddress(address),
    ["chain"],
  ],
  ["custody.withdrawal", ({ custody }) => custody.withdrawal(withdrawal), ["withdrawal_id"]],
  [
    "custody.withdraw",
    ({ custody }) => custody.withdraw({ ...withdrawal, venue_id: "venue_one", asset_id: "0xab" }),
    ["amount", "asset_id", "chain", "client_withdrawal_id", "to_address", "venue_id"],
  ],
  ["auth.revokeApiKey", ({ auth }) => auth.revokeApiKey(apiKey), ["api_key_id"]],
  [
    "auth.createApiKey",
    ({ auth }) =>
      auth.createApiKey({ ...apiKey, expires_at: at, allowed_ips: ["::1"], limits: {} }),
    [
      "allowed_ips",
      "expires_at",
      "label",
      "limits",
      "only_listed",
      "require_idempotency",
      "scopes",
    ],
  ],
];

describe("a withdrawal", () => {
  const asked = {
    client_withdrawal_id: "mine",
    amount: 5n,
    venue_id: "venue_one",
    asset_id: "0x0AB",
    to_address: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
  };
  const answered = {
    ...withdrawal,
    ...market,
    amount: "0x5",
    to_address: asked.to_address.toLowerCase(),
  };
  const withdraw = async (answer: object, terms: typeof asked = asked) => {
    const service = await startFakeService(() => ({ status: 202, body: answer }));
    running.push(service);
    const { custody } = new Client({ baseUrl: service.baseUrl, credential: { accessToken: "t" } });
    return custody.withdraw(terms);
  };

  it.each([5n, "5", 5])("is returned if its terms are those that were sent: %s", async (amount) => {
    const terms = Object.assign({ ...asked }, { amount });
    expect(await withdraw(answered, terms)).toMatchObject({ withdrawal_id: "w", amount: 5n });
  });

  it.each([
    { to_address: "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC" },
    { amount: "0x6" },
    { asset_id: "0xac" },
    { venue_id: "venue_two" },
    { venue_id: null, asset_id: null },
    { client_withdrawal_id: "other" },
  ])("on the terms %j is an error that names it", async (altered) => {
    const error = await withdraw({ ...answered, ...altered }).catch((thrown: unknown) => thrown);
    if (!(error instanceof WrongTerms)) return expect.fail(String(error));
    expect(error.message).toMatch(new RegExp(`${Object.keys(altered)[0]} .* withdrawal w\\.`));
    expect(error.withdrawal.withdrawal_id).toBe("w");
  });
});

describe("with a whole record", () => {
  it.each(CALLS)("%s sends only its own fields", async (_name, call, fields) => {
    expect(await fieldsOf(call)).toEqual(fields);
  });

  it("bookStream uses only the book and the stream settings", async () => {
    const urls: string[] = [];
    class Socket {
      constructor(url: string) {
        urls.push(url);
      }
      send() {}
      close() {}
      addEventListener() {}
    }
    const service = await startFakeService(() => ({ status: 201, body: { ticket: "t" } }));
    running.push(service);
    const client = new Client({
      baseUrl: service.baseUrl,
      credential: { accessToken: "t" },
      webSocket: Socket,
    });
    // Fields of a record must not replace the options that the client sets itself.
    const stray = {
      ...request,
      since: 7,
      url: "ws://elsewhere.test",
      query: {},
      ticket: () => Promise.reject(new Error("stray")),
    };
    const stream = client.bookStream(stray);
    void stream.ready().catch(() => {});
    await expect.poll(() => urls).toHaveLength(1);
    stream.close();
    expect(urls[0]).toBe(
      `${service.baseUrl.replace("http", "ws")}/rfq/stream?venue_id=venue_one&asset_id=0xab&since=7&ticket=t`,
    );
  });
});
