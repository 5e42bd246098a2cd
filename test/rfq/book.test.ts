import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { bookObject } from "../../src/streams/notify.ts";
import {
  command,
  matchOf,
  openMarket,
  openRequest,
  outcomeOf,
  placeQuote,
  quotedMarket,
  submit,
} from "../support/market.ts";
import { balances } from "../support/ledger.ts";
import { awakeAndEvicted } from "../support/sockets.ts";
import { newUser } from "../support/users.ts";

awakeAndEvicted("a trade", (maybeEvict) => {
  it("settles a Bid: USDC one way, the asset the other, losing quotes released", async () => {
    const { book, stream, requester, maker, request } = await openMarket({
      requester: { usdc: 1_000_000n },
      maker: { token: 500n },
      amount: 100n,
    });
    const loser = await newUser({ [book]: 500n });
    const best = await placeQuote(maker, request.request_id, 600_000);
    await placeQuote(loser, request.request_id, 700_000);
    expect(await balances(maker.userId, book)).toEqual([400n, 100n]);

    await maybeEvict(stream);
    const match = matchOf(await submit(command.accept(requester, best.quote_id)));

    expect(match).toMatchObject({ usdc_amount: "0x3c", role: "requester", price: 600_000 });
    expect(await balances(requester.userId, "usdc")).toEqual([999_940n, 0n]);
    expect(await balances(requester.userId, book)).toEqual([100n, 0n]);
    expect(await balances(maker.userId, "usdc")).toEqual([60n, 0n]);
    expect(await balances(maker.userId, book)).toEqual([400n, 0n]);
    expect(await balances(loser.userId, book)).toEqual([500n, 0n]);
  });

  it("settles an Ask with both fees paid to the house", async () => {
    const { book, stream, requester, maker, quote } = await quotedMarket({
      venue: "venue_two",
      requester: { token: 1_000_000n },
      maker: { usdc: 1_000_000n },
      amount: 1_000_000n,
      side: "Ask",
    });
    expect(quote).toMatchObject({ usdc_amount: "0x7a120", fee: "0x9c4" });
    expect(await balances(maker.userId, "usdc")).toEqual([497_500n, 502_500n]);

    await maybeEvict(stream);
    const match = matchOf(await submit(command.accept(requester, quote.quote_id)));

    expect(match.fee).toBe("0x1388");
    expect(await balances(maker.userId, "usdc")).toEqual([497_500n, 0n]);
    expect(await balances(requester.userId, "usdc")).toEqual([495_000n, 0n]);
    expect(await balances(maker.userId, book)).toEqual([1_000_000n, 0n]);
  });
});

awakeAndEvicted("an accept", (maybeEvict) => {
  it("of two quotes at once makes one match and rejects the other", async () => {
    const { book, stream, requester, maker, request, quote } = await quotedMarket({ amount: 100n });
    const other = await placeQuote(maker, request.request_id, 600_000);

    await maybeEvict(stream);
    const results = await Promise.all([
      submit(command.accept(requester, quote.quote_id)),
      submit(command.accept(requester, other.quote_id)),
    ]);

    expect(results.map(outcomeOf).toSorted()).toEqual(["ok", "quote_not_open"]);
    expect(await balances(maker.userId, book)).toEqual([900n, 0n]);
  });

  it("sent again returns the same match", async () => {
    const { stream, requester, quote } = await quotedMarket();
    const match = matchOf(await submit(command.accept(requester, quote.quote_id)));
    await maybeEvict(stream);
    expect(matchOf(await submit(command.accept(requester, quote.quote_id)))).toEqual(match);
  });

  it("is rejected unless the request is the caller's own", async () => {
    const { stream, maker, quote } = await quotedMarket();
    await maybeEvict(stream);
    const result = await submit(command.accept(maker, quote.quote_id));
    expect(outcomeOf(result)).toBe("not_request_owner");
  });
});

