/** Lists of the operator by pages, and what accountants ask. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { raiseAlert } from "../../src/platform/alert.ts";
import { all, blob, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { apiOf } from "../support/http.ts";
import {
  balances,
  endWithdrawal,
  fund,
  insertDeposit,
  newAsset,
  queueWithdrawal,
  randomHex,
} from "../support/ledger.ts";
import { command, openMarket, openRequest, placeQuote, submit } from "../support/market.ts";
import { orderOf, sendOrder } from "../support/operator.ts";
import { type TestUser, newUser } from "../support/users.ts";

type Row = Record<string, any>;
type Options = Record<string, string>;

async function execute(line: string, options: Options = {}) {
  const { ok, result, next_cursor, problem } = await sendOrder(orderOf(line.split(" "), options));
  expect({ ok, problem }).toEqual({ ok: true, problem: undefined });
  return { rows: result as Row[], result: result as Row, next_cursor };
}

async function inPages(line: string, options: Options, limit = "2"): Promise<Row[]> {
  const found: Row[] = [];
  for (let cursor: string | undefined; ;) {
    const page = await execute(line, { ...options, limit, ...(cursor && { cursor }) });
    found.push(...page.rows);
    if (typeof page.next_cursor !== "string") return found;
    expect(page.rows.length).toBeLessThanOrEqual(Number(limit));
    cursor = page.next_cursor;
  }
}

const DAY_MS = 86_400_000;
const today = () => new Date().toISOString().slice(0, 10);
const tomorrow = () => new Date(Date.now() + DAY_MS).toISOString().slice(0, 10);

/** Small deposits of one commit, whose ids are in no order. */
async function receiveSmall({ userId }: TestUser, ids: readonly string[]): Promise<void> {
  await all(
    env.DB,
    sql`INSERT INTO deposit_addresses (chain, address, user_id, nonce, salt, created_at)
      VALUES ('local', randomblob(20), ${uuid(userId)}, 0, randomblob(32), 1)`,
  );
  for (const id of ids)
    await all(
      env.DB,
      sql`INSERT INTO small_deposits (key, deposit_id, user_id, chain, nonce, transaction_hash,
          token, ordinal, position, block_number, venue, asset_id, amount, required_confirmations,
          detected_at, due)
        VALUES (randomblob(17), ${uuid(id)}, ${uuid(userId)}, 'local', 0, randomblob(32),
          randomblob(20), 0, 0, 1, NULL, NULL, 7, 2, 1, 0)`,
    );
}

it("pages of any size show each row of a list once", async () => {
  const { book, requester, maker, request } = await openMarket({
    requester: { usdc: 10_000_000n },
    maker: { token: 10_000_000n },
  });
  await placeQuote(maker, request.request_id, 400_000);
  const quote = await placeQuote(maker, request.request_id, 500_000);
  await apiOf(requester).post("/rfq/accept", { quote_id: quote.quote_id });
  for (const amount of [7n, 8n, 9n]) {
    const open = await openRequest(requester, book, { amount });
    await placeQuote(maker, open.request_id, 400_000);
    await submit(command.cancelRequest(requester, open.request_id));
    await queueWithdrawal(requester, "usdc", amount);
  }
  const [first, second, third] = [uuidv7(), uuidv7(), uuidv7()];
  for (let n = 0; n < 2; n++)
    await insertDeposit(requester.userId, {
      chain: "local",
      asset: "usdc",
      amount: 1n,
      status: "orphaned",
    });
  await receiveSmall(requester, [third, first, second]);
  for (const subject of ["one", "two", "three"])
    await raiseAlert(env.DB, "gas_low", `${subject}:${uuidv7()}`, "holds 1 wei");
  const asked = { email: requester.email };
  const lists: [line: string, options: Options][] = [
    ["user list", { since: "5m" }],
    ["requests list", asked],
    ["quotes list", { email: maker.email }],
    ["matches list", asked],
    ["deposits list", asked],
    ["deposits list", { ...asked, status: "below_minimum" }],
    ["withdrawals list", asked],
    ["alerts list", { kind: "gas_low" }],
    ["audit list", { kind: "operator_order" }],
    ["history matches", asked],
    ["ledger", asked],
    ["liabilities", {}],
    ["makers", {}],
    ["market list", {}],
  ];
  for (const [line, options] of lists) {
    // The longest page. Other files of the run may have made more users.
    const { rows } = await execute(line, { ...options, limit: "500" });
    const named = (row: Row) =>
      JSON.stringify({ ...row, age: undefined, confirmations: undefined });
    // A page of a long list is longer, because each takes an order.
    const size = String(Math.max(2, Math.ceil(rows.length / 8)));
    const found = (await inPages(line, options, size)).slice(0, 500);
    expect([line, found.map(named)]).toEqual([line, rows.map(named)]);
  }
  const small = (await inPages("deposits list", asked)).map(({ deposit_id }) => deposit_id);
  expect(small).toEqual(expect.arrayContaining([first, second, third]));
  expect(new Set(small).size).toBe(6);
  for (const cursor of ["x", "1.1"])
    expect(await sendOrder(orderOf(["deposits", "list"], { cursor }))).toMatchObject({
      problem: { code: "invalid_request" },
    });
});

