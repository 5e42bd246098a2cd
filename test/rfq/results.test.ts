/** Two operators set or correct the result of a market. Holders of its token get an event. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { all, sql } from "../../src/platform/sql.ts";
import { tellHolders } from "../../src/rfq/markets/tell-holders.ts";
import { accountStream } from "../../src/streams/event-log.ts";
import { apiOf, send } from "../support/http.ts";
import { endWithdrawal, newAsset, queueWithdrawal, type TestAsset } from "../support/ledger.ts";
import { command, openRequest, outcomeOf, placeQuote, submit } from "../support/market.ts";
import { orderOf, orderOfTwo, sendOrder } from "../support/operator.ts";
import { withBatch } from "../support/slow-database.ts";
import { connect } from "../support/sockets.ts";
import { newUser, type TestUser } from "../support/users.ts";

const named = ({ venue_id, asset_id }: TestAsset) => ({ venue: venue_id, "asset-id": asset_id });

async function listed(): Promise<TestAsset> {
  const asset = newAsset();
  const terms = { ...named(asset), title: `Question ${asset.asset_id}`, outcome: "Yes" };
  expect(await sendOrder(orderOf(["market", "set"], terms))).toMatchObject({ ok: true });
  return asset;
}

const resolve = (asset: TestAsset, result: string) =>
  orderOfTwo(["market", "resolve"], { ...named(asset), result }, { password: "" });

async function tellAll(bindings: Env = env): Promise<void> {
  while (await tellHolders(bindings));
}

/** The data of the user's events about the asset, oldest first. */
async function told(user: TestUser, { asset_id }: TestAsset): Promise<unknown[]> {
  const { json } = await apiOf(user).get("/account/events?types=market.result&since=0");
  const items = json["items"] as { data: { asset_id: string } }[];
  return items.map(({ data }) => data).filter((data) => data.asset_id === asset_id);
}

it("takes two operators, ends trading for good and is listed", async () => {
  const asset = await listed();
  const requester = await newUser({ usdc: 1_000n });
  const maker = await newUser({ [asset.key]: 1_000n });
  const request = await openRequest(requester, asset.key, { amount: 10n });
  const quote = await placeQuote(maker, request.request_id, 500_000);
  const options = { ...named(asset), result: "1000000" };
  // One operator only proposes.
  expect(await sendOrder(orderOf(["market", "resolve"], options))).toMatchObject({
    ok: true,
    result: { status: "open" },
  });
  expect(outcomeOf(await submit(command.accept(requester, quote.quote_id)))).toBe("ok");
  const later = await openRequest(requester, asset.key, { amount: 10n });
  expect(await resolve(asset, "1000000")).toMatchObject({
    ok: true,
    result: { result: 1_000_000, previous: null, cancelled_requests: 1 },
  });
  const late = command.placeQuote(maker, later.request_id, 1);
  expect(outcomeOf(await submit(late))).toBe("request_not_open");
  const again = command.openRequest(requester, asset.key, { amount: 1n });
  expect(outcomeOf(await submit(again))).toBe("market_closed");
  const reopen = { ...named(asset), title: "Again", outcome: "Yes", reopen: "true" };
  expect(await sendOrder(orderOf(["market", "set"], reopen))).toMatchObject({
    problem: { code: "market_resolved" },
  });
  const query = `venue_id=${asset.venue_id}&asset_id=${asset.asset_id}`;
  await expect
    .poll(async () => (await send(`/markets?${query}`)).json(), { timeout: 5_000 })
    .toMatchObject({ items: [{ status: "closed", result: 1_000_000 }] });
  const [position] = await apiOf(requester).list("/rfq/get-positions");
  expect(position).toMatchObject({ amount: "0xa", result: 1_000_000, value: "0xa" });
});

it("tells each holder once, also of what is pending, and nobody else", async () => {
  const asset = await listed();
  const holder = await newUser({ [asset.key]: 5n });
  const withdrawing = await newUser({ [asset.key]: 5n });
  await queueWithdrawal(withdrawing, asset.key, 5n);
  const gone = await newUser({ [asset.key]: 5n });
  await endWithdrawal(await queueWithdrawal(gone, asset.key, 5n), "Paid");
  const other = await newUser({ usdc: 5n });
  const subscriber = await connect(holder, accountStream(holder.userId));
  // Older results come first.
  await tellAll();
  await resolve(asset, "0");
  // A killed run and a doubled one change nothing.
  const killed = withBatch(env.DB, () => Promise.reject(new Error("Network connection lost.")));
  await tellHolders({ ...env, DB: killed }).catch(() => {});
  await Promise.all([tellHolders(env), tellHolders(env)]);
  await tellAll();
  const data = { venue_id: asset.venue_id, asset_id: asset.asset_id, result: 0, previous: null };
  expect((await subscriber.until("market.result")).data).toEqual(data);
  for (const user of [holder, withdrawing]) expect(await told(user, asset)).toEqual([data]);
  for (const user of [gone, other]) expect(await told(user, asset)).toEqual([]);
});

it("corrects a result by a new event only", async () => {
  const asset = await listed();
  const holder = await newUser({ [asset.key]: 5n });
  await resolve(asset, "1000000");
  // The same result again is no event.
  expect(await resolve(asset, "1000000")).toMatchObject({ ok: true });
  await resolve(asset, "0");
  await tellAll();
  expect(await told(holder, asset)).toMatchObject([
    { result: 1_000_000, previous: null },
    { result: 0, previous: 1_000_000 },
  ]);
  for (const statement of [
    sql`UPDATE markets SET result = 7 WHERE asset = ${asset.key}`,
    sql`UPDATE markets SET result = NULL WHERE asset = ${asset.key}`,
    sql`UPDATE market_results SET result = 7 WHERE asset = ${asset.key}`,
    sql`UPDATE market_results SET told_at = NULL WHERE asset = ${asset.key}`,
    sql`DELETE FROM market_results WHERE asset = ${asset.key}`,
    sql`INSERT INTO market_results (asset, result, previous, at, set_group)
      VALUES (${asset.key}, 7, NULL, 1, 1)`,
    sql`INSERT OR REPLACE INTO market_results (result_id, asset, result, previous, at, set_group)
      SELECT result_id, asset, 7, 0, 1, 1 FROM market_results WHERE asset = ${asset.key}`,
    sql`INSERT INTO markets (asset, title, outcome, closed_at, changed_group, result)
      VALUES ('venue_one:0xffff', 'x', 'x', 1, 1, 5)`,
  ])
    await expect(all(env.DB, statement)).rejects.toThrow(/append-only|result/);
});

it("refuses a result beyond one USDC, and one of an unknown market", async () => {
  for (const result of ["1000001", "-1", "0.5", ""])
    expect(await resolve(await listed(), result)).toMatchObject({ problem: { status: 400 } });
  expect(await resolve(newAsset(), "1")).toMatchObject({ problem: { code: "market_unknown" } });
});
