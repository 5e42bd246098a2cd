/**
 * get-ledger over both sides: every page of every filter is the same before and after the older
 * part of the journal has moved to the archive.
 */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { config } from "../../src/platform/config.ts";
import { beforeAll, expect, it, vi } from "vitest";
import { historyName } from "../../src/archive/ask-history.ts";
import { releaseRound } from "../../src/archive/release.ts";
import type { SealId } from "../../src/archive/footer.ts";
import { OwnHistory } from "../../src/archive/own-history.ts";
import type { SealBucket } from "../../src/archive/seal-store.ts";
import type { History } from "../../src/archive/history-object.ts";
import { REASONS } from "../../src/ledger/codes.ts";
import type { LedgerFilter } from "../../src/ledger/filter.ts";
import { countEntries, type EntryRow, NEWEST, readEntries } from "../../src/ledger/history.ts";
import { lastSealOf } from "../../src/ledger/released.ts";
import { all, first, sql, uuid } from "../../src/platform/sql.ts";
import { readStatement } from "../../src/ledger/statement.ts";
import { readUuid } from "../../src/platform/sql.ts";
import { setClock } from "../../src/platform/time.ts";
import { endWithdrawal, queueWithdrawal } from "../support/ledger.ts";
import { command, commitCommand } from "../support/market.ts";
import { newUser } from "../support/users.ts";
import { bucketWith, SealedJournal, Sealing } from "./sealing.ts";
import { FULL } from "../support/depth.ts";

const journal = new SealedJournal(env.COLD_DB, "cold");
const { db } = journal;
const sealing = new Sealing(journal);

beforeAll(() => journal.open());

/** The tests read many pages. */
const TIMEOUT_MS = 60_000;
vi.setConfig({ testTimeout: TIMEOUT_MS });

type Bucket = Pick<SealBucket, "get">;
const oldOf = (userId: string, bucket?: Bucket) => journal.records(userId, bucket).old;

async function allPages(
  userId: string,
  filter: LedgerFilter,
  limit: number,
  old = oldOf(userId),
): Promise<EntryRow[]> {
  const rows: EntryRow[] = [];
  for (let before = NEWEST; ;) {
    const page = await readEntries(db, userId, filter, { before, limit }, old);
    rows.push(...page.rows);
    if (page.next === null) return rows;
    expect(page.rows.length).toBeLessThanOrEqual(limit);
    before = page.next;
  }
}

async function release(): Promise<void> {
  const round = () =>
    releaseRound({ db, bucket: sealing.bucket, settings: config(env), lagMs: 0, matchesMs: 0 });
  while ((await round()).status !== "idle");
}

/** A trade with withdrawals, one of them in flight, and a second seal below the horizon. */
async function twoSides() {
  const market = await journal.trade();
  const { requester, maker } = market;
  const paid = await queueWithdrawal(requester, "usdc", 10n, { db });
  const inFlight = await queueWithdrawal(requester, "usdc", 20n, { db });
  await endWithdrawal(paid, "Paid", db);
  await sealing.sealAll({ limit: 3 });
  const later = await queueWithdrawal(requester, "usdc", 30n, { db });
  await endWithdrawal(later, "Failed", db);
  await sealing.sealAll();
  // Above the horizon from here on.
  const hot = await queueWithdrawal(requester, "usdc", 40n, { db });
  await endWithdrawal(inFlight, "Paid", db);
  await commitCommand(market.book, command.cancelQuote(maker, market.quotes.open), db);
  return { ...market, paid, inFlight, later, hot };
}

/** A trade whose requester has one withdrawal in each of `count` seals. */
async function withSeals(count: number) {
  const market = await journal.trade();
  for (let n = 0; n < count; n++) {
    const paid = await queueWithdrawal(market.requester, "usdc", 10n, { db });
    await endWithdrawal(paid, "Paid", db);
    await sealing.sealAll();
  }
  return market;
}

const ENTRY_FILTERS: readonly LedgerFilter[] = [
  {},
  { account: "available" },
  { account: "pending", direction: "credit" },
  { direction: "debit" },
  ...REASONS.map((reason) => ({ reasons: [reason] })),
  { usdc: true },
  { usdc: false },
  { venue: "venue_two" as const },
  { venue: "venue_one" as const },
  { minAmount: 10n, maxAmount: 30n },
  { minAmount: 500n },
  { maxAmount: 0n },
];

