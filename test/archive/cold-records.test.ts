/**
 * A user's own matches over both sides: every page of every filter is the same while seal after
 * seal leaves the database. Requests and quotes leave the lists, and are exported by day.
 */
import { env } from "cloudflare:workers";
import { beforeAll, expect, it, vi } from "vitest";
import { Dice } from "../../scripts/actors/dice.ts";
import { releaseRound } from "../../src/archive/release.ts";
import type { SealBucket } from "../../src/archive/seal-store.ts";
import { config } from "../../src/platform/config.ts";
import type { Page, PageQuery, TimeId } from "../../src/http/cursor.ts";
import type { Command, Result } from "../../src/rfq/command.ts";
import { exportRecords, readDay } from "../../src/rfq/export-records.ts";
import { getMatch, getQuote, getRequest } from "../../src/rfq/get-records.ts";
import { listMatches } from "../../src/rfq/list-matches.ts";
import { listOwnQuotes, listQuotesOnRequest } from "../../src/rfq/list-quotes.ts";
import { listOwnRequests } from "../../src/rfq/list-requests.ts";
import { newAsset } from "../support/ledger.ts";
import { command, commitCommand } from "../support/market.ts";
import { newUser, type TestUser } from "../support/users.ts";
import { SealedJournal, Sealing } from "./sealing.ts";
import { FULL, rounds } from "../support/depth.ts";

const journal = new SealedJournal(env.RECORDS_DB, "records");
const { db } = journal;
const sealing = new Sealing(journal);

beforeAll(() => journal.open());

/** The tests read many pages. */
vi.setConfig({ testTimeout: 120_000 });

const DAY_MS = 86_400_000;
const round = (matchesMs: number) =>
  releaseRound({ db, bucket: sealing.bucket, settings: config(env), lagMs: 0, matchesMs });

async function releaseAll(): Promise<void> {
  while ((await round(0)).status !== "idle");
}

type List = (page: PageQuery<TimeId>) => Promise<Page<unknown>>;

const LABELS = ["a", "b"];

/** The list of a user's own matches, with every filter. */
function listsOf(userId: string, { books, middle }: Filters) {
  const lists = new Map<string, List>();
  const add = (filter: Parameters<typeof listMatches>[2]) =>
    lists.set(`${userId} ${JSON.stringify(filter)}`, (page) =>
      listMatches(journal.records(userId), userId, filter, page),
    );
  for (const book of [{}, ...books])
    for (const label of [undefined, ...LABELS])
      for (const role of [undefined, "maker", "requester"] as const) add({ role, label, ...book });
  for (const period of [{ from: middle }, { to: middle }]) add(period);
  return lists;
}

type Filters = {
  readonly books: readonly { venue: "venue_one" | "venue_two"; assetId?: string }[];
  readonly middle: number;
};

async function allPages(list: List, limit: number): Promise<unknown[]> {
  const items: unknown[] = [];
  let cursor: PageQuery<TimeId>["last_cursor"];
  for (let pages = 0; ; pages++) {
    const page = await list({ limit, last_cursor: cursor });
    items.push(...page.items);
    expect(page.items.length).toBeLessThanOrEqual(limit);
    if (page.next_cursor === null) return items;
    const [at, id] = JSON.parse(Buffer.from(page.next_cursor, "base64url").toString()) as [
      number,
      string,
    ];
    cursor = { text: page.next_cursor, position: { at, id } };
    if (pages > 500) throw new Error("the pages do not end");
  }
}

