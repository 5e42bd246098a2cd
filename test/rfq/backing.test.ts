/**
 * Quotes that a pair backs: a Bid with USDC alone, and an Ask with the complement.
 *
 * What was tried against pairs, and the test or the rule that answers it:
 *
 * - Two accepts, two redemptions, a lost response, an accept against a result: "matches once" here,
 *   "repeated idempotency key" and "pays every holder once" of pairs.test.ts. transfers_once posts
 *   a reference and step once, and the result closes both markets in its commit.
 * - Promised tokens or USDC redeemed, withdrawn or quoted again: "leaves what open quotes promise",
 *   "matches once" here. transfers_post takes only `balance - promised`.
 * - A pair that pays more than it has, starves the last holders, or pays by order of account: "a
 *   pair pays only USDC that it holds", "a pair that is short pays nobody". The house account is at
 *   least 0 for every receiver, and `isCovered` is asked before each slice.
 * - A wrong result that cannot be corrected, or is corrected once it is paid: "pays nobody until
 *   the result settles". A trigger refuses a result after `settles_at`.
 * - Cron dies in a slice or runs twice, a damaged account, late deposits, frozen users: the balance
 *   is the guard, a slice is halved to the account, "pays every holder once". Tokens cannot be
 *   deposited.
 * - A wrong, changed or foreign complement: "pairs two markets for good" and "keeps the pair". The
 *   key of a market contains its venue. A quote names no complement: the trigger copies the
 *   market's.
 * - One side closed: both close together, so the complement's market is open if the request's is.
 * - Price 1, one unit, fees above the profit, a reserve of 0: "rejects what no pair can back", and
 *   the model (pairs-model.node.test.ts), with fees. Above 2^62: "refuses a match", `required` of
 *   others.
 * - A maker who makes quotes unacceptable: what a match needs is reserved, and of the house a merge
 *   needs what the pair has issued, so USDC never lacks (`u = -y = -n`, J11, the model).
 * - A ladder of quotes of one fund: each reserve is promised in full ("matches once" here).
 * - Edits by SQL of complement, result or rows: test/reconcile/edits.test.ts and tampering.test.ts.
 * - Conversions, converters, vaults and their gas: none exists. The float account converts with its
 *   own wallet, by ordinary deposits and withdrawals.
 * - A lying or single endpoint, a wrong first result, a correction, late and dust deposits, cron
 *   that dies: test/chain/pairs.anvil.ts, on the real contract. `u = -y = -n` until the result is
 *   final, so no deposit, withdrawal, reorganisation or restore touches what a pair owes.
 * - Deposited winners take what was minted against: all get the same part (`pays`), and none is
 *   paid by order of account. Rounding leaves nobody unpaid: pairs-model.node.test.ts.
 */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { all, sql } from "../../src/platform/sql.ts";
import { recordBy } from "../../src/audit/audit.ts";
import { setMarkets } from "../../src/rfq/markets/set-markets.ts";
import { payHolders } from "../../src/rfq/pairs/pay-holders.ts";
import { accountStream } from "../../src/streams/event-log.ts";
import { apiOf } from "../support/http.ts";
import { fund, newAsset, type TestAsset } from "../support/ledger.ts";
import { command, matchOf, openRequest, submit } from "../support/market.ts";
import { holding, newPair, pairBalances, pairDifferences, resolve } from "../support/pairs.ts";
import { connect, storedEvents } from "../support/sockets.ts";
import { newUser, type TestUser } from "../support/users.ts";

type Request = { readonly request_id: string };
type Terms = { readonly backing?: string; readonly [field: string]: unknown };

const quote = (maker: TestUser, { request_id }: Request, price: number, terms: Terms = {}) =>
  apiOf(maker).post("/rfq/quote", { request_id, price, ...terms });
const ask = (user: TestUser, asset: TestAsset, amount: bigint, side: "Bid" | "Ask" = "Bid") =>
  openRequest(user, asset.key, { amount, side });
const split = (user: TestUser, { venue_id, asset_id }: TestAsset, amount: bigint) =>
  apiOf(user).post("/custody/split", { venue_id, asset_id, amount: String(amount) });
const accept = async (taker: TestUser, { json }: { json: Record<string, unknown> }) =>
  matchOf(await submit(command.accept(taker, String(json["quote_id"]))));
