import { env } from "cloudflare:workers";
import fc from "fast-check";
import { beforeAll, expect, it } from "vitest";
import { REASONS } from "../../src/ledger/codes.ts";
import {
  countedEntries,
  entriesOfRef,
  HOT,
  mergedEntries,
} from "../../src/ledger/entry-queries.ts";
import { type LedgerFilter, selectsNothing } from "../../src/ledger/filter.ts";
import { countEntries, NEWEST, readEntries } from "../../src/ledger/history.ts";
import { all, readUuid, type Sql, sql } from "../../src/platform/sql.ts";
import { endWithdrawal, fund, newAsset, queueWithdrawal } from "../support/ledger.ts";
import { newKey, newUser } from "../support/users.ts";
import { modelEntries, plain, plainModel, readAll } from "../support/ledger-model.ts";
import { command, openRequest, outcomeOf, placeQuote, submit } from "../support/market.ts";
import { rounds } from "../support/depth.ts";

const venues = ["venue_one", "venue_two", "venue_three"];

const db = env.DB;
let requester = "";
let maker = "";
const one = newAsset("venue_one");
const two = { ...newAsset("venue_two"), asset_id: one.asset_id, key: `venue_two:${one.asset_id}` };
let hash = "";

/** A history with every reason on both sides. On venue_two there are fees and the same asset id. */
beforeAll(async () => {
  const funds = { usdc: 10_000_000n, [one.key]: 5_000n, [two.key]: 5_000n };
  const [requesterUser, makerUser] = [await newUser(funds), await newUser(funds)];
  requester = requesterUser.userId;
  maker = makerUser.userId;
  hash = (await fund(requester, "usdc", 1n)).transactionHash;
  // One quote that expires. The others end by commands.
  const { request_id: quiet } = await openRequest(requesterUser, one.key, { amount: 700n });
  const { expires_at } = await placeQuote(makerUser, quiet, 630_000, 2);
  await scheduler.wait(Math.max(0, Date.parse(expires_at) - Date.now()));
  for (const asset of [one.key, two.key]) {
    for (const side of ["Bid", "Ask"] as const) {
      const { request_id } = await openRequest(requesterUser, asset, { amount: 700n, side });
      const best = await placeQuote(makerUser, request_id, 610_001);
      await placeQuote(makerUser, request_id, 620_000);
      const dropped = await placeQuote(makerUser, request_id, 640_000);
      await submit(command.cancelQuote(makerUser, dropped.quote_id));
      await env.RFQ_BOOK.getByName(asset).expireDue();
      const accepted = await submit(command.accept(requesterUser, best.quote_id));
      expect(outcomeOf(accepted)).toBe("ok");
    }
    const key = await newKey(requesterUser);
    await endWithdrawal(await queueWithdrawal(key, asset, 11n), "Paid");
    await endWithdrawal(await queueWithdrawal(key, asset, 13n), "Failed");
  }
});

it("the test history has every type of entry", async () => {
  const seen = new Set(
    (await modelEntries(db, requester))
      .concat(await modelEntries(db, maker))
      .map(
        (entry) => `${entry.account} ${entry.delta.startsWith("-") ? "-" : "+"} ${entry.reason}`,
      ),
  );
  expect([...seen].toSorted()).toEqual([
    "available + deposit",
    "available + release",
    "available + trade",
    "available - fee",
    "available - reserve_rfq",
    "available - reserve_trade",
    "available - withdrawal",
    "pending + reserve_rfq",
    "pending + reserve_trade",
    "pending + withdrawal",
    "pending - fee",
    "pending - release",
    "pending - trade",
    "pending - withdrawal",
  ]);
});

