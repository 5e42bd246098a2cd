import { describe, expect, it } from "vitest";
import { bookStream } from "../../src/streams/event-log.ts";
import { apiOf } from "../support/http.ts";
import { newAsset } from "../support/ledger.ts";
import { inWaves } from "../support/market.ts";
import { awakeAndEvicted } from "../support/sockets.ts";
import { newUser } from "../support/users.ts";

/** A requester and a maker with funds, who call the routes. */
async function newTraders() {
  const { key, ...asset } = newAsset();
  const requester = await newUser({ usdc: 1_000_000n });
  const maker = await newUser({ [key]: 1_000_000n });
  return {
    requester: apiOf(requester),
    maker: apiOf(maker),
    requesterId: requester.userId,
    asset,
    stream: bookStream(key),
  };
}

awakeAndEvicted("the RFQ routes", (maybeEvict) => {
  it("carry a trade from request to match", async () => {
    const { requester, maker, requesterId, asset, stream } = await newTraders();
    const request = await requester.post("/rfq/request", {
      ...asset,
      amount: "0x64",
      side: "Bid",
    });
    expect(request).toMatchObject({
      status: 201,
      json: {
        ...asset,
        amount: "0x64",
        status: "open",
        best_price: null,
        quote_count: 0,
        user_id: requesterId,
      },
    });
    const quote = await maker.post("/rfq/quote", {
      request_id: request.json["request_id"],
      price: 650_000,
    });
    expect(quote).toMatchObject({
      status: 201,
      json: { price: 650_000, usdc_amount: "0x41", fee: "0x0", status: "open" },
    });
    expect(JSON.stringify(quote.json)).not.toContain(requesterId);

    const open = await requester.get(`/rfq/get-requests`);
    expect(open.json["items"]).toMatchObject([{ best_price: 650_000, quote_count: 1 }]);
    const seen = await maker.get(
      `/rfq/request?venue_id=${asset.venue_id}&asset_id=${asset.asset_id}`,
    );
    expect(seen.json["items"]).toMatchObject([{ user_id: null }]);
    expect(seen.json["items"][0]).not.toHaveProperty("best_price");
    expect(
      (await maker.get(`/rfq/quote?request_id=${request.json["request_id"]}`)).json["code"],
    ).toBe("not_request_owner");
    expect(
      (await requester.get(`/rfq/quote?request_id=${request.json["request_id"]}`)).json["items"],
    ).toHaveLength(1);

    await maybeEvict(stream);
    const match = await requester.post("/rfq/accept", { quote_id: quote.json["quote_id"] });
    expect(match).toMatchObject({
      status: 200,
      json: { role: "requester", status: "settled", usdc_amount: "0x41" },
    });
    expect((await maker.get("/rfq/get-matches")).json["items"]).toMatchObject([
      { match_id: match.json["match_id"], role: "maker" },
    ]);
    expect((await maker.get("/rfq/get-quotes?status=accepted")).json["items"]).toHaveLength(1);
    await maybeEvict(stream);
    const late = await requester.delete(`/rfq/request?request_id=${request.json["request_id"]}`);
    expect(late).toMatchObject({
      status: 409,
      json: { code: "request_not_open", match_id: match.json["match_id"] },
    });
  });

  it("replay an idempotency key for equal terms and reject it for others", async () => {
    const { requester, asset, stream } = await newTraders();
    const key = { "idempotency-key": crypto.randomUUID() };
    const first = await requester.post(
      "/rfq/request",
      { ...asset, amount: "1000", side: "Ask" },
      key,
    );
    await maybeEvict(stream);
    const again = await requester.post(
      "/rfq/request",
      { side: "Ask", amount: "0x3e8", expires_in_secs: 300, ...asset },
      key,
    );
    expect(again.json).toEqual(first.json);
    expect([
      first.headers.get("idempotency-replayed"),
      again.headers.get("idempotency-replayed"),
    ]).toEqual([null, "true"]);
    const other = await requester.post(
      "/rfq/request",
      { ...asset, amount: "1001", side: "Ask" },
      key,
    );
    expect(other).toMatchObject({ status: 422, json: { code: "idempotency_key_reused" } });
    expect((await requester.get("/rfq/get-requests")).json["items"]).toHaveLength(1);
  });

  it("replay a command with its record as it is now", async () => {
    const { requester, maker, asset, stream } = await newTraders();
    const replayOf = async (send: () => ReturnType<typeof maker.post>) => {
      await maybeEvict(stream);
      const { headers, json } = await send();
      expect(headers.get("idempotency-replayed")).toBe("true");
      return json;
    };
    const ask = () =>
      requester.post("/rfq/request", { ...asset, amount: "1", side: "Bid", idempotency_key: "r" });
    const { request_id } = (await ask()).json;
    const quote = (idempotency_key: string) =>
      maker.post("/rfq/quote", { request_id, price: 650_000, idempotency_key });
    const { quote_id } = (await quote("cancelled")).json;
    expect(await replayOf(ask)).toMatchObject({ quote_count: 1, best_price: 650_000 });
    const cancel = () => maker.delete(`/rfq/quote?quote_id=${quote_id}`);
    expect((await cancel()).headers.get("idempotency-replayed")).toBeNull();
    await replayOf(cancel);
    const end = { status: "cancelled", close_reason: "cancelled" };
    expect(await replayOf(() => quote("cancelled"))).toMatchObject(end);
    const again = { request_id, price: 650_000, idempotency_key: "cancelled" };
    const { results } = (await maker.post("/rfq/quotes", { quotes: [again] })).json;
    expect(results).toMatchObject([{ replayed: true, quote: { quote_id, ...end } }]);

    const taken = (await quote("taken")).json["quote_id"];
    const accept = () => requester.post("/rfq/accept", { quote_id: taken });
    const match = await accept();
    expect(match.headers.get("idempotency-replayed")).toBeNull();
    expect(await replayOf(accept)).toEqual(match.json);
    expect(await replayOf(() => quote("taken"))).toMatchObject({ status: "accepted" });
    expect(await replayOf(ask)).toMatchObject({ status: "matched", quote_count: 0 });
  });

  it("list quotes best first, in pages without gaps, by status", async () => {
    const { requester, maker, asset, stream } = await newTraders();
    const request = await requester.post("/rfq/request", {
      ...asset,
      amount: 10,
      side: "Bid",
    });
    const id = request.json["request_id"];
    for (const price of [700_000, 500_000, 600_000, 500_000])
      await maker.post("/rfq/quote", { request_id: id, price });
    await maybeEvict(stream);
    const quotes = await requester.list(`/rfq/quote?request_id=${id}&status=open&limit=3`);
    expect(quotes.map((quote) => quote["price"])).toEqual([500_000, 500_000, 600_000, 700_000]);
    expect(
      (await requester.get(`/rfq/quote?request_id=${id}&status=cancelled`)).json["items"],
    ).toEqual([]);
    expect((await requester.get(`/rfq/quote?request_id=${id}&limit=0`)).json).toEqual({
      items: [],
      next_cursor: null,
    });
  });

  it("list quotes of all statuses in one order, in pages", async () => {
    const { requester, maker, asset, stream } = await newTraders();
    const bid = { ...asset, amount: 10, side: "Bid" };
    const [first, second] = [
      await requester.post("/rfq/request", bid),
      await requester.post("/rfq/request", bid),
    ];
    const ids: string[] = [];
    const quote = async ({ json }: { json: Record<string, any> }, price: number) => {
      const placed = await maker.post("/rfq/quote", { request_id: json["request_id"], price });
      ids.push(placed.json["quote_id"]);
    };
    for (const price of [7, 3, 5, 1, 6, 2, 4]) await quote(first, price);
    for (const id of ids.slice(0, 3)) await maker.delete(`/rfq/quote?quote_id=${id}`);
    await requester.post("/rfq/accept", { quote_id: ids[3] });
    await quote(second, 8);
    await maybeEvict(stream);

    const onRequest = await requester.list(
      `/rfq/quote?request_id=${first.json["request_id"]}&limit=2`,
    );
    expect(onRequest.map(({ price, status }) => [price, status])).toEqual([
      [1, "accepted"],
      [2, "rejected"],
      [3, "cancelled"],
      [4, "rejected"],
      [5, "cancelled"],
      [6, "rejected"],
      [7, "cancelled"],
    ]);
    const own = await maker.list("/rfq/get-quotes?limit=2");
    expect(own.map((one) => one["quote_id"])).toEqual(ids.toReversed());
  });

  it("keep concurrent requests within the limit per user", async () => {
    const { requester, asset, stream } = await newTraders();
    const responses = await inWaves(205, () =>
      requester.post("/rfq/request", { ...asset, amount: 1, side: "Bid" }),
    );
    await maybeEvict(stream);
    const late = await requester.post("/rfq/request", { ...asset, amount: 1, side: "Bid" });
    expect([late.status, late.json["code"]]).toEqual([409, "open_request_limit"]);
    const counts = Map.groupBy(responses, ({ status }) => status);
    expect([counts.get(201)?.length, counts.get(409)?.length]).toEqual([200, 5]);
    expect(counts.get(409)?.[0]?.json["code"]).toBe("open_request_limit");
  });
});

describe("invalid calls of the RFQ routes", () => {
  it("report every field error of a body at once", async () => {
    const { requester } = await newTraders();
    const bad = await requester.post("/rfq/request", {
      venue_id: "venue_nine",
      asset_id: "xyz",
      amount: 0,
      side: "Buy",
      extra: 1,
    });
    expect(bad.status).toBe(400);
    expect(bad.json["errors"].map((error: { path: string }) => error.path).toSorted()).toEqual([
      "body.amount",
      "body.asset_id",
      "body.extra",
      "body.side",
      "body.venue_id",
    ]);
  });

  it("require venue_id beside asset_id", async () => {
    const { requester } = await newTraders();
    for (const [response, place] of [
      [await requester.get("/rfq/request?asset_id=0x1"), "query"],
      [await requester.delete("/rfq/quotes?asset_id=0x1"), "query"],
      [await requester.delete("/rfq/quotes", { asset_id: "0x1" }), "body"],
    ] as const) {
      const errors = [{ path: `${place}.venue_id`, message: "is required with asset_id" }];
      expect(response).toMatchObject({ status: 400, json: { errors } });
    }
    expect(await requester.delete("/rfq/quotes")).toMatchObject({
      status: 200,
      json: { cancelled: 0 },
    });
  });
});