const usdc = { backing: "usdc" };
const complement = { backing: "complement" };

/** A maker and a taker with USDC, and a request of the taker. */
async function market(makerUsdc: bigint, takerUsdc: bigint) {
  const pair = await newPair();
  const [maker, taker] = [await newUser({ usdc: makerUsdc }), await newUser({ usdc: takerUsdc })];
  return { pair, maker, taker, request: await ask(taker, pair.yes, 1_000n) };
}

it("mints for a maker who has USDC alone, and shows the taker nothing of it", async () => {
  const { pair, maker, taker, request } = await market(300n, 700n);
  const placed = await quote(maker, request, 700_000, usdc);
  expect(placed.json).toMatchObject({
    reserve: { venue_id: null, asset_id: null, amount: "0x12c" },
    usdc_amount: "0x2bc",
  });
  expect((await split(maker, pair.yes, 1n)).json["code"]).toBe("insufficient_funds");
  expect(await accept(taker, placed)).toMatchObject({ complement_asset_id: null });
  expect(await holding(taker, pair)).toEqual([0n, 1_000n, 0n]);
  expect(await holding(maker, pair)).toEqual([0n, 0n, 1_000n]);
  expect(await pairBalances(pair)).toEqual([1_000, -1_000, -1_000]);
  const [match] = await apiOf(maker).list("/rfq/get-matches");
  expect(match).toMatchObject({ role: "maker", complement_asset_id: pair.no.asset_id });
  expect(await apiOf(maker).list("/rfq/get-positions")).toMatchObject([
    { asset_id: pair.no.asset_id, bought: "0x3e8", spent: "0x12c" },
  ]);
  expect(await apiOf(taker).list("/rfq/get-positions")).toMatchObject([
    { asset_id: pair.yes.asset_id, bought: "0x3e8", spent: "0x2bc" },
  ]);
  // The ledger names the match, not the quote.
  const ledger = await apiOf(maker).list("/custody/get-ledger?limit=100&reasons=trade");
  expect(new Set(ledger.map(({ ref_id }) => ref_id))).toEqual(new Set([match?.["match_id"]]));
  const events = async ({ userId }: TestUser, type: string) =>
    (await storedEvents(accountStream(userId))).find((event) => event.type === type)?.data;
  expect(await events(maker, "quote.opened")).toMatchObject({ reserve: { asset_id: null } });
  expect(await events(maker, "match.created")).toMatchObject({
    complement_asset_id: pair.no.asset_id,
  });
  expect(await events(taker, "quote.received")).toMatchObject({ reserve: null });
  expect(await events(taker, "match.created")).toMatchObject({ complement_asset_id: null });
  expect(await pairDifferences(pair)).toEqual([]);
  await resolve(pair.yes, 1_000_000);
  await all(env.DB, sql`UPDATE ledger_checkpoints SET mark = '0' WHERE scan = 'payouts'`);
  while (await payHolders(env));
  expect(await holding(taker, pair)).toEqual([1_000n, 0n, 0n]);
  expect(await holding(maker, pair)).toEqual([0n, 0n, 0n]);
});

it("merges for a maker who gives the complement for an Ask", async () => {
  const pair = await newPair();
  const [maker, taker] = [await newUser({ usdc: 1_000n }), await newUser({ usdc: 1_000n })];
  await split(maker, pair.yes, 1_000n);
  await split(taker, pair.yes, 1_000n);
  const request = await ask(taker, pair.yes, 400n, "Ask");
  const placed = await quote(maker, request, 250_000, complement);
  expect(placed.json).toMatchObject({ reserve: { asset_id: pair.no.asset_id, amount: "0x190" } });
  await accept(taker, placed);
  expect(await holding(taker, pair)).toEqual([100n, 600n, 1_000n]);
  expect(await holding(maker, pair)).toEqual([300n, 1_000n, 600n]);
  expect(await pairBalances(pair)).toEqual([1_600, -1_600, -1_600]);
  const [match] = await apiOf(maker).list("/rfq/get-matches");
  expect(match).toMatchObject({ complement_asset_id: pair.no.asset_id });
  const positions = await apiOf(maker).list("/rfq/get-positions");
  const sold = positions.find(({ asset_id }) => asset_id === pair.no.asset_id);
  expect(sold).toMatchObject({ sold: "0x190", received: "0x12c" });
  expect(await pairDifferences(pair)).toEqual([]);
});

