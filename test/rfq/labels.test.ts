import { describe, expect, it } from "vitest";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { CANCEL_REASONS } from "../../src/rfq/statuses.ts";
import { accountStream } from "../../src/streams/event-log.ts";
import { apiOf } from "../support/http.ts";
import { cancelAsService, openMarket, placeQuote, quotedMarket } from "../support/market.ts";
import { awakeAndEvicted, connect, storedEvents } from "../support/sockets.ts";

awakeAndEvicted("labels", (maybeEvict) => {
  it("are seen only by their author: on records, events and the match", async () => {
    const { book, stream, requester, maker } = await openMarket();
    const [asking, making] = [apiOf(requester), apiOf(maker)];
    const [venue_id, asset_id] = book.split(":");
    const request = await asking.post("/rfq/request", {
      venue_id,
      asset_id,
      amount: 10,
      side: "Bid",
      label: "theirs",
    });
    expect(request.json).toMatchObject({ label: "theirs" });
    const { request_id } = request.json;
    await maybeEvict(stream);
    const quote = await making.post("/rfq/quote", { request_id, price: 500_000, label: "mine" });
    expect(quote.json).toMatchObject({ label: "mine" });
    const inBook = `/rfq/request?venue_id=${venue_id}&asset_id=${asset_id}`;
    const labelIn = async (reading: Promise<{ json: Record<string, any> }>) =>
      (await reading).json["items"][0]["label"];
    expect([
      await labelIn(asking.get(inBook)),
      await labelIn(making.get(inBook)),
      await labelIn(making.get("/rfq/get-quotes")),
      await labelIn(asking.get(`/rfq/quote?request_id=${request_id}`)),
    ]).toEqual(["theirs", null, "mine", null]);

    const accepted = await asking.post("/rfq/accept", { quote_id: quote.json["quote_id"] });
    expect(accepted.json).toMatchObject({ label: "theirs" });
    expect(await labelIn(making.get("/rfq/get-matches"))).toBe("mine");

    const labels = async (name: string) =>
      (await storedEvents(name))
        .filter(({ data }) => data.request_id === request_id)
        .map(({ type, data }) => [type, data.label]);
    expect(await labels(accountStream(requester.userId))).toEqual([
      ["request.opened", "theirs"],
      ["quote.received", null],
      ["quote.closed", undefined],
      ["request.closed", undefined],
      ["match.created", "theirs"],
    ]);
    expect(await labels(accountStream(maker.userId))).toEqual([
      ["quote.opened", "mine"],
      ["quote.closed", "mine"],
      ["match.created", "mine"],
    ]);
    expect(await labels(stream)).toEqual([
      ["request.opened", null],
      ["request.closed", undefined],
    ]);
  });

  it("travel with the socket command quote", async () => {
    const { stream, maker, request } = await openMarket();
    const subscriber = await connect(maker, stream);
    await maybeEvict(stream);
    subscriber.send({ id: "1", op: "quote", ...pickId(request), price: 500_000, label: "bot-7" });
    expect((await subscriber.until("result")).data).toMatchObject({ label: "bot-7" });
  });

  it("choose the quotes that DELETE /rfq/quotes cancels", async () => {
    const { stream, maker, request } = await openMarket();
    const api = apiOf(maker);
    for (const label of ["a", "b", "a", undefined])
      await api.post("/rfq/quote", { ...pickId(request), price: 500_000, label });
    await maybeEvict(stream);
    expect((await api.delete("/rfq/quotes", { label: "a" })).json).toEqual({ cancelled: 2 });
    expect((await api.delete("/rfq/quotes?label=c")).json).toEqual({ cancelled: 0 });
    const open = (await api.get("/rfq/get-quotes?status=open")).json["items"];
    expect(open.map((quote: { label: string | null }) => quote.label)).toEqual([null, "b"]);
  });
});

