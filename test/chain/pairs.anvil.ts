/**
 * Pairs of a venue with a chain, on the real Conditional Tokens contract. Two endpoints serve the
 * chain, of which the second may lie.
 */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { all, sql } from "../../src/platform/sql.ts";
import { readResults } from "../../src/rfq/pairs/read-results.ts";
import { payHolders } from "../../src/rfq/pairs/pay-holders.ts";
import { fund, type TestAsset } from "../support/ledger.ts";
import { orderOf, orderOfTwo, sendOrder } from "../support/operator.ts";
import { holding, pairBalances, pairDifferences } from "../support/pairs.ts";
import { withBatch } from "../support/slow-database.ts";
import { newKey } from "../support/users.ts";
import { someone } from "./support/stage.ts";
import { answerAlert } from "../support/pager.ts";
import {
  depositTokens,
  newCondition,
  openPairs,
  type PairStage,
  payAll,
  report,
  settle,
} from "./support/pairs.ts";

it("mints, withdraws what the chain holds, and redeems what the pair has issued", async () => {
  const on = await openPairs();
  const pair = await newCondition(on);
  const [maker, holder] = [await on.user(1_000n), await on.user(0n)];
  const body = { venue_id: on.venue_id, asset_id: pair.yes.asset_id };
  const split = await on.api(maker).post("/custody/split", { ...body, amount: "600" });
  expect(split.status).toBe(200);
  expect(await pairBalances(pair)).toEqual([600, -600, -600]);
  const key = await newKey(maker);
  const withdraw = (amount: string, id: string) =>
    on.api(key).post("/custody/withdraw", {
      ...body,
      amount,
      to_address: someone(),
      client_withdrawal_id: id,
    });
  // The vault holds none of what was minted.
  expect((await withdraw("1", "a")).json).toMatchObject({
    code: "chain_liquidity",
    available: "0x0",
  });
  await depositTokens(on, pair, holder.address, [
    [pair.yes, 250n],
    [pair.no, 250n],
  ]);
  expect(await holding(holder, pair)).toEqual([0n, 250n, 250n]);
  expect((await withdraw("251", "b")).json).toMatchObject({
    code: "chain_liquidity",
    available: "0xfa",
  });
  const { json } = await withdraw("250", "c");
  expect(json).toMatchObject({ status: "queued" });
  await on.pay();
  expect(await on.stage.withdrawal(String(json["withdrawal_id"]))).toMatchObject({
    status: "settled",
  });
  // The holder of both gets USDC for them, as much as the pair has issued.
  const redeemed = await on.api(holder).post("/custody/redeem", body);
  expect(redeemed.json["items"]).toMatchObject([{ amount: "0xfa" }, { amount: "0xfa" }]);
  expect(await pairBalances(pair)).toEqual([350, -350, -350]);
  expect(await pairDifferences(pair)).toEqual([]);
});

it("redeems both tokens only as far as the pair has issued them", async () => {
  const on = await openPairs();
  const pair = await newCondition(on);
  const holder = await on.user(100n);
  const body = { venue_id: on.venue_id, asset_id: pair.no.asset_id };
  await depositTokens(on, pair, holder.address, [
    [pair.yes, 50n],
    [pair.no, 50n],
  ]);
  const redeem = (more = {}) => on.api(holder).post("/custody/redeem", { ...body, ...more });
  expect((await redeem()).json).toMatchObject({ code: "chain_liquidity", available: "0x0" });
  await on.api(holder).post("/custody/split", { ...body, amount: "20" });
  expect((await redeem({ amount: "21" })).json).toMatchObject({
    code: "chain_liquidity",
    available: "0x14",
  });
  expect((await redeem()).json["items"]).toMatchObject([{ amount: "0x14" }, { amount: "0x14" }]);
  expect(await holding(holder, pair)).toEqual([100n, 50n, 50n]);
  expect(await pairDifferences(pair)).toEqual([]);
});

