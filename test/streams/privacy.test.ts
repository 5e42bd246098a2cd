import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { listOpenRequests } from "../../src/rfq/list-requests.ts";
import { bookStream, venueStream } from "../../src/streams/event-log.ts";
import { accept, newActor, newBook, openRequest, placedQuote, send } from "../support/rfq.ts";
import { connect } from "../support/socket.ts";

describe("a third user", () => {
  it("learns nobody's id from any byte of the public streams and lists, when nobody discloses", async () => {
    const book = newBook("venue_two");
    const taker = await newActor({ usdc: 1_000_000n });
    const makers = [await newActor({ [book]: 1_000n }), await newActor({ [book]: 1_000n })];
    const third = await newActor();
    const readers = [
      await connect(third, bookStream(book)),
      await connect(third, venueStream("venue_two")),
    ];
    const [first, second, last] = [
      await openRequest(taker, book, { amount: 10n }),
      await openRequest(taker, book, { amount: 11n }),
      await openRequest(taker, book, { amount: 12n }),
    ];
    const quotes = await Promise.all(
      makers.map((maker, n) => placedQuote(maker, first.request_id, 500_000 + n)),
    );
    await accept(taker, quotes[0]?.quote_id ?? "");
    await send({
      op: "cancel_request",
      actor: taker,
      operationId: uuidv7(),
      requestId: second.request_id,
    });
    for (const reader of readers)
      await reader.until(
        (message) =>
          message.type === "request.closed" && message.data.request_id === second.request_id,
      );
    const listed = await listOpenRequests(
      env.DB,
      third.userId,
      { venue: "venue_two" },
      { limit: 500 },
    );
    const late = await connect(third, bookStream(book));
    await late.until((message) => message.type === "snapshot");
    const everything = JSON.stringify([
      listed,
      late.messages,
      ...readers.map((reader) => reader.messages),
    ]);
    expect(everything).toContain(last.request_id);
    for (const { userId } of [taker, ...makers]) expect(everything).not.toContain(userId);
    for (const quote of quotes) expect(everything).not.toContain(quote.quote_id);
  });
});

describe("readers", () => {
  it("who connect while the book is busy miss nothing and see nothing twice", async () => {
    const book = newBook();
    const taker = await newActor();
    const opening = Promise.all(
      Array.from({ length: 60 }, () => openRequest(taker, book, { amount: 1n })),
    );
    const readers = await Promise.all(
      Array.from({ length: 8 }, () => connect(taker, bookStream(book))),
    );
    await opening;
    for (const reader of readers) {
      const snapshot = await reader.until((message) => message.type === "snapshot");
      if (snapshot.seq < 60) await reader.until((message) => message.seq === 60);
      const live = reader.events().map((message) => message.seq);
      expect(live).toEqual(
        Array.from({ length: 60 - snapshot.seq }, (_, n) => snapshot.seq + 1 + n),
      );
      expect(snapshot.data.requests).toHaveLength(snapshot.seq);
    }
  });

  it("are limited per user and stream", async () => {
    const actor = await newActor();
    const stream = bookStream(newBook());
    await Promise.all(Array.from({ length: 20 }, () => connect(actor, stream)));
    await expect(connect(actor, stream)).rejects.toThrow();
    const other = bookStream(newBook());
    const parallel = await Promise.allSettled(
      Array.from({ length: 40 }, () => connect(actor, other)),
    );
    expect(parallel.filter(({ status }) => status === "fulfilled")).toHaveLength(20);
  });

  it("a stream whose last reader left wakes nobody", async () => {
    const book = newBook();
    const actor = await newActor();
    const reader = await connect(actor, bookStream(book));
    const readersOf = () =>
      env.DB.prepare("SELECT count(*) AS n FROM stream_subscribers WHERE name = ?")
        .bind(bookStream(book))
        .first("n");
    expect(await readersOf()).toBe(1);
    reader.socket.close(1000, "done");
    for (let waited = 0; (await readersOf()) !== 0 && waited < 2_000; waited += 20)
      await scheduler.wait(20);
    expect(await readersOf()).toBe(0);
  });
});
