/**
 * get-ledger over both sides: every page of every filter is the same before and after the older
 * part of the journal has moved to the archive.
 */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { config } from "../../src/platform/config.ts";
import { beforeAll, expect, it, vi } from "vitest";
import { coldEntries, historyName } from "../../src/archive/ask-history.ts";
import { releaseRound } from "../../src/archive/release.ts";
import { BlockIndex, type ColdRequest, type IndexLimits } from "../../src/archive/block-index.ts";
import type { SealId } from "../../src/archive/footer.ts";
import type { SealBucket } from "../../src/archive/seal-store.ts";
import type { History } from "../../src/archive/history-object.ts";
import { REASONS } from "../../src/ledger/codes.ts";
import type { ColdRows } from "../../src/ledger/cold-entries.ts";
import type { LedgerFilter } from "../../src/ledger/filter.ts";
import {
  countEntries,
  type EntryPage,
  type EntryRow,
  NEWEST,
  readEntries,
} from "../../src/ledger/history.ts";
import { all, first, sql, uuid } from "../../src/platform/sql.ts";
import { readStatement } from "../../src/ledger/statement.ts";
import { readUuid } from "../../src/platform/sql.ts";
import { setClock } from "../../src/platform/time.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { endWithdrawal, queueWithdrawal } from "../support/ledger.ts";
import { command, commitCommand } from "../support/market.ts";
import { newUser, type TestUser } from "../support/users.ts";
import { bucketWith, SealedJournal, Sealing } from "./sealing.ts";
import { FULL, itInRelease } from "../support/depth.ts";

const journal = new SealedJournal(env.COLD_DB, "cold");
const { db } = journal;
const sealing = new Sealing(journal);

beforeAll(() => journal.open());

/** The tests read many pages. */
const TIMEOUT_MS = 60_000;
vi.setConfig({ testTimeout: TIMEOUT_MS });

/** Histories that open two blocks a call, so that pages end early. */
const archiveOf = (bucket?: Pick<SealBucket, "get">) =>
  journal.archive(bucket, { opened: 2, filtered: 2 });

