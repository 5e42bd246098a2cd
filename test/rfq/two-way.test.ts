/** Two-way requests, and requests whose size is in USDC. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { reconcile } from "../../src/reconcile/reconcile.ts";
import type { AssetKey } from "../../src/assets/asset.ts";
import { sql, uuid } from "../../src/platform/sql.ts";
import { accountStream } from "../../src/streams/event-log.ts";
import { apiOf, settings } from "../support/http.ts";
import { balances, tamper } from "../support/ledger.ts";
import { openMarket } from "../support/market.ts";
import type { TestUser } from "../support/users.ts";
import { awakeAndEvicted, connect, storedEvents } from "../support/sockets.ts";

const BOTH = { usdc: 1_000_000n, token: 1_000_000n };
type Json = Record<string, any>;

/** A request opened over HTTP, with its requester's and a maker's API. */
async function asked(terms: Json) {
  const market = await openMarket({ requester: BOTH, maker: BOTH });
  const [venue_id, asset_id] = market.book.split(":");
  const requester = apiOf(market.requester);
  const maker = apiOf(market.maker);
  const request = await requester.post("/rfq/request", { venue_id, asset_id, ...terms });
  const { request_id } = request.json;
  const quote = (fields: Json) => maker.post("/rfq/quote", { request_id, ...fields });
  const list = (query = "") => requester.list(`/rfq/quote?request_id=${request_id}${query}`);
  return { ...market, api: { requester, maker }, request, request_id, quote, list };
}

/** Available and pending USDC, then available and pending tokens. */
const held = ({ userId }: TestUser, book: AssetKey) =>
  Promise.all([balances(userId, "usdc"), balances(userId, book)]);

awakeAndEvicted("a two-way request", (maybeEvict) => {
  it("takes quotes of both sides and trades the side of the accepted one", async () => {
    const { stream, book, requester, maker, api, request, request_id, quote, list } = await asked({
      amount: 100,
      side: "TwoWay",
    });
    expect(request.json).toMatchObject({
      side: "TwoWay",
      best_price: null,
      best_prices: { Bid: null, Ask: null },
    });
    await maybeEvict(stream);
    const bid = await quote({ price: 600_000, side: "Bid" });
    const ask = await quote({ price: 400_000, side: "Ask" });
    const low = await quote({ price: 300_000, side: "Ask" });
    expect([bid.json["reserve"]["amount"], ask.json["reserve"]["amount"]]).toEqual([
      "0x64",
      "0x28",
    ]);
    const mine = (await api.requester.get(`/rfq/get-request?request_id=${request_id}`)).json;
    expect(mine).toMatchObject({
      best_price: null,
      best_prices: { Bid: 600_000, Ask: 400_000 },
      quote_count: 3,
    });
    const seen = (await api.maker.get(`/rfq/get-request?request_id=${request_id}`)).json;
    expect(seen).toMatchObject({ side: "TwoWay" });
    expect(seen).not.toHaveProperty("best_prices");

    const pricesOf = (quotes: Json[]) => quotes.map(({ side, price }) => `${side} ${price}`);
    const ordered = ["Bid 600000", "Ask 400000", "Ask 300000"];
    expect(pricesOf(await list())).toEqual(ordered);
    expect(pricesOf(await list("&limit=1"))).toEqual(ordered);
    expect(pricesOf(await list("&limit=1&status=open"))).toEqual(ordered);
    expect(pricesOf(await list("&side=Ask&limit=1"))).toEqual(ordered.slice(1));
    expect(pricesOf(await list("&side=Bid"))).toEqual(ordered.slice(0, 1));

    await maybeEvict(stream);
    const match = await api.requester.post("/rfq/accept", { quote_id: ask.json["quote_id"] });
    expect(match.json).toMatchObject({ side: "Ask", amount: "0x64", usdc_amount: "0x28" });
    expect(await held(requester, book)).toEqual([
      [1_000_040n, 0n],
      [999_900n, 0n],
    ]);
    expect(await held(maker, book)).toEqual([
      [999_960n, 0n],
      [1_000_100n, 0n],
    ]);
    const closed = (await storedEvents(accountStream(maker.userId)))
      .filter(({ type }) => type === "quote.closed")
      .map(({ data }) => [data.quote_id, data.reason, data.winning_price]);
    expect(new Set(closed)).toEqual(
      new Set([
        [ask.json["quote_id"], "accepted", null],
        [low.json["quote_id"], "rejected", 400_000],
        [bid.json["quote_id"], "rejected", null],
      ]),
    );
  });

  it("needs the side of a quote", async () => {
    const { stream, quote } = await asked({ amount: 100, side: "TwoWay" });
    await maybeEvict(stream);
    const refused = await quote({ price: 500_000 });
    expect([refused.status, refused.json["code"]]).toEqual([409, "side_mismatch"]);
  });
});

describe("a request of one side", () => {
  it("takes a quote that names its side and rejects the other one", async () => {
    const { stream, maker, quote, request_id } = await asked({ amount: 100, side: "Ask" });
    expect((await quote({ price: 500_000, side: "Ask" })).status).toBe(201);
    expect((await quote({ price: 500_000, side: "Bid" })).json["code"]).toBe("side_mismatch");
    const subscriber = await connect(maker, stream);
    subscriber.send({ id: "1", op: "quote", request_id, price: 500_000, side: "Bid" });
    expect((await subscriber.until("error")).data.code).toBe("side_mismatch");
    expect((await quote({ price: 500_000, side: "TwoWay" })).json["code"]).toBe("invalid_request");
  });

  it("reports the side before funds, and after the state of the request", async () => {
    const { api, request_id, quote } = await asked({ amount: 10 ** 9, side: "Bid" });
    expect((await quote({ price: 500_000, side: "Ask" })).json["code"]).toBe("side_mismatch");
    await api.requester.delete(`/rfq/request?request_id=${request_id}`);
    expect((await quote({ price: 500_000, side: "Ask" })).json["code"]).toBe("request_not_open");
  });
});