it("returns the same pages of every filter, wherever the horizon is", async () => {
  const { requester, maker, matchId, quotes, book, requestId, ...withdrawals } = await twoSides();
  const deposit = await first<{ hash: string }>(
    db,
    sql`SELECT '0x' || lower(hex(transaction_hash)) AS hash FROM deposits
      WHERE user_id = ${uuid(requester.userId)}`,
  );
  const refs = [
    matchId,
    ...Object.values(quotes),
    withdrawals.paid.withdrawalId,
    withdrawals.inFlight.withdrawalId,
    withdrawals.later.withdrawalId,
    withdrawals.hot.withdrawalId,
    requestId,
    deposit?.hash ?? "",
  ];
  const times = await all<{ at: number }>(db, sql`SELECT DISTINCT at FROM transfers ORDER BY at`);
  const middle = times[Math.floor(times.length / 2)]?.at ?? 0;
  const filters: LedgerFilter[] = [
    ...ENTRY_FILTERS,
    ...refs.map((refId) => ({ refId })),
    { assetId: book.split(":")[1] },
    { from: middle },
    { to: middle },
    { from: middle, to: middle },
  ];
  const users = [requester.userId, maker.userId];
  const before = new Map<string, EntryRow[]>();
  const keyOf = (userId: string, filter: LedgerFilter) =>
    `${userId} ${JSON.stringify(filter, (_, value: unknown) => (typeof value === "bigint" ? `${value}` : value))}`;
  for (const userId of users)
    for (const filter of filters)
      before.set(keyOf(userId, filter), await allPages(userId, filter, 100));
  await release();
  expect(before.get(keyOf(requester.userId, {}))?.length).toBeGreaterThan(15);
  for (const userId of users) {
    for (const filter of filters) {
      const expected = before.get(keyOf(userId, filter)) ?? [];
      for (const limit of FULL ? [2, 5, 100] : [3])
        expect(await allPages(userId, filter, limit), keyOf(userId, filter)).toEqual(expected);
      if (filter.refId === undefined)
        for (const most of [1_000, 4])
          expect(
            await countEntries(db, userId, filter, { before: NEWEST, most }, oldOf(userId)),
          ).toBe(Math.min(most, expected.length));
    }
  }
});

it("shows a match as a whole while the newest transfers of the journal are held", async () => {
  const { book, requester, maker } = await journal.trade();
  const request = command.openRequest(requester, book, { amount: 1_000n });
  const quote = command.placeQuote(maker, request.requestId, 600_000);
  const accept = command.accept(requester, quote.quoteId);
  for (const sent of [request, quote, accept]) await commitCommand(book, sent, db);
  const { matchId } = accept;
  const pages = () =>
    Promise.all([requester, maker].map(({ userId }) => allPages(userId, { refId: matchId }, 100)));
  const before = await pages();
  await sealing.sealAll();
  await release();
  // Both ways of the trade belong to the match, but one is posted under the quote.
  expect(await journal.count(`transfers WHERE ref = x'${matchId.replaceAll("-", "")}'`)).not.toBe(
    0,
  );
  expect(await pages()).toEqual(before);
});

it("finds a withdrawal of a Worker whose clock was far ahead", async () => {
  const { requester } = await journal.trade();
  setClock({ now: () => Date.now() + 600_000 });
  const paid = await queueWithdrawal(requester, "usdc", 10n, { db }).finally(() => setClock({}));
  await endWithdrawal(paid, "Paid", db);
  const before = await allPages(requester.userId, { refId: paid.withdrawalId }, 100);
  await journal.trade();
  await sealing.sealAll();
  await release();
  expect(before).toHaveLength(3);
  expect(await allPages(requester.userId, { refId: paid.withdrawalId }, 100)).toEqual(before);
});

it("writes a statement over both sides", async () => {
  const { requester } = await twoSides();
  await release();
  const { userId } = requester;
  const reader = { userId, old: oldOf(userId), mayContinue: async () => true };
  const format = {
    header: "",
    line: ({ entry_id }: EntryRow) => `${entry_id}\n`,
    end: (rows: number) => `end ${rows}`,
  };
  const text = await new Response(await readStatement(db, reader, {}, format)).text();
  const entries = await allPages(requester.userId, {}, 100);
  expect(text).toBe(
    entries.map(({ entry_id }) => `${entry_id}\n`).join("") + `end ${entries.length}`,
  );
});

it("answers 503 rather than a short page if the archive is missing, lies or fails", async () => {
  const { requester } = await twoSides();
  await release();
  const lies: readonly (() => Promise<unknown>)[] = [
    () => Promise.resolve(null),
    () => Promise.resolve(new Response(new Uint8Array(200))),
    () => Promise.reject(new Error("10001: internal error")),
  ];
  for (const get of lies) {
    const old = oldOf(requester.userId, { get } as Bucket);
    await expect(allPages(requester.userId, {}, 100, old)).rejects.toMatchObject({
      status: 503,
    });
  }
  expect((await allPages(requester.userId, {}, 100)).length).toBeGreaterThan(15);
  // Who has no old entries needs no archive.
  const stranger = await newUser({ usdc: 5n }, db);
  const { get } = { get: lies[2] };
  const old = oldOf(stranger.userId, { get } as Bucket);
  expect(await allPages(stranger.userId, {}, 100, old)).toHaveLength(1);
});

const inHistory = <Result>(userId: string, use: (storage: DurableObjectStorage) => Result) =>
  runInDurableObject(
    env.HISTORY.getByName(historyName(userId.replaceAll("-", ""))),
    (_: History, { storage }) => use(storage),
  );

