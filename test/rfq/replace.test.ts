/** Quotes that replace an older one in the same commit. */
import { describe, expect, it } from "vitest";
import type { PlaceQuote } from "../../src/rfq/command.ts";
import { accountStream, bookStream } from "../../src/streams/event-log.ts";
import { apiOf } from "../support/http.ts";
import { balances } from "../support/ledger.ts";
import {
  command,
  commitCommand,
  openRequest,
  operationOf,
  outcomeOf,
  placeQuote,
  quotedMarket,
  submit,
} from "../support/market.ts";
import { commitOperations } from "../../src/rfq/book-group.ts";
import { env } from "cloudflare:workers";
import { awakeAndEvicted, connect, storedEvents } from "../support/sockets.ts";
import { newUser, type TestUser } from "../support/users.ts";
import { rounds } from "../support/depth.ts";

type Ids = { readonly quote_id: string; readonly request_id: string };

/** A command that replaces `quote` by one at another price. */
function replacing(maker: TestUser, quote: Ids, change: Partial<PlaceQuote> = {}): PlaceQuote {
  return {
    ...command.placeQuote(maker, quote.request_id, 400_000),
    replaces: quote.quote_id,
    ...change,
  };
}

const statusOf = async (maker: TestUser, quoteId: string) =>
  (await apiOf(maker).get(`/rfq/get-quote?quote_id=${quoteId}`)).json;

awakeAndEvicted("a quote that replaces another", (maybeEvict) => {
  it("ends it and uses its reserve", async () => {
    const { stream, book, requester, maker, request, quote } = await quotedMarket({
      maker: { token: 10n },
    });
    await maybeEvict(stream);
    const next = await apiOf(maker).post("/rfq/quote", {
      request_id: request.request_id,
      price: 400_000,
      replaces: quote.quote_id,
    });
    expect(next).toMatchObject({ status: 201, json: { status: "open", replaced_by: null } });
    const { quote_id } = next.json;
    expect(await statusOf(maker, quote.quote_id)).toMatchObject({
      status: "cancelled",
      close_reason: "replaced",
      replaced_by: quote_id,
    });
    expect(await balances(maker.userId, book)).toEqual([0n, 10n]);
    const events = async ({ userId }: TestUser) =>
      (await storedEvents(accountStream(userId)))
        .filter(({ type }) => type.startsWith("quote."))
        .map(({ type, data }) => [type, data.quote_id, data.reason, data.replaced_by]);
    expect(await events(maker)).toEqual([
      ["quote.opened", quote.quote_id, undefined, null],
      ["quote.opened", quote_id, undefined, null],
      ["quote.closed", quote.quote_id, "replaced", quote_id],
    ]);
    expect(await events(requester)).toEqual([
      ["quote.received", quote.quote_id, undefined, null],
      ["quote.received", quote_id, undefined, null],
      ["quote.closed", quote.quote_id, "cancelled", undefined],
    ]);
    await maybeEvict(stream);
    const taken = await apiOf(requester).post("/rfq/accept", { quote_id: quote.quote_id });
    expect(taken.json).toMatchObject({ code: "quote_not_open", quote_status: "cancelled" });
    expect((await apiOf(requester).post("/rfq/accept", { quote_id })).status).toBe(200);
  });

  it("is repeated by its idempotency key, of which `replaces` is a term", async () => {
    const { stream, maker, request, quote } = await quotedMarket();
    const key = { "idempotency-key": crypto.randomUUID() };
    const terms = { request_id: request.request_id, price: 400_000 };
    const send = (fields: object) => apiOf(maker).post("/rfq/quote", { ...terms, ...fields }, key);
    const first = await send({ replaces: quote.quote_id });
    await maybeEvict(stream);
    const again = await send({ replaces: quote.quote_id });
    expect([first.status, again.json]).toEqual([201, first.json]);
    expect((await send({})).json["code"]).toBe("idempotency_key_reused");
  });

  it("works over a socket", async () => {
    const { stream, maker, request, quote } = await quotedMarket();
    const subscriber = await connect(maker, stream);
    await maybeEvict(stream);
    const fields = { request_id: request.request_id, price: 1, replaces: quote.quote_id };
    subscriber.send({ id: "1", op: "quote", ...fields });
    expect((await subscriber.until("result")).data).toMatchObject({ status: "open" });
  });
});

