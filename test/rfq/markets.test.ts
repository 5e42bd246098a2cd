/** Markets: the operator lists and closes them, the guards respect them, anybody reads them. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { config } from "../../src/platform/config.ts";
import { first, sql, uuid } from "../../src/platform/sql.ts";
import { commitOperations } from "../../src/rfq/book-group.ts";
import { accountStream } from "../../src/streams/event-log.ts";
import { apiOf, send } from "../support/http.ts";
import { newAsset, type TestAsset } from "../support/ledger.ts";
import {
  command,
  commitCommand,
  openRequest,
  operationOf,
  outcomeOf,
  placeQuote,
  rejectionOf,
  submit,
} from "../support/market.ts";
import { orderOf, orderOfTwo, sendOrder } from "../support/operator.ts";
import { tellHolders } from "../../src/rfq/markets/tell-holders.ts";
import { connect } from "../support/sockets.ts";
import { newUser } from "../support/users.ts";

const HOUR_MS = 3_600_000;
const inHours = (hours: number) => new Date(Date.now() + hours * HOUR_MS).toISOString();

async function execute(line: string, options: Record<string, string> = {}) {
  const response = await sendOrder(orderOf(line.split(" "), options));
  return response as { ok: boolean; result: any; problem: { code: string; detail: string } };
}

const named = ({ venue_id, asset_id }: TestAsset) => ({ venue: venue_id, "asset-id": asset_id });

async function list(asset: TestAsset, terms: Record<string, string> = {}) {
  const market = { title: `Question ${asset.asset_id}`, outcome: "Yes", ...terms };
  const response = await execute("market set", { ...named(asset), ...market });
  expect(response).toMatchObject({ ok: true });
  return response.result as { cancelled_requests: number };
}

/** A listed asset and two users with funds. */
async function listed(terms: Record<string, string> = {}) {
  const asset = newAsset();
  await list(asset, terms);
  const requester = await newUser({ usdc: 1_000n });
  const maker = await newUser({ [asset.key]: 1_000n });
  return { asset, book: asset.key, requester, maker };
}

const read = async (asset: TestAsset) => {
  const query = `venue_id=${asset.venue_id}&asset_id=${asset.asset_id}`;
  // The list is read again after a second.
  return expect
    .poll(
      async () => {
        const response = await send(`/markets?${query}`);
        const { items } = await response.json<{ items: Record<string, unknown>[] }>();
        return items;
      },
      { timeout: 5_000 },
    )
    .not.toEqual([]);
};

it("a market for tests trades, and only its own list shows it", async () => {
  const { asset, book, requester, maker } = await listed({ test: "true" });
  const request = await openRequest(requester, book, { amount: 10n });
  const quote = await placeQuote(maker, request.request_id, 500_000);
  expect(outcomeOf(await commitCommand(book, command.accept(requester, quote.quote_id)))).toBe(
    "ok",
  );
  const query = `venue_id=${asset.venue_id}&asset_id=${asset.asset_id}`;
  await expect
    .poll(() => apiOf(requester).list(`/markets?${query}&test=true`), { timeout: 5_000 })
    .toHaveLength(1);
  expect(await apiOf(requester).list(`/markets?${query}`)).toEqual([]);
  expect(await apiOf(requester).list(`/rfq/get-trades?${query}`)).toEqual([]);
  const changed = { ...named(asset), title: `Question ${asset.asset_id}`, outcome: "Yes" };
  const refused = await execute("market set", changed);
  expect(refused.problem.code).toBe("market_trades");
});

describe("what a market is about", () => {
  const texts = {
    event_id: "rain-2030",
    description: "Yes if it rains.",
    rules_url: "https://venue.example/rules",
    category: "Weather",
  };
  const options = {
    "event-id": texts.event_id,
    description: texts.description,
    "rules-url": texts.rules_url,
    category: texts.category,
  };

  it("is shown, and its event and category find it", async () => {
    const { asset, requester } = await listed(options);
    await read(asset);
    for (const filter of ["event_id=rain-2030", "category=Weather"]) {
      const query = `venue_id=${asset.venue_id}&asset_id=${asset.asset_id}&${filter}`;
      expect(await apiOf(requester).list(`/markets?${query}`)).toMatchObject([texts]);
      expect(await apiOf(requester).list(`/markets?${query}x`)).toEqual([]);
    }
  });
});