it("forgets the seals that a restore has lost", async () => {
  const { requester } = await twoSides();
  await release();
  const { userId } = requester;
  const pages = await allPages(userId, {}, 100);
  // The newest seal, and one above, are of a lost epoch.
  await inHistory(userId, ({ sql: tables }) => {
    const newest = "number = (SELECT max(number) FROM taken)";
    tables.exec(`UPDATE taken SET epoch = epoch + 7 WHERE ${newest}`);
    tables.exec(
      `INSERT INTO taken SELECT number + 1, epoch, last_at + 9 FROM taken WHERE ${newest}`,
    );
    tables.exec(`INSERT INTO transfers SELECT transfer_id + 1, from_account, to_account, amount,
      reason, randomblob(16), step, line, at + 1, from_balance, to_balance, from_sub_account,
      to_sub_account FROM transfers ORDER BY transfer_id DESC LIMIT 1`);
  });
  expect(await allPages(userId, {}, 100)).toEqual(pages);
});

/** Of a history whose object was lost. */
async function lose(userId: string): Promise<void> {
  await inHistory(userId, ({ sql: tables }) => {
    const made = tables.exec<{ name: string }>(
      "SELECT name FROM sqlite_master WHERE type = 'table'",
    );
    for (const { name } of made.toArray())
      if (!/^(_cf_|sqlite_)/.test(name)) tables.exec(`DROP TABLE ${name}`);
  });
}

it("rebuilds a history that was lost, in bounded parts, and is 503 meanwhile", async () => {
  const { requester } = await withSeals(7);
  await release();
  const { userId } = requester;
  const rows = await allPages(userId, {}, 100);
  await lose(userId);
  let read = 0;
  const get = (...request: Parameters<SealBucket["get"]>) => {
    read++;
    return sealing.bucket.get(...request);
  };
  const { old } = journal.records(userId, bucketWith(sealing.bucket, { get }), {
    footers: 3,
    rows: 1,
  });
  for (let calls = 1; ; calls++) {
    read = 0;
    const found = await allPages(userId, {}, 100, old).catch((error: unknown) => error);
    if (Array.isArray(found)) {
      expect(found).toEqual(rows);
      expect(calls).toBeGreaterThan(7);
      return;
    }
    expect(found).toMatchObject({ status: 503, data: { retryAfterSecs: 1 } });
    expect(read).toBeLessThanOrEqual(5);
    if (calls > 40) throw new Error("the history is never complete");
  }
});

it("takes each seal in once, also if it is stopped or asked twice", async () => {
  const { requester } = await withSeals(3);
  await release();
  const { userId } = requester;
  const owner = userId.replaceAll("-", "");
  const newest = await first<SealId>(db, lastSealOf(userId));
  if (newest === undefined) throw new Error("nothing is sealed");
  const rows = await allPages(userId, {}, 100);
  let isAway = false;
  const bucket = bucketWith(sealing.bucket, {
    get: (...request: Parameters<SealBucket["get"]>) =>
      isAway ? Promise.reject(new Error("R2 is away")) : sealing.bucket.get(...request),
  });
  await lose(userId);
  await inHistory(userId, async (storage) => {
    const history = new OwnHistory(storage, { db, bucket }, { footers: 2, rows: 1 });
    await expect(history.follow(owner, newest)).rejects.toThrow("is behind");
    isAway = true;
    await expect(history.resume()).rejects.toThrow("R2 is away");
    isAway = false;
    // A transaction that fails leaves nothing.
    const broken = { sql: storage.sql, transactionSync: failing(storage) };
    const stopped = new OwnHistory(broken, { db, bucket });
    await expect(stopped.resume()).rejects.toThrow("stopped by the test");
    expect(storage.sql.exec("SELECT count(*) AS n FROM transfers").one()["n"]).toBe(0);
    while (!(await history.resume()));
    await Promise.all([history.follow(owner, newest), history.follow(owner, newest)]);
    expect(storage.sql.exec("SELECT count(*) AS n FROM taken").one()["n"]).toBe(3);
  });
  expect(await allPages(userId, {}, 100)).toEqual(rows);
});

/** Fails after everything was written. */
const failing =
  (storage: DurableObjectStorage) =>
  <Result>(work: () => Result): Result =>
    storage.transactionSync(() => {
      work();
      throw new Error("stopped by the test");
    });

it("shows a user's own old entries only", async () => {
  const { requester, maker } = await twoSides();
  await release();
  const own = await allPages(requester.userId, {}, 100);
  const others = await allPages(maker.userId, {}, 100);
  expect(own.map(({ ref }) => readUuid(ref.replace(/^0x/, "")))).not.toEqual([]);
  const ids = new Set(own.map(({ entry_id }) => entry_id));
  expect(others.filter(({ entry_id }) => ids.has(entry_id))).toEqual([]);
});