awakeAndEvicted("a quote", (maybeEvict) => {
  it("without funds does not affect the other quotes of its group", async () => {
    const { book, stream, requester, maker, request } = await openMarket({ amount: 60n });
    const requests = [
      request,
      await openRequest(requester, book, { amount: 60n }),
      await openRequest(requester, book, { amount: 30n }),
    ];
    const poor = await newUser({ [book]: 100n });

    await maybeEvict(stream);
    const results = await Promise.all(
      [poor, maker].flatMap((party) =>
        requests.map(({ request_id }) => submit(command.placeQuote(party, request_id, 1))),
      ),
    );

    // The third quote of the poor maker sees the reserve of the first, in the same group.
    expect(results.map(outcomeOf)).toEqual(["ok", "insufficient_funds", "ok", "ok", "ok", "ok"]);
    expect(await balances(poor.userId, book)).toEqual([10n, 90n]);
  });

  it("on the maker's own request is rejected", async () => {
    const { stream, requester, request } = await openMarket();
    await maybeEvict(stream);
    const result = await submit(command.placeQuote(requester, request.request_id, 1));
    expect(outcomeOf(result)).toBe("own_request");
  });

  it("never fills once cancelled, however often it is cancelled", async () => {
    const { book, stream, requester, maker, quote } = await quotedMarket();
    await maybeEvict(stream);
    const cancels = Array.from({ length: 3 }, () =>
      submit(command.cancelQuote(maker, quote.quote_id)),
    );
    expect((await Promise.all(cancels)).map(outcomeOf)).toEqual(["ok", "ok", "ok"]);
    await maybeEvict(stream);
    const accepted = await submit(command.accept(requester, quote.quote_id));
    expect(outcomeOf(accepted)).toBe("quote_not_open");
    expect(await balances(maker.userId, book)).toEqual([1_000n, 0n]);
  });

  it("larger than any balance is rejected with the exact amounts", async () => {
    const { stream, maker, request } = await openMarket({ amount: 2n ** 256n - 1n });
    await maybeEvict(stream);
    const result = await submit(command.placeQuote(maker, request.request_id, 1_000_000));
    expect(result).toMatchObject({
      ok: false,
      problem: {
        code: "insufficient_funds",
        extensions: { available: "0x3e8", required: `0x${"f".repeat(64)}` },
      },
    });
  });

  it("is placed once per idempotency key, also within one group", async () => {
    const { book, stream, maker, request } = await openMarket({ amount: 100n });
    const place = (price: number) =>
      submit({
        ...command.placeQuote(maker, request.request_id, price),
        idempotency: { key: "k", terms: `${price}` },
      });
    const [one, two] = await Promise.all([place(5), place(5)]);
    await maybeEvict(stream);
    const three = await place(5);
    expect(one).toMatchObject({ ok: true, replayed: false });
    expect(two).toEqual({ ...one, replayed: true });
    expect(three).toEqual(two);
    expect(outcomeOf(await place(6))).toBe("idempotency_key_reused");
    expect(await balances(maker.userId, book)).toEqual([900n, 100n]);
  });
});

awakeAndEvicted("a cancelled request", (maybeEvict) => {
  it("rejects its quotes and releases their reserves", async () => {
    const { book, stream, requester, maker, request } = await quotedMarket();
    const cancel = () => submit(command.cancelRequest(requester, request.request_id));
    await maybeEvict(stream);
    expect(outcomeOf(await cancel())).toBe("ok");
    await maybeEvict(stream);
    expect(outcomeOf(await cancel())).toBe("ok");
    expect(await balances(maker.userId, book)).toEqual([1_000n, 0n]);
    const late = await submit(command.placeQuote(maker, request.request_id, 1));
    expect(outcomeOf(late)).toBe("request_not_open");
  });
});

it("keeps nothing in the storage of a book in which nothing is open", async () => {
  const { book, requester, request } = await openMarket();
  const object = bookObject(env, book);
  const stored = () =>
    runInDurableObject(object, (_, { storage }) => [...storage.kv.list()].map(([key]) => key));
  expect(await stored()).toEqual(["name"]);
  await runDurableObjectAlarm(object);
  expect(await stored()).toEqual(["name"]);
  await submit(command.cancelRequest(requester, request.request_id));
  await runDurableObjectAlarm(object);
  expect(await stored()).toEqual([]);
});