describe("a market that closes", () => {
  it("rejects requests, quotes and accepts, and lets records be cancelled", async () => {
    const { asset, book, requester, maker } = await listed();
    const request = await openRequest(requester, book, { amount: 10n });
    const quote = await placeQuote(maker, request.request_id, 500_000);
    await env.DB.prepare("UPDATE markets SET closed_at = 1 WHERE asset = ?").bind(asset.key).run();
    for (const sent of [
      command.openRequest(requester, book, { amount: 1n }),
      command.placeQuote(maker, request.request_id, 1),
      command.accept(requester, quote.quote_id),
    ])
      expect(outcomeOf(await commitCommand(book, sent))).toBe("market_closed");
    for (const sent of [
      command.cancelQuote(maker, quote.quote_id),
      command.cancelRequest(requester, request.request_id),
    ])
      expect(outcomeOf(await commitCommand(book, sent))).toBe("ok");
  });

  it("is closed from closes_at on, without a job", async () => {
    const { asset, book, requester, maker } = await listed({ "closes-at": inHours(1) });
    const request = await openRequest(requester, book, { amount: 10n });
    const quote = await placeQuote(maker, request.request_id, 500_000);
    await env.DB.prepare("UPDATE markets SET closes_at = ? WHERE asset = ?")
      .bind(Date.now() - 1, asset.key)
      .run();
    for (const sent of [
      command.openRequest(requester, book, { amount: 1n }),
      command.placeQuote(maker, request.request_id, 1),
      command.accept(requester, quote.quote_id),
    ])
      expect(outcomeOf(await commitCommand(book, sent))).toBe("market_closed");
  });

  it("cuts the life of requests and so of quotes", async () => {
    const closesAt = new Date(Date.now() + 60_000).toISOString();
    const { book, requester, maker } = await listed({ "closes-at": closesAt });
    const long = await openRequest(requester, book, { amount: 10n, expiresInSecs: 300 });
    expect(long.expires_at).toBe(closesAt);
    const quote = await placeQuote(maker, long.request_id, 500_000, 120);
    expect(quote.expires_at).toBe(closesAt);
    const short = await openRequest(requester, book, { amount: 10n, expiresInSecs: 5 });
    expect(Date.parse(short.expires_at) - Date.parse(short.created_at)).toBe(5_000);
  });
});

describe("market close", () => {
  it("cancels what is open, with releases and events, and can be repeated", async () => {
    const { asset, book, requester, maker } = await listed();
    const request = await openRequest(requester, book, { amount: 10n });
    await placeQuote(maker, request.request_id, 500_000);
    const subscriber = await connect(maker, accountStream(maker.userId));
    expect(await execute("market close", named(asset))).toMatchObject({
      ok: true,
      result: { asset: asset.key, status: "closed", cancelled_requests: 1 },
    });
    expect((await subscriber.until("quote.closed")).data).toMatchObject({ reason: "rejected" });
    const balance = await apiOf(maker).get(
      `/custody/get-balance?venue_id=${asset.venue_id}&asset_id=${asset.asset_id}`,
    );
    expect(balance.json).toMatchObject({ balance: "0x3e8", pending_balance: "0x0" });
    const late = await submit(command.openRequest(requester, book, { amount: 1n }));
    expect(outcomeOf(late)).toBe("market_closed");
    expect(await execute("market close", named(asset))).toMatchObject({
      result: { cancelled_requests: 0 },
    });
  });

  it("stays closed when the market is set or imported again, unless it is reopened", async () => {
    const { asset, book, requester } = await listed();
    await execute("market close", named(asset));
    const open = () => submit(command.openRequest(requester, book, { amount: 1n }));
    await list(asset, { category: "Another one" });
    expect(outcomeOf(await open())).toBe("market_closed");
    await list(asset, { reopen: "true" });
    expect(outcomeOf(await open())).toBe("ok");
  });

  it("rejects an asset that is not listed", async () => {
    expect(await execute("market close", named(newAsset()))).toMatchObject({
      ok: false,
      problem: { code: "market_unknown" },
    });
  });
});

