import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { instantOf } from "../../src/platform/uuid.ts";
import { listOpenRequests } from "../../src/rfq/list-requests.ts";
import { bookStream, venueStream } from "../../src/streams/event-log.ts";
import { apiOf } from "../support/http.ts";
import { newAsset } from "../support/ledger.ts";
import { command, openMarket, openRequest, placeQuote, submit } from "../support/market.ts";
import { awakeAndEvicted, connect } from "../support/sockets.ts";
import { newUser, type TestUser } from "../support/users.ts";

awakeAndEvicted("a third user", (maybeEvict) => {
  it("learns no party's id from the public streams and lists", async () => {
    const { key: book } = newAsset("venue_two");
    const [stream, venue] = [bookStream(book), venueStream("venue_two")];
    const requester = await newUser({ usdc: 1_000_000n });
    const makers = [await newUser({ [book]: 1_000n }), await newUser({ [book]: 1_000n })];
    const third = await newUser();
    const subscribers = [await connect(third, stream), await connect(third, venue)];
    const first = await openRequest(requester, book, { amount: 10n });
    const second = await openRequest(requester, book, { amount: 11n });
    const last = await openRequest(requester, book, { amount: 12n });
    const quotes = await Promise.all(
      makers.map((maker, n) => placeQuote(maker, first.request_id, 500_000 + n)),
    );
    await maybeEvict(stream, venue);
    await submit(command.accept(requester, quotes[0]?.quote_id ?? ""));
    await submit(command.cancelRequest(requester, second.request_id));
    for (const subscriber of subscribers)
      await subscriber.until(
        ({ type, data }) => type === "request.closed" && data.request_id === second.request_id,
      );
    const listed = await listOpenRequests(
      env.DB,
      third.userId,
      { venue: "venue_two" },
      { limit: 500 },
    );
    const late = await connect(third, stream);
    await late.until("snapshot");

    const seen = JSON.stringify([
      listed,
      late.messages,
      ...subscribers.map((subscriber) => subscriber.messages),
    ]);
    expect(seen).toContain(last.request_id);
    for (const { userId } of [requester, ...makers]) expect(seen).not.toContain(userId);
    for (const quote of quotes) expect(seen).not.toContain(quote.quote_id);
  });
});

awakeAndEvicted("subscribers", (maybeEvict) => {
  it("that connect to a busy book see every event once", async () => {
    const { key: book } = newAsset();
    const stream = bookStream(book);
    const requesters = await Promise.all(Array.from({ length: 60 }, () => newUser()));
    const opening = Promise.all(
      requesters.map((requester) => openRequest(requester, book, { amount: 1n })),
    );
    const user = await newUser();
    const subscribers = await Promise.all(Array.from({ length: 8 }, () => connect(user, stream)));
    await maybeEvict(stream);
    await opening;
    await openRequest(user, book, { amount: 1n });
    for (const subscriber of subscribers) {
      const snapshot = await subscriber.until("snapshot");
      // A new stream may start above 1.
      const missing = 61 - snapshot.data.requests.length;
      await subscriber.untilEvent(snapshot.seq + missing);
      const live = subscriber.events().map((message) => message.seq);
      expect(live).toEqual(Array.from({ length: missing }, (_, n) => snapshot.seq + 1 + n));
    }
  });

  it("that left are not notified any more", async () => {
    const stream = bookStream(newAsset().key);
    const subscriber = await connect(await newUser(), stream);
    const subscriptions = () =>
      env.DB.prepare("SELECT count(*) AS n FROM stream_subscribers WHERE name = ?")
        .bind(stream)
        .first("n");
    expect(await subscriptions()).toBe(1);
    await maybeEvict(stream);
    subscriber.socket.close(1000, "done");
    await expect.poll(subscriptions, { timeout: 2_000 }).toBe(0);
  });
});

it("ids that others see contain no milliseconds of a Worker's clock", async () => {
  const { book, stream, requester, maker } = await openMarket({ requester: { usdc: 1_000n } });
  const [venue_id, asset_id] = book.split(":");
  const api = apiOf(requester);
  const ids: unknown[] = [];
  for (const bySocket of [false, true]) {
    const terms = { venue_id, asset_id, amount: "10", side: "Bid" };
    const { request_id } = (await api.post("/rfq/request", terms)).json;
    const body = { request_id, price: 500_000 };
    const sent = async (user: TestUser, path: "quote" | "accept", fields: object) => {
      if (!bySocket) return (await apiOf(user).post(`/rfq/${path}`, fields)).json;
      const subscriber = await connect(user, stream);
      subscriber.send({ id: "1", op: path, ...fields });
      return (await subscriber.until("result")).data;
    };
    const { quote_id } = await sent(maker, "quote", body);
    const { match_id } = await sent(requester, "accept", { quote_id });
    ids.push(request_id, quote_id, match_id);
  }
  expect(ids.map((id) => instantOf(String(id)) % 1_000)).toEqual([0, 0, 0, 0, 0, 0]);
});