describe("a label", () => {
  it("is a term of the idempotency key", async () => {
    const { book, request, requester, maker } = await openMarket();
    const [venue_id, asset_id] = book.split(":");
    const body = { venue_id, asset_id, amount: 10, side: "Bid" };
    const quote = { request_id: request.request_id, price: 500_000 };
    for (const [actor, path, terms] of [
      [requester, "/rfq/request", body],
      [maker, "/rfq/quote", quote],
    ] as const) {
      const key = { "idempotency-key": crypto.randomUUID() };
      const send = (more: object) => apiOf(actor).post(path, { ...terms, ...more }, key);
      expect((await send({ label: "mine" })).status).toBe(201);
      expect((await send({ label: "mine" })).status).toBe(201);
      for (const other of [{ label: "other" }, {}])
        expect((await send(other)).json).toMatchObject({ code: "idempotency_key_reused" });
    }
  });

  it("is 1 to 64 visible ASCII characters", async () => {
    const { maker, request } = await openMarket();
    const api = apiOf(maker);
    for (const label of ["", "a b", "it's", "ä", "x".repeat(65), 7, null])
      expect(
        (await api.post("/rfq/quote", { ...pickId(request), price: 1, label })).json,
      ).toMatchObject({ code: "invalid_request", errors: [{ path: "body.label" }] });
    const longest = await api.post("/rfq/quote", {
      ...pickId(request),
      price: 500_000,
      label: "~".repeat(64),
    });
    expect(longest.status).toBe(201);
  });
});

describe("a quote", () => {
  it("shows its reserve only to its maker", async () => {
    for (const side of ["Bid", "Ask"] as const) {
      const { book, requester, maker, request } = await openMarket({ side });
      const { reserve } = await placeQuote(maker, request.request_id, 300_000);
      const [venue_id, asset_id] = book.split(":");
      expect(reserve).toEqual(
        side === "Bid"
          ? { venue_id, asset_id, amount: "0xa" }
          : { venue_id: null, asset_id: null, amount: "0x3" },
      );
      const seen = await apiOf(requester).get(`/rfq/quote?request_id=${request.request_id}`);
      expect(seen.json["items"]).toMatchObject([{ reserve: null, close_reason: null }]);
    }
  });

  it("hides from the requester why the service cancelled it", async () => {
    for (const reason of [...CANCEL_REASONS, "outbid"] as const) {
      const { requester, maker, request, quote } = await quotedMarket();
      const replacedBy = reason === "replaced" ? uuidv7() : undefined;
      await cancelAsService(quote.quote_id, reason, replacedBy);
      const mine = await apiOf(maker).get("/rfq/get-quotes?status=cancelled");
      const shown = { status: "cancelled", close_reason: reason, replaced_by: replacedBy ?? null };
      expect(mine.json["items"]).toMatchObject([shown]);
      const theirs = await apiOf(requester).get(`/rfq/quote?request_id=${request.request_id}`);
      const masked = { status: "cancelled", close_reason: "cancelled", replaced_by: null };
      expect(theirs.json["items"]).toMatchObject([masked]);
      expect(await closedEvent(accountStream(maker.userId))).toEqual({
        quote_id: quote.quote_id,
        request_id: request.request_id,
        close_reason: reason,
        reason,
        replaced_by: replacedBy ?? null,
        label: null,
        winning_price: null,
      });
      expect(await closedEvent(accountStream(requester.userId))).toEqual({
        quote_id: quote.quote_id,
        request_id: request.request_id,
        close_reason: "cancelled",
        reason: "cancelled",
      });
      expect((await apiOf(requester).post("/rfq/accept", pickQuote(quote))).json).toMatchObject({
        code: "quote_not_open",
        quote_status: "cancelled",
      });
    }
  });

  it("reports its status as the reason when a command ended it", async () => {
    const { requester, maker, request, quote } = await quotedMarket();
    const loser = await placeQuote(maker, request.request_id, 600_000);
    const withdrawn = await placeQuote(maker, request.request_id, 700_000);
    await apiOf(maker).delete(`/rfq/quote?quote_id=${withdrawn.quote_id}`);
    await apiOf(requester).post("/rfq/accept", pickQuote(quote));
    const items: { quote_id: string; close_reason: string }[] = (
      await apiOf(maker).get("/rfq/get-quotes")
    ).json["items"];
    expect(new Map(items.map((item) => [item.quote_id, item.close_reason]))).toEqual(
      new Map([
        [quote.quote_id, "accepted"],
        [loser.quote_id, "rejected"],
        [withdrawn.quote_id, "cancelled"],
      ]),
    );
  });
});

const pickId = ({ request_id }: { request_id: string }) => ({ request_id });
const pickQuote = ({ quote_id }: { quote_id: string }) => ({ quote_id });

async function closedEvent(stream: string): Promise<unknown> {
  const events = await storedEvents(stream);
  return events.find(({ type }) => type === "quote.closed")?.data;
}