describe("market set", () => {
  it("cancels what is open when the close moves forward", async () => {
    const { asset, book, requester } = await listed({ "closes-at": inHours(48) });
    await openRequest(requester, book, { amount: 10n });
    expect(await list(asset, { "closes-at": inHours(72) })).toMatchObject({
      cancelled_requests: 0,
    });
    expect(await list(asset, { "closes-at": inHours(24) })).toMatchObject({
      cancelled_requests: 1,
    });
  });

  it("that lists an asset for the first time keeps what ends before its close", async () => {
    const asset = newAsset();
    const requester = await newUser();
    await openRequest(requester, asset.key, { amount: 1n, expiresInSecs: 60 });
    await openRequest(requester, asset.key, { amount: 1n, expiresInSecs: 7_200 });
    expect(await list(asset, { "closes-at": inHours(1) })).toMatchObject({
      cancelled_requests: 1,
    });
    const { json } = await apiOf(requester).get("/rfq/get-requests");
    expect(json["items"]).toHaveLength(1);
  });

  it("is an audit event with the asset", async () => {
    const { asset } = await listed();
    const row = await first<{ actor: string }>(
      env.DB,
      sql`SELECT actor FROM audit_events WHERE kind = 'market_set' AND subject_id = ${asset.key}`,
    );
    expect(row?.actor).toBe("operator:test");
  });

  const NAMED = ["title", "outcome", "url", "event-id", "description", "rules-url"] as const;
  it.each(NAMED)("one operator never changes the %s of a listed market", async (name) => {
    const { asset, book, requester } = await listed({ url: "https://v.example/m" });
    const set = (options: object) =>
      execute("market set", {
        ...named(asset),
        title: `Question ${asset.asset_id}`,
        outcome: "Yes",
        url: "https://v.example/m",
        ...options,
      });
    const changed = { [name]: name.endsWith("url") ? "https://evil.example/x" : "evil" };
    const refused = { problem: { code: "market_listed" } };
    await openRequest(requester, book, { amount: 10n });
    expect(await set(changed)).toMatchObject(refused);
    expect(await set({ category: "Weather" })).toMatchObject({ ok: true });
    await execute("market close", named(asset));
    expect(await set({ ...changed, reopen: "true" })).toMatchObject(refused);
    expect(await set({ ...changed, correct: "true" })).toMatchObject({
      result: { status: "open" },
    });
    expect(await set({ "closes-at": inHours(-1), reopen: "true" })).toMatchObject({ ok: true });
    expect(await set(changed)).toMatchObject(refused);
  });

  it("changes not whether it is a test while the market trades", async () => {
    const { asset, book, requester } = await listed();
    const terms = { ...named(asset), title: `Question ${asset.asset_id}`, outcome: "Yes" };
    const set = () => execute("market set", { ...terms, test: "true" });
    await openRequest(requester, book, { amount: 10n });
    expect(await set()).toMatchObject({ problem: { code: "market_trades" } });
    // A close that was interrupted leaves requests open.
    await env.DB.prepare("UPDATE markets SET closed_at = 1 WHERE asset = ?").bind(book).run();
    expect(await set()).toMatchObject({ problem: { code: "market_trades" } });
    await execute("market close", named(asset));
    expect(await set()).toMatchObject({ ok: true });
  });

  it("lists no outcome twice among the open markets of a venue", async () => {
    const { asset } = await listed();
    const title = `question ${asset.asset_id}`;
    const set = (other: TestAsset, options: object = {}) =>
      execute("market set", { ...named(other), title, outcome: "YES", ...options });
    const [same, elsewhere] = [newAsset(), newAsset("venue_two")];
    expect(await set(same)).toMatchObject({ problem: { code: "outcome_listed" } });
    for (const twin of ["Question  ", "\u00a0Question\u3000", "Ｑuestion ", "QUESTION "])
      expect(await set(same, { title: `${twin}${asset.asset_id}` })).toMatchObject({
        problem: { code: "outcome_listed" },
      });
    expect(await set(same, { title: `${title}\u3164` })).toMatchObject({
      problem: { code: "invalid_request" },
    });
    expect(await set(elsewhere)).toMatchObject({ ok: true });
    await execute("market close", named(asset));
    expect(await set(same)).toMatchObject({ ok: true });
    const before = { title: `Question ${asset.asset_id}`, outcome: "Yes", reopen: "true" };
    expect(await set(asset, before)).toMatchObject({
      problem: { code: "outcome_listed" },
    });
  });

  it.each([
    [{ title: "" }, "--title"],
    [{ outcome: "x".repeat(65) }, "--outcome"],
    [{ url: "javascript:alert(1)" }, "--url"],
    [{ "closes-at": "tomorrow" }, "--closes-at"],
    [{ "asset-id": "1" }, "--asset-id"],
    [{ venue: "venue_nine" }, "--venue"],
  ])("rejects %j", async (change, at) => {
    const market = { ...named(newAsset()), title: "t", outcome: "o", ...change };
    const { problem } = await execute("market set", market);
    expect(problem).toMatchObject({ code: "invalid_request" });
    expect(problem.detail).toContain(at);
  });
});

