/** Standing accepts: the commit that places a quote which is as good accepts it. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { AssetKey } from "../../src/assets/asset.ts";
import { config } from "../../src/platform/config.ts";
import { all, type Expr, raw, type Sql, sql, uuid } from "../../src/platform/sql.ts";
import { GroupCommitter } from "../../src/rfq/group-committer.ts";
import { hexId } from "../../src/rfq/book-operation.ts";
import { trimRfq } from "../../src/rfq/trim-rfq.ts";
import { accountStream, bookStream } from "../../src/streams/event-log.ts";
import { apiOf } from "../support/http.ts";
import { balances, edit, fund } from "../support/ledger.ts";
import {
  command,
  commitCommand,
  openMarket,
  openRequest,
  operationOf,
  outcomeOf,
  placeQuote,
  submit,
} from "../support/market.ts";
import { withBatch, withStatements } from "../support/slow-database.ts";
import { awakeAndEvicted, connect, storedEvents } from "../support/sockets.ts";
import { newKey, newUser, type TestUser } from "../support/users.ts";

const RICH = { usdc: 1_000_000n, token: 1_000_000n };
const BID = { price: 500_000, side: "Bid" } as const;
const market = (terms: Parameters<typeof openMarket>[0] = {}) =>
  openMarket({ requester: RICH, maker: RICH, accept: BID, ...terms });

function committerOf(db: D1Database, asset: AssetKey) {
  return new GroupCommitter(db, {
    asset,
    waitMs: 0,
    maxWaitMs: 60_000,
    maxOperations: 64,
    macKeys: config(env),
    onCommitted: async () => {},
    onFailed: () => {},
    onClockAhead: () => {},
    push: async () => {},
  });
}

awakeAndEvicted("a standing accept", (maybeEvict) => {
  it("takes the first quote that is as good, in its commit, and tells the maker", async () => {
    const { stream, book, requester, maker, request } = await market();
    await maybeEvict(stream);
    const id = request.request_id;
    expect(await placeQuote(maker, id, 500_001)).toMatchObject({ status: "open" });
    await maybeEvict(stream);
    const posted = await apiOf(maker).post("/rfq/quote", { request_id: id, price: 400_000 });
    expect(posted).toMatchObject({
      status: 201,
      json: {
        status: "accepted",
        close_reason: "accepted",
        match: { price: 400_000, role: "maker", request_id: id, usdc_amount: "0x4" },
      },
    });
    const { quote_id, match } = posted.json;
    const [placed] = await all<{ same: number }>(
      env.DB,
      sql`SELECT opened_group = ended_group AS same FROM quotes WHERE quote_id = ${uuid(quote_id)}`,
    );
    expect(placed?.same).toBe(1);
    const seen = await apiOf(requester).get(`/rfq/get-match?match_id=${match.match_id}`);
    expect(seen.json).toMatchObject({ quote_id, role: "requester" });
    expect(await balances(requester.userId, book)).toEqual([1_000_010n, 0n]);
    const shown = await apiOf(requester).get(`/rfq/get-request?request_id=${id}`);
    expect(shown.json).toMatchObject({ status: "matched", accept_price: null, accept_side: null });
  });

  it("of a request in money takes the amount that the money buys", async () => {
    const { stream, requester, maker, request } = await market({ amount: 0n, usdcAmount: 9n });
    await maybeEvict(stream);
    const match = { price: 450_000, amount: "0x14", usdc_amount: "0x9" };
    expect(await placeQuote(maker, request.request_id, 450_000)).toMatchObject({
      status: "accepted",
      match,
    });
    expect(await apiOf(requester).list("/rfq/get-matches")).toMatchObject([match]);
  });

  it("is set, changed and removed, and takes an open quote at once", async () => {
    const { stream, requester, maker, request } = await openMarket({
      requester: RICH,
      maker: RICH,
      side: "TwoWay",
    });
    const request_id = request.request_id;
    const quote = async (price: number) =>
      (await submit({ ...command.placeQuote(maker, request_id, price), side: "Ask" })).ok;
    const set = (fields: object) =>
      apiOf(requester).post("/rfq/accept-price", { request_id, ...fields });
    expect((await set({ accept_price: 900_000 })).json).toMatchObject({ code: "side_mismatch" });
    const first = await set({ accept_price: 900_000, accept_side: "Ask" });
    expect(first.json).toEqual({ request_id, accept_price: 900_000, match: null });
    const shown = await apiOf(requester).get(`/rfq/get-request?request_id=${request_id}`);
    expect(shown.json).toMatchObject({ accept_price: 900_000, accept_side: "Ask" });
    await maybeEvict(stream);
    expect((await set({ accept_price: null })).json).toMatchObject({ accept_price: null });
    expect(await quote(950_000)).toBe(true);
    expect((await set({ accept_price: 950_001, accept_side: "Ask" })).json).toMatchObject({
      match: null,
    });
    const last = await set({ accept_price: 900_000, accept_side: "Ask" });
    expect(last.json).toMatchObject({ accept_price: null, match: { price: 950_000, side: "Ask" } });
    expect((await set({ accept_price: 1, accept_side: "Ask" })).json).toMatchObject({
      code: "request_not_open",
      match_id: last.json["match"].match_id,
    });
  });
});

describe("of several quotes in one commit", () => {
  it("the best wins, and no other", async () => {
    const { requester, maker, request } = await market();
    const quotes = [500_000, 300_000, 300_000, 600_000].map((price) => ({
      request_id: request.request_id,
      price,
    }));
    const { json } = await apiOf(maker).post("/rfq/quotes", { quotes });
    const outcome = json["results"].map(({ quote }: any) => `${quote.price} ${quote.status}`);
    // Those of one commit are equally old, so that of equal prices the id decides.
    expect(outcome.toSorted()).toEqual([
      "300000 accepted",
      "300000 open",
      "500000 open",
      "600000 open",
    ]);
    expect(await apiOf(requester).list("/rfq/get-matches")).toMatchObject([{ price: 300_000 }]);
  });
});

describe("what the requester may not do", () => {
  it.each(["venue is paused", "market is closed"])("is not done while the %s", async (what) => {
    const { book, requester, maker, request } = await openMarket({ requester: RICH, maker: RICH });
    const id = request.request_id;
    const quote = await placeQuote(maker, id, 400_000);
    const { venue_id: venue } = request;
    await all(
      env.DB,
      what === "venue is paused"
        ? sql`INSERT INTO paused_venues (venue, since) VALUES (${venue}, 0)`
        : sql`INSERT INTO markets (asset, title, outcome, closed_at, changed_group)
            VALUES (${book}, 'A', 'Yes', 1, 0)`,
    );
    const set = await submit(command.setAcceptPrice(requester, id, 500_000));
    await all(env.DB, sql`DELETE FROM paused_venues WHERE venue = ${venue}`);
    expect(set).toMatchObject({ ok: true, row: { match: null } });
    const { quote_id } = quote;
    const shown = await apiOf(maker).get(`/rfq/get-quote?quote_id=${quote_id}`);
    expect(shown.json).toMatchObject({ status: "open" });
  });

  it("leaves the quote open and is said once, until the price is set again", async () => {
    const { book, requester, maker, request } = await market({ requester: { usdc: 4n } });
    const id = request.request_id;
    const events = () =>
      storedEvents(accountStream(requester.userId)).then((list) =>
        list.filter(({ type }) => type === "accept.refused").map(({ data }) => data),
      );
    const other = await openRequest(requester, book, { amount: 10n, accept: BID });
    await placeQuote(maker, id, 600_000);
    const first = await placeQuote(maker, id, 500_000);
    expect(first.status).toBe("open");
    expect(await placeQuote(maker, id, 450_000)).toMatchObject({ status: "open" });
    expect(await events()).toEqual([
      { request_id: id, quote_id: first.quote_id, price: 500_000, reason: "insufficient_funds" },
    ]);
    expect(await placeQuote(maker, other.request_id, 450_000)).toMatchObject({ status: "open" });
    expect(await events()).toMatchObject([{ request_id: id }, { request_id: other.request_id }]);
    await submit(command.setAcceptPrice(requester, id, 460_000));
    expect(await events()).toHaveLength(3);
    const path = `/rfq/get-request?request_id=${other.request_id}`;
    expect((await apiOf(requester).get(path)).json).toMatchObject({ accept_price: 500_000 });
    expect(await placeQuote(maker, id, 400_000)).toMatchObject({
      status: "accepted",
      match: { price: 400_000 },
    });
  });

  const ofUser = (statement: (user: Expr) => Sql) => (requester: TestUser) =>
    all(env.DB, statement(uuid(requester.userId)));
  const policy = (sessionsTrade: number, most: number | null) =>
    ofUser(
      (user) => sql`INSERT INTO account_policies (user_id, active_from, version, sessions_trade,
          max_trade_usdc_per_day, withdraw_listed_only)
        VALUES (${user}, 1, 1, ${sessionsTrade}, ${most}, 0)`,
    );
  const keyUpTo = (maxUsdcPerTrade: bigint) => (requester: TestUser) =>
    newKey(requester, ["read", "trade"], {
      limits: { venues: null, maxUsdcPerDay: null, maxUsdcPerTrade },
    });

  type Step<Made> = (requester: TestUser, book: AssetKey) => Promise<Made>;
  const session: Step<Parameters<typeof openRequest>[0]> = async (requester) => requester;
  const nothing: Step<unknown> = async () => {};

  it.each<
    [
      what: string,
      reason: string | null,
      change: Step<unknown>,
      by?: Step<Parameters<typeof openRequest>[0]>,
    ]
  >([
    [
      "whose session has ended",
      "credential_ended",
      ofUser((user) => sql`UPDATE users SET session_epoch = 99 WHERE user_id = ${user}`),
    ],
    [
      "who is frozen",
      "credential_ended",
      ofUser((user) => sql`UPDATE users SET frozen_at = 1 WHERE user_id = ${user}`),
    ],
    [
      "whose key is revoked",
      "credential_ended",
      ofUser((user) => sql`UPDATE api_keys SET revoked_at = 1 WHERE user_id = ${user}`),
      keyUpTo(4n),
    ],
    ["whose sessions may not trade", "credential_ended", policy(0, null)],
    ["whose sessions may trade", null, policy(1, null)],
    ["whose key may give less", "key_limit", nothing, keyUpTo(3n)],
    ["whose key may give as much", null, nothing, keyUpTo(4n)],
    ["whose account may give less", "account_limit", policy(1, 3)],
    ["whose account may give as much", null, policy(1, 4)],
    [
      "who can hold no more tokens",
      "balance_limit",
      ({ userId }, book) => fund(userId, book, 2n ** 62n - 9n, { chain: "full-test" }),
    ],
  ])("is not done for a requester %s", async (_, reason, change, by = session) => {
    const { book, maker } = await market();
    const requester = await newUser({ usdc: 1_000n });
    const actor = await by(requester, book);
    const request = await openRequest(actor, book, { amount: 10n, accept: BID });
    await change(requester, book);
    const status = reason === null ? "accepted" : "open";
    expect(await placeQuote(maker, request.request_id, 400_000)).toMatchObject({ status });
    const events = await storedEvents(accountStream(requester.userId));
    const refused = events.filter(({ type }) => type === "accept.refused");
    expect(refused.map(({ data }) => data["reason"])).toEqual(reason === null ? [] : [reason]);
  });
});

describe("a row that was edited by SQL", () => {
  /** Columns that decide nothing: copies for indexes and events, and what happened. */
  const IDLE = "changed_by changed_group refused_for refused_group refused_quote requester_id";
  const CHANGED = {
    BLOB: () => "randomblob(16)",
    INTEGER: (name: string) => `ifnull(${name}, 0) + 1`,
    TEXT: (name: string) => `ifnull(${name}, '') || 'x'`,
  };

  it("accepts nothing, and is reported", async () => {
    const { requester, maker, book } = await market();
    const columns = await all<{ name: string; type: keyof typeof CHANGED }>(
      env.DB,
      sql`SELECT name, type FROM pragma_table_info('standing_accepts')`,
    );
    const ignored: string[] = [];
    for (const { name, type } of columns) {
      const { request_id: id } = await openRequest(requester, book, { amount: 10n, accept: BID });
      const to = name === "side" ? "'Ask'" : CHANGED[type](name);
      const [row] = await all(
        env.DB,
        sql`UPDATE standing_accepts SET ${raw(name)} = ${raw(to)}
          WHERE request_id = ${uuid(id)} RETURNING 1`,
      );
      expect(row).toBeDefined();
      if ((await placeQuote(maker, id, 400_000)).status === "accepted") ignored.push(name);
      await submit(command.cancelRequest(requester, id));
    }
    expect(ignored.toSorted()).toEqual(IDLE.split(" "));
    const alerts = await all<{ n: number }>(
      env.DB,
      sql`SELECT count(*) AS n FROM alerts WHERE kind = 'key_row_altered'
        AND detail LIKE '%standing accept%'`,
    );
    expect(alerts[0]?.n).toBeGreaterThan(3);
  });

  it("accepts nothing when it was edited after it was read", async () => {
    const { book, maker, request } = await market();
    const id = request.request_id;
    const db = withStatements(env.DB, async (texts) => {
      if (texts.length > 1)
        await all(
          env.DB,
          sql`UPDATE standing_accepts SET price = 600000 WHERE request_id = ${uuid(id)}`,
        );
    });
    const quote = await operationOf(command.placeQuote(maker, id, 400_000));
    const placed = await committerOf(db, book).submit(quote);
    expect(placed).toMatchObject({ ok: true, row: { status: "open" } });
  });

  it("accepts nothing when its request was edited", async () => {
    const { maker, request } = await market();
    const id = request.request_id;
    await edit(env.DB, "requests", [
      sql`UPDATE requests SET amount = '11' WHERE request_id = ${uuid(id)}`,
    ]);
    expect(await placeQuote(maker, id, 400_000)).toMatchObject({ status: "open" });
  });

  it("that was inserted accepts nothing", async () => {
    const { book, requester, maker, request } = await market();
    const { request_id: id } = await openRequest(requester, book, { amount: 10n });
    await all(
      env.DB,
      sql`INSERT INTO standing_accepts SELECT ${uuid(id)}, requester_id, side, price,
          api_key_id, session_epoch, session_expires_at, mac, changed_by, changed_group,
          NULL, NULL, NULL
        FROM standing_accepts WHERE request_id = ${uuid(request.request_id)}`,
    );
    // The group's report says that there is a price.
    await placeQuote(maker, id, 900_000);
    expect(await placeQuote(maker, id, 400_000)).toMatchObject({ status: "open" });
    await submit(command.setAcceptPrice(requester, id, 450_000));
    expect(await apiOf(requester).list("/rfq/get-matches")).toMatchObject([{ price: 400_000 }]);
  });
});