describe("a quote that cannot replace another", () => {
  it("leaves it open", async () => {
    const { book, requester, maker, quote } = await quotedMarket({ maker: { token: 10n } });
    const other = await openRequest(requester, book, { amount: 10n });
    const stranger = await newUser({ [book]: 10n });
    const theirs = await placeQuote(stranger, quote.request_id, 600_000);
    const bigger = await openRequest(requester, book, { amount: 11n });
    const cases: [PlaceQuote, string][] = [
      [replacing(maker, quote, { replaces: crypto.randomUUID() }), "quote_unknown"],
      [replacing(maker, theirs), "not_quote_owner"],
      [replacing(maker, quote, { requestId: other.request_id }), "replace_mismatch"],
      [replacing(maker, quote, { requestId: bigger.request_id }), "replace_mismatch"],
      [replacing(maker, quote, { side: "Ask" }), "side_mismatch"],
      [replacing(maker, quote, { notAfter: 1 }), "deadline_passed"],
    ];
    for (const [sent, code] of cases) expect(outcomeOf(await submit(sent)), code).toBe(code);
    for (const [user, { quote_id }] of [
      [maker, quote],
      [stranger, theirs],
    ] as const)
      expect(await statusOf(user, quote_id)).toMatchObject({
        status: "open",
        close_reason: null,
        replaced_by: null,
      });
    expect(await balances(maker.userId, book)).toEqual([0n, 10n]);
  });

  it("of the other side of a two-way request is a mismatch", async () => {
    const { book, requester, maker } = await quotedMarket();
    const request = await openRequest(requester, book, { amount: 10n, side: "TwoWay" });
    const bid = { ...command.placeQuote(maker, request.request_id, 500_000), side: "Bid" } as const;
    expect(outcomeOf(await submit(bid))).toBe("ok");
    const ids = { quote_id: bid.quoteId, request_id: request.request_id };
    expect(outcomeOf(await submit(replacing(maker, ids, { side: "Ask" })))).toBe(
      "replace_mismatch",
    );
    expect(outcomeOf(await submit(replacing(maker, ids, { side: "Bid" })))).toBe("ok");
  });

  it("reports what became of the old one", async () => {
    const { requester, maker, quote } = await quotedMarket();
    const cancelled = await placeQuote(maker, quote.request_id, 600_000);
    await submit(command.cancelQuote(maker, cancelled.quote_id));
    expect(await submit(replacing(maker, cancelled))).toMatchObject({
      problem: { code: "quote_not_open", extensions: { quote_status: "cancelled" } },
    });
    await submit(command.accept(requester, quote.quote_id));
    // The request has ended, which is reported first.
    expect(outcomeOf(await submit(replacing(maker, quote)))).toBe("request_not_open");
  });

  it("counts the old one's reserve as its own funds, and no more", async () => {
    const { book, requester, maker } = await quotedMarket({ maker: { usdc: 5n, token: 10n } });
    const request = await openRequest(requester, book, { amount: 10n, side: "Ask" });
    const old = await placeQuote(maker, request.request_id, 400_000);
    expect(await balances(maker.userId, "usdc")).toEqual([1n, 4n]);
    const short = await submit(replacing(maker, old, { price: 600_000 }));
    expect(short).toMatchObject({
      problem: { code: "insufficient_funds", extensions: { available: "0x5", required: "0x6" } },
    });
    expect(await balances(maker.userId, "usdc")).toEqual([1n, 4n]);
    expect(outcomeOf(await submit(replacing(maker, old, { price: 500_000 })))).toBe("ok");
    expect(await balances(maker.userId, "usdc")).toEqual([0n, 5n]);
  });
});

