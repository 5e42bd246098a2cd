import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { readBalance } from "../../src/ledger/balance.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { cancelQuotes } from "../../src/rfq/cancel-quotes.ts";
import { pauseVenue, resumeVenue } from "../../src/rfq/close-books.ts";
import { COMMANDS } from "../../src/operator/commands.ts";
import { config } from "../../src/platform/config.ts";
import { accountStream, venueStream } from "../../src/streams/event-log.ts";
import {
  accept,
  codeOf,
  newActor,
  newBook,
  openRequest,
  placedQuote,
  quote,
  send,
} from "../support/rfq.ts";
import { connect } from "../support/socket.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";

describe("market close", () => {
  // The pause is the venue's, which other tests use too.
  afterEach(async () => {
    await resumeVenue(env.DB, "venue_two");
  });

  it("cancels open requests, releases reserves, refuses new business, and tells the venue's readers", async () => {
    const book = newBook("venue_two");
    const taker = await newActor({ usdc: 1_000n });
    const maker = await newActor({ [book]: 100n });
    const reader = await connect(maker, venueStream("venue_two"));
    const request = await openRequest(taker, book, { amount: 10n });
    const placed = await placedQuote(maker, request.request_id, 1);

    await pauseVenue(env, "venue_two");

    const closed = await reader.until(
      (message) =>
        message.type === "request.closed" && message.data.request_id === request.request_id,
    );
    expect(closed.data).toEqual({ request_id: request.request_id, reason: "cancelled" });
    expect(await readBalance(env.DB, maker.userId, book)).toEqual({ available: 100n, pending: 0n });
    expect(codeOf(await accept(taker, placed.quote_id))).toBe("quote_not_open");
    const again = send({
      op: "open_request",
      actor: taker,
      requestId: uuidv7(),
      asset: book,
      amount: "1",
      side: "Bid",
      disclosed: false,
      expiresInSecs: 60,
    });
    expect(codeOf(await again)).toBe("venue_paused");
    expect(await resumeVenue(env.DB, "venue_two")).toBe(true);
    await openRequest(taker, book, { amount: 10n });
  });
});

describe("a freeze", () => {
  it("cancels the user's requests and quotes in its own commit, tells them, and stops every write", async () => {
    const book = newBook();
    const frozen = await newActor({ [book]: 100n });
    const other = await newActor({ [book]: 100n });
    const [asked, own] = [
      await openRequest(other, book, { amount: 10n }),
      await openRequest(frozen, book, { amount: 10n }),
    ];
    await placedQuote(frozen, asked.request_id, 1);
    await placedQuote(other, own.request_id, 1);
    const reader = await connect(frozen, accountStream(frozen.userId));
    const email =
      (
        await all<{ email: string }>(
          env.DB,
          sql`SELECT email FROM users WHERE user_id = ${uuid(frozen.userId)}`,
        )
      )[0]?.email ?? "";

    await COMMANDS["user freeze"]?.({
      env,
      settings: config(env),
      operator: "test",
      words: [],
      options: { email },
    });

    await reader.until(
      (message) => message.type === "account.notice" && message.data.kind === "account_frozen",
    );
    expect(
      reader
        .events()
        .map((message) => message.type)
        .toSorted(),
    ).toEqual(["account.notice", "quote.closed", "quote.closed", "request.closed"]);
    expect(await readBalance(env.DB, frozen.userId, book)).toEqual({
      available: 100n,
      pending: 0n,
    });
    expect(await readBalance(env.DB, other.userId, book)).toEqual({ available: 100n, pending: 0n });
    expect(codeOf(await quote(frozen, asked.request_id, 1))).toBe("account_frozen");
  });
});

describe("the panic button", () => {
  it("cancels the maker's quotes in every book, or in those that fit, and nobody else's", async () => {
    const [one, two] = [newBook(), newBook("venue_two")];
    const taker = await newActor();
    const maker = await newActor({ [one]: 100n, [two]: 100n });
    const other = await newActor({ [one]: 100n });
    const requests = [
      await openRequest(taker, one, { amount: 10n }),
      await openRequest(taker, two, { amount: 10n }),
    ];
    for (const request of requests) await placedQuote(maker, request.request_id, 1);
    await placedQuote(other, requests[0]?.request_id ?? "", 1);

    expect(await cancelQuotes(env, maker, { venue: "venue_two" })).toBe(1);
    expect(await cancelQuotes(env, maker, {})).toBe(1);
    expect(await cancelQuotes(env, maker, {})).toBe(0);
    expect((await readBalance(env.DB, maker.userId, one)).pending).toBe(0n);
    expect((await readBalance(env.DB, other.userId, one)).pending).toBe(10n);
  });
});

describe("a revoked credential", () => {
  it("does nothing from the commit of its end on, also in a group with others", async () => {
    const book = newBook();
    const taker = await newActor();
    const maker = await newActor({ [book]: 100n });
    const request = await openRequest(taker, book, { amount: 10n });
    await all(
      env.DB,
      sql`UPDATE users SET session_epoch = session_epoch + 1 WHERE user_id = ${uuid(maker.userId)}`,
    );
    expect(codeOf(await quote(maker, request.request_id, 1))).toBe("session_invalid");
  });
});
