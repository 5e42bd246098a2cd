/** Filters of the lists of own requests, quotes and matches, and what a page of them may cost. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { all, raw, sql, uuid } from "../../src/platform/sql.ts";
import { MAX_EXAMINED } from "../../src/rfq/examined-page.ts";
import { apiOf } from "../support/http.ts";
import { edit, newAsset } from "../support/ledger.ts";
import { command, openRequest, placeQuote, submit } from "../support/market.ts";
import { newUser } from "../support/users.ts";

/** Two books of different venues, each with a matched, a cancelled and an open request. */
async function twoBooks() {
  const books = [newAsset("venue_one"), newAsset("venue_two")] as const;
  const requester = await newUser({ usdc: 1_000n });
  const maker = await newUser({ [books[0].key]: 1_000n, [books[1].key]: 1_000n });
  const ids: string[][] = [];
  for (const { key } of books) {
    const open = () => openRequest(requester, key, { amount: 1n });
    const requests = [await open(), await open(), await open()] as const;
    const quote = await placeQuote(maker, requests[0].request_id, 500_000);
    await placeQuote(maker, requests[1].request_id, 500_000);
    await submit(command.accept(requester, quote.quote_id));
    await submit(command.cancelRequest(requester, requests[1].request_id));
    ids.push(requests.map(({ request_id }) => request_id));
  }
  return { books, requester, maker, ids };
}

const idsOf = (name: string, records: Record<string, unknown>[]) =>
  records.map((record) => record[name]);

it("own requests are listed by status and book", async () => {
  const { books, requester, ids } = await twoBooks();
  const list = async (query: string) =>
    idsOf("request_id", await apiOf(requester).list(`/rfq/get-requests?limit=2${query}`));
  const [one = [], two = []] = ids;
  expect(await list("")).toEqual([two[2], one[2]]);
  expect(await list("&status=open&venue_id=venue_one")).toEqual([one[2]]);
  expect(await list("&status=all")).toEqual([...two.toReversed(), ...one.toReversed()]);
  expect(await list("&status=all&venue_id=venue_one")).toEqual(one.toReversed());
  expect(await list(`&status=all&venue_id=venue_two&asset_id=${books[1].asset_id}`)).toEqual(
    two.toReversed(),
  );
  expect(await list(`&status=all&venue_id=venue_one&asset_id=${books[1].asset_id}`)).toEqual([]);
});

it("own quotes are listed by request, book and status", async () => {
  const { books, maker, ids } = await twoBooks();
  const list = async (query: string) =>
    idsOf("request_id", await apiOf(maker).list(`/rfq/get-quotes?limit=1${query}`));
  const [one = [], two = []] = ids;
  expect(await list("")).toEqual([two[1], two[0], one[1], one[0]]);
  expect(await list("&venue_id=venue_one")).toEqual([one[1], one[0]]);
  expect(await list(`&venue_id=venue_two&asset_id=${books[1].asset_id}`)).toEqual([two[1], two[0]]);
  expect(await list(`&request_id=${one[0]}`)).toEqual([one[0]]);
  expect(await list("&venue_id=venue_two&status=accepted")).toEqual([two[0]]);
  expect(await list(`&request_id=${one[0]}&status=open`)).toEqual([]);
});

it("own matches are listed by role, book and period", async () => {
  const { books, requester, maker, ids } = await twoBooks();
  const list = async (user: typeof maker, query: string) =>
    idsOf("request_id", await apiOf(user).list(`/rfq/get-matches?limit=1${query}`));
  const matched = [ids[1]?.[0], ids[0]?.[0]];
  expect(await list(maker, "")).toEqual(matched);
  expect(await list(maker, "&role=maker")).toEqual(matched);
  expect(await list(maker, "&role=requester")).toEqual([]);
  expect(await list(requester, "&role=requester&venue_id=venue_one")).toEqual([matched[1]]);
  expect(await list(requester, `&venue_id=venue_two&asset_id=${books[1].asset_id}`)).toEqual([
    matched[0],
  ]);
  const [first] = await apiOf(maker).list("/rfq/get-matches?limit=1");
  const at = first?.["created_at"];
  expect((await list(maker, `&from=${at}`)).at(0)).toBe(matched[0]);
  expect((await list(maker, `&to=${at}`)).at(0)).toBe(matched[0]);
  expect(await list(maker, "&to=2020-01-01T00:00:00Z")).toEqual([]);
});

