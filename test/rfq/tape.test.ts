/** The tape of all trades, the event `trade.printed`, and the price that a losing maker learns. */
import { expect, it } from "vitest";
import { accountStream, venueStream } from "../../src/streams/event-log.ts";
import { apiOf } from "../support/http.ts";
import { newAsset } from "../support/ledger.ts";
import { command, openMarket, openRequest, placeQuote, submit } from "../support/market.ts";
import { awakeAndEvicted, connect } from "../support/sockets.ts";
import { newUser } from "../support/users.ts";

awakeAndEvicted("a trade", (maybeEvict) => {
  it("is printed on its book and venue after the request closed, without parties", async () => {
    const { book, stream, requester, maker, request } = await openMarket();
    const venue = venueStream("venue_one");
    const third = await newUser();
    const subscribers = [await connect(third, stream), await connect(third, venue)];
    const quote = await placeQuote(maker, request.request_id, 500_000);
    await maybeEvict(stream, venue);
    await submit(command.accept(requester, quote.quote_id));
    const [listed] = await apiOf(third).list(
      `/rfq/get-trades?venue_id=venue_one&asset_id=${book.split(":")[1]}`,
    );
    for (const subscriber of subscribers) {
      const ofBook = ({ type, data }: { type: string; data: Record<string, unknown> }) =>
        type === "trade.printed" && data["match_id"] === listed?.["match_id"];
      const printed = await subscriber.until(ofBook);
      expect(printed.data).toEqual(listed);
      const events = subscriber.events();
      const closed = events.findIndex(
        ({ type, data }) => type === "request.closed" && data.request_id === request.request_id,
      );
      expect(closed).toBeGreaterThanOrEqual(0);
      expect(closed).toBeLessThan(events.findIndex(ofBook));
      expect(printed.at).toBe(listed?.["created_at"]);
    }
    expect(Object.keys(listed ?? {}).toSorted()).toEqual(
      "amount asset_id created_at match_id price side usdc_amount venue_id".split(" "),
    );
  });

  it("tells each losing maker the winning price, and nobody else", async () => {
    const { book, stream, requester, maker, request } = await openMarket();
    const loser = await newUser({ [book]: 1_000n });
    const idle = await newUser({ [book]: 1_000n });
    const quotes = [
      await placeQuote(maker, request.request_id, 500_000),
      await placeQuote(loser, request.request_id, 600_000),
      await placeQuote(idle, request.request_id, 700_000),
    ] as const;
    const subscribers = await Promise.all(
      [requester, maker, loser, idle].map((user) => connect(user, accountStream(user.userId))),
    );
    await submit(command.cancelQuote(idle, quotes[2].quote_id));
    await maybeEvict(stream);
    await submit(command.accept(requester, quotes[0].quote_id));
    const closed = await Promise.all(
      subscribers.map((subscriber) => subscriber.until("quote.closed")),
    );
    expect(closed.map(({ data }) => [data.reason, data.winning_price])).toEqual([
      ["cancelled", undefined],
      ["accepted", null],
      ["rejected", 500_000],
      ["cancelled", null],
    ]);
  });

  it("that did not happen leaves the losers of a cancelled request without a price", async () => {
    const { stream, requester, maker, request } = await openMarket();
    await placeQuote(maker, request.request_id, 500_000);
    const subscriber = await connect(maker, accountStream(maker.userId));
    await maybeEvict(stream);
    await submit(command.cancelRequest(requester, request.request_id));
    expect((await subscriber.until("quote.closed")).data).toMatchObject({
      close_reason: "rejected",
      reason: "rejected",
      winning_price: null,
    });
  });
});

it("the tape filters by book, venue and period, in pages without gaps", async () => {
  const [one, two] = [newAsset("venue_two"), newAsset("venue_two")];
  const requester = await newUser({ usdc: 1_000n });
  const maker = await newUser({ [one.key]: 1_000n, [two.key]: 1_000n });
  const trade = async (book: string, price: number) => {
    const request = await openRequest(requester, book, { amount: 1n });
    const quote = await placeQuote(maker, request.request_id, price);
    await submit(command.accept(requester, quote.quote_id));
  };
  for (const price of [1, 2, 3]) await trade(one.key, price);
  await trade(two.key, 4);
  const reader = apiOf(await newUser());
  const book = `venue_id=venue_two&asset_id=${one.asset_id}`;
  const prices = async (query: string) =>
    (await reader.list(`/rfq/get-trades?${query}&limit=2`)).map(({ price }) => price);
  expect(await prices(book)).toEqual([3, 2, 1]);
  expect((await prices("venue_id=venue_two")).slice(0, 4)).toEqual([4, 3, 2, 1]);
  const [{ created_at: at } = { created_at: "" }] = await reader.list(
    `/rfq/get-trades?${book}&limit=1`,
  );
  expect((await prices(`${book}&from=${at}`)).at(0)).toBe(3);
  expect(await prices(`${book}&to=2020-01-01T00:00:00Z`)).toEqual([]);
  expect(await prices(`${book}&from=2099-01-01T00:00:00Z`)).toEqual([]);
  const backwards = await reader.get(
    "/rfq/get-trades?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
  );
  expect(backwards.json["errors"]).toMatchObject([{ path: "query.to" }]);
  expect((await reader.get("/rfq/get-trades?asset_id=0x1")).json["errors"]).toMatchObject([
    { path: "query.venue_id" },
  ]);
});