it("every single filter agrees with the model", async () => {
  const mine = await modelEntries(db, maker);
  const middle = mine[Math.floor(mine.length / 2)];
  const refs = [
    ...new Set(mine.map((entry) => (entry.ref.startsWith("0x") ? entry.ref : readUuid(entry.ref)))),
  ];
  const filters: LedgerFilter[] = [
    {},
    { account: "available" },
    { account: "pending" },
    { direction: "credit" },
    { direction: "debit" },
    { usdc: true },
    { usdc: false },
    { venue: "venue_one" },
    { venue: "venue_two" },
    { venue: "venue_three" },
    { assetId: one.asset_id, venues },
    { assetId: "0x1", venues },
    { venue: "venue_two", assetId: one.asset_id },
    { from: middle?.at },
    { to: middle?.at },
    { from: middle?.at, to: middle?.at },
    { from: 0 },
    { to: 0 },
    { from: Number.MAX_SAFE_INTEGER - 1 },
    { to: Number.MAX_SAFE_INTEGER - 1 },
    { minAmount: 0n },
    { minAmount: 427n },
    { maxAmount: 427n },
    { minAmount: 700n, maxAmount: 700n },
    { minAmount: 2n ** 200n },
    { maxAmount: 2n ** 200n },
    { maxAmount: 0n },
    ...REASONS.map((reason) => ({ reasons: [reason] })),
    { reasons: ["deposit", "fee", "trade"] },
    { reasons: [] },
    ...refs.map((refId) => ({ refId })),
    { refId: hash },
    { refId: crypto.randomUUID() },
  ];
  for (const filter of filters)
    expect([filter, plain(await readAll(db, maker, filter, 7))]).toEqual([
      filter,
      plainModel(mine, filter),
    ]);
});

it("combined filters and page sizes agree with the model", async () => {
  const models = {
    [requester]: await modelEntries(db, requester),
    [maker]: await modelEntries(db, maker),
  };
  const ats = Object.values(models)
    .flat()
    .map((entry) => entry.at);
  const refs = Object.values(models)
    .flat()
    .map((entry) => (entry.ref.startsWith("0x") ? entry.ref : readUuid(entry.ref)));
  const sizes = [0n, 1n, 11n, 13n, 427n, 428n, 700n, 5_000n, 10_000_000n];
  const option = <T>(...values: readonly T[]) =>
    fc.option(fc.constantFrom(...values), { nil: undefined });
  const filters: fc.Arbitrary<LedgerFilter> = fc.record({
    account: option("available" as const, "pending" as const),
    direction: option("credit" as const, "debit" as const),
    reasons: fc.option(fc.subarray([...REASONS]), { nil: undefined, freq: 2 }),
    usdc: option(true, false),
    venue: option("venue_one" as const, "venue_two" as const),
    assetId: option(one.asset_id, "0x0"),
    venues: fc.constant(venues),
    refId: fc.option(fc.constantFrom(...refs), { nil: undefined, freq: 1 }),
    from: option(...ats),
    to: option(...ats),
    minAmount: option(...sizes),
    maxAmount: option(...sizes),
  });
  await fc.assert(
    fc.asyncProperty(
      filters,
      fc.constantFrom(requester, maker),
      fc.integer({ min: 1, max: 9 }),
      async (filter, userId, limit) => {
        const expected = plainModel(models[userId] ?? [], filter);
        expect(plain(await readAll(db, userId, filter, limit))).toEqual(expected);
        if (filter.refId !== undefined || selectsNothing(filter)) return;
        expect(await countEntries(db, userId, filter, { before: NEWEST, most: 1_000 })).toBe(
          expected.length,
        );
      },
    ),
    { numRuns: rounds(60, 250) },
  );
}, 60_000);

it("continues below any integer as a position", async () => {
  const mine = await modelEntries(db, requester);
  for (const before of [
    0n,
    1n,
    2n,
    ...mine.flatMap((entry) => [BigInt(entry.entry_id), BigInt(entry.entry_id) + 1n]),
    NEWEST,
  ]) {
    const { rows } = await readEntries(db, requester, {}, { before, limit: 500 });
    expect(plain(rows)).toEqual(plain(mine.filter((entry) => BigInt(entry.entry_id) < before)));
  }
});

it("pages neither skip nor repeat while entries are written", async () => {
  const { userId } = await newUser();
  for (let i = 1n; i <= 12n; i++) await fund(userId, "usdc", i);
  const seen: string[] = [];
  let before = NEWEST;
  for (let more = true; more;) {
    const page = await readEntries(db, userId, {}, { before, limit: 5 });
    seen.push(...page.rows.map((row) => row.delta));
    before = page.next ?? 0n;
    more = page.next !== null;
    await fund(userId, "usdc", 99n);
  }
  expect(seen).toEqual(Array.from({ length: 12 }, (_, i) => String(12 - i)));
});

it("a full last page reports that no more follow", async () => {
  const { userId } = await newUser();
  for (let i = 0; i < 4; i++) await fund(userId, "usdc", 5n);
  expect(await readEntries(db, userId, {}, { before: NEWEST, limit: 4 })).toMatchObject({
    next: null,
  });
  expect(
    await readEntries(db, userId, { minAmount: 5n }, { before: NEWEST, limit: 4 }),
  ).toMatchObject({ next: null });
  expect(await readEntries(db, userId, { minAmount: 6n }, { before: NEWEST, limit: 4 })).toEqual({
    rows: [],
    next: null,
    examined: 4,
  });
});

