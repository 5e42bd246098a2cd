/**
 * Lists of a user's own records, and each record by its ids, over both sides: every page of every
 * filter is the same while seal after seal leaves the database.
 */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, expect, it, vi } from "vitest";
import { Dice } from "../../scripts/actors/dice.ts";
import type { History } from "../../src/archive/history-object.ts";
import { releaseRound } from "../../src/archive/release.ts";
import type { SealBucket } from "../../src/archive/seal-store.ts";
import { config } from "../../src/platform/config.ts";
import type { Page, PageQuery, TimeId } from "../../src/http/cursor.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import type { Command, Result } from "../../src/rfq/command.ts";
import { getMatch, getQuote, getRequest } from "../../src/rfq/get-records.ts";
import { listMatches } from "../../src/rfq/list-matches.ts";
import { listOwnQuotes, listQuotesOnRequest } from "../../src/rfq/list-quotes.ts";
import { listOwnRequests } from "../../src/rfq/list-requests.ts";
import { recall } from "../../src/rfq/recall.ts";
import { QUOTE_STATUSES } from "../../src/rfq/statuses.ts";
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

/** Every list of a user's own records, with every filter. */
function listsOf(userId: string, archive: ReturnType<typeof journal.archive>, more: Filters) {
  const books = [{}, ...more.books];
  const labels = [undefined, ...LABELS];
  const lists = new Map<string, List>();
  const add = (name: string, filter: object, list: List) =>
    lists.set(`${userId} ${name} ${JSON.stringify(filter)}`, list);
  for (const book of books) {
    for (const label of labels) {
      const request = { status: "all", label, ...book } as const;
      add("requests", request, (page) => listOwnRequests(archive, userId, request, page));
      for (const status of [undefined, ...QUOTE_STATUSES]) {
        const quote = { status, label, ...book };
        add("quotes", quote, (page) => listOwnQuotes(archive, userId, quote, page));
      }
      for (const role of [undefined, "maker", "requester"] as const) {
        const match = { role, label, ...book };
        add("matches", match, (page) => listMatches(archive, userId, match, page));
      }
    }
  }
  for (const requestId of more.requests)
    add("quotes", { requestId }, (page) => listOwnQuotes(archive, userId, { requestId }, page));
  for (const period of [{ from: more.middle }, { to: more.middle }])
    add("matches", period, (page) => listMatches(archive, userId, period, page));
  return lists;
}