awakeAndEvicted("a request in USDC", (maybeEvict) => {
  it("trades what its money buys at the price of the quote", async () => {
    for (const side of ["Bid", "Ask", "TwoWay"] as const) {
      const { stream, api, request, request_id, quote } = await asked({
        usdc_amount: "1000",
        side,
      });
      expect(request.json).toMatchObject({ usdc_amount: "0x3e8" });
      expect(request.json).not.toHaveProperty("amount");
      await maybeEvict(stream);
      const named = side === "TwoWay" ? { side: "Ask" } : {};
      // 1 000 / 0.3 is 3 333.33, and 3 333 × 0.3 is 999.9.
      const placed = await quote({ price: 300_000, ...named });
      expect(placed.json).toMatchObject({ amount: "0xd05", usdc_amount: "0x3e8" });
      await maybeEvict(stream);
      const match = await api.requester.post("/rfq/accept", { quote_id: placed.json["quote_id"] });
      expect(match.json).toMatchObject({ amount: "0xd05", usdc_amount: "0x3e8" });
      const ended = await api.requester.get(`/rfq/get-request?request_id=${request_id}`);
      expect(ended.json).toMatchObject({ status: "matched", usdc_amount: "0x3e8" });
    }
  });
});

describe("the size of a request", () => {
  it("is either an amount or USDC up to 2^62", async () => {
    const { api, book } = await asked({ amount: 1, side: "Bid" });
    const [venue_id, asset_id] = book.split(":");
    const ask = (size: Json) =>
      api.requester.post("/rfq/request", { venue_id, asset_id, side: "Bid", ...size });
    for (const size of [
      {},
      { amount: 1, usdc_amount: 1 },
      { usdc_amount: 0 },
      { usdc_amount: (2n ** 62n + 1n).toString() },
    ])
      expect((await ask(size)).json).toMatchObject({ code: "invalid_request" });
    expect((await ask({ usdc_amount: (2n ** 62n).toString() })).json).toMatchObject({
      usdc_amount: "0x4000000000000000",
    });
  });

  it("includes the fee, if the requester says so", async () => {
    const market = await openMarket({
      venue: "venue_two",
      requester: { usdc: 1_000n },
      maker: BOTH,
    });
    const [venue_id, asset_id] = market.book.split(":");
    const [requester, maker] = [apiOf(market.requester), apiOf(market.maker)];
    const ask = (fields: Json) => requester.post("/rfq/request", { venue_id, asset_id, ...fields });
    const trade = async (fields: Json) => {
      const { json } = await ask({ usdc_amount: 1_000, side: "Bid", ...fields });
      const { request_id } = json;
      await maker.post("/rfq/quote", { request_id, price: 500_000 });
      return requester.post("/rfq/accept", { request_id, price: 500_000 });
    };
    expect((await trade({})).json).toMatchObject({ code: "insufficient_funds" });
    // 991 USDC units and 1 % of them, rounded down, are 1 000.
    const { json } = await trade({ fees_included: true });
    expect(json).toMatchObject({ usdc_amount: "0x3df", fee: "0x9" });
    expect(await balances(market.requester.userId, "usdc")).toEqual([0n, 0n]);
    const selling = await ask({ usdc_amount: 1_000, side: "Ask", fees_included: true });
    expect(selling.json).toMatchObject({ usdc_amount: "0x3e8" });
    const wrong = await ask({ amount: 1_000, side: "Bid", fees_included: true });
    expect(wrong.json).toMatchObject({ code: "invalid_request" });
  });

  it("is a term of the idempotency key", async () => {
    const { api, book } = await asked({ amount: 1, side: "Bid" });
    const [venue_id, asset_id] = book.split(":");
    const key = { "idempotency-key": crypto.randomUUID() };
    const ask = (size: Json) =>
      api.requester.post("/rfq/request", { venue_id, asset_id, side: "Bid", ...size }, key);
    const first = await ask({ usdc_amount: 1_000 });
    expect((await ask({ usdc_amount: "0x3e8" })).json).toEqual(first.json);
    expect((await ask({ amount: 1_000 })).json["code"]).toBe("idempotency_key_reused");
  });

  it("is reconciled with the amount of the match", async () => {
    const { api, quote } = await asked({ usdc_amount: 1_000, side: "Bid" });
    const placed = await quote({ price: 300_000 });
    const match = await api.requester.post("/rfq/accept", { quote_id: placed.json["quote_id"] });
    const { match_id } = match.json;
    const found = async () => {
      const { differences } = await reconcile(env.DB, {
        macKeys: settings(),
        chains: [],
        full: true,
      });
      return differences.filter(
        ({ check, detail }) =>
          check === "terms_mismatch" && detail.includes(match_id.replaceAll("-", "")),
      );
    };
    expect(await found()).toEqual([]);
    await tamper(
      "requests_closed",
      sql`UPDATE requests SET usdc_amount = 1001 WHERE ended_by = ${uuid(match_id)}`,
    );
    expect(await found()).toMatchObject([{ detail: expect.stringContaining("for 1001 USDC") }]);
  }, 30_000);
});
