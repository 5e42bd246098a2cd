/** Operator commands that show users, trades and what the service owes. They change nothing. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { first, sql } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { apiOf } from "../support/http.ts";
import { fund, newAddress } from "../support/ledger.ts";
import { command, openMarket, openRequest, placeQuote, submit } from "../support/market.ts";
import { orderOf, sendOrder } from "../support/operator.ts";
import { newPair } from "../support/pairs.ts";
import { newKey, newUser } from "../support/users.ts";

async function execute(line: string, options: Record<string, string> = {}) {
  const response = await sendOrder(orderOf(line.split(" "), options));
  return response as { ok: boolean; result: any; problem: { code: string; detail: string } };
}

async function resultOf(line: string, options: Record<string, string> = {}): Promise<any> {
  const response = await execute(line, options);
  expect(response).toMatchObject({ ok: true });
  return response.result;
}

/** A market of venue_two, which has fees, with one trade, one open and one cancelled request. */
async function traded() {
  const market = await openMarket({ venue: "venue_two", amount: 1_000_000n, ...FUNDS });
  const { book, requester, maker, request } = market;
  const quote = await placeQuote(maker, request.request_id, 500_000);
  const match = await apiOf(requester).post("/rfq/accept", { quote_id: quote.quote_id });
  const open = await openRequest(requester, book, { amount: 7n });
  const offered = await placeQuote(maker, open.request_id, 400_000);
  const cancelled = await openRequest(requester, book, { amount: 8n });
  await submit(command.cancelRequest(requester, cancelled.request_id));
  return { ...market, quote, match: match.json, open, offered, cancelled };
}
const FUNDS = { requester: { usdc: 10_000_000n }, maker: { token: 10_000_000n } };

it("`user list` shows the newest users first, and `user show` one of them", async () => {
  const older = await newUser();
  const { requester, maker, open, offered } = await traded();
  const ids = (await resultOf("user list", { limit: "500" })).map(
    ({ user_id }: { user_id: string }) => user_id,
  );
  expect(ids.indexOf(maker.userId)).toBeLessThan(ids.indexOf(older.userId));
  await newKey(maker);
  await fund(maker.userId, "usdc", 9n);
  const withdrawn = await apiOf(await newKey(maker)).post("/custody/withdraw", {
    client_withdrawal_id: uuidv7(),
    amount: "4",
    to_address: newAddress(),
  });
  const shown = await resultOf("user show", { email: maker.email });
  expect(shown).toMatchObject({
    user_id: maker.userId,
    email: maker.email,
    frozen_by: null,
    open_quotes: [{ quote_id: offered.quote_id }],
    open_requests: [],
    unfinished_withdrawals: [{ withdrawal_id: withdrawn.json["withdrawal_id"] }],
    more: [],
  });
  expect(shown.api_keys).toHaveLength(2);
  expect(JSON.stringify(shown)).not.toContain("secret");
  expect(shown.balances.map(({ asset_id }: { asset_id: string | null }) => asset_id)).toEqual([
    null,
    offered.asset_id,
  ]);
  const byId = await resultOf("user show", { "user-id": requester.userId });
  expect(byId.open_requests).toMatchObject([{ request_id: open.request_id, quote_count: 1 }]);
});

it("lists requests, quotes and matches of all users or of one, by status", async () => {
  const { requester, maker, request, quote, match, open, offered, cancelled } = await traded();
  const ids = async (line: string, name: string, options: Record<string, string>) =>
    (await resultOf(line, options)).map((record: Record<string, unknown>) => record[name]);
  const asks = { email: requester.email };
  expect(await ids("requests list", "request_id", asks)).toEqual([
    cancelled.request_id,
    open.request_id,
    request.request_id,
  ]);
  expect(await ids("requests list", "request_id", { ...asks, status: "open" })).toEqual([
    open.request_id,
  ]);
  const bids = { "user-id": maker.userId };
  expect(await ids("quotes list", "quote_id", bids)).toEqual([offered.quote_id, quote.quote_id]);
  expect(await ids("quotes list", "quote_id", { ...bids, status: "accepted" })).toEqual([
    quote.quote_id,
  ]);
  for (const of of [asks, bids])
    expect(await resultOf("matches list", of)).toMatchObject([
      {
        match_id: match["match_id"],
        requester_id: requester.userId,
        maker_id: maker.userId,
        taker_fee: match["fee"],
      },
    ]);
  const [newest] = await resultOf("requests list", { limit: "1" });
  expect(newest).toMatchObject({ user_id: expect.any(String) as string });
  for (const line of ["requests list", "quotes list"])
    expect((await execute(line, { status: "lost" })).problem.detail).toContain("--status");
  expect((await execute("matches list", { email: "nobody@test.example" })).problem.code).toBe(
    "user_unknown",
  );
});

it("`liabilities` follows the sum of all users' balances", async () => {
  const owed = async () => {
    const [usdc] = await resultOf("liabilities", { limit: "1" });
    expect(usdc).toMatchObject({ venue_id: null, asset_id: null });
    return BigInt(usdc.owed_to_users);
  };
  const held = async () => {
    const row = await first<{ n: string }>(
      env.DB,
      sql`SELECT CAST(sum(balance) AS TEXT) AS n FROM accounts
        WHERE asset = 'usdc' AND kind IN ('available', 'pending')`,
    );
    return BigInt(row?.n ?? "-1");
  };
  // The change, because other tests leave balances without their deposits.
  const before = [await owed(), await held()] as const;
  await traded();
  expect((await owed()) - before[0]).toBe((await held()) - before[1]);
  expect(await held()).toBeGreaterThan(before[1]);
  // A split moves USDC to the pair, for which the pair owes the tokens.
  const pairs = async () => BigInt((await resultOf("liabilities", { limit: "1" }))[0].pairs);
  const apart = [await owed(), await pairs()] as const;
  const { yes } = await newPair();
  const { venue_id, asset_id } = yes;
  const splitter = await newUser({ usdc: 50n });
  await apiOf(splitter).post("/custody/split", { venue_id, asset_id, amount: "20" });
  expect([await owed(), await pairs()]).toEqual([apart[0] + 30n, apart[1] + 20n]);
});

it("`fees` sums trades by venue in the last days", async () => {
  const of = async () =>
    (await resultOf("fees")).venues.find(
      ({ venue_id }: { venue_id: string }) => venue_id === "venue_two",
    );
  await traded();
  const before = await of();
  const { held } = await resultOf("fees", { days: "31" });
  await traded();
  const after = await of();
  expect(after.trades - before.trades).toBe(1);
  expect(BigInt(after.usdc_amount) - BigInt(before.usdc_amount)).toBe(500_000n);
  // 1 % of the requester and 0.5 % of the maker.
  expect(BigInt(after.taker_fee) - BigInt(before.taker_fee)).toBe(5_000n);
  expect(BigInt(after.maker_fee) - BigInt(before.maker_fee)).toBe(2_500n);
  expect(BigInt((await resultOf("fees")).held) - BigInt(held)).toBe(7_500n);
  for (const days of ["0", "32", "x"])
    expect((await execute("fees", { days })).problem.detail).toContain("--days");
});
