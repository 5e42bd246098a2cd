/** GET /rfq/get-positions, and the sums of trades on which it rests. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { all, MAX_NATIVE_UNITS, raw, sql, uuid } from "../../src/platform/sql.ts";
import { apiOf } from "../support/http.ts";
import { edit, endWithdrawal, fund, newAsset, queueWithdrawal } from "../support/ledger.ts";
import { command, openRequest, outcomeOf, placeQuote, submit } from "../support/market.ts";
import { newUser, type TestUser } from "../support/users.ts";

type Position = Record<string, unknown>;
const positionsOf = async (user: TestUser, query = ""): Promise<Position[]> =>
  apiOf(user).list(`/rfq/get-positions${query}`);

/** Opens a request for `amount`, quotes it at the price and accepts. */
async function trade(
  [requester, maker, book]: readonly [TestUser, TestUser, string],
  terms: { readonly amount: bigint; readonly side: "Bid" | "Ask"; readonly price: number },
): Promise<void> {
  const request = await openRequest(requester, book, terms);
  const quote = await placeQuote(maker, request.request_id, terms.price);
  expect(await submit(command.accept(requester, quote.quote_id))).toMatchObject({ ok: true });
}

it("sums both sides' trades with fees, and rounds against the user", async () => {
  // Taker fee 1 %, maker fee 0.5 %.
  const { key: book } = newAsset("venue_two");
  const assetId = book.split(":")[1] ?? "";
  const one = await newUser({ usdc: 100_000n });
  const two = await newUser({ usdc: 100_000n, [book]: 10_000n });
  await trade([one, two, book], { amount: 3_000n, side: "Bid", price: 333_333 });
  await trade([one, two, book], { amount: 1_000n, side: "Ask", price: 500_000 });
  const [ofOne] = await positionsOf(one);
  const [ofTwo] = await positionsOf(two, `?venue_id=venue_two&asset_id=${assetId}`);
  // 3 000 × 0.333333 is 1 000 rounded up, the fee 10. 1 000 × 0.5 is 500, the fee 5.
  expect(ofOne).toEqual({
    venue_id: "venue_two",
    asset_id: assetId,
    amount: "0x7d0",
    bought: "0xbb8",
    spent: "0x3f2",
    sold: "0x3e8",
    received: "0x1ef",
    average_price: 336_667,
    realized: "158",
    value: "0x3e8",
    result: null,
    last_price: 500_000,
    last_price_at: expect.any(String),
  });
  // Sold 3 000 for 1 000 − 5, bought 1 000 for 500 + 2: 995 − 502 × 3.
  expect(ofTwo).toMatchObject({
    amount: "0x1f40",
    bought: "0x3e8",
    spent: "0x1f6",
    sold: "0xbb8",
    received: "0x3e3",
    average_price: 502_000,
    realized: "-511",
  });
});

it("shows a token that was never bought without a cost, and USDC not at all", async () => {
  const { key: book } = newAsset();
  const user = await newUser({ usdc: 7n, [book]: 10n });
  expect(await positionsOf(user)).toEqual([
    expect.objectContaining({
      amount: "0xa",
      bought: "0x0",
      average_price: null,
      realized: null,
      value: null,
      last_price: null,
      last_price_at: null,
    }),
  ]);
});

it("keeps the sums when tokens are deposited and withdrawn", async () => {
  const { key: book } = newAsset();
  const user = await newUser({ usdc: 1_000n });
  const maker = await newUser({ [book]: 1_000n });
  await trade([user, maker, book], { amount: 100n, side: "Bid", price: 500_000 });
  const sums = { bought: "0x64", spent: "0x32", sold: "0x0", received: "0x0" };
  expect(await positionsOf(user)).toMatchObject([{ amount: "0x64", ...sums }]);
  await fund(user.userId, book, 50n);
  await endWithdrawal(await queueWithdrawal(user, book, 150n), "Paid");
  expect(await positionsOf(user)).toMatchObject([{ amount: "0x0", ...sums }]);
});

it("pages by asset and filters by venue", async () => {
  const assets = [newAsset(), newAsset(), newAsset("venue_two")];
  const user = await newUser(Object.fromEntries(assets.map(({ key }) => [key, 1n])));
  const ids = (positions: Position[]) =>
    positions.map((one) => `${String(one["venue_id"])}:${String(one["asset_id"])}`);
  const keys = assets.map(({ key }) => key).toSorted();
  expect(ids(await positionsOf(user))).toEqual(keys);
  expect(ids(await positionsOf(user, "?venue_id=venue_one"))).toEqual(keys.slice(0, 2));
  const path = "/rfq/get-positions?limit=2";
  const { json } = await apiOf(user).get(path);
  const rest = await apiOf(user).get(`${path}&last_cursor=${String(json["next_cursor"])}`);
  expect(rest.json).toMatchObject({ items: [{ venue_id: "venue_two" }], next_cursor: null });
  expect(await positionsOf(await newUser())).toEqual([]);
});

it.each(["traded", "traded_usdc"])(
  "rejects an accept that would exceed the limit of %s",
  async (column) => {
    const { key: book } = newAsset();
    const requester = await newUser({ usdc: 1_000n });
    const maker = await newUser({ [book]: 1_000n });
    await trade([requester, maker, book], { amount: 2n, side: "Bid", price: 1_000_000 });
    for (const [party, kind] of [
      [requester, "available"],
      [maker, "pending"],
    ] as const) {
      const set = (to: bigint) =>
        edit(env.DB, "accounts", [
          sql`UPDATE accounts SET traded = ${column === "traded" ? to : 2n},
          traded_usdc = ${column === "traded" ? 2n : to}
        WHERE owner = ${uuid(party.userId)} AND asset = ${book} AND kind = ${kind}`,
        ]);
      await set(MAX_NATIVE_UNITS - 1n);
      const request = await openRequest(requester, book, { amount: 2n });
      const quote = await placeQuote(maker, request.request_id, 1_000_000);
      const accept = () => submit(command.accept(requester, quote.quote_id));
      expect(outcomeOf(await accept())).toBe("balance_limit");
      await set(MAX_NATIVE_UNITS - 2n);
      expect(outcomeOf(await accept())).toBe("ok");
      await set(2n);
    }
  },
);

it("lets no sum rise otherwise than by a trade, or fall", async () => {
  const { key: book } = newAsset();
  const requester = await newUser({ usdc: 1_000n });
  const maker = await newUser({ [book]: 1_000n });
  await trade([requester, maker, book], { amount: 2n, side: "Bid", price: 1_000_000 });
  for (const [{ userId }, kind] of [
    [requester, "available"],
    [maker, "pending"],
  ] as const)
    for (const column of ["traded", "traded_usdc"])
      for (const by of [1, -1])
        await expect(
          all(
            env.DB,
            sql`UPDATE accounts SET ${raw(column)} = ${raw(column)} + ${by}
              WHERE owner = ${uuid(userId)} AND asset = ${book} AND kind = ${kind}`,
          ),
        ).rejects.toThrow("a sum of trades grows only by a trade");
});