it("own records are listed by their label, which nobody else can search", async () => {
  const asset = newAsset();
  const requester = await newUser({ usdc: 1_000n });
  const maker = await newUser({ [asset.key]: 1_000n });
  const [asks, bot] = [apiOf(requester), apiOf(maker)];
  const { key: _, ...book } = asset;
  const terms = { ...book, amount: 1, side: "Bid" };
  const labelled = await asks.post("/rfq/request", { ...terms, label: "ask-1" });
  const ended = await asks.post("/rfq/request", { ...terms, label: "ask-1" });
  await asks.post("/rfq/request", terms);
  await asks.delete(`/rfq/request?request_id=${ended.json["request_id"]}`);
  const request_id = labelled.json["request_id"];
  const quote = await bot.post("/rfq/quote", { request_id, price: 1, label: "bid-1" });
  await bot.post("/rfq/quote", { request_id, price: 2, label: "bid-2" });
  const ids = async (api: typeof asks, list: string, name: string) =>
    idsOf(name, await api.list(`/rfq/${list}&limit=1`));
  const requests = [ended.json["request_id"], request_id];
  expect(await ids(asks, "get-requests?label=ask-1", "request_id")).toEqual([request_id]);
  expect(await ids(asks, "get-requests?label=ask-1&status=all", "request_id")).toEqual(requests);
  const quotes = [quote.json["quote_id"]];
  expect(await ids(bot, "get-quotes?label=bid-1", "quote_id")).toEqual(quotes);
  expect(await ids(bot, "get-quotes?label=bid-1&status=accepted", "quote_id")).toEqual([]);
  await asks.post("/rfq/accept", { quote_id: quotes[0] });
  expect(await ids(bot, "get-matches?label=bid-1", "request_id")).toEqual([request_id]);
  expect(await ids(bot, "get-matches?label=ask-1", "request_id")).toEqual([]);
  expect(await ids(asks, "get-matches?label=ask-1&role=requester", "request_id")).toEqual([
    request_id,
  ]);
  expect(await ids(asks, "get-matches?label=bid-1", "request_id")).toEqual([]);
});

it("a filter that fits nothing ends each page after a bounded number of records", async () => {
  const { maker, ids } = await twoBooks();
  const [request = ""] = ids[0] ?? [];
  const count = MAX_EXAMINED + 10;
  // Copies of a quote that has ended, each a millisecond newer.
  const columns = await all<{ name: string }>(
    env.DB,
    sql`SELECT name FROM pragma_table_info('quotes')`,
  );
  const values = columns.map(({ name }) => {
    if (name === "quote_id") return "unhex(printf('0190a0b0000070008000%012x', n.i))";
    return name === "opened_at" ? "1900000000000 + n.i" : `q.${name}`;
  });
  await all(
    env.DB,
    sql`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
      INSERT INTO quotes (${raw(columns.map(({ name }) => name).join(", "))})
      SELECT ${raw(values.join(", "))}
      FROM n JOIN quotes q ON q.request_id = ${uuid(request)} AND q.status = 'accepted'`,
  );
  const api = apiOf(maker);
  const target = "/rfq/get-quotes?limit=2&venue_id=venue_two";
  const first = await api.get(target);
  expect(first.json["items"]).toEqual([]);
  expect(first.json["next_cursor"]).toEqual(expect.any(String));
  // The next page goes on where the first one ended.
  expect(idsOf("request_id", await api.list(target))).toEqual([ids[1]?.[1], ids[1]?.[0]]);
  expect((await api.get("/rfq/get-quotes?limit=2&venue_id=venue_one")).json["items"]).toHaveLength(
    2,
  );
  await edit(env.DB, "quotes", [sql`DELETE FROM quotes WHERE opened_at > 1_900_000_000_000`]);
});

it("filters are checked", async () => {
  const api = apiOf(await newUser());
  const paths = async (target: string) => {
    const { status, json } = await api.get(target);
    return [status, json["errors"]?.map(({ path }: { path: string }) => path)];
  };
  for (const list of ["get-requests", "get-quotes", "get-matches"])
    expect(await paths(`/rfq/${list}?asset_id=0x1`)).toEqual([400, ["query.venue_id"]]);
  expect(await paths("/rfq/get-requests?status=matched")).toEqual([400, ["query.status"]]);
  expect(await paths("/rfq/get-matches?role=taker")).toEqual([400, ["query.role"]]);
  expect(await paths("/rfq/get-matches?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z")).toEqual(
    [400, ["query.to"]],
  );
});