it("reserves as ever without a backing, and for an Ask with usdc", async () => {
  const { pair, maker, taker, request } = await market(1_000n, 1_000n);
  await split(maker, pair.yes, 500n);
  expect((await quote(maker, request, 500_000, { backing: "asset" })).json).toMatchObject({
    code: "insufficient_funds",
    required: "0x3e8",
    available: "0x1f4",
    usdc_reserve: "0x1f4",
    detail: expect.stringContaining("With backing usdc it would reserve 500 units of USDC."),
  });
  const half = await ask(taker, pair.yes, 500n);
  expect((await quote(maker, half, 500_000)).json).toMatchObject({
    reserve: { asset_id: pair.yes.asset_id },
  });
  const selling = await ask(taker, pair.yes, 100n, "Ask");
  for (const backing of ["asset", "usdc"])
    expect((await quote(maker, selling, 500_000, { backing })).json).toMatchObject({
      reserve: { asset_id: null, amount: "0x32" },
    });
  const alone = await ask(taker, newAsset(), 5n);
  expect((await quote(maker, alone, 500_000)).json).not.toHaveProperty("usdc_reserve");
});

it("rejects what no pair can back", async () => {
  const { pair, maker, taker, request } = await market(99n, 1_000n);
  const selling = await ask(taker, pair.yes, 100n, "Ask");
  const code = async (call: Promise<{ json: Record<string, unknown> }>) =>
    (await call).json["code"];
  expect(await code(quote(maker, await ask(taker, newAsset(), 5n), 500_000, usdc))).toBe(
    "not_paired",
  );
  expect(await code(quote(maker, request, 500_000, complement))).toBe("side_mismatch");
  expect(await code(quote(maker, request, 500_000, { backing: "any" }))).toBe("invalid_request");
  expect((await quote(maker, request, 900_000, usdc)).json).toMatchObject({
    code: "insufficient_funds",
    required: "0x64",
    available: "0x63",
  });
  expect((await quote(maker, selling, 500_000, complement)).json).toMatchObject({
    code: "insufficient_funds",
    required: "0x64",
    available: "0x0",
    detail: expect.stringContaining(pair.no.key),
  });
  // At 1 USDC a maker gives nothing for a Bid, so the tokens must be theirs.
  expect((await quote(maker, request, 1_000_000, usdc)).json).toMatchObject({
    code: "insufficient_funds",
    required: "0x3e8",
    available: "0x0",
  });
  await split(maker, pair.yes, 99n);
  const few = await ask(taker, pair.yes, 50n, "Ask");
  expect((await quote(maker, few, 1_000_000, complement)).json).toMatchObject({
    code: "insufficient_funds",
    required: "0x1",
    available: "0x0",
  });
});

it("backs no Ask with the complement if others come by deposit", async () => {
  const [yes, no] = [newAsset(), newAsset()];
  const terms = { title: `Question ${yes.key}`, test: false };
  const list = ({ venue_id, asset_id }: TestAsset, outcome: string, more: object = {}) =>
    setMarkets(env, [{ ...terms, venue_id, asset_id, outcome, ...more }], {
      record: recordBy("operator:test", "market_set", { subjectId: asset_id }),
      reopen: false,
      corrects: false,
    });
  expect(await list(yes, "Yes")).toBe(0);
  const paired = { complement: yes.asset_id, condition: `0x${"1".repeat(64)}`, slot: 1 };
  expect(await list(no, "No", paired)).toBe(0);
  const taker = await newUser({ usdc: 100n, [yes.key]: 100n });
  const maker = await newUser({ usdc: 100n, [no.key]: 100n });
  const selling = await ask(taker, yes, 100n, "Ask");
  expect((await quote(maker, selling, 500_000, complement)).json["code"]).toBe("not_paired");
  const buying = await ask(taker, yes, 100n);
  expect((await quote(maker, buying, 500_000, usdc)).json).toMatchObject({
    reserve: { asset_id: null, amount: "0x32" },
  });
});

