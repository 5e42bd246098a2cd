/** What holds of every text that a client may give a request or a quote, as of `label`. */
import { describe, expect, it } from "vitest";
import { QUOTE_TEXTS, REQUEST_TEXTS } from "../../src/rfq/own-texts.ts";
import { accountStream } from "../../src/streams/event-log.ts";
import { apiOf } from "../support/http.ts";
import { openMarket } from "../support/market.ts";
import { storedEvents } from "../support/sockets.ts";

type Json = Record<string, any>;

/** The value in the events of one type on a stream. */
async function inEvents(stream: string, type: string, name: string): Promise<unknown[]> {
  const events = await storedEvents(stream);
  return events.filter((event) => event.type === type).map(({ data }) => data[name]);
}

const first = async (reading: Promise<{ json: Json }>): Promise<Json> =>
  (await reading).json["items"][0];

describe.each(Object.entries(REQUEST_TEXTS))("%s of a request", (name, { sample }) => {
  it("is seen by the requester only, on records and events", async () => {
    const { book, stream, requester, maker } = await openMarket();
    const [venue_id, asset_id] = book.split(":");
    const body = { venue_id, asset_id, amount: 10, side: "Bid", [name]: sample };
    const opened = await apiOf(requester).post("/rfq/request", body);
    expect([opened.status, opened.json[name]]).toEqual([201, sample]);
    const { request_id } = opened.json;
    const one = `/rfq/get-request?request_id=${request_id}`;
    expect((await apiOf(requester).get(one)).json[name]).toBe(sample);
    expect((await apiOf(maker).get(one)).json[name]).toBeNull();
    expect((await first(apiOf(requester).get("/rfq/get-requests")))[name]).toBe(sample);
    const inBook = `/rfq/request?venue_id=${venue_id}&asset_id=${asset_id}`;
    expect((await first(apiOf(maker).get(inBook)))[name]).toBeNull();
    const own = await inEvents(accountStream(requester.userId), "request.opened", name);
    expect(own.at(-1)).toBe(sample);
    expect(new Set(await inEvents(stream, "request.opened", name))).toEqual(new Set([null]));
  });

  it("is a term of the idempotency key", async () => {
    const { book, requester } = await openMarket();
    const [venue_id, asset_id] = book.split(":");
    await isTerm(name, sample, (text, key) =>
      apiOf(requester).post(
        "/rfq/request",
        { venue_id, asset_id, amount: 10, side: "Bid", ...text },
        key,
      ),
    );
  });
});

describe.each(Object.entries(QUOTE_TEXTS))("%s of a quote", (name, { sample }) => {
  it("is seen by the maker only, on records and events", async () => {
    const { request, requester, maker } = await openMarket();
    const { request_id } = request;
    const placed = await apiOf(maker).post("/rfq/quote", {
      request_id,
      price: 500_000,
      [name]: sample,
    });
    expect([placed.status, placed.json[name]]).toEqual([201, sample]);
    const one = `/rfq/get-quote?quote_id=${placed.json["quote_id"]}`;
    expect((await apiOf(maker).get(one)).json[name]).toBe(sample);
    expect((await apiOf(requester).get(one)).json[name]).toBeNull();
    expect((await first(apiOf(maker).get("/rfq/get-quotes")))[name]).toBe(sample);
    const onRequest = `/rfq/quote?request_id=${request_id}`;
    expect((await first(apiOf(requester).get(onRequest)))[name]).toBeNull();
    const own = await inEvents(accountStream(maker.userId), "quote.opened", name);
    expect(own).toEqual([sample]);
    const received = await inEvents(accountStream(requester.userId), "quote.received", name);
    expect(received).toEqual([null]);
  });

  it("is a term of the idempotency key", async () => {
    const { request, maker } = await openMarket();
    const { request_id } = request;
    await isTerm(name, sample, (text, key) =>
      apiOf(maker).post("/rfq/quote", { request_id, price: 500_000, ...text }, key),
    );
  });
});

async function isTerm(
  name: string,
  sample: string,
  send: (text: object, key: Record<string, string>) => Promise<{ status: number; json: Json }>,
): Promise<void> {
  const key = { "idempotency-key": crypto.randomUUID() };
  const sent = await send({ [name]: sample }, key);
  const again = await send({ [name]: sample }, key);
  expect([sent.status, again.json]).toEqual([201, sent.json]);
  for (const other of [{ [name]: "other" }, {}])
    expect((await send(other, key)).json).toMatchObject({ code: "idempotency_key_reused" });
}
