/** Sockets of a venue stream that chose assets. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { MAX_ASSETS } from "../../src/assets/asset-fields.ts";
import { SKIPPED_EVERY } from "../../src/streams/asset-filter.ts";
import { venueStream } from "../../src/streams/event-log.ts";
import { writeEmptyEvents } from "../support/events.ts";
import { apiOf, codeOf, send } from "../support/http.ts";
import { newAsset, randomHex } from "../support/ledger.ts";
import { command, openRequest, placeQuote, submit } from "../support/market.ts";
import { awakeAndEvicted, connect, evict, type Subscriber } from "../support/sockets.ts";
import { newKey, newUser } from "../support/users.ts";

const stream = venueStream("venue_two");

/** Three assets of the venue, of which a socket chooses the first two. */
async function scene() {
  const assets = [newAsset("venue_two"), newAsset("venue_two"), newAsset("venue_two")] as const;
  const funds = Object.fromEntries(assets.map(({ key }) => [key, 1_000n]));
  const [requester, maker] = [await newUser({ usdc: 1_000n }), await newUser(funds)];
  const chosen = assets.slice(0, 2).map(({ asset_id }) => asset_id);
  return {
    assets,
    chosen,
    open: (index: 0 | 1 | 2) => openRequest(requester, assets[index].key, { amount: 10n }),
    cancel: ({ request_id }: { request_id: string }) =>
      submit(command.cancelRequest(requester, request_id)),
    trade: async ({ request_id }: { request_id: string }) => {
      const { quote_id } = await placeQuote(maker, request_id, 500_000);
      await submit(command.accept(requester, quote_id));
    },
    subscribe: (since?: number) => connect(maker, stream, since, { assets: chosen }),
    subscribeToAll: () => connect(maker, stream),
  };
}

const shown = ({ messages }: Subscriber) => messages.map(({ type, seq }) => `${seq} ${type}`);
const numbered = (subscriber: Subscriber) =>
  subscriber.events().map(({ type, seq, data }) => ({ type, seq, data }));

awakeAndEvicted("a socket with assets", (maybeEvict) => {
  it("receives only their events and records, under the venue's numbers", async () => {
    const { chosen, open, cancel, trade, subscribe, subscribeToAll } = await scene();
    const [mine, others] = [await open(0), await open(2)];
    const [some, all] = [await subscribe(), await subscribeToAll()];
    const { seq: start, data } = await some.until("snapshot");
    expect(data.requests.map((record: { request_id: string }) => record.request_id)).toEqual([
      mine.request_id,
    ]);
    await maybeEvict(stream);
    await cancel(others);
    const next = await open(1);
    await trade(next);
    await open(2);
    await trade(mine);
    await all.until(
      (message) => message.type === "trade.printed" && message.data.asset_id === chosen[0],
    );
    await some.until(
      (message) => message.type === "trade.printed" && message.data.asset_id === chosen[0],
    );
    // 1: of `others`, 5: an opening of its asset.
    expect(shown(some).slice(2)).toEqual([
      `${start} skipped`,
      `${start + 2} request.opened`,
      `${start + 3} request.closed`,
      `${start + 4} trade.printed`,
      `${start + 6} request.closed`,
      `${start + 7} trade.printed`,
    ]);
    const own = new Set(some.events().map(({ seq }) => seq));
    expect(numbered(some)).toEqual(numbered(all).filter(({ seq }) => own.has(seq)));
  });

  it("replays what it missed of them, and says how far it got", async () => {
    const { open, cancel, subscribe } = await scene();
    const live = await subscribe();
    const { seq: since } = await live.until("skipped");
    const mine = await open(0);
    await cancel(mine);
    await live.until("request.closed");
    await cancel(await open(2));
    const expected = live.events();
    for (const evicted of [false, true]) {
      if (evicted) await maybeEvict(stream);
      const late = await subscribe(since);
      const { seq } = await late.until("skipped");
      expect(late.events()).toEqual(expected);
      expect(seq).toBe(since + 4);
      const later = await subscribe(seq);
      expect(await later.until("skipped")).toMatchObject({ seq });
      expect(later.events()).toEqual([]);
    }
  });
});

it("says how far it got after a thousand events of other assets", async () => {
  const { subscribe } = await scene();
  const quiet = await subscribe();
  const { seq } = await quiet.until("skipped");
  await writeEmptyEvents(stream, SKIPPED_EVERY - 1);
  await env.FEED.getByName(stream).catchUp();
  expect(shown(quiet).at(-1)).toBe(`${seq} skipped`);
  await writeEmptyEvents(stream, 2);
  await env.FEED.getByName(stream).catchUp();
  await quiet.until((message) => message.seq === seq + SKIPPED_EVERY);
  expect(shown(quiet).slice(-2)).toEqual([`${seq} skipped`, `${seq + SKIPPED_EVERY} skipped`]);
});

describe("the largest choice", () => {
  const ids = Array.from({ length: MAX_ASSETS }, () => randomHex(32).replace(/^0x./, "0xf"));
  const target = (query: string) => `/rfq/stream?venue_id=venue_two&${query}`;
  const upgrade = (query: string) => send(target(query), { headers: { upgrade: "websocket" } });

  it("survives hibernation", async () => {
    const user = await newUser();
    const { json } = await apiOf(await newKey(user, ["read", "trade"])).post(
      "/auth/ws-ticket/signed",
    );
    const response = await upgrade(`ticket=${json["ticket"]}&assets=${ids.join(",")}`);
    expect(response.status).toBe(101);
    const frames: { type: string; data: { asset_id: string } }[] = [];
    response.webSocket?.addEventListener("message", ({ data }) => {
      frames.push(JSON.parse(String(data)));
    });
    response.webSocket?.accept();
    await evict(stream);
    await openRequest(user, newAsset("venue_two").key, { amount: 1n });
    await openRequest(user, `venue_two:${ids.at(-1)}`, { amount: 1n });
    await expect
      .poll(() => frames.filter(({ type }) => type === "request.opened"))
      .toMatchObject([{ data: { asset_id: ids.at(-1) } }]);
  });

  it("is refused with one more, and with asset_id", async () => {
    for (const query of [
      `assets=${[...ids, "0x1"].join(",")}`,
      "assets=0x1&asset_id=0x1",
      "assets=",
    ])
      expect(await codeOf(await upgrade(`ticket=unknown&${query}`))).toBe("400 invalid_request");
    expect(await codeOf(await upgrade("ticket=unknown&assets=0x1,0x02"))).toBe(
      "401 ticket_invalid",
    );
  });
});