describe("the limits of open quotes", () => {
  it("count a replaced quote and its successor once", async () => {
    const { maker, request } = await quotedMarket({ maker: { token: 1_000n } });
    const { request_id } = request;
    for (let n = 1; n < 20; n++) await placeQuote(maker, request_id, 500_000);
    expect(outcomeOf(await submit(command.placeQuote(maker, request_id, 1)))).toBe(
      "open_quote_limit",
    );
    const open = (await apiOf(maker).get("/rfq/get-quotes?status=open&limit=1")).json["items"][0];
    expect(outcomeOf(await submit(replacing(maker, open)))).toBe("ok");
    expect(outcomeOf(await submit(command.placeQuote(maker, request_id, 1)))).toBe(
      "open_quote_limit",
    );
  });
});

describe("in one commit group", () => {
  it("an accept before a replace wins, and one after it finds the quote replaced", async () => {
    for (const acceptFirst of [true, false]) {
      const { book, requester, maker, quote } = await quotedMarket();
      const sent = [command.accept(requester, quote.quote_id), replacing(maker, quote)];
      if (!acceptFirst) sent.reverse();
      const operations = await Promise.all(sent.map((each) => operationOf(each)));
      const group = await commitOperations(env.DB, book, operations);
      if (!group.committed) throw new Error("not committed");
      expect(operations.map((operation) => operation.result(group.effects)?.ok)).toEqual([
        true,
        undefined,
      ]);
      expect((await balances(maker.userId, book))[1]).toBe(acceptFirst ? 0n : 10n);
    }
  });

  it("two replaces of one quote place one", async () => {
    const { book, maker, quote } = await quotedMarket({ maker: { token: 15n } });
    const operations = await Promise.all(
      [replacing(maker, quote), replacing(maker, quote)].map((each) => operationOf(each)),
    );
    const group = await commitOperations(env.DB, book, operations);
    if (!group.committed) throw new Error("not committed");
    expect(operations.map((operation) => operation.result(group.effects)?.ok)).toEqual([
      true,
      undefined,
    ]);
    expect(await balances(maker.userId, book)).toEqual([5n, 10n]);
  });

  it("a chain of replaces ends with its last quote", async () => {
    const { book, maker, quote } = await quotedMarket({ maker: { token: 10n } });
    const chain = [replacing(maker, quote)];
    for (let n = 0; n < 5; n++) {
      const { quoteId, requestId } = chain.at(-1) ?? expect.fail();
      chain.push(replacing(maker, { quote_id: quoteId, request_id: requestId }));
    }
    const operations = await Promise.all(chain.map((each) => operationOf(each)));
    const group = await commitOperations(env.DB, book, operations);
    if (!group.committed) throw new Error("not committed");
    const open = (await apiOf(maker).get("/rfq/get-quotes?status=open")).json["items"];
    expect(open).toMatchObject([{ quote_id: chain.at(-1)?.quoteId }]);
    expect(await balances(maker.userId, book)).toEqual([0n, 10n]);
  });
});

awakeAndEvicted("exactly one wins", (maybeEvict) => {
  it("of a replace and an accept, and nothing stays reserved", async () => {
    const { book, requester, maker } = await quotedMarket({
      requester: { usdc: 1_000n },
      maker: { token: 1_000n },
    });
    for (let round = 0; round < rounds(4, 20); round++) {
      const request = await openRequest(requester, book, { amount: 10n });
      const quote = await placeQuote(maker, request.request_id, 500_000);
      const commands = [replacing(maker, quote), command.accept(requester, quote.quote_id)];
      if (round % 2 === 1) commands.reverse();
      await maybeEvict(bookStream(book));
      const [one, two] = await Promise.all(commands.map(submit));
      const [replaced, accepted] = round % 2 === 1 ? [two, one] : [one, two];
      if (replaced === undefined || accepted === undefined) throw new Error("no results");
      expect([
        ["ok", "quote_not_open"],
        ["request_not_open", "ok"],
      ]).toContainEqual([outcomeOf(replaced), outcomeOf(accepted)]);
      await submit(command.cancelRequest(requester, request.request_id));
    }
    // The market's own quote is the only one left.
    expect((await balances(maker.userId, book))[1]).toBe(10n);
  }, 30_000);
});

it("is placed by a group of its own as by a shared one", async () => {
  const { book, maker, quote } = await quotedMarket();
  expect(outcomeOf(await commitCommand(book, replacing(maker, quote)))).toBe("ok");
});