/** Random trading of three users on two books, sealed now and then at random places. */
async function trading(dice: Dice) {
  const books = [newAsset("venue_one").key, newAsset("venue_two").key];
  const funds = { usdc: 1_000_000n, ...Object.fromEntries(books.map((key) => [key, 1_000_000n])) };
  const users: TestUser[] = [];
  for (let n = 0; n < 3; n++) users.push(await newUser(funds, db));
  const requests: { id: string; by: TestUser; book: string }[] = [];
  const quotes: { id: string; by: TestUser; on: (typeof requests)[number] }[] = [];
  const matches: { id: string; quoteId: string; requestId: string }[] = [];
  const send = (book: string, sent: Command): Promise<Result> => commitCommand(book, sent, db);
  const label = () => (dice.chance(0.5) ? null : dice.pick(LABELS));
  for (let step = 0; step < 90; step++) {
    const by = dice.pick(users);
    const request = requests.length === 0 ? undefined : dice.pick(requests.slice(-6));
    const others = users.filter(({ userId }) => userId !== request?.by.userId);
    const quote = quotes.length === 0 ? undefined : dice.pick(quotes.slice(-20));
    const does = dice.weighted({ request: 3, quote: 8, accept: 3, cancel: 2, close: 1, seal: 1 });
    if (does === "request" || request === undefined) {
      const book = dice.pick(books);
      const open = command.openRequest(by, book, { amount: 10n, side: dice.pick(["Bid", "Ask"]) });
      await send(book, { ...open, label: label(), expiresInSecs: 3_600 });
      requests.push({ id: open.requestId, by, book });
    } else if (does === "quote") {
      const maker = dice.pick(others);
      const place = command.placeQuote(maker, request.id, dice.between(1, 900_000), 300);
      const result = await send(request.book, { ...place, label: label() });
      if (result.ok) quotes.push({ id: place.quoteId, by: maker, on: request });
    } else if (does === "close") {
      await send(request.book, command.cancelRequest(request.by, request.id));
    } else if (does === "accept" && quote !== undefined) {
      const accept = command.accept(quote.on.by, quote.id);
      const result = await send(quote.on.book, accept);
      if (result.ok && result.kind === "match" && !result.replayed)
        matches.push({ id: accept.matchId, quoteId: quote.id, requestId: quote.on.id });
    } else if (does === "cancel" && quote !== undefined) {
      await send(quote.on.book, command.cancelQuote(quote.by, quote.id));
    } else if (does === "seal") await sealing.sealAll({ limit: dice.pick([2, 10, 40]) });
  }
  return { users, books, requests, quotes, matches };
}

const idOf = (item: unknown) =>
  String(Reflect.get(item as object, "quote_id") ?? Reflect.get(item as object, "request_id"));
const byId = (items: readonly unknown[]) => items.toSorted((a, b) => (idOf(a) < idOf(b) ? -1 : 1));
const today = () => new Date().toISOString().slice(0, 10);

/** All lines of the export of a day, over all its calls. */
async function exported(
  userId: string,
  kind: "requests" | "quotes",
  day = today(),
  bucket: Pick<SealBucket, "get"> = sealing.bucket,
): Promise<unknown[]> {
  const asked = { kind, day: readDay(day) ?? 0, after: 0 };
  const response = await exportRecords({ ...journal.records(userId), bucket }, userId, asked);
  const lines = (await response.text()).trimEnd().split("\n");
  expect(lines.pop()).toBe('{"next_cursor":null}');
  return lines.filter((line) => line !== "").map((line) => JSON.parse(line) as unknown);
}

it.each(["one", "two", "three"].slice(0, rounds(1, 3)))(
  "returns the same matches, and exports the rest: seed %s",
  async (seed) => {
    const dice = new Dice(seed);
    await releaseAll();
    const { users, books, requests, quotes, matches } = await trading(dice);
    const more: Filters = {
      books: [
        { venue: "venue_one" },
        { venue: "venue_two", assetId: books[1]?.split(":")[1] ?? "" },
      ],
      middle: Number.parseInt(
        matches[Math.floor(matches.length / 2)]?.id.slice(0, 13).replace("-", "") ?? "0",
        16,
      ),
    };
    const all = users.flatMap(({ userId }) => [...listsOf(userId, more)]);
    // A small run reads a third of the lists.
    const lists = new Map(all.filter(() => FULL || dice.chance(0.33)));
    const expected = new Map<string, unknown[]>();
    for (const [name, list] of lists) expected.set(name, await allPages(list, 500));
    const one = new Map<string, () => Promise<unknown>>();
    for (const match of matches)
      for (const lookup of [
        { match_id: match.id },
        { quote_id: match.quoteId },
        { request_id: match.requestId },
      ])
        for (const { userId } of users)
          one.set(`match ${JSON.stringify(lookup)} of ${userId}`, () =>
            getMatch(journal.records(userId), userId, lookup).catch(() => null),
          );
    const records = new Map<string, unknown>();
    for (const [name, read] of one) records.set(name, await read());
    const ended = async (userId: string) => ({
      requests: byId(
        await allPages((page) => listOwnRequests(db, userId, { status: "all" }, page), 500),
      ).filter((item) => Reflect.get(item as object, "status") !== "open"),
      quotes: byId(await allPages((page) => listOwnQuotes(db, userId, {}, page), 500)).filter(
        (item) => Reflect.get(item as object, "status") !== "open",
      ),
    });
    const own = new Map<string, Awaited<ReturnType<typeof ended>>>();
    for (const { userId } of users) own.set(userId, await ended(userId));
    expect(requests.length).toBeGreaterThan(3);
    expect(quotes.length).toBeGreaterThan(15);
    expect(matches.length).toBeGreaterThan(1);
    await newUser({ usdc: 1n }, db);
    await sealing.sealAll({ limit: 7 });
    for (let matchesMs = DAY_MS, isEnd = false; !isEnd;) {
      const { status } = await round(matchesMs);
      if (status === "mismatch") throw new Error("nothing was released");
      if (status === "idle") [isEnd, matchesMs] = [matchesMs === 0, 0];
      // Every state would take minutes, so each seed looks at some of them, and at the last one.
      if (status === "delivered" || (!isEnd && dice.chance(0.8))) continue;
      for (const [name, list] of lists) {
        if (!isEnd && dice.chance(0.8)) continue;
        const items = expected.get(name) ?? [];
        const limit = dice.pick([1, 2, 3, 4, 500]);
        expect(await allPages(list, limit), `${name} by ${limit}`).toEqual(items);
      }
      for (const [name, read] of one)
        if (isEnd || dice.chance(0.1)) expect(await read(), name).toEqual(records.get(name));
    }
    for (const { userId } of users)
      for (const kind of ["requests", "quotes"] as const)
        expect(byId(await exported(userId, kind)), `${kind} of ${userId}`).toEqual(
          own.get(userId)?.[kind],
        );
  },
);

