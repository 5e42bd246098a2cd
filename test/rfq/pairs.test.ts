/** Pairs of a venue without a chain: issued for USDC, taken back, and paid at their result. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { all, expr, scalar, sql } from "../../src/platform/sql.ts";
import { freezeUser } from "../../src/auth/freeze-user.ts";
import { payHolders } from "../../src/rfq/pairs/pay-holders.ts";
import { apiOf, send } from "../support/http.ts";
import { edit, newAddress, newAsset, type TestAsset } from "../support/ledger.ts";
import { command, matchOf, openRequest, placeQuote, submit } from "../support/market.ts";
import { orderOf, sendOrder } from "../support/operator.ts";
import { answerAlert } from "../support/pager.ts";
import {
  holding,
  named,
  newPair,
  pairBalances,
  pairDifferences,
  resolve,
  type TestPair,
} from "../support/pairs.ts";
import { withBatch } from "../support/slow-database.ts";
import { newKey, newUser, type TestUser } from "../support/users.ts";

type Body = Record<string, unknown>;
const body = ({ venue_id, asset_id }: TestAsset, more: Body = {}) => ({
  venue_id,
  asset_id,
  ...more,
});
const split = (user: TestUser, asset: TestAsset, amount: bigint, more: Body = {}) =>
  apiOf(user).post("/custody/split", body(asset, { amount: String(amount), ...more }));
const redeem = (user: TestUser, asset: TestAsset, more: Body = {}) =>
  apiOf(user).post("/custody/redeem", body(asset, more));

async function payAll(): Promise<void> {
  // Another test's market may have begun a pass just now.
  await all(
    env.DB,
    sql`UPDATE ledger_checkpoints SET mark = '0', position = 0 WHERE scan = 'payouts'`,
  );
  while (await payHolders(env));
}

async function redeemedEvents(user: TestUser) {
  const { json } = await apiOf(user).get("/account/events?types=token.redeemed&since=0");
  return (json["items"] as { data: Body }[]).map(({ data }) => data);
}

it("splits USDC into both tokens and redeems them at 1 USDC for the two", async () => {
  const pair = await newPair();
  const user = await newUser({ usdc: 1_000n });
  const done = await split(user, pair.yes, 700n);
  expect(done.status).toBe(200);
  expect(done.json["items"]).toMatchObject([{ amount: "0x2bc" }, { amount: "0x2bc" }]);
  expect(await holding(user, pair)).toEqual([300n, 700n, 700n]);
  expect(await pairBalances(pair)).toEqual([700, -700, -700]);
  const part = await redeem(user, pair.no, { amount: "200" });
  expect(part.json["items"]).toMatchObject([{ amount: "0xc8" }, { amount: "0xc8" }]);
  expect(await pairBalances(pair)).toEqual([500, -500, -500]);
  expect((await redeem(user, pair.yes)).status).toBe(200);
  expect(await holding(user, pair)).toEqual([1_000n, 0n, 0n]);
  // Nothing is free any more.
  expect((await redeem(user, pair.yes)).json).toEqual({ items: [] });
  expect(await pairBalances(pair)).toEqual([0, 0, 0]);
  // Both tokens together were bought and sold for what they are worth.
  const positions = await apiOf(user).list("/rfq/get-positions");
  expect(
    positions.map(({ bought, spent, sold, received }) => [bought, spent, sold, received]),
  ).toEqual(Array.from({ length: 2 }, () => ["0x2bc", "0x15e", "0x2bc", "0x15e"]));
  expect((await redeemedEvents(user)).map(({ cause, amount }) => [cause, amount])).toEqual([
    ["merge", "0xc8"],
    ["merge", "0xc8"],
    ["merge", "0x1f4"],
    ["merge", "0x1f4"],
  ]);
  const ledger = await apiOf(user).list("/custody/get-ledger?limit=100");
  const sums = Map.groupBy(ledger, ({ asset_id }) => String(asset_id));
  for (const [asset, entries] of sums)
    expect(entries.reduce((sum, { delta }) => sum + BigInt(delta), 0n)).toBe(
      asset === "null" ? 1_000n : 0n,
    );
  expect(await pairDifferences(pair)).toEqual([]);
});

it("carries out a repeated idempotency key once", async () => {
  const pair = await newPair();
  const user = await newUser({ usdc: 1_000n });
  const key = { idempotency_key: "one" };
  const first = await split(user, pair.yes, 100n, key);
  const again = await split(user, pair.yes, 100n, key);
  expect(again.json).toEqual(first.json);
  expect(again.headers.get("idempotency-replayed")).toBe("true");
  expect(await split(user, pair.yes, 101n, key)).toMatchObject({
    status: 422,
    json: { code: "idempotency_key_reused" },
  });
  // The key of another route is another one.
  expect((await redeem(user, pair.yes, key)).headers.get("idempotency-replayed")).toBe(null);
  const racing = { idempotency_key: "race" };
  await Promise.all(Array.from({ length: 4 }, () => split(user, pair.no, 100n, racing)));
  expect(await holding(user, pair)).toEqual([900n, 100n, 100n]);
});

it("rejects what is not free, not paired, closed, paused or late", async () => {
  const pair = await newPair();
  const user = await newUser({ usdc: 100n });
  const code = async (call: Promise<{ json: Body }>) => (await call).json["code"];
  expect(await code(split(user, pair.yes, 101n))).toBe("insufficient_funds");
  expect(await code(split(user, pair.yes, 2n ** 200n))).toBe("insufficient_funds");
  expect(await code(redeem(user, pair.yes, { amount: "1" }))).toBe("insufficient_funds");
  expect(await code(redeem(user, pair.yes, { amount: String(2n ** 200n) }))).toBe(
    "insufficient_funds",
  );
  expect(await code(split(user, newAsset("venue_four"), 1n))).toBe("market_unknown");
  const alone = newAsset("venue_four");
  await sendOrder(
    orderOf(["market", "set"], { ...named(alone), title: alone.asset_id, outcome: "Yes" }),
  );
  expect(await code(redeem(user, alone))).toBe("not_paired");
  const past = { not_after: new Date(Date.now() - 60_000).toISOString() };
  expect(await code(split(user, pair.yes, 1n, past))).toBe("deadline_passed");
  expect(await code(redeem(user, pair.yes, past))).toBe("deadline_passed");
  await split(user, pair.yes, 50n);
  await all(env.DB, sql`INSERT INTO paused_venues (venue, since) VALUES ('venue_four', 1)`);
  expect(await code(split(user, pair.yes, 1n))).toBe("venue_paused");
  expect(await code(redeem(user, pair.yes))).toBe("venue_paused");
  await all(env.DB, sql`DELETE FROM paused_venues`);
  // Closing one closes both. What is out can still be redeemed.
  await sendOrder(orderOf(["market", "close"], named(pair.yes)));
  expect(await code(split(user, pair.no, 1n))).toBe("market_closed");
  expect((await redeem(user, pair.no)).status).toBe(200);
  expect(await holding(user, pair)).toEqual([100n, 0n, 0n]);
});

it("leaves what open quotes promise, and lets a maker with USDC alone quote", async () => {
  const pair = await newPair();
  const maker = await newUser({ usdc: 1_000n });
  const taker = await newUser({ usdc: 1_000n });
  await split(maker, pair.yes, 1_000n);
  const request = await openRequest(taker, pair.yes.key, { amount: 400n });
  const quote = await placeQuote(maker, request.request_id, 250_000);
  expect((await redeem(maker, pair.yes, { amount: "601" })).json["code"]).toBe(
    "insufficient_funds",
  );
  await redeem(maker, pair.yes);
  expect(await holding(maker, pair)).toEqual([600n, 0n, 400n]);
  matchOf(await submit(command.accept(taker, quote.quote_id)));
  expect(await holding(taker, pair)).toEqual([900n, 400n, 0n]);
  expect(await holding(maker, pair)).toEqual([700n, 0n, 400n]);
  expect(await pairBalances(pair)).toEqual([400, -400, -400]);
});

it("pays every holder once at the result, also losers, frozen users and makers", async () => {
  const pair = await newPair();
  const [winner, loser, frozen, maker] = await Promise.all(
    Array.from({ length: 4 }, () => newUser({ usdc: 1_000n })),
  );
  if (!winner || !loser || !frozen || !maker) throw new Error("unreachable");
  const other = await newUser({ usdc: 5n });
  const give = async (from: TestUser, to: TestUser, asset: TestAsset, amount: bigint) => {
    const request = await openRequest(to, asset.key, { amount });
    const quote = await placeQuote(from, request.request_id, 1);
    matchOf(await submit(command.accept(to, quote.quote_id)));
  };
  await split(maker, pair.yes, 900n);
  await give(maker, winner, pair.yes, 300n);
  await give(maker, loser, pair.no, 500n);
  await give(maker, frozen, pair.yes, 200n);
  await freezeUser(env.DB, { userId: frozen.userId, operator: "test" });
  const request = await openRequest(winner, pair.yes.key, { amount: 100n });
  await placeQuote(maker, request.request_id, 500_000);
  expect(await resolve(pair.no, 0)).toMatchObject({
    result: { result: 0, complement: pair.yes.key, cancelled_requests: 1 },
  });
  // A killed run, and doubled ones, pay nobody twice.
  const killed = withBatch(env.DB, () => Promise.reject(new Error("Network connection lost.")));
  await payHolders({ ...env, DB: killed }).catch(() => {});
  await Promise.all([payHolders(env), payHolders(env)]);
  await payAll();
  expect(await holding(winner, pair)).toEqual([1_299n, 0n, 0n]);
  expect(await holding(loser, pair)).toEqual([999n, 0n, 0n]);
  expect(await holding(frozen, pair)).toEqual([1_199n, 0n, 0n]);
  expect(await holding(maker, pair)).toEqual([503n, 0n, 0n]);
  expect(await pairBalances(pair)).toEqual([0, 0, 0]);
  expect(await redeemedEvents(winner)).toMatchObject([
    { asset_id: pair.yes.asset_id, amount: "0x12c", usdc_amount: "0x12c", cause: "result" },
  ]);
  expect(await redeemedEvents(loser)).toMatchObject([{ amount: "0x1f4", usdc_amount: "0x0" }]);
  expect(await redeemedEvents(other)).toEqual([]);
  const [position] = await apiOf(winner).list("/rfq/get-positions");
  expect(position).toMatchObject({ amount: "0x0", sold: "0x12c", realized: "299" });
  expect(
    await scalar(
      env.DB,
      expr`SELECT count(*) FROM markets WHERE paid_at IS NOT NULL
      AND asset IN (${pair.yes.key}, ${pair.no.key})`,
    ),
  ).toBe(2);
  // The result is final, and the same one is no error.
  expect(await resolve(pair.yes, 0)).toMatchObject({ problem: { code: "market_settled" } });
  expect(await resolve(pair.yes, 1_000_000)).toMatchObject({ ok: true });
  expect(await pairDifferences(pair)).toEqual([]);
});

it("pays nobody until the result settles, which two operators can correct", async () => {
  const pair = await newPair();
  const user = await newUser({ usdc: 10n });
  await split(user, pair.yes, 10n);
  const later = { SETTLE_DELAY_SECS: "3600" };
  await resolve(pair.yes, 1_000_000, later);
  await payAll();
  expect(await holding(user, pair)).toEqual([0n, 10n, 10n]);
  const query = `venue_id=venue_four&asset_id=${pair.no.asset_id}`;
  await expect
    .poll(async () => (await send(`/markets?${query}`)).json(), { timeout: 5_000 })
    .toMatchObject({
      items: [
        {
          result: 0,
          resolved_by: "operator",
          complement_asset_id: pair.yes.asset_id,
          settles_at: expect.any(String),
        },
      ],
    });
  expect(await resolve(pair.yes, 333_333)).toMatchObject({ result: { previous: 1_000_000 } });
  await payAll();
  // Both are rounded down, so what is left over stays.
  expect(await holding(user, pair)).toEqual([9n, 0n, 0n]);
  expect(await pairBalances(pair)).toEqual([1, 0, 0]);
  expect(await pairDifferences(pair)).toEqual([]);
});

it("redeems the named token at its settled result", async () => {
  const pair = await newPair();
  const user = await newUser({ usdc: 100n });
  await split(user, pair.yes, 100n);
  await resolve(pair.yes, 250_000);
  await redeem(user, pair.yes, { amount: "40" });
  expect(await holding(user, pair)).toEqual([10n, 60n, 100n]);
  await redeem(user, pair.no);
  expect(await holding(user, pair)).toEqual([85n, 60n, 0n]);
  await Promise.all([redeem(user, pair.yes), payAll()]);
  expect(await holding(user, pair)).toEqual([100n, 0n, 0n]);
  expect(await pairDifferences(pair)).toEqual([]);
});

it("a pair that is short pays nobody and is reported", async () => {
  const pair = await newPair();
  const [large, small] = [await newUser({ usdc: 1_000n }), await newUser({ usdc: 10n })];
  await split(large, pair.yes, 1_000n);
  await split(small, pair.yes, 10n);
  const short = (by: number) =>
    edit(env.DB, "accounts", [
      sql`UPDATE accounts SET balance = balance - ${by} WHERE asset = 'usdc'
        AND owner = CAST('pair:' || min(${pair.yes.key}, ${pair.no.key}) AS BLOB)`,
    ]);
  await short(1);
  expect(await pairDifferences(pair)).not.toEqual([]);
  await resolve(pair.yes, 1_000_000);
  await payAll();
  expect((await redeem(small, pair.yes)).json["code"]).toBe("unavailable");
  expect(await holding(large, pair)).toEqual([0n, 1_000n, 1_000n]);
  expect(await holding(small, pair)).toEqual([0n, 10n, 10n]);
  // After ten minutes a pass pages.
  await edit(env.DB, "markets", [
    sql`UPDATE markets SET settles_at = settles_at - 600000 WHERE asset = ${pair.yes.key}`,
  ]);
  await payAll();
  await answerAlert("settlement_late", pair.yes.key, {
    end: async () => {
      await short(-1);
      await payAll();
    },
  });
  expect(await holding(large, pair)).toEqual([1_000n, 0n, 0n]);
  expect(await holding(small, pair)).toEqual([10n, 0n, 0n]);
});

it("reports a pair that became short after its result settled", async () => {
  const pair = await newPair();
  const user = await newUser({ usdc: 10n });
  await split(user, pair.yes, 10n);
  await resolve(pair.yes, 250_000);
  await edit(env.DB, "accounts", [
    sql`UPDATE accounts SET balance = balance - 1 WHERE asset = 'usdc'
      AND owner = CAST('pair:' || min(${pair.yes.key}, ${pair.no.key}) AS BLOB)`,
  ]);
  expect(await pairDifferences(pair)).not.toEqual([]);
});

it("refuses withdrawals of a token without a chain", async () => {
  const { yes } = await newPair();
  const key = await newKey(await newUser({ usdc: 10n }));
  const answer = await apiOf(key).post("/custody/withdraw", {
    ...body(yes),
    client_withdrawal_id: "one",
    amount: "1",
    to_address: newAddress(),
  });
  expect(answer).toMatchObject({ status: 400, json: { errors: [{ path: "body.venue_id" }] } });
});

it("a pair pays only USDC that it holds", async () => {
  const [pair, other] = [await newPair(), await newPair()];
  const user = await newUser({ usdc: 11n });
  await split(user, pair.yes, 10n);
  const owner = ({ yes, no }: TestPair) => sql`CAST('pair:' || min(${yes.key}, ${no.key}) AS BLOB)`;
  const account = (of: TestPair) => sql`(SELECT account_id FROM accounts
    WHERE owner = ${owner(of)} AND asset = 'usdc')`;
  const move = (to: TestPair, amount: number) =>
    all(
      env.DB,
      sql`INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at)
        VALUES (${account(pair)}, ${account(to)}, ${amount}, 6,
          randomblob(16), 2, 0, (SELECT max(at) FROM commit_groups))`,
    );
  await split(user, other.yes, 1n);
  await expect(move(other, 11)).rejects.toThrow("balance not moved");
});

it("pairs two markets for good, and closes and opens them together", async () => {
  const pair = await newPair();
  const other = newAsset("venue_four");
  const set = (asset: TestAsset, more: Record<string, string>) =>
    sendOrder(
      orderOf(["market", "set"], {
        ...named(asset),
        title: `Question ${pair.yes.asset_id}`,
        outcome: asset === pair.yes ? "Yes" : asset === pair.no ? "No" : "Else",
        ...more,
      }),
    );
  const mismatch = { problem: { code: "complement_mismatch" } };
  expect(await set(other, { complement: pair.yes.asset_id })).toMatchObject(mismatch);
  expect(await set(other, { complement: other.asset_id })).toMatchObject(mismatch);
  expect(await set(other, { complement: newAsset().asset_id })).toMatchObject(mismatch);
  expect(await set(pair.yes, { complement: newAsset().asset_id })).toMatchObject(mismatch);
  const status = async () =>
    all(
      env.DB,
      sql`SELECT closed_at IS NOT NULL AS closed, closes_at IS NOT NULL AS closes FROM markets
        WHERE asset IN (${pair.yes.key}, ${pair.no.key})`,
    );
  const both = (closed: number, closes: number) =>
    Array.from({ length: 2 }, () => ({ closed, closes }));
  await sendOrder(orderOf(["market", "close"], named(pair.no)));
  expect(await status()).toEqual(both(1, 0));
  const closesAt = new Date(Date.now() + 3_600_000).toISOString();
  expect(await set(pair.yes, { reopen: "true", "closes-at": closesAt })).toMatchObject({
    ok: true,
  });
  expect(await status()).toEqual(both(0, 1));
  for (const statement of [
    sql`UPDATE markets SET complement = NULL WHERE asset = ${pair.yes.key}`,
    sql`UPDATE markets SET complement = 'x' WHERE asset = ${pair.yes.key}`,
    sql`UPDATE markets SET settles_at = 5 WHERE asset = ${pair.yes.key}`,
    sql`UPDATE markets SET paid_at = 5 WHERE asset = ${pair.yes.key}`,
  ])
    await expect(all(env.DB, statement)).rejects.toThrow("append-only");
  // Nor does a market with a result become one of a pair.
  expect(await set(other, {})).toMatchObject({ ok: true });
  await resolve(other, 0);
  const late = newAsset("venue_four");
  expect(
    await sendOrder(
      orderOf(["market", "set"], {
        ...named(late),
        title: late.asset_id,
        outcome: "Yes",
        complement: other.asset_id,
      }),
    ),
  ).toMatchObject(mismatch);
  const [first] = [newAsset("venue_one")];
  expect(
    await sendOrder(
      orderOf(["market", "set"], {
        ...named(first),
        title: first.asset_id,
        outcome: "Yes",
        complement: "0x1",
      }),
    ),
  ).toMatchObject({ problem: { code: "invalid_request" } });
});