type Filters = {
  readonly books: readonly { venue: "venue_one" | "venue_two"; assetId?: string }[];
  readonly requests: readonly string[];
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

it.each(["one", "two", "three"].slice(0, rounds(1, 3)))(
  "returns the same pages and records: seed %s",
  async (seed) => {
    const dice = new Dice(seed);
    await releaseAll();
    const { users, books, requests, quotes, matches } = await trading(dice);
    // Few blocks a call, so that pages take several, and some end early.
    const archive = journal.archive(undefined, { opened: 3 });
    const more: Filters = {
      books: [
        { venue: "venue_one" },
        { venue: "venue_two", assetId: books[1]?.split(":")[1] ?? "" },
      ],
      requests: requests.slice(0, 3).map(({ id }) => id),
      middle: Number.parseInt(
        matches[Math.floor(matches.length / 2)]?.id.slice(0, 13).replace("-", "") ?? "0",
        16,
      ),
    };
    const all = users.flatMap(({ userId }) => [...listsOf(userId, archive, more)]);
    // A small run reads a third of the lists.
    const lists = new Map(all.filter(() => FULL || dice.chance(0.33)));
    const expected = new Map<string, unknown[]>();
    for (const [name, list] of lists) expected.set(name, await allPages(list, 500));
    const one = new Map<string, () => Promise<unknown>>();
    for (const { id, by } of requests)
      one.set(`request ${id}`, () => getRequest(archive, by.userId, id));
    for (const { id, by } of quotes) one.set(`quote ${id}`, () => getQuote(archive, by.userId, id));
    for (const match of matches) {
      for (const lookup of [
        { match_id: match.id },
        { quote_id: match.quoteId },
        { request_id: match.requestId },
      ])
        for (const { userId } of users)
          one.set(`match ${JSON.stringify(lookup)} of ${userId}`, () =>
            getMatch(archive, userId, lookup).catch(() => null),
          );
    }
    const records = new Map<string, unknown>();
    for (const [name, read] of one) records.set(name, await read());
    expect(quotes.length).toBeGreaterThan(15);
    expect(matches.length).toBeGreaterThan(1);
    const before = await journal.count("quotes");
    await sealing.sealAll({ limit: 7 });
    for (let matchesMs = DAY_MS, ended = false; !ended;) {
      const { status } = await round(matchesMs);
      if (status === "mismatch") throw new Error("nothing was released");
      if (status === "idle") [ended, matchesMs] = [matchesMs === 0, 0];
      // Every state would take minutes, so each seed looks at some of them, and at the last one.
      if (status === "delivered" || (!ended && dice.chance(0.8))) continue;
      for (const [name, list] of lists) {
        if (!ended && dice.chance(0.8)) continue;
        const items = expected.get(name) ?? [];
        const limit = dice.pick([1, 2, 3, 4, 500]);
        expect(await allPages(list, limit), `${name} by ${limit}`).toEqual(items);
      }
      for (const [name, read] of one)
        if (ended || dice.chance(0.1)) expect(await read(), name).toEqual(records.get(name));
    }
    expect(await journal.count("quotes")).toBeLessThan(before);
  },
);

const ofArchive = (archive: ReturnType<typeof journal.archive>) => ({
  archive,
  settings: { ...config(env), HOT_WINDOWS_DIVISOR: 3_600_000 },
});

it("repeats what accepts and cancels returned", async () => {
  const { requester, maker, book, requestId, openRequestId, quotes } = await journal.trade();
  const sent: readonly Command[] = [
    command.accept(requester, quotes.accepted),
    command.cancelQuote(maker, quotes.cancelled),
    command.cancelQuote(maker, quotes.accepted),
    command.cancelQuote(maker, quotes.rejected),
    command.cancelRequest(requester, requestId),
    command.cancelRequest(requester, openRequestId),
  ];
  const again = async (one: Command) =>
    recall(ofArchive(journal.archive()), one, await commitCommand(book, one, db));
  await commitCommand(book, command.cancelRequest(requester, openRequestId), db);
  const before: Result[] = [];
  for (const one of sent) before.push(await again(one));
  expect(before.map(({ ok }) => ok)).toEqual([true, true, false, false, false, true]);
  await sealing.sealAll();
  await releaseAll();
  expect(await journal.count(ofRequest(openRequestId))).toBe(0);
  for (const [index, one] of sent.entries()) expect(await again(one)).toEqual(before[index]);
  expect(await again(command.accept(maker, quotes.accepted))).toMatchObject({
    problem: { code: "not_request_owner" },
  });
  // Others' old records are unknown.
  const stranger = await newUser({}, db);
  for (const one of [
    command.accept(maker, quotes.rejected),
    command.accept(stranger, quotes.accepted),
    command.cancelQuote(stranger, quotes.cancelled),
  ])
    expect(await again(one)).toMatchObject({ problem: { code: "quote_unknown" } });
});

const ofRequest = (id: string) => `requests WHERE request_id = x'${id.replaceAll("-", "")}'`;

it("knows one's own old request without its quotes, and nothing of others", async () => {
  const { requester, maker, requestId, quotes } = await journal.trade();
  await newUser({ usdc: 1n }, db);
  await sealing.sealAll();
  await releaseAll();
  const archive = journal.archive();
  const list = (userId: string) =>
    listQuotesOnRequest(archive, userId, { requestId }, { limit: 5 });
  expect(await list(requester.userId)).toEqual({ items: [], next_cursor: null });
  const code = (one: string) => ({ data: { code: one } });
  await expect(list(maker.userId)).rejects.toMatchObject(code("request_unknown"));
  await expect(getRequest(archive, maker.userId, requestId)).rejects.toMatchObject(
    code("request_unknown"),
  );
  await expect(getQuote(archive, requester.userId, quotes.rejected)).rejects.toMatchObject(
    code("quote_unknown"),
  );
});

it("is 503 for the readers of old records only while the archive is away", async () => {
  const { requester, maker, requestId, quotes, openRequestId } = await journal.trade();
  await newUser({ usdc: 1n }, db);
  await sealing.sealAll();
  await releaseAll();
  const get = () => Promise.reject(new Error("10001: internal error"));
  const archive = journal.archive({ get } as Pick<SealBucket, "get">);
  const away = { status: 503 };
  await expect(getRequest(archive, requester.userId, requestId)).rejects.toMatchObject(away);
  await expect(getQuote(archive, maker.userId, quotes.rejected)).rejects.toMatchObject(away);
  await expect(listOwnQuotes(archive, maker.userId, {}, { limit: 5 })).rejects.toMatchObject(away);
  const cancel = command.cancelQuote(maker, quotes.cancelled);
  const unknown = { ok: false, problem: { code: "quote_unknown", detail: "" } } as const;
  expect(await recall(ofArchive(archive), cancel, unknown)).toMatchObject({
    problem: { code: "unavailable" },
  });
  // What is here needs no archive: an open record, the newest page, and other users.
  expect(await getRequest(archive, requester.userId, openRequestId)).toMatchObject({
    status: "open",
  });
  const open = { status: "open" } as const;
  expect((await listOwnQuotes(archive, maker.userId, open, { limit: 5 })).items).toHaveLength(1);
  const stranger = await newUser({}, db);
  expect((await listOwnQuotes(archive, stranger.userId, {}, { limit: 5 })).items).toEqual([]);
});

it("does not ask the archive for a page that is newer than everything in it", async () => {
  const { book, requester, maker } = await journal.trade();
  await newUser({ usdc: 1n }, db);
  await sealing.sealAll();
  await releaseAll();
  const request = command.openRequest(requester, book, { amount: 10n });
  await commitCommand(book, request, db);
  for (const price of [1, 2, 3])
    await commitCommand(book, command.placeQuote(maker, request.requestId, price), db);
  const away = { get: () => Promise.reject(new Error("down")) } as Pick<SealBucket, "get">;
  const page = (limit: number) => listOwnQuotes(journal.archive(away), maker.userId, {}, { limit });
  expect((await page(2)).items).toHaveLength(2);
  await expect(page(4)).rejects.toMatchObject({ status: 503 });
});

it("leaves out the records of seals that a restore has lost", async () => {
  const { maker } = await journal.trade();
  await newUser({ usdc: 1n }, db);
  await sealing.sealAll();
  await releaseAll();
  const list = () => listOwnQuotes(journal.archive(), maker.userId, {}, { limit: 50 });
  const before = await list();
  expect(before.items.length).toBeGreaterThan(2);
  const name = `history:${maker.userId.replaceAll("-", "")}`;
  await runInDurableObject(env.HISTORY.getByName(name), (_history: History, { storage }) => {
    const copy = (number: string, epoch: string, linked: number) => {
      for (const table of [
        `blocks SELECT ${number}, ${epoch}, kind, low, high, block, marks,
          amounts, content`,
        `seals SELECT ${number}, ${epoch}, ${linked}`,
      ])
        storage.sql.exec(`INSERT INTO ${table} FROM ${table.split(" ")[0]}
          WHERE number = (SELECT max(number) FROM seals WHERE linked = 1 AND epoch < 7)`);
    };
    copy("number", "epoch + 7", 1);
    copy("number + 1", "epoch + 7", 1);
    copy("number - 1", "epoch + 7", 0);
  });
  expect(await list()).toEqual(before);
});

it("is 503 without an effect when the database does not answer", async () => {
  const { maker } = await journal.trade();
  const cancel = command.cancelQuote(maker, uuidv7(Date.now() - 7_200_000));
  const silent: D1Database = new Proxy(db, {
    get: () => () => {
      throw new Error("D1_ERROR: Network connection lost.");
    },
  });
  const unknown = { ok: false, problem: { code: "quote_unknown", detail: "" } } as const;
  const archive = { ...journal.archive(), db: silent };
  expect(await recall(ofArchive(archive), cancel, unknown)).toMatchObject({
    ok: false,
    problem: { code: "unavailable", extensions: { outcome: "none" } },
  });
});

it("ends a page with filters where the archive was read to, and continues there", async () => {
  const { book, requester, maker } = await journal.trade();
  const request = command.openRequest(requester, book, { amount: 10n, expiresInSecs: 3_600 });
  await commitCommand(book, request, db);
  const quoted: string[] = [];
  for (let seals = 0; seals < 7; seals++) {
    const quote = command.placeQuote(maker, request.requestId, 1_000 + seals, 300);
    await commitCommand(book, quote, db);
    quoted.unshift(quote.quoteId);
    // The first one stays open, so it is older than all that are in the archive.
    if (seals > 0) await commitCommand(book, command.cancelQuote(maker, quote.quoteId), db);
    await newUser({ usdc: 1n }, db);
    await sealing.sealAll();
  }
  await releaseAll();
  const archive = journal.archive(undefined, { opened: 1 });
  const filter = { venue: "venue_two", requestId: request.requestId } as const;
  const first = await listOwnQuotes(archive, maker.userId, filter, { limit: 50 });
  expect(first.items.length).toBeLessThan(quoted.length);
  expect(first.next_cursor).not.toBeNull();
  const items = await allPages((page) => listOwnQuotes(archive, maker.userId, filter, page), 50);
  expect(items).toMatchObject(quoted.map((quote_id) => ({ quote_id })));
});

it("finds a request and its match without opening the other blocks", async () => {
  const { book, requester, maker } = await journal.trade();
  const matched: string[] = [];
  for (let seals = 0; seals < 5; seals++) {
    const request = command.openRequest(requester, book, { amount: 10n });
    const quote = command.placeQuote(maker, request.requestId, 600_000);
    for (const sent of [request, quote, command.accept(requester, quote.quoteId)])
      await commitCommand(book, sent, db);
    matched.push(request.requestId);
    await newUser({ usdc: 1n }, db);
    await sealing.sealAll();
  }
  await releaseAll();
  let opened = 0;
  const get: SealBucket["get"] = (...args: Parameters<SealBucket["get"]>) => {
    opened++;
    return sealing.bucket.get(...args);
  };
  // Safe cast: the archive calls nothing else.
  const archive = journal.archive({ get } as Pick<SealBucket, "get">, {
    opened: 1,
    examined: 2,
    kept: 0,
  });
  const last = matched.at(-1) ?? "";
  const lookup = { request_id: last };
  // Reads the footers.
  const { match_id } = await getMatch(archive, maker.userId, lookup);
  opened = 0;
  expect(await getMatch(archive, maker.userId, lookup)).toMatchObject({ match_id });
  expect(opened).toBe(1);
  await getRequest(archive, requester.userId, last);
  opened = 0;
  expect(await getRequest(archive, requester.userId, last)).toMatchObject({ status: "matched" });
  expect(opened).toBe(1);
  opened = 0;
  await expect(getMatch(archive, maker.userId, { request_id: uuidv7() })).rejects.toMatchObject({
    data: { code: "match_unknown" },
  });
  expect(opened).toBe(0);
});

it("merges seals whose records overlap in time", async () => {
  const { book, requester, maker } = await journal.trade();
  const request = command.openRequest(requester, book, { amount: 10n, expiresInSecs: 3_600 });
  await commitCommand(book, request, db);
  const quoted: string[] = [];
  for (let price = 1; price <= 5; price++) {
    const quote = command.placeQuote(maker, request.requestId, price, 300);
    await commitCommand(book, quote, db);
    quoted.push(quote.quoteId);
    await scheduler.wait(2);
  }
  for (const ended of [
    [0, 3],
    [1, 2, 4],
  ]) {
    for (const index of ended)
      await commitCommand(book, command.cancelQuote(maker, quoted[index] ?? ""), db);
    await newUser({ usdc: 1n }, db);
    await sealing.sealAll();
  }
  await releaseAll();
  const filter = { requestId: request.requestId };
  // One block a call.
  const archive = journal.archive(undefined, { opened: 1 });
  const items = await allPages((page) => listOwnQuotes(archive, maker.userId, filter, page), 1);
  expect(items).toMatchObject(quoted.toReversed().map((quote_id) => ({ quote_id })));
});
