import { expect, it } from "vitest";
import { assetKey, LiveAccount } from "../../packages/client/src/live-account.ts";
import type { StreamMessage } from "../../packages/client/src/index.ts";
import { decode } from "../../packages/client/src/wire.ts";
import { accountStream } from "../../src/streams/event-log.ts";
import { newAsset } from "../support/ledger.ts";
import { advanceClock, openRequest, placeQuote } from "../support/market.ts";
import { connect } from "../support/sockets.ts";
import { newKey, newUser } from "../support/users.ts";

it("a live map needs no second snapshot for a quote that expired before its first", async () => {
  // Brings the Worker's clock to that of D1.
  await advanceClock(0);
  const { key: book } = newAsset();
  // Keys, because sessions end by the Worker's clock.
  const requester = await newKey(await newUser({ usdc: 1_000n }));
  const maker = await newKey(await newUser({ usdc: 1_000n, [book]: 1_000n }));
  const request = await openRequest(requester, book, { amount: 10n });
  const { quote_id } = await placeQuote(maker, request.request_id, 400_000, 30);
  await advanceClock(31_000);
  const { until } = await connect(maker, accountStream(maker.actor.userId), undefined, {
    snapshot: true,
  });
  const account = new LiveAccount();
  // Safe cast: messages of the service, decoded as a stream of the client does.
  const apply = async (type: string) =>
    account.apply(decode(JSON.stringify(await until(type))) as StreamMessage);
  const own = () => [...account.orders.values()];
  // The addresses of a book are `venue:asset`.
  const [venue_id = "", asset_id = ""] = book.split(":");
  const held = () => account.balances.get(assetKey({ venue_id, asset_id }));

  expect(await apply("snapshot")).toBe("changed");
  expect(own()).toMatchObject([{ quote_id, status: "expired", reserve: { amount: 10n } }]);
  expect(held()).toMatchObject({ balance: 990n, pending_balance: 10n, promised: 10n });
  // A command of the maker first closes what has expired.
  await openRequest(maker, book, { amount: 1n });
  expect(await apply("quote.closed")).toBe("changed");
  expect(own()).toEqual([]);
  expect(held()).toMatchObject({ balance: 1_000n, pending_balance: 0n, promised: 0n });
});