it("shows a user's ledger as the user reads it, in a period", async () => {
  const user = await newUser();
  await fund(user.userId, "usdc", 5n);
  await fund(user.userId, "usdc", 7n);
  const { rows } = await execute("ledger", { email: user.email });
  expect(rows).toEqual((await apiOf(user).get("/custody/get-ledger")).json["items"]);
  const until = { to: new Date(Date.now() - DAY_MS).toISOString() };
  expect((await execute("ledger", { email: user.email, ...until })).rows).toEqual([]);
  expect(await sendOrder(orderOf(["ledger"], { email: user.email, from: "x" }))).toMatchObject({
    problem: { code: "invalid_request" },
  });
});

it("`liabilities --at` takes back what has moved since", async () => {
  const asset = newAsset("venue_two");
  // Of a day that has passed, what pairs hold is in what is owed.
  const at = async (day?: string) =>
    (await inPages("liabilities", day === undefined ? {} : { at: day }, "500"))
      .filter(({ asset_id }) => asset_id === null || asset_id === asset.asset_id)
      .map((row): Record<string, unknown> => {
        const owed = BigInt(String(row["owed_to_users"])) + BigInt(String(row["pairs"]));
        return { ...row, pairs: undefined, owed_to_users: `0x${owed.toString(16)}` };
      });
  const [usdc] = await at(today());
  const { requester, maker, request } = await openMarket({
    venue: "venue_two",
    amount: 1_000_000n,
    requester: { usdc: 10_000_000n },
    maker: { token: 10_000_000n },
  });
  const quote = await placeQuote(maker, request.request_id, 500_000);
  await apiOf(requester).post("/rfq/accept", { quote_id: quote.quote_id });
  await fund(requester.userId, asset.key, 9n);
  await endWithdrawal(await queueWithdrawal(requester, "usdc", 4n), "Paid");
  await queueWithdrawal(requester, "usdc", 3n);
  const id = randomHex(32);
  await all(
    env.DB,
    sql`INSERT INTO vault_events (chain, transaction_hash, ordinal, kind, payment_id, vault,
        batch_no, token, token_id, asset, amount, to_address, block_number, block_hash,
        recorded_group)
      VALUES ('local', ${blob(randomHex(32))}, 0, 'Paid', ${blob(id)}, ${blob(randomHex(20))}, 1,
        ${blob(randomHex(20))}, '0', 'usdc', '5', ${blob(randomHex(20))}, 1,
        ${blob(randomHex(32))}, -1)`,
  );
  await execute("restore", { "accept-payment": id, as: "loss", reason: "incident 7" });
  const now = await at();
  expect(now[0]).not.toEqual(usdc);
  expect(await at(tomorrow())).toEqual(now);
  expect((await at(today()))[0]).toEqual(usdc);
  expect(now.find(({ asset_id }) => asset_id !== null)).toMatchObject({ owed_to_users: "0x9" });
  expect((await at(today())).find(({ asset_id }) => asset_id !== null)).toMatchObject({
    owed_to_users: "0x0",
  });
  expect((await balances(requester.userId, asset.key))[0]).toBe(9n);
  for (const day of ["2026-02-30", "2026-01", "now"])
    expect(await sendOrder(orderOf(["liabilities"], { at: day }))).toMatchObject({
      problem: { code: "invalid_request" },
    });
});

it("`fees --month` sums a month of any age", async () => {
  const days = [
    ["2020-01-31", 1],
    ["2020-02-01", 2],
    ["2020-02-29", 4],
    ["2020-03-01", 8],
  ] as const;
  for (const [day, trades] of days)
    await all(
      env.DB,
      sql`INSERT INTO venue_days (day, venue, trades, usdc_amount, taker_fee, maker_fee)
        VALUES (${Date.parse(day) / DAY_MS}, 'venue_one', ${trades}, 10, 1, 2)`,
    );
  const { result } = await execute("fees", { month: "2020-02" });
  expect(result).toMatchObject({
    days: 29,
    venues: [{ trades: 6, usdc_amount: "0x14", taker_fee: "0x2", maker_fee: "0x4" }],
  });
  for (const wrong of [{ month: "2020-13" }, { month: "2020-02", days: "3" }])
    expect(await sendOrder(orderOf(["fees"], wrong))).toMatchObject({
      problem: { code: "invalid_request" },
    });
});

it("`makers` counts answers and hits, and times the first quote on each request", async () => {
  const { book, requester, maker, request } = await openMarket({
    requester: { usdc: 10_000_000n },
    maker: { token: 10_000_000n },
  });
  await placeQuote(maker, request.request_id, 400_000);
  const quote = await placeQuote(maker, request.request_id, 500_000);
  await apiOf(requester).post("/rfq/accept", { quote_id: quote.quote_id });
  const open = await openRequest(requester, book, { amount: 7n });
  await placeQuote(maker, open.request_id, 400_000);
  const found = (await inPages("makers", {}, "500")).find(({ email }) => email === maker.email);
  expect(found).toMatchObject({
    maker_id: maker.userId,
    answers: 2,
    quotes: 3,
    accepted: 1,
    hit_percent: 50,
    time_to_quote_ms: expect.any(Number) as number,
  });
  expect(found?.["time_to_quote_ms"]).toBeGreaterThanOrEqual(0);
});

it("`holdings` says which chain it could not read", async () => {
  const { userId } = await newUser();
  await fund(userId, "usdc", 5n);
  const rows = await inPages("holdings", {});
  expect(rows.find(({ asset_id }) => asset_id === null)).toMatchObject({
    chain: "local",
    holdings: null,
  });
});