/** Trades and lets everything leave that has ended. */
async function soldAndLeft() {
  const market = await journal.trade();
  await newUser({ usdc: 1n }, db);
  await sealing.sealAll();
  await releaseAll();
  return market;
}

it("lists no request or quote that has left, and names the export", async () => {
  const { requester, maker, requestId, quotes } = await soldAndLeft();
  const reads = [
    () => getRequest(db, requester.userId, requestId),
    () => getQuote(db, maker.userId, quotes.rejected),
    () => listQuotesOnRequest(db, requester.userId, { requestId }, { limit: 5 }),
  ];
  for (const read of reads)
    await expect(read()).rejects.toMatchObject({
      data: {
        code: expect.stringMatching("_unknown"),
        detail: expect.stringContaining("GET /rfq/export-records"),
      },
    });
  const { items } = await listOwnQuotes(db, maker.userId, {}, { limit: 50 });
  expect(items).toMatchObject([{ quote_id: quotes.open }]);
  expect(await exported(maker.userId, "quotes")).toHaveLength(3);
});

it("exports nothing of others, of another day or of a kind that one has not", async () => {
  const { requester, maker } = await soldAndLeft();
  expect(await exported(requester.userId, "requests")).toHaveLength(1);
  expect(await exported(requester.userId, "quotes")).toEqual([]);
  expect(await exported(maker.userId, "requests")).toEqual([]);
  expect(await exported(maker.userId, "quotes", "2020-02-29")).toEqual([]);
  const stranger = await newUser({}, db);
  expect(await exported(stranger.userId, "quotes")).toEqual([]);
  expect(["2026-02-29", "2026-2-1", "", "2026-02-01T00:00Z"].map(readDay)).toEqual(
    Array(4).fill(undefined),
  );
});

it("is 503 for readers of what has left only while the archive is away", async () => {
  const { requester, maker, matchId, quotes } = await soldAndLeft();
  const get = () => Promise.reject(new Error("10001: internal error"));
  const away = { get } as Pick<SealBucket, "get">;
  const records = journal.records(maker.userId, away);
  const refused = { status: 503, data: { retryAfterSecs: 1 } };
  await expect(getMatch(records, maker.userId, { match_id: matchId })).rejects.toMatchObject(
    refused,
  );
  await expect(listMatches(records, maker.userId, {}, { limit: 5 })).rejects.toMatchObject(refused);
  const asked = { kind: "quotes", day: readDay(today()) ?? 0, after: 0 } as const;
  await expect(
    exportRecords({ ...records, bucket: sealing.bucket }, maker.userId, asked),
  ).rejects.toMatchObject(refused);
  // The history is complete, but the block cannot be read.
  expect(await exported(maker.userId, "quotes")).toHaveLength(3);
  await expect(exported(maker.userId, "quotes", today(), away)).rejects.toMatchObject(refused);
  // What is here needs no archive.
  expect(await getQuote(db, requester.userId, quotes.open)).toMatchObject({ status: "open" });
});

it("asks no history for a page that the database fills", async () => {
  const { book, requester, maker } = await soldAndLeft();
  for (let trades = 0; trades < 2; trades++) {
    const request = command.openRequest(requester, book, { amount: 10n });
    const quote = command.placeQuote(maker, request.requestId, 600_000);
    for (const sent of [request, quote, command.accept(requester, quote.quoteId)])
      await commitCommand(book, sent, db);
  }
  const away = { get: () => Promise.reject(new Error("down")) } as Pick<SealBucket, "get">;
  const page = (limit: number) =>
    listMatches(journal.records(maker.userId, away), maker.userId, {}, { limit });
  expect((await page(1)).items).toHaveLength(1);
  await expect(page(2)).rejects.toMatchObject({ status: 503 });
});