it("replaces a quote of another backing only with funds of its own", async () => {
  const { pair, maker, request } = await market(1_500n, 1_000n);
  await split(maker, pair.yes, 1_000n);
  const first = await quote(maker, request, 500_000);
  const next = (price: number, of: { json: Record<string, unknown> }, backing: string) =>
    quote(maker, request, price, { replaces: of.json["quote_id"], backing });
  expect((await next(400_000, first, "usdc")).json["code"]).toBe("insufficient_funds");
  const second = await next(500_000, first, "usdc");
  expect(second).toMatchObject({ status: 201 });
  expect((await next(400_000, second, "usdc")).json["code"]).toBe("insufficient_funds");
  expect(await next(600_000, second, "asset")).toMatchObject({ status: 201 });
  expect(await pairDifferences(pair)).toEqual([]);
});

it("binds an idempotency key to the backing", async () => {
  const { maker, request } = await market(1_000n, 1_000n);
  const key = { idempotency_key: "one" };
  const first = await quote(maker, request, 500_000, { ...usdc, ...key });
  expect((await quote(maker, request, 500_000, { ...usdc, ...key })).json).toEqual(first.json);
  expect((await quote(maker, request, 500_000, key)).json["code"]).toBe("idempotency_key_reused");
});

it("takes a backing in several quotes and on a socket, and standing accepts match it", async () => {
  const { pair, maker, taker } = await market(1_000n, 1_000n);
  const wanted = (price: number) =>
    openRequest(taker, pair.yes.key, { amount: 100n, accept: { price, side: "Bid" } });
  const [first, second] = [await wanted(600_000), await wanted(600_000)];
  const { json } = await apiOf(maker).post("/rfq/quotes", {
    quotes: [{ request_id: first.request_id, price: 600_000, ...usdc }],
  });
  expect(json).toMatchObject({
    results: [{ quote: { match: { complement_asset_id: pair.no.asset_id } } }],
  });
  const socket = await connect(maker, accountStream(maker.userId));
  socket.send({ op: "quote", id: "1", request_id: second.request_id, price: 500_000, ...usdc });
  expect(await socket.until(({ id }) => id === "1")).toMatchObject({
    data: { status: "accepted" },
  });
  expect(await holding(maker, pair)).toEqual([910n, 0n, 200n]);
  expect(await pairDifferences(pair)).toEqual([]);
});

it("matches once when two accept, and never what another quote reserves", async () => {
  const { pair, maker, taker, request } = await market(700n, 2_000n);
  const placed = await quote(maker, request, 500_000, usdc);
  const other = await ask(taker, pair.no, 1_000n);
  expect((await quote(maker, other, 500_000, usdc)).json["code"]).toBe("insufficient_funds");
  const results = await Promise.all(
    [1, 2, 3].map(() => submit(command.accept(taker, String(placed.json["quote_id"])))),
  );
  expect(new Set(results.map((result) => matchOf(result).match_id)).size).toBe(1);
  expect(await pairBalances(pair)).toEqual([1_000, -1_000, -1_000]);
  expect(await holding(maker, pair)).toEqual([200n, 0n, 1_000n]);
});

it("refuses a match that no balance of the pair or the maker could hold", async () => {
  const { pair, maker, taker, request } = await market(2n ** 61n, 1_000n);
  const placed = await quote(maker, request, 500_000, usdc);
  // The maker’s complement is at its limit.
  await fund(maker.userId, pair.no.key, 2n ** 62n - 999n);
  expect(placed.status).toBe(201);
  const result = await submit(command.accept(taker, String(placed.json["quote_id"])));
  expect(result).toMatchObject({ problem: { code: "balance_limit" } });
});

it("keeps the pair of a quote and of a match", async () => {
  const { maker, taker, request } = await market(1_000n, 1_000n);
  const placed = await quote(maker, request, 500_000, usdc);
  const change = (table: "quotes" | "matches") =>
    all(
      env.DB,
      table === "quotes"
        ? sql`UPDATE quotes SET complement = NULL`
        : sql`UPDATE matches SET complement = NULL`,
    );
  await expect(change("quotes")).rejects.toThrow("append-only");
  await accept(taker, placed);
  await expect(change("matches")).rejects.toThrow("append-only");
});