it.each([
  [[1n, 0n], 1_000_000, 0],
  [[1n, 1n], 500_000, 500_000],
  [[1n, 2n], 333_333, 666_666],
] as const)("pays %s to who minted and who deposited", async (payouts, first, second) => {
  const on = await openPairs();
  const pair = await newCondition(on);
  const [minter, holder] = [await on.user(900n), await on.user(0n)];
  const body = { venue_id: on.venue_id, asset_id: pair.yes.asset_id };
  await on.api(minter).post("/custody/split", { ...body, amount: "900" });
  await depositTokens(on, pair, holder.address, [
    [pair.yes, 300n],
    [pair.no, 600n],
  ]);
  await report(on, pair, payouts);
  await settle(on);
  expect(
    await all(
      env.DB,
      sql`SELECT result FROM markets WHERE condition = ${pair.condition} ORDER BY slot`,
    ),
  ).toEqual([{ result: first }, { result: second }]);
  await payAll(on);
  // The pair has 900 for more than that, so each gets the same part.
  const owed = (amounts: readonly number[]) =>
    amounts.reduce((sum, amount, slot) => sum + (amount * [first, second][slot]!) / 1e6, 0);
  const part = 900 / (owed([900, 900]) + owed([300, 600]));
  expect(Math.abs(Number((await holding(minter, pair))[0]) - 900 * part)).toBeLessThan(3);
  expect(Math.abs(Number((await holding(holder, pair))[0]) - owed([300, 600]) * part)).toBeLessThan(
    3,
  );
  expect(await pairDifferences(pair)).toEqual([]);
  // The float account buys the rest, and is not paid by the pair itself.
  await fund(on.float.userId, "usdc", 5_000n);
  await payAll(on);
  await payAll(on);
  const [paid, yes, no] = await holding(minter, pair);
  expect([yes, no]).toEqual([0n, 0n]);
  expect(Number(paid)).toBeGreaterThanOrEqual(897);
  expect((await holding(holder, pair)).slice(1)).toEqual([0n, 0n]);
  expect(await pairDifferences(pair)).toEqual([]);
});

it("settles only what two endpoints show, and shows again, and pays late deposits", async () => {
  const on = await openPairs();
  const pair = await newCondition(on);
  const minter = await on.user(100n);
  const body = { venue_id: on.venue_id, asset_id: pair.yes.asset_id };
  await on.api(minter).post("/custody/split", { ...body, amount: "100" });
  const results = () =>
    all<{ result: number | null; final: number }>(
      env.DB,
      sql`SELECT result, read_at IS NOT NULL AS final FROM markets
        WHERE condition = ${pair.condition} ORDER BY slot`,
    );
  const both = (first: number | null, second: number | null, final: number) => [
    { result: first, final },
    { result: second, final },
  ];
  // No operator sets what only the chain decides.
  expect(await resolve(on, pair.yes, 0)).toMatchObject({ problem: { code: "market_conditional" } });
  await report(on, pair, [1n, 0n]);
  // An endpoint that lies or does not answer proposes nothing.
  on.state.lies = invertPayouts;
  await readResults(on.bindings);
  expect(await results()).toEqual(both(null, null, 0));
  on.state.lies = (_, result) => result;
  const later = { ...on.bindings, SETTLE_DELAY_SECS: "3600" };
  await readResults(later);
  await readResults(later);
  expect(await results()).toEqual(both(1_000_000, 0, 0));
  // Two operators correct it wrongly, so nobody is paid: neither by them nor by the chain.
  expect(await resolve(on, pair.yes, 0)).toMatchObject({ ok: true });
  await readResults(on.bindings);
  await payAll(on);
  expect(await holding(minter, pair)).toEqual([0n, 100n, 100n]);
  expect((await on.api(minter).post("/custody/redeem", body)).json["items"]).toHaveLength(2);
  await on.api(minter).post("/custody/split", { ...body, amount: "1" });
  await answerAlert("result_differs", pair.yes.key, {
    bindings: on.changes,
    end: async () => {
      await resolve(on, pair.yes, 1_000_000);
      await readResults(on.bindings);
    },
  });
  expect(await results()).toEqual(both(1_000_000, 0, 1));
  expect(await resolve(on, pair.yes, 0)).toMatchObject({ problem: { code: "market_settled" } });
  await payAll(on);
  // Who comes later is paid, too, once there is USDC.
  const late = await on.user(0n);
  await depositTokens(on, pair, late.address, [[pair.yes, 30n]]);
  await fund(on.float.userId, "usdc", 10n);
  await payAll(on);
  expect(await holding(late, pair)).toEqual([9n, 21n, 0n]);
  await fund(on.float.userId, "usdc", 100n);
  await payAll(on);
  expect(await holding(late, pair)).toEqual([30n, 0n, 0n]);
  expect(await holding(on.float, pair)).toEqual([80n, 30n, 0n]);
  expect(await pairDifferences(pair)).toEqual([]);
});