describe("a correction of what a market is called", () => {
  const terms = (asset: TestAsset) => ({
    ...named(asset),
    title: `Question ${asset.asset_id}`,
    outcome: "Yes",
  });
  const correct = (asset: TestAsset, options: Record<string, string>) =>
    orderOfTwo(
      ["market", "set"],
      { ...terms(asset), correct: "true", ...options },
      { password: "" },
    );

  it("takes two operators and a closed market, and tells the holders", async () => {
    const { asset, maker, requester } = await listed();
    const subscriber = await connect(maker, accountStream(maker.userId));
    const title = `Corrected ${asset.asset_id}`;
    expect(await correct(asset, { title })).toMatchObject({ problem: { code: "market_trades" } });
    await execute("market close", named(asset));
    expect(await correct(asset, { title, reopen: "true" })).toMatchObject({ ok: true });
    while (await tellHolders(env));
    expect((await subscriber.until("market.corrected")).data).toEqual({
      venue_id: asset.venue_id,
      asset_id: asset.asset_id,
      title,
      outcome: "Yes",
      previous_title: `Question ${asset.asset_id}`,
      previous_outcome: "Yes",
    });
    const { json } = await apiOf(requester).get("/account/events?types=market.corrected&since=0");
    expect(json["items"]).toEqual([]);
    const found = `/markets?venue_id=${asset.venue_id}&asset_id=${asset.asset_id}`;
    await expect
      .poll(() => apiOf(requester).list(`${found}&q=corrected`), { timeout: 5_000 })
      .toMatchObject([{ title, status: "open" }]);
  });

  it("ends with a result", async () => {
    const { asset } = await listed();
    const resolved = { ...named(asset), result: "1000000" };
    await orderOfTwo(["market", "resolve"], resolved, { password: "" });
    for (const options of [{ outcome: "No" }, { description: "No means yes" }])
      expect(await correct(asset, options)).toMatchObject({ problem: { code: "market_resolved" } });
    expect(await execute("market set", { ...terms(asset), category: "Past" })).toMatchObject({
      ok: true,
    });
  });

  it("of many comes in one proposal", async () => {
    const { asset } = await listed();
    await execute("market close", named(asset));
    const { venue: venue_id, "asset-id": asset_id, ...rest } = terms(asset);
    const markets = JSON.stringify([{ venue_id, asset_id, ...rest, event_id: "rain" }]);
    expect(await execute("market import", { markets })).toMatchObject({
      problem: { code: "market_listed" },
    });
    const options = { markets, correct: "true" };
    expect(await orderOfTwo(["market", "import"], options, { password: "" })).toMatchObject({
      ok: true,
    });
  });
});

describe("market import", () => {
  const market = (asset: TestAsset) => ({
    venue_id: asset.venue_id,
    asset_id: asset.asset_id,
    title: "Imported",
    outcome: "Yes",
    url: null,
    closes_at: inHours(5),
  });
  const importAll = (markets: unknown) =>
    execute("market import", { markets: JSON.stringify(markets) });

  it("lists many in one commit and leaves the others", async () => {
    const [one, two, other] = [newAsset(), newAsset("venue_two"), (await listed()).asset];
    expect(await importAll([market(one), market(two)])).toMatchObject({
      ok: true,
      result: { markets: 2, cancelled_requests: 0 },
    });
    for (const asset of [one, two, other]) await read(asset);
  });

  it("rejects a list that gives one outcome, or one asset, twice", async () => {
    const [one, two] = [newAsset(), newAsset()];
    const same = { title: `Twice ${one.asset_id}` };
    expect(
      await importAll([
        { ...market(one), ...same },
        { ...market(two), ...same },
      ]),
    ).toMatchObject({ problem: { code: "outcome_listed" } });
    expect(await importAll([market(one), { ...market(one), outcome: "No" }])).toMatchObject({
      problem: { code: "invalid_request" },
    });
  });

  it("names each field that is wrong and lists nothing", async () => {
    const asset = newAsset();
    const { problem } = await importAll([market(asset), { ...market(newAsset()), outcome: "" }]);
    expect(problem.detail).toContain("--file.1.outcome");
    expect(await first(env.DB, sql`SELECT 1 FROM markets WHERE asset = ${asset.key}`)).toBe(
      undefined,
    );
    for (const wrong of ["[]", "{}", "nonsense"])
      expect(await execute("market import", { markets: wrong })).toMatchObject({ ok: false });
    const many = Array.from({ length: 1_001 }, () => market(newAsset()));
    expect((await importAll(many)).problem.detail).toContain("1000");
  });
});

