/** Accepts by price: the best quote that is open at the commit, never at a worse price. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { apiOf } from "../support/http.ts";
import {
  command,
  inWaves,
  matchOf,
  openMarket,
  openRequest,
  outcomeOf,
  placeQuote,
  submit,
} from "../support/market.ts";
import { connect } from "../support/sockets.ts";
import { newUser } from "../support/users.ts";
import { accountStream } from "../../src/streams/event-log.ts";

const RICH = { usdc: 1_000_000n, token: 1_000_000n };
const market = (terms: Parameters<typeof openMarket>[0] = {}) =>
  openMarket({ requester: RICH, maker: RICH, ...terms });

describe("an accept by price", () => {
  it.each([
    ["Bid", [600_000, 400_000, 500_000, 400_000], 500_000],
    ["Ask", [400_000, 600_000, 500_000, 600_000], 500_000],
  ] as const)(
    "of a %s takes the best quote, of equal prices the oldest",
    async (side, prices, at) => {
      const { requester, maker, request } = await market({ side });
      const quotes = [];
      for (const price of prices) quotes.push(await placeQuote(maker, request.request_id, price));
      const sent = { request_id: request.request_id, price: at };
      const first = await apiOf(requester).post("/rfq/accept", sent);
      expect(first.json).toMatchObject({ quote_id: quotes[1]?.quote_id, price: prices[1], side });
      const again = await apiOf(requester).post("/rfq/accept", sent);
      expect(again.json).toEqual(first.json);
      const replayed = [first, again].map(({ headers }) => headers.get("idempotency-replayed"));
      expect(replayed).toEqual([null, "true"]);
    },
  );

  it("takes none at a worse price, and says which is the best", async () => {
    const { requester, maker, request } = await market({ side: "TwoWay" });
    const id = request.request_id;
    const post = (fields: object) =>
      apiOf(requester).post("/rfq/accept", { request_id: id, ...fields });
    const none = { status: 409, json: { code: "no_quote_within" } };
    expect(await post({ price: 1, side: "Bid" })).toMatchObject(none);
    expect((await post({ price: 1, side: "Bid" })).json["best_price"]).toBeNull();
    for (const [side, price] of [
      ["Bid", 500_000],
      ["Ask", 300_000],
      ["Ask", 200_000],
    ] as const)
      await submit({ ...command.placeQuote(maker, id, price), side });
    for (const [side, price, best] of [
      ["Bid", 499_999, 500_000],
      ["Ask", 300_001, 300_000],
    ])
      expect(await post({ price, side })).toMatchObject({
        ...none,
        json: { code: "no_quote_within", best_price: best },
      });
    expect((await post({ price: 500_000 })).json).toMatchObject({ code: "side_mismatch" });
    expect((await post({ price: 250_000, side: "Ask" })).json).toMatchObject({
      side: "Ask",
      price: 300_000,
    });
    // The match is the answer to no accept that would have refused it.
    for (const fields of [
      { price: 300_001, side: "Ask" },
      { price: 500_000, side: "Bid" },
    ])
      expect((await post(fields)).json).toMatchObject({ code: "request_not_open" });
  });

  it("skips quotes that are over, set aside, or whose timer has run out", async () => {
    const { requester, maker, request } = await market();
    const id = request.request_id;
    const { key: book } = { key: `${request.venue_id}:${request.asset_id}` as const };
    const late = await newUser({ [book]: 1_000n });
    const timed = await placeQuote(late, id, 100_000);
    await all(
      env.DB,
      sql`INSERT INTO cancel_timers (credential, user_id, cancel_at, closed)
        SELECT credential, maker_id, 1, 1 FROM quotes WHERE quote_id = ${uuid(timed.quote_id)}`,
    );
    const [, aside, gone, open] = await Promise.all(
      [150_000, 160_000, 200_000, 300_000].map((price) => placeQuote(maker, id, price)),
    );
    await all(
      env.DB,
      sql`UPDATE quotes SET stuck_at = 1 WHERE request_id = ${uuid(id)} AND price < 180000`,
    );
    await submit(command.cancelQuote(maker, gone?.quote_id ?? ""));
    expect(aside?.price).toBe(160_000);
    const match = matchOf(await submit(command.acceptPrice(requester, id, 999_999)));
    expect(match).toMatchObject({ quote_id: open?.quote_id, price: 300_000 });
  });

  it("is refused for the reasons of an accept by id, in their order", async () => {
    const { book, requester, maker, request } = await market({ requester: { usdc: 1n } });
    const id = request.request_id;
    const by = (who: typeof maker, requestId = id) =>
      submit(command.acceptPrice(who, requestId, 1_000_000)).then(outcomeOf);
    expect(await by(maker)).toBe("not_request_owner");
    expect(await by(requester)).toBe("no_quote_within");
    await placeQuote(maker, id, 1_000_000);
    expect(await by(requester)).toBe("insufficient_funds");
    const late = { ...command.acceptPrice(requester, id, 1_000_000), notAfter: 1 };
    expect(outcomeOf(await submit(late))).toBe("deadline_passed");
    expect(outcomeOf(await submit({ ...late, side: "Ask" }))).toBe("deadline_passed");
    expect(outcomeOf(await submit(command.acceptPrice(requester, id, 1, "Ask")))).toBe(
      "side_mismatch",
    );
    await submit(command.cancelRequest(requester, id));
    expect(await by(requester)).toBe("request_not_open");
    expect(await by(requester, maker.userId)).toBe("request_unknown");
    const other = await openRequest(requester, book, { amount: 1n });
    expect(await by(requester, other.request_id)).toBe("no_quote_within");
  });

  it("of the same request twice at once makes one match", async () => {
    const { requester, maker, request } = await market();
    const id = request.request_id;
    const quote = await placeQuote(maker, id, 400_000);
    await placeQuote(maker, id, 300_000);
    const results = await inWaves(8, () =>
      Math.random() < 0.5
        ? submit(command.acceptPrice(requester, id, 500_000))
        : submit(command.accept(requester, quote.quote_id)),
    );
    const ids = results.flatMap((result) => (result.ok ? [matchOf(result).match_id] : []));
    expect(new Set(ids).size).toBe(1);
  });

  it("works over a socket", async () => {
    const { requester, maker, request } = await market();
    const { quote_id } = await placeQuote(maker, request.request_id, 400_000);
    const socket = await connect(requester, accountStream(requester.userId));
    const { request_id } = request;
    socket.send({ id: "1", op: "accept", request_id, quote_id, price: 400_000 });
    expect(await socket.until(({ id }) => id === "1")).toMatchObject({
      data: { code: "invalid_request" },
    });
    socket.send({ id: "2", op: "accept", request_id, price: 399_999 });
    expect(await socket.until(({ id }) => id === "2")).toMatchObject({
      data: { code: "no_quote_within", best_price: 400_000 },
    });
    socket.send({ id: "3", op: "accept", request_id, price: 500_000 });
    expect(await socket.until(({ id }) => id === "3")).toMatchObject({
      type: "result",
      data: { quote_id, price: 400_000 },
    });
  });
});
