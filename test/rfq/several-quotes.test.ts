/** POST /rfq/quotes and the command `quotes`. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { consumeTicket } from "../../src/auth/ws-ticket.ts";
import { config } from "../../src/platform/config.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { now } from "../../src/platform/time.ts";
import { placeQuotes } from "../../src/rfq/place-quotes.ts";
import { SocketCommands } from "../../src/rfq/socket-commands.ts";
import { bookStream } from "../../src/streams/event-log.ts";
import { apiOf } from "../support/http.ts";
import { balances, newAsset } from "../support/ledger.ts";
import {
  command,
  openMarket,
  openRequest,
  outcomeOf,
  placeQuote,
  submit,
} from "../support/market.ts";
import { awakeAndEvicted, connect } from "../support/sockets.ts";
import { newKey, newUser } from "../support/users.ts";

type Json = Record<string, any>;

const codesOf = ({ json }: { json: Json }): string[] =>
  json["results"].map(({ quote, problem }: Json) => quote?.status ?? problem.code);

/** A maker with tokens of several books, and a request on each. */
async function severalBooks(count: number) {
  const books = Array.from({ length: count }, () => newAsset().key);
  const requester = await newUser({ usdc: 1_000_000n });
  const maker = await newUser(Object.fromEntries(books.map((book) => [book, 1_000n])));
  const requests = await Promise.all(
    books.map((book) => openRequest(requester, book, { amount: 10n })),
  );
  return { books, requester, maker, ids: requests.map(({ request_id }) => request_id) };
}

awakeAndEvicted("several quotes", (maybeEvict) => {
  it("are placed in one commit of each book, with results in their order", async () => {
    const { books, maker, ids } = await severalBooks(3);
    const quotes = Array.from({ length: 12 }, (_, n) => ({
      request_id: ids[n % 3],
      price: 500_000 + n,
      label: `q${n}`,
    }));
    await maybeEvict(...books.map(bookStream));
    const response = await apiOf(maker).post("/rfq/quotes", { quotes });
    expect(response.status).toBe(200);
    expect(
      response.json["results"].map(({ quote, problem, replayed }: Json) => [
        quote.request_id,
        quote.price,
        quote.label,
        problem,
        replayed,
      ]),
    ).toEqual(
      quotes.map(({ request_id, price, label }) => [request_id, price, label, null, false]),
    );
    for (const book of books) {
      const groups = await all<{ n: number }>(
        env.DB,
        sql`SELECT count(DISTINCT opened_group) AS n FROM quotes
          WHERE asset = ${book} AND maker_id = ${uuid(maker.userId)}`,
      );
      expect(groups).toEqual([{ n: 1 }]);
      expect(await balances(maker.userId, book)).toEqual([960n, 40n]);
    }
  });

  it("succeed or fail alone, in the order sent", async () => {
    const { stream, requester, maker, request, book } = await openMarket({ maker: { token: 25n } });
    const { request_id } = request;
    const old = await placeQuote(maker, request_id, 600_000);
    const own = await openRequest(maker, book, { amount: 1n });
    const ended = await openRequest(requester, book, { amount: 1n });
    await submit(command.cancelRequest(requester, ended.request_id));
    await maybeEvict(stream);
    const response = await apiOf(maker).post("/rfq/quotes", {
      quotes: [
        { request_id, price: 1, replaces: old.quote_id },
        { request_id: crypto.randomUUID(), price: 1 },
        { request_id: own.request_id, price: 1 },
        { request_id, price: 2 },
        { request_id: ended.request_id, price: 1 },
        { request_id, price: 3 },
        { request_id, price: 4, replaces: old.quote_id },
        { request_id, price: 5, side: "Ask" },
      ],
    });
    expect(codesOf(response)).toEqual([
      "open",
      "request_unknown",
      "own_request",
      "open",
      "request_not_open",
      "insufficient_funds",
      "quote_not_open",
      "side_mismatch",
    ]);
    const { problem } = response.json["results"][5];
    expect(problem).toMatchObject({
      type: "urn:rfq-custody:error:insufficient_funds",
      status: 409,
      request_id: response.headers.get("x-request-id"),
      available: "0x5",
      required: "0xa",
    });
    expect(await balances(maker.userId, book)).toEqual([5n, 20n]);
  });

  it("repeat by their keys, which POST /rfq/quote shares", async () => {
    const { stream, maker, request } = await openMarket();
    const { request_id } = request;
    const [one, two] = [crypto.randomUUID(), crypto.randomUUID()];
    const api = apiOf(maker);
    const single = await api.post("/rfq/quote", { request_id, price: 1, idempotency_key: one });
    await maybeEvict(stream);
    const quotes = [
      { request_id, price: 1, idempotency_key: one },
      { request_id, price: 2, idempotency_key: two },
      { request_id, price: 2, idempotency_key: two },
      { request_id, price: 3, idempotency_key: two },
    ];
    const first = (await api.post("/rfq/quotes", { quotes })).json["results"];
    expect(first.map(({ replayed }: Json) => replayed)).toEqual([true, false, true, false]);
    expect(first[0].quote).toEqual(single.json);
    expect(first[2].quote).toEqual(first[1].quote);
    expect(first[3].problem.code).toBe("idempotency_key_reused");
    await maybeEvict(stream);
    const again = (await api.post("/rfq/quotes", { quotes })).json["results"];
    expect(again.map(({ quote }: Json) => quote?.quote_id)).toEqual(
      first.map(({ quote }: Json) => quote?.quote_id),
    );
    const after = await api.post("/rfq/quote", { request_id, price: 2, idempotency_key: two });
    expect(after.json).toEqual(first[1].quote);
  });

  it("are placed over a socket of their book or another one", async () => {
    const { books, maker, ids } = await severalBooks(2);
    const subscriber = await connect(maker, bookStream(books[0] ?? ""));
    await maybeEvict(...books.map(bookStream));
    const quotes = ids.map((request_id) => ({ request_id, price: 1 }));
    subscriber.send({
      id: "1",
      op: "quotes",
      quotes: [...quotes, { request_id: crypto.randomUUID(), price: 1 }],
    });
    const { id, data } = await subscriber.until("result");
    expect(id).toBe("1");
    expect(codesOf({ json: data })).toEqual(["open", "open", "request_unknown"]);
    expect(data.results[2].problem.request_id).toMatch(/^[0-9a-f-]{36}$/);
  });

  it("share one deadline", async () => {
    const { stream, maker, request } = await openMarket();
    const quotes = [
      { request_id: request.request_id, price: 1 },
      { request_id: request.request_id, price: 2 },
    ];
    await maybeEvict(stream);
    const late = await apiOf(maker).post("/rfq/quotes", {
      quotes,
      not_after: "2020-01-01T00:00:00Z",
    });
    expect([late.status, codesOf(late)]).toEqual([200, ["deadline_passed", "deadline_passed"]]);
  });
});