describe("with RFQ_LISTED_ONLY", () => {
  const settings = { ...config(env), RFQ_LISTED_ONLY: "on" as const };
  const attempt = async (asset: TestAsset) => {
    const requester = await newUser();
    const sent = command.openRequest(requester, asset.key, { amount: 1n });
    const operation = await operationOf(sent, settings);
    const group = await commitOperations(env.DB, asset.key, [operation]);
    const stored = await first(
      env.DB,
      sql`SELECT 1 FROM requests WHERE request_id = ${uuid(sent.requestId)}`,
    );
    const result = group.committed
      ? (operation.result(group.effects) ?? (await rejectionOf(operation)))
      : undefined;
    return [result === undefined ? "lost" : outcomeOf(result), stored !== undefined];
  };

  it("requests are for listed assets only", async () => {
    expect(await attempt(newAsset())).toEqual(["market_unknown", false]);
    expect(await attempt((await listed()).asset)).toEqual(["ok", true]);
  });

  it("GET /config says so", async () => {
    expect(await (await send("/config")).json()).toMatchObject({ listed_only: false });
  });
});

describe("GET /markets", () => {
  it("finds markets by the words of title and outcome, without a credential", async () => {
    const [yes, no] = [newAsset(), newAsset()];
    const word = yes.asset_id.slice(2);
    for (const [asset, outcome] of [
      [yes, "Yes"],
      [no, "No"],
    ] as const)
      await list(asset, { title: `Will ${word} rain?`, outcome, url: "https://v.example/rain" });
    await read(no);
    const search = async (query: string) => {
      const { items, next_cursor } = await (
        await send(`/markets?q=${encodeURIComponent(query)}`)
      ).json<{ items: { outcome: string }[]; next_cursor: string | null }>();
      expect(next_cursor).toBeNull();
      return items.map(({ outcome }) => outcome);
    };
    expect(await search(`RAIN ${word}`)).toEqual(["No", "Yes"]);
    expect(await search(`${word} yes`)).toEqual(["Yes"]);
    expect(await search(`${word} maybe`)).toEqual([]);
  });

  it("names chosen assets, and sorts by what their questions traded", async () => {
    const [quiet, traded] = [await listed({ title: "Aaa" }), await listed({ title: "Bbb" })];
    const terms = { amount: 100n, side: "Bid" } as const;
    const { request_id } = await openRequest(traded.requester, traded.book, terms);
    const { quote_id } = await placeQuote(traded.maker, request_id, 500_000);
    expect(outcomeOf(await submit(command.accept(traded.requester, quote_id)))).toBe("ok");
    await read(traded.asset);
    await read(quiet.asset);
    const assets = [quiet.asset, traded.asset].map(({ asset_id }) => asset_id);
    const venue = `venue_id=${quiet.asset.venue_id}&assets=${assets.join(",")}`;
    const ids = async (more: string) => {
      const response = await send(`/markets?${venue}${more}`);
      const { items } = await response.json<{ items: { asset_id: string }[] }>();
      return items.map(({ asset_id }) => asset_id);
    };
    expect(await ids("")).toEqual(assets);
    await expect.poll(() => ids("&sort=volume"), { timeout: 10_000 }).toEqual(assets.toReversed());
  });

  it("shows the whole record, and a close within a second or two", async () => {
    const closesAt = inHours(3);
    const { asset } = await listed({ url: "https://v.example/m", "closes-at": closesAt });
    await read(asset);
    const target = `/markets?venue_id=${asset.venue_id}&asset_id=${asset.asset_id}`;
    const shown = async () => (await (await send(target)).json<{ items: any[] }>()).items[0];
    expect(await shown()).toEqual({
      venue_id: asset.venue_id,
      asset_id: asset.asset_id,
      event_id: null,
      title: `Question ${asset.asset_id}`,
      outcome: "Yes",
      description: null,
      rules_url: null,
      url: "https://v.example/m",
      category: null,
      closes_at: closesAt,
      status: "open",
      result: null,
      resolved_by: "venue",
      complement_asset_id: null,
      condition: null,
      withdrawable: null,
      issued: null,
      settles_at: null,
    });
    await execute("market close", named(asset));
    await expect.poll(async () => (await shown()).status, { timeout: 5_000 }).toBe("closed");
  });

  it("rejects a cursor of another list and an unknown status", async () => {
    const cursor = Buffer.from(JSON.stringify(["venue_one:0xnone"])).toString("base64url");
    for (const [query, path] of [
      [`last_cursor=${cursor}`, "query.last_cursor"],
      ["status=paused", "query.status"],
      ["asset_id=0x1", "query.venue_id"],
      [`q=${"x".repeat(101)}`, "query.q"],
      ["assets=0x1", "query.assets"],
      ["venue_id=venue_one&assets=0x1,0xy", "query.assets"],
      ["sort=price", "query.sort"],
    ])
      expect(await (await send(`/markets?${query}`)).json()).toMatchObject({
        status: 400,
        errors: [{ path }],
      });
  });
});