async function allPages(
  userId: string,
  filter: LedgerFilter,
  limit: number,
  archive = archiveOf(),
): Promise<EntryRow[]> {
  const rows: EntryRow[] = [];
  const cold = coldEntries(archive, userId);
  for (let before = NEWEST; ;) {
    const page = await readEntries(db, userId, filter, { before, limit }, cold);
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
        expect(
          await countEntries(
            db,
            userId,
            filter,
            { before: NEWEST, most: 1_000 },
            coldEntries(archiveOf(), userId),
          ),
        ).toBeGreaterThanOrEqual(expected.length);
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

itInRelease("reads no block that is newer than the record", async () => {
  const { maker, requester, matchId, quotes, openRequestId, book } = await journal.trade();
  const paid = await queueWithdrawal(maker, book, 10n, { db });
  await endWithdrawal(paid, "Paid", db);
  await sealing.sealAll();
  for (let count = 0; count < 6; count++) {
    const quote = command.placeQuote(maker, openRequestId, 830_000, 300);
    await commitCommand(book, quote, db);
    await commitCommand(book, command.cancelQuote(maker, quote.quoteId), db);
    await sealing.sealAll();
  }
  await newUser({ usdc: 1n }, db);
  await sealing.sealAll();
  let read = 0;
  const get = (...args: Parameters<SealBucket["get"]>) => {
    read++;
    return sealing.bucket.get(...args);
  };
  // Safe cast: the archive calls nothing else.
  const archive = archiveOf({ get } as Pick<SealBucket, "get">);
  const records: readonly (readonly [TestUser, string])[] = [
    [maker, quotes.accepted],
    [maker, paid.withdrawalId],
    [maker, matchId],
    [requester, matchId],
  ];
  const pages = () =>
    Promise.all(records.map(([{ userId }, refId]) => allPages(userId, { refId }, 100)));
  const before = await pages();
  await release();
  expect(await pages()).toEqual(before);
  const deposit = await first<{ hash: string }>(
    db,
    sql`SELECT '0x' || lower(hex(transaction_hash)) AS hash FROM deposits
      WHERE user_id = ${uuid(maker.userId)}`,
  );
  for (const refId of [quotes.accepted, paid.withdrawalId, deposit?.hash ?? ""]) {
    read = 0;
    expect(await allPages(maker.userId, { refId }, 100, archive)).not.toEqual([]);
    expect(read).toBeLessThan(4);
  }
  read = 0;
  const unknown = `0x${"ab".repeat(32)}`;
  expect(await allPages(maker.userId, { refId: unknown }, 100, archive)).toEqual([]);
  expect(read).toBe(0);
});

it("asks the archive for some minutes of an id only", async () => {
  const { maker } = await journal.trade();
  await sealing.sealAll();
  const page = vi.fn<(owner: string, request: ColdRequest) => Promise<ColdRows>>(() =>
    Promise.resolve({ rows: [], before: null }),
  );
  const stub = { page, count: () => Promise.resolve(0) };
  const cold = coldEntries({ db, history: { getByName: () => stub } }, maker.userId);
  const made = Date.now() - 3_600_000;
  await cold.read({ refId: uuidv7(made), venues: [] }, { before: 1n << 60n, limit: 1 });
  const { from = 0, to = Infinity } = page.mock.calls[0]?.[1].filter ?? {};
  expect([from <= made, to >= made, to - from < 900_000]).toEqual([true, true, true]);
});

/**
 * Six seals with withdrawals of 10 and 90 each, and one with an amount of its own between. One of
 * the first seal is in flight.
 */
async function sealedWithdrawals() {
  const user = await newUser({ usdc: 10_000n }, db);
  const inFlight = await queueWithdrawal(user, "usdc", 20n, { db });
  for (let seal = 0n; seal < 6n; seal++) {
    for (const amount of [10n, 40n + 2n * seal, 90n]) {
      const withdrawal = await queueWithdrawal(user, "usdc", amount, { db });
      await endWithdrawal(withdrawal, "Failed", db);
    }
    await sealing.sealAll();
  }
  await newUser({ usdc: 1n }, db);
  await sealing.sealAll();
  const read = { gets: 0 };
  const get: SealBucket["get"] = (...args: Parameters<SealBucket["get"]>) => {
    read.gets++;
    return sealing.bucket.get(...args);
  };
  const cold = (limits: Partial<IndexLimits>) =>
    // Safe cast: the archive calls nothing else.
    coldEntries(journal.archive({ get } as Pick<SealBucket, "get">, limits), user.userId);
  return { user, inFlight, read, cold };
}

itInRelease("opens only blocks with an amount, a reason and an asset that fit", async () => {
  const { user, read, cold } = await sealedWithdrawals();
  const page = { before: NEWEST, limit: 100 };
  const archive = cold({ kept: 0 });
  const amounts = async (filter: LedgerFilter) => {
    read.gets = 0;
    const { rows, next } = await readEntries(db, user.userId, filter, page, archive);
    expect(next).toBeNull();
    return [...new Set(rows.map(({ delta }) => Math.abs(Number(delta))))];
  };
  await release();
  // Reads the footers.
  expect(await amounts({})).toContain(44);
  expect(await amounts({ minAmount: 43n, maxAmount: 46n })).toEqual([46, 44]);
  expect(read.gets).toBe(2);
  for (const none of [
    { minAmount: 41n, maxAmount: 41n },
    { minAmount: 40n, maxAmount: 40n, usdc: false },
    { reasons: ["trade" as const] },
  ]) {
    expect(await amounts(none)).toEqual([]);
    expect(read.gets).toBe(0);
  }
});

itInRelease("keeps small parts, unless the archive lies about them", async () => {
  const { user, read, cold } = await sealedWithdrawals();
  const before = await allPages(user.userId, {}, 100);
  await release();
  const lie = (key: string, options: { range: R2Range }) =>
    "offset" in options.range
      ? Promise.resolve(new Response(new Uint8Array(options.range.length ?? 0)))
      : sealing.bucket.get(key, options);
  const lying = archiveOf({ get: lie } as Pick<SealBucket, "get">);
  await expect(allPages(user.userId, {}, 100, lying)).rejects.toMatchObject({ status: 503 });
  const page = { before: NEWEST, limit: 100 };
  const pages = async () => (await readEntries(db, user.userId, {}, page, cold({}))).rows;
  expect(await pages()).toEqual(before);
  read.gets = 0;
  expect(await pages()).toEqual(before);
  expect(read.gets).toBe(0);
});

itInRelease("opens no more blocks at once than there is room for", async () => {
  const { requester } = await withSeals(6);
  await release();
  let [now, most] = [0, 0];
  const get = async (...request: Parameters<SealBucket["get"]>) => {
    most = Math.max(most, ++now);
    await scheduler.wait(1);
    return sealing.bucket.get(...request).finally(() => now--);
  };
  const pages = (limits: Partial<IndexLimits>) => {
    most = 0;
    const bucket = bucketWith(sealing.bucket, { get });
    return allPages(requester.userId, {}, 100, journal.archive(bucket, { kept: 0, ...limits }));
  };
  const rows = await pages({});
  expect(most).toBeGreaterThan(1);
  expect(await pages({ open: 1 })).toEqual(rows);
  expect(most).toBe(1);
});

it("ends a page with filters early and continues at its cursor", async () => {
  const { user, inFlight, cold } = await sealedWithdrawals();
  const filters: readonly LedgerFilter[] = [
    { minAmount: 40n, maxAmount: 40n },
    { minAmount: 41n, maxAmount: 41n },
    { reasons: ["deposit"] },
    // Its entries are held in the database, and in the archive too.
    { refId: inFlight.withdrawalId },
    {},
  ];
  const before = await Promise.all(filters.map((filter) => allPages(user.userId, filter, 100)));
  await release();
  const few = { filtered: 4, examined: 4, kept: 0 };
  const lengths: number[][] = [];
  for (const [index, filter] of filters.entries()) {
    const rows: EntryRow[] = [];
    const sizes: number[] = [];
    for (let next: bigint | null = NEWEST; next !== null;) {
      const request = { before: next, limit: 30 };
      const archive = cold(index === filters.length - 1 ? {} : few);
      const page: EntryPage = await readEntries(db, user.userId, filter, request, archive);
      rows.push(...page.rows);
      sizes.push(page.rows.length);
      ({ next } = page);
    }
    expect(rows).toEqual(before[index]);
    lengths.push(sizes);
  }
  // Four blocks a page with filters.
  expect(lengths).toEqual([[0, 4], [0, 0], [0, 1], [0, 2], expect.arrayContaining([30])]);
  const reader = {
    userId: user.userId,
    cold: cold(few),
    mayContinue: async () => true,
  };
  const format = { header: "", line: () => "-", end: (rows: number) => `end ${rows}` };
  const statement = await readStatement(db, reader, { maxAmount: 40n }, format);
  expect(await new Response(statement).text()).toMatch(/^-+end 30$/);
});

it("writes a statement over both sides", async () => {
  const { requester } = await twoSides();
  await release();
  const cold = coldEntries(archiveOf(), requester.userId);
  const reader = { userId: requester.userId, cold, mayContinue: async () => true };
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
    const archive = archiveOf({ get } as Pick<SealBucket, "get">);
    await expect(allPages(requester.userId, {}, 100, archive)).rejects.toMatchObject({
      status: 503,
    });
  }
  expect((await allPages(requester.userId, {}, 100)).length).toBeGreaterThan(15);
  // Who has no old entries needs no archive.
  const stranger = await newUser({ usdc: 5n }, db);
  const { get } = { get: lies[2] };
  const archive = archiveOf({ get } as Pick<SealBucket, "get">);
  expect(await allPages(stranger.userId, {}, 100, archive)).toHaveLength(1);
});

it("leaves out the seals that a restore has lost", async () => {
  const { requester } = await twoSides();
  await release();
  const pages = await allPages(requester.userId, {}, 100);
  const owner = requester.userId.replaceAll("-", "");
  // A seal of a lost epoch that the history has read: as the newest one, under a link of its own.
  await runInDurableObject(
    env.HISTORY.getByName(`history:${owner}`),
    (_history: History, { storage }) => {
      const newest = "number = (SELECT max(number) FROM seals)";
      for (const table of ["blocks", "seals"])
        storage.sql.exec(`UPDATE ${table} SET epoch = epoch + 7 WHERE ${newest}`);
      storage.sql.exec(`INSERT INTO blocks SELECT number + 1, epoch, kind, low, high, block, marks,
          amounts, content FROM blocks WHERE ${newest}`);
      storage.sql.exec(`INSERT INTO seals SELECT number + 1, epoch, 1 FROM seals WHERE ${newest}`);
    },
  );
  expect(await allPages(requester.userId, {}, 100)).toEqual(pages);
});

itInRelease("rebuilds an index that was lost, in bounded parts", async () => {
  const { requester } = await withSeals(7);
  await release();
  const { userId } = requester;
  const name = historyName(userId.replaceAll("-", ""));
  const inHistory = <Result>(use: (storage: SqlStorage) => Result) =>
    runInDurableObject(env.HISTORY.getByName(name), (_: History, { storage }) => use(storage.sql));
  const rows = await allPages(userId, {}, 100);
  for (const table of ["seals", "blocks", "scans"])
    await inHistory((storage) => storage.exec(`DROP TABLE ${table}`));
  let read = 0;
  const get = (...request: Parameters<SealBucket["get"]>) => {
    read++;
    return sealing.bucket.get(...request);
  };
  const archive = journal.archive(bucketWith(sealing.bucket, { get }), { footers: 2, kept: 0 });
  const linked = () =>
    inHistory(
      (storage) => storage.exec("SELECT count(*) AS n FROM seals WHERE linked = 1").one()["n"],
    );
  const states: unknown[] = [];
  for (;;) {
    read = 0;
    const found = await allPages(userId, {}, 100, archive).catch(() => null);
    if (found !== null) {
      expect(found).toEqual(rows);
      break;
    }
    expect(read).toBeLessThanOrEqual(2);
    states.push(await linked());
    if (states.length > 20) throw new Error("the index is never complete");
  }
  expect(states).toEqual([0, 0, 0]);
});

itInRelease("continues to rebuild an index after a read that failed", async () => {
  const { requester } = await withSeals(3);
  const owner = requester.userId.replaceAll("-", "");
  const newest = await first<SealId>(
    db,
    sql`SELECT s.epoch, s.number FROM sealed_owners o
      CROSS JOIN journal_seals s ON s.number = o.last_seal
      WHERE o.owner = ${uuid(requester.userId)}`,
  );
  if (newest === undefined) throw new Error("nothing is sealed");
  let isAway = false;
  const bucket = bucketWith(sealing.bucket, {
    get: (...request: Parameters<SealBucket["get"]>) =>
      isAway ? Promise.reject(new Error("R2 is away")) : sealing.bucket.get(...request),
  });
  const linked = await runInDurableObject(
    env.HISTORY.getByName(`rebuilt:${owner}`),
    async (_: History, { storage }) => {
      const index = new BlockIndex(storage.sql, { db, bucket }, { footers: 2 });
      await expect(index.chain.follow(owner, newest)).rejects.toThrow("is behind");
      isAway = true;
      await expect(index.chain.resume()).rejects.toThrow("R2 is away");
      isAway = false;
      while (!(await index.chain.resume()));
      return storage.sql.exec("SELECT count(*) AS n FROM seals WHERE linked = 1").one()["n"];
    },
  );
  expect(linked).toBe(3);
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
