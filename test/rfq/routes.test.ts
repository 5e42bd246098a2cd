import { describe, expect, it } from "vitest";
import { fund, freshToken } from "../support/ledger.ts";
import { bearer, send } from "../support/edge.ts";
import { newUser, type TestUser } from "../support/users.ts";

async function call(
  user: TestUser,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
) {
  const response = await send(path, {
    method,
    headers: {
      ...bearer(user.token),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return {
    status: response.status,
    headers: response.headers,
    body: (await response.json()) as Record<string, any>,
  };
}

async function market() {
  const token = freshToken();
  const [taker, maker] = [await newUser(), await newUser()];
  await fund(taker.userId, "usdc", 1_000_000n);
  await fund(maker.userId, token.key, 1_000_000n);
  return { taker, maker, asset: { venue_id: token.venue, asset_id: token.assetId } };
}

describe("the RFQ routes", () => {
  it("carry a trade from request to match, in wire form", async () => {
    const { taker, maker, asset } = await market();
    const request = await call(taker, "POST", "/rfq/request", {
      ...asset,
      amount: "0x64",
      side: "Bid",
    });
    expect(request).toMatchObject({
      status: 201,
      body: {
        ...asset,
        amount: "0x64",
        status: "open",
        best_price: null,
        quote_count: 0,
        user_id: taker.userId,
      },
    });
    const quote = await call(maker, "POST", "/rfq/quote", {
      request_id: request.body["request_id"],
      price: 650_000,
    });
    expect(quote).toMatchObject({
      status: 201,
      body: { price: 650_000, usdc_amount: "0x41", fee: "0x0", status: "open" },
    });
    expect(JSON.stringify(quote.body)).not.toContain(taker.userId);

    const open = await call(taker, "GET", `/rfq/get-requests`);
    expect(open.body["items"]).toMatchObject([{ best_price: 650_000, quote_count: 1 }]);
    const seen = await call(
      maker,
      "GET",
      `/rfq/request?venue_id=${asset.venue_id}&asset_id=${asset.asset_id}`,
    );
    expect(seen.body["items"]).toMatchObject([{ user_id: null }]);
    expect(seen.body["items"][0]).not.toHaveProperty("best_price");
    expect(
      (await call(maker, "GET", `/rfq/quote?request_id=${request.body["request_id"]}`)).body[
        "code"
      ],
    ).toBe("not_request_owner");
    expect(
      (await call(taker, "GET", `/rfq/quote?request_id=${request.body["request_id"]}`)).body[
        "items"
      ],
    ).toHaveLength(1);

    const match = await call(taker, "POST", "/rfq/accept", { quote_id: quote.body["quote_id"] });
    expect(match).toMatchObject({
      status: 200,
      body: { role: "requester", status: "settled", usdc_amount: "0x41" },
    });
    expect((await call(maker, "GET", "/rfq/get-matches")).body["items"]).toMatchObject([
      { match_id: match.body["match_id"], role: "maker" },
    ]);
    expect(
      (await call(maker, "GET", "/rfq/get-quotes?status=accepted")).body["items"],
    ).toHaveLength(1);
    const late = await call(
      taker,
      "DELETE",
      `/rfq/request?request_id=${request.body["request_id"]}`,
    );
    expect(late).toMatchObject({
      status: 409,
      body: { code: "request_not_open", match_id: match.body["match_id"] },
    });
  });

  it("answer the same key with the same answer, in any spelling, and refuse it for other terms", async () => {
    const { taker, asset } = await market();
    const key = { "idempotency-key": crypto.randomUUID() };
    const first = await call(
      taker,
      "POST",
      "/rfq/request",
      { ...asset, amount: "1000", side: "Ask" },
      key,
    );
    const again = await call(
      taker,
      "POST",
      "/rfq/request",
      { side: "Ask", amount: "0x3e8", expires_in_secs: 300, ...asset },
      key,
    );
    expect(again.body).toEqual(first.body);
    expect([
      first.headers.get("idempotency-replayed"),
      again.headers.get("idempotency-replayed"),
    ]).toEqual([null, "true"]);
    const other = await call(
      taker,
      "POST",
      "/rfq/request",
      { ...asset, amount: "1001", side: "Ask" },
      key,
    );
    expect(other).toMatchObject({ status: 422, body: { code: "idempotency_key_reused" } });
    expect((await call(taker, "GET", "/rfq/get-requests")).body["items"]).toHaveLength(1);
  });

  it("order quotes best for the requester first, page without gap, and filter by status", async () => {
    const { taker, maker, asset } = await market();
    const request = await call(taker, "POST", "/rfq/request", {
      ...asset,
      amount: 10,
      side: "Bid",
    });
    const id = request.body["request_id"];
    for (const price of [700_000, 500_000, 600_000, 500_000])
      await call(maker, "POST", "/rfq/quote", { request_id: id, price });
    const prices: number[] = [];
    let cursor = "";
    do {
      const page = await call(
        taker,
        "GET",
        `/rfq/quote?request_id=${id}&status=open&limit=3${cursor}`,
      );
      prices.push(...page.body["items"].map((quote: { price: number }) => quote.price));
      cursor = page.body["next_cursor"] === null ? "" : `&last_cursor=${page.body["next_cursor"]}`;
    } while (cursor !== "");
    expect(prices).toEqual([500_000, 500_000, 600_000, 700_000]);
    expect(
      (await call(taker, "GET", `/rfq/quote?request_id=${id}&status=cancelled`)).body["items"],
    ).toEqual([]);
    expect((await call(taker, "GET", `/rfq/quote?request_id=${id}&limit=0`)).body).toEqual({
      items: [],
      next_cursor: null,
    });
  });

  it("name every fault of a body at once, and want the venue with an asset", async () => {
    const { taker } = await market();
    const bad = await call(taker, "POST", "/rfq/request", {
      venue_id: "venue_nine",
      asset_id: "xyz",
      amount: 0,
      side: "Buy",
      extra: 1,
    });
    expect(bad.status).toBe(400);
    expect(bad.body["errors"].map((fault: { path: string }) => fault.path).toSorted()).toEqual([
      "body.amount",
      "body.asset_id",
      "body.extra",
      "body.side",
      "body.venue_id",
    ]);
    for (const [method, path, body, place] of [
      ["GET", "/rfq/request?asset_id=0x1", undefined, "query"],
      ["DELETE", "/rfq/quotes?asset_id=0x1", undefined, "query"],
      ["DELETE", "/rfq/quotes", { asset_id: "0x1" }, "body"],
    ] as const) {
      const refused = await call(taker, method, path, body);
      const errors = [{ path: `${place}.venue_id`, message: "is required with asset_id" }];
      expect(refused).toMatchObject({ status: 400, body: { errors } });
    }
    expect(await call(taker, "DELETE", "/rfq/quotes")).toMatchObject({
      status: 200,
      body: { cancelled: 0 },
    });
  });

  it("keep a user's open requests within the limit, in the guard", async () => {
    const { taker, asset } = await market();
    const answers = await Promise.all(
      Array.from({ length: 205 }, () =>
        call(taker, "POST", "/rfq/request", { ...asset, amount: 1, side: "Bid" }),
      ),
    );
    const counts = Map.groupBy(answers, ({ status }) => status);
    expect([counts.get(201)?.length, counts.get(409)?.length]).toEqual([200, 5]);
    expect(counts.get(409)?.[0]?.body["code"]).toBe("open_request_limit");
  });
});