describe("a call of several quotes", () => {
  it("fails as a whole if one is malformed", async () => {
    const { maker, request, book } = await openMarket();
    const good = { request_id: request.request_id, price: 1 };
    const api = apiOf(maker);
    const cases: [Json, string][] = [
      [{ quotes: [good, { ...good, price: 0 }] }, "body.quotes.1.price"],
      [
        { quotes: [good, { ...good, not_after: "2030-01-01T00:00:00Z" }] },
        "body.quotes.1.not_after",
      ],
      [{ quotes: [good, { ...good, label: "a b" }] }, "body.quotes.1.label"],
      [{ quotes: [] }, "body.quotes"],
      [{ quotes: Array.from({ length: 51 }, () => good) }, "body.quotes"],
      [{ quotes: [good], idempotency_key: "k" }, "body.idempotency_key"],
    ];
    for (const [body, path] of cases) {
      const refused = await api.post("/rfq/quotes", body);
      expect([refused.status, refused.json["errors"]?.map((error: Json) => error["path"])]).toEqual(
        [400, [path]],
      );
    }
    const header = await api.post("/rfq/quotes", { quotes: [good] }, { "idempotency-key": "k" });
    expect(header.json["errors"]).toMatchObject([{ path: "header.idempotency-key" }]);
    expect(await balances(maker.userId, book)).toEqual([1_000n, 0n]);
  });

  it("takes 50 quotes over REST and 20 over a socket", async () => {
    const { book, requester, maker, request, stream } = await openMarket();
    const more = [1n, 2n].map((amount) => openRequest(requester, book, { amount }));
    const requests = [request, ...(await Promise.all(more))];
    const quotes = (count: number) =>
      Array.from({ length: count }, (_, n) => ({
        request_id: requests[n % requests.length]?.request_id,
        price: 1,
      }));
    const subscriber = await connect(maker, stream);
    subscriber.send({ id: "1", op: "quotes", quotes: quotes(21) });
    expect((await subscriber.until("error")).data).toMatchObject({
      code: "invalid_request",
      errors: [{ path: "command.quotes" }],
    });
    const placed = await apiOf(maker).post("/rfq/quotes", { quotes: quotes(50) });
    expect(new Set(codesOf(placed))).toEqual(new Set(["open"]));
  });

  it("needs the key of each quote if the API key has require_idempotency", async () => {
    const { maker, request } = await openMarket();
    const key = await newKey(maker, ["trade"], { requireIdempotency: true });
    const good = { request_id: request.request_id, price: 1 };
    const refused = await apiOf(key).post("/rfq/quotes", {
      quotes: [{ ...good, idempotency_key: "a" }, good],
    });
    expect(refused.json["errors"]).toMatchObject([{ path: "body.quotes.1.idempotency_key" }]);
  });

  it("needs it of a socket's quotes too, as the ticket of the API key says", async () => {
    const { maker, request, stream } = await openMarket();
    const key = await newKey(maker, ["read", "trade"], { requireIdempotency: true });
    const { ticket } = (await apiOf(key).post("/auth/ws-ticket/signed")).json;
    const actor = await consumeTicket(env.DB, config(env), { ticket, stream, clientIp: undefined });
    const subscriber = await connect({ actor }, stream);
    const quote = { request_id: request.request_id, price: 1 };
    subscriber.send({ id: "one", op: "quote", ...quote });
    subscriber.send({ id: "several", op: "quotes", quotes: [quote] });
    subscriber.send({ id: "good", op: "quote", idempotency_key: "a", ...quote });
    const answerTo = (id: string) => subscriber.until((message) => message.id === id);
    expect((await answerTo("one")).data).toMatchObject({
      code: "invalid_request",
      errors: [{ path: "command.idempotency_key" }],
    });
    expect((await answerTo("several")).data).toMatchObject({
      code: "invalid_request",
      errors: [{ path: "command.quotes.0.idempotency_key" }],
    });
    expect(await answerTo("good")).toMatchObject({ type: "result", data: { status: "open" } });
  });

  it("counts each quote for the rate limits, and places none beyond them", async () => {
    const { maker, request, book } = await openMarket();
    const counted: string[] = [];
    const limited = (limit: number) => ({
      __proto__: env,
      RATE_LIMITS: "on",
      RATE_TRADE_CREDENTIAL: {
        limit: ({ key }: { key: string }) => {
          counted.push(key);
          return Promise.resolve({ success: counted.length <= limit });
        },
      },
      RATE_TRADE: { limit: () => Promise.resolve({ success: true }) },
    });
    const commands = new SocketCommands(limited(19) as never);
    const sent: Json[] = [];
    const socket = {
      readyState: WebSocket.READY_STATE_OPEN,
      send: (text: string) => sent.push(JSON.parse(text)),
      deserializeAttachment: () => ({ actor: maker.actor, malformedFrames: 0, malformedSince: 0 }),
    };
    const quotes = Array.from({ length: 20 }, () => ({ request_id: request.request_id, price: 1 }));
    await commands.receive(socket as never, JSON.stringify({ id: "1", op: "quotes", quotes }));
    expect(sent).toMatchObject([{ type: "error", data: { code: "rate_limited" } }]);
    expect(counted).toHaveLength(20);
    expect(await balances(maker.userId, book)).toEqual([1_000n, 0n]);
  });

  it("is refused while two of its user are unanswered", async () => {
    const { maker, request, book } = await openMarket();
    const answer = Promise.withResolvers<never[]>();
    const hanging = { asset: book, submit, submitQuotes: () => answer.promise };
    const quotes = [command.placeQuote(maker, request.request_id, 1)];
    const first = placeQuotes(env, maker.actor, quotes, hanging);
    const second = placeQuotes(env, maker.actor, quotes, hanging);
    await expect(placeQuotes(env, maker.actor, quotes, hanging)).rejects.toMatchObject({
      data: { code: "rate_limited" },
    });
    const other = await newUser({ [book]: 10n });
    const theirs = [command.placeQuote(other, request.request_id, 1)];
    expect((await placeQuotes(env, other.actor, theirs)).map(outcomeOf)).toEqual(["ok"]);
    answer.resolve([]);
    await Promise.all([first, second]);
    expect((await placeQuotes(env, maker.actor, quotes)).map(outcomeOf)).toEqual(["ok"]);
  });

  it("reports an unknown outcome for a book that does not answer, and the others at once", async () => {
    const { books, maker, ids } = await severalBooks(2);
    const hanging = {
      asset: books[0] ?? "",
      submit,
      submitQuotes: () => new Promise<never>(() => undefined),
    };
    const waited = config(env).RFQ_COMMAND_MAX_WAIT_MS;
    const commands = ids.map((id) => ({
      ...command.placeQuote(maker, id, 1),
      receivedAt: now() - waited,
    }));
    const results = await placeQuotes(env, maker.actor, commands, hanging);
    expect(results).toMatchObject([
      { problem: { code: "unavailable", extensions: { outcome: "unknown" } } },
      {},
    ]);
  });

  it("reports an unknown outcome for a book that fails", async () => {
    const { books, maker, ids } = await severalBooks(2);
    const failing = {
      asset: books[0] ?? "",
      submit,
      submitQuotes: () => Promise.reject(new Error("the object was reset")),
    };
    const commands = ids.map((id) => command.placeQuote(maker, id, 1));
    expect((await placeQuotes(env, maker.actor, commands, failing)).map(outcomeOf)).toEqual([
      "unavailable",
      "ok",
    ]);
  });
});