it("never returns another user's entries by reference", async () => {
  const stranger = await newUser({ usdc: 1n });
  for (const entry of await modelEntries(db, requester)) {
    const refId = entry.ref.startsWith("0x") ? entry.ref : readUuid(entry.ref);
    expect(
      (await readEntries(db, stranger.userId, { refId }, { before: NEWEST, limit: 50 })).rows,
    ).toEqual([]);
  }
});

const ASSET_FILTERS: readonly LedgerFilter[] = [
  {},
  { usdc: true },
  { usdc: false },
  { venue: "venue_one" },
  { assetId: "0x1", venues },
  { venue: "venue_one", assetId: "0x1" },
];
const OTHER_FILTERS: readonly LedgerFilter[] = [
  {},
  { account: "pending" },
  { direction: "debit" },
  { reasons: ["fee"] },
  { from: 1 },
  { to: 9 },
  { from: 1, to: 9 },
  { minAmount: 5n },
];

/** Every query that may answer a filter. */
function queriesOf(filter: LedgerFilter): Readonly<Record<string, Sql>> {
  const page = { before: NEWEST, limit: 51, examined: 1_000, after: HOT };
  return {
    merged: mergedEntries(requester, filter, page),
    counted: countedEntries(requester, filter, { ...page, most: 10 }),
    record: entriesOfRef(requester, { ...filter, refId: crypto.randomUUID() }, page),
    transaction: entriesOfRef(requester, { ...filter, refId: `0x${"ab".repeat(32)}` }, page),
  };
}

const RUN = "(?:from|to)_account=\\? AND reason=\\?";
const SUB_RUN = "(?:from|to)_sub_account=\\? AND reason=\\?";
const RANGE = "rowid>\\? AND rowid<\\?";
/** Every allowed access to a table: its index, and the columns that SQLite seeks in it. */
const ALLOWED = [
  `t USING (?:COVERING )?INDEX transfers_(?:from|to) \\(${RUN} AND ${RANGE}\\)`,
  `t USING (?:COVERING )?INDEX transfers_(?:from|to)_sub_account \\(${SUB_RUN} AND ${RANGE}\\)`,
  "t USING INTEGER PRIMARY KEY \\(rowid[=>]\\?\\)",
  "t USING INDEX transfers_once \\(ref=\\?\\)",
  "a USING INTEGER PRIMARY KEY \\(rowid=\\?\\)",
  // One row, which names the owner's sub-accounts.
  "accounts USING INDEX accounts_owner \\(owner=\\?\\)",
  "a USING COVERING INDEX accounts_owner \\(owner=\\?.*",
  "o USING COVERING INDEX accounts_owner \\(owner=\\? AND asset=\\? AND kind=\\?\\)",
  "d USING INDEX sqlite_autoindex_deposits_1 \\(deposit_id=\\?\\) LEFT-JOIN",
  "deposits USING INDEX deposits_hash \\(user_id=\\? AND transaction_hash=\\?\\)",
  "matches USING PRIMARY KEY \\(match_id=\\?\\)",
  "m USING COVERING INDEX matches_quote_id_unique \\(quote_id=\\?\\)",
].map((access) => new RegExp(`^SEARCH ${access}$`));
const TABLE_ACCESS = /^(SCAN|SEARCH) (t|a|o|d|m|transfers|accounts|deposits|matches)\b/;

it("answers every combination of filters from an index", async () => {
  const filters = ASSET_FILTERS.flatMap((asset) =>
    OTHER_FILTERS.map((other) => ({ ...asset, ...other })),
  );
  for (const filter of filters) {
    for (const [name, query] of Object.entries(queriesOf(filter))) {
      const plan = await all<{ detail: string }>(db, sql`EXPLAIN QUERY PLAN ${query}`);
      const accesses = plan.map((row) => row.detail).filter((detail) => TABLE_ACCESS.test(detail));
      const label = `${name} ${Object.keys(filter).join("+")}`;
      expect(accesses.length, label).toBeGreaterThan(0);
      expect(
        accesses.filter((access) => !ALLOWED.some((rule) => rule.test(access))),
        label,
      ).toEqual([]);
    }
  }
});