it("takes only a condition that two endpoints show, with two outcomes and no result", async () => {
  const on = await openPairs();
  const pair = await newCondition(on);
  const set = (condition: string, asset = "0x5", changes: object = on.changes) =>
    sendOrder(
      orderOf(["market", "set"], {
        venue: on.venue_id,
        "asset-id": asset,
        title: asset,
        outcome: "Yes",
        condition,
      }),
      changes,
    );
  const mismatch = { problem: { code: "condition_mismatch" } };
  expect(await set(pair.condition)).toMatchObject(mismatch);
  expect(await set(`0x${"7".repeat(64)}`)).toMatchObject(mismatch);
  expect(await set(pair.condition, pair.yes.asset_id)).toMatchObject({
    problem: { code: "market_listed" },
  });
  on.state.lies = (method, result) =>
    method === "eth_call" ? String(result).replaceAll("2", "3") : result;
  const unreadable = { problem: { code: "condition_unreadable" } };
  expect(await set(pair.condition)).toMatchObject(unreadable);
  on.state.lies = (_, result) => result;
  const [chain] = on.settings.CHAINS.slice(-1);
  const alone = JSON.stringify([{ ...chain, rpc_urls: chain?.rpc_urls.slice(0, 1) }]);
  expect(await set(pair.condition, "0x5", { ...on.changes, CHAINS: alone })).toMatchObject(
    unreadable,
  );
  await report(on, pair, [0n, 1n]);
  expect(await set(pair.condition)).toMatchObject(mismatch);
  // It never changes.
  for (const statement of [
    sql`UPDATE markets SET condition = 'x' WHERE asset = ${pair.yes.key}`,
    sql`UPDATE markets SET slot = 1 WHERE asset = ${pair.yes.key}`,
    sql`UPDATE markets SET read_at = 1 WHERE asset = ${pair.yes.key}`,
  ])
    await expect(all(env.DB, statement)).rejects.toThrow(/append-only|UNIQUE/);
});

it("pays each holder once when cron dies anywhere", async () => {
  const on = await openPairs();
  const pair = await newCondition(on);
  const [minter, holder] = [await on.user(50n), await on.user(0n)];
  const body = { venue_id: on.venue_id, asset_id: pair.yes.asset_id };
  await on.api(minter).post("/custody/split", { ...body, amount: "50" });
  await depositTokens(on, pair, holder.address, [[pair.yes, 70n]]);
  await fund(on.float.userId, "usdc", 500n);
  await report(on, pair, [1n, 0n]);
  for (let dies = 0; dies < 12; dies++) {
    let left = dies;
    // The batch is lost before or after it took effect.
    const dying = withBatch(env.DB, async (statements) => {
      if (left-- > 0) return env.DB.batch(statements);
      if (dies % 2 === 1) await env.DB.batch(statements);
      throw new Error("killed");
    });
    const bindings = { ...on.bindings, DB: dying };
    await readResults(bindings).catch(() => {});
    await readResults(bindings).catch(() => {});
    await payHolders(bindings).catch(() => {});
  }
  await settle(on);
  await payAll(on);
  expect(await holding(minter, pair)).toEqual([50n, 0n, 0n]);
  expect(await holding(holder, pair)).toEqual([70n, 0n, 0n]);
  expect(await holding(on.float, pair)).toEqual([430n, 70n, 0n]);
  expect(await pairBalances(pair)).toEqual([0, 0, 0]);
  expect(await pairDifferences(pair)).toEqual([]);
});

const resolve = (on: PairStage, asset: TestAsset, result: number) =>
  orderOfTwo(
    ["market", "resolve"],
    { venue: on.venue_id, "asset-id": asset.asset_id, result: String(result) },
    { ...on.changes, password: "" },
  );

/** Numerators of a resolved condition are words of 1 and 0. */
const invertPayouts = (method: string, result: unknown) =>
  method === "eth_call" && String(result).includes("1".padStart(64, "0"))
    ? String(result).replace(/0{63}1/g, "f".repeat(64))
    : result;