describe("makers", () => {
  it("see no difference between a request with and one without a price", async () => {
    const { book, requester, maker, request: own } = await market();
    const other = await openRequest(requester, book, { amount: 10n });
    const subscriber = await connect(maker, bookStream(book));
    const snapshot = (await subscriber.until("snapshot")).data.requests;
    const read = (id: string) => apiOf(maker).get(`/rfq/get-request?request_id=${id}`);
    const bare = (record: object) =>
      Object.fromEntries(
        Object.entries(record).filter(
          ([name]) => !/^(request_id|created_at|expires_at)$/.test(name),
        ),
      );
    const [one, two] = [(await read(own.request_id)).json, (await read(other.request_id)).json];
    expect(bare(one)).toEqual(bare(two));
    expect(one).not.toHaveProperty("accept_price");
    expect(bare(snapshot[0])).toEqual(bare(snapshot[1]));
    const opened = (await storedEvents(bookStream(book))).map(({ data }) => bare(data));
    expect(opened[0]).toEqual(opened[1]);
    expect(opened[0]).not.toHaveProperty("accept_price");
  });

  it("cause no other statement until a quote is as good", async () => {
    const { book, requester, maker, request } = await market();
    const other = await openRequest(requester, book, { amount: 10n });
    const sent: (readonly string[])[] = [];
    const db = withStatements(env.DB, async (texts) => void sent.push(texts));
    const committer = committerOf(db, book);
    const statementsOf = async (id: string, price: number) => {
      sent.length = 0;
      const operation = await operationOf(command.placeQuote(maker, id, price));
      expect(outcomeOf(await committer.submit(operation))).toBe("ok");
      return [...sent];
    };
    for (const id of [request.request_id, other.request_id]) await statementsOf(id, 900_000);
    const without = await statementsOf(other.request_id, 600_000);
    expect(await statementsOf(request.request_id, 600_000)).toEqual(without);
    expect(await statementsOf(request.request_id, 400_000)).not.toEqual(without);
  });

  it("pay for no other request of the book that has a price", async () => {
    const { book, maker, request } = await openMarket({ maker: RICH });
    let rowsRead = 0;
    const db = withBatch(env.DB, async (statements) => {
      const results = await env.DB.batch(statements);
      rowsRead = results.reduce((sum, { meta }) => sum + meta.rows_read, 0);
      return results;
    });
    const rowsOf = async (price: number) => {
      const operation = await operationOf(command.placeQuote(maker, request.request_id, price));
      expect(outcomeOf(await committerOf(db, book).submit(operation))).toBe("ok");
      return rowsRead;
    };
    for (const price of [900_000, 800_000]) await rowsOf(price);
    const [before, next] = [await rowsOf(700_000), await rowsOf(600_000)];
    await all(
      env.DB,
      sql`INSERT INTO standing_accepts (request_id, requester_id, side, price, changed_by,
          changed_group)
        SELECT randomblob(16), x'00', 'Bid', 1, x'00', 0
        FROM json_each('[' || substr(replace(hex(zeroblob(1000)), '00', ',0'), 2) || ']')`,
    );
    const more = next - before;
    expect([await rowsOf(500_000), rowsRead]).toEqual([next + more, next + more]);
  });

  it("may not set it, and nobody on a request that has ended", async () => {
    const { book, requester, maker, request } = await market();
    const set = (who: typeof maker) =>
      submit(command.setAcceptPrice(who, request.request_id, 1)).then(outcomeOf);
    expect(await set(maker)).toBe("not_request_owner");
    const late = { ...command.setAcceptPrice(requester, request.request_id, 1), receivedAt: 1 };
    expect(outcomeOf(await commitCommand(book, late))).toBe("unavailable");
    await submit(command.cancelRequest(requester, request.request_id));
    expect(await set(requester)).toBe("request_not_open");
    // As of a request that has left with its seal.
    await all(
      env.DB,
      sql`INSERT INTO standing_accepts (request_id, requester_id, side, price, changed_by,
          changed_group)
        SELECT x'01', requester_id, side, NULL, changed_by, changed_group
        FROM standing_accepts WHERE request_id = ${uuid(request.request_id)}`,
    );
    const left = () =>
      all(
        env.DB,
        sql`SELECT hex(request_id) AS id, price FROM standing_accepts
          WHERE request_id IN (x'01', ${uuid(request.request_id)})`,
      );
    expect(await left()).toHaveLength(2);
    await trimRfq(env.DB);
    expect(await left()).toEqual([{ id: hexId(request.request_id), price: null }]);
  });
});
