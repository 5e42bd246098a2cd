/** The quotes of one commit group, which one statement places. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import type { Side } from "../../src/assets/asset-fields.ts";
import {
  expr,
  first,
  jsonObject,
  raw,
  readUuid,
  type Sql,
  sql,
  uuid,
} from "../../src/platform/sql.ts";
import { newQuoteColumns } from "../../src/rfq/rfq-records.ts";
import { commitOperations } from "../../src/rfq/book-group.ts";
import type { AcceptQuote, PlaceQuote } from "../../src/rfq/command.ts";
import { setAside } from "../../src/rfq/set-aside.ts";
import { balances, edit, fund } from "../support/ledger.ts";
import { apiOf } from "../support/http.ts";
import { newUser } from "../support/users.ts";
import {
  command,
  openMarket,
  openRequest,
  operationOf,
  outcomeOf,
  quotedMarket,
  rejectionOf,
} from "../support/market.ts";

/** `ok` or the code of each command's rejection, in one group. */
async function commitTogether(
  book: string,
  commands: readonly (PlaceQuote | AcceptQuote)[],
): Promise<string[]> {
  const operations = await Promise.all(commands.map((sent) => operationOf(sent)));
  const done = await commitOperations(env.DB, book, operations);
  if (!done.committed) throw new Error("the group was rolled back", { cause: done.cause });
  return Promise.all(
    operations.map(async (operation) => {
      const result = operation.result(done.effects) ?? (await rejectionOf(operation));
      if (result === undefined) throw new Error("nothing rejects the command");
      return result.ok && result.kind === "quote" && result.replayed ? "replay" : outcomeOf(result);
    }),
  );
}

it("reserves each quote before the next one is checked", async () => {
  const { book, requester, maker } = await openMarket({ maker: { token: 100n } });
  const amounts = [60n, 60n, 30n];
  const requests = await Promise.all(
    amounts.map((amount) => openRequest(requester, book, { amount })),
  );
  const placed = requests.map(({ request_id: id }) => command.placeQuote(maker, id, 500_000));
  expect(await commitTogether(book, placed)).toEqual(["ok", "insufficient_funds", "ok"]);
  expect(await balances(maker.userId, book)).toEqual([10n, 90n]);
});

it("counts each quote towards the limits of the next one", async () => {
  const { book, maker, request } = await openMarket({ side: "TwoWay", maker: { token: 1_000n } });
  await fund(maker.userId, "usdc", 1_000n);
  const sent = (side: Side) => ({ ...command.placeQuote(maker, request.request_id, 1), side });
  const bids = await commitTogether(
    book,
    times(22, () => sent("Bid")),
  );
  expect(bids.slice(0, 20).every((outcome) => outcome === "ok")).toBe(true);
  expect(bids.slice(20)).toEqual(["open_quote_limit", "open_quote_limit"]);
  // One that was set aside counts for none.
  const id = await idOf(sql`request_id = ${uuid(request.request_id)}`);
  await setAside(env.DB, { table: "quotes", ids: [id] });
  const more = await commitTogether(book, [sent("Bid"), sent("Bid")]);
  expect(more).toEqual(["ok", "open_quote_limit"]);
  // The other side has places of its own.
  expect(await commitTogether(book, [sent("Ask")])).toEqual(["ok"]);
});

/** A request with a full side: 499 quotes at one price, and a last one that is worse. */
async function fullSide(side: Side) {
  const { book, maker: honest, request } = await openMarket({ side: "TwoWay" });
  await fund(honest.userId, "usdc", 1_000n);
  const [fair, poor] = side === "Ask" ? [500_000, 400_000] : [500_000, 600_000];
  const place = (party: Parameters<typeof command.placeQuote>[0], price: number, on = side) => ({
    ...command.placeQuote(party, request.request_id, price),
    side: on,
  });
  const placed: PlaceQuote[] = [];
  for (let n = 0; n < 25; n++) {
    const maker = await newUser({ [book]: 500n, usdc: 500n });
    const prices = times(20, (index) => (n === 24 && index === 0 ? poor : fair));
    const sent = prices.map((price) => place(maker, price));
    const outcomes = await commitTogether(book, sent);
    expect(outcomes.every((outcome) => outcome === "ok")).toBe(true);
    placed.push(...sent);
  }
  const worst = placed.at(-20);
  if (worst === undefined) throw new Error("nothing was placed");
  return { book, honest, request, place, worst, fair, poor };
}

it.each([
  ["Ask", 1],
  ["Bid", -1],
] as const)("a full %s side takes a better quote for its worst", async (side, better) => {
  const { book, honest, place, worst, fair, poor } = await fullSide(side);
  // Its maker may replace it by a worse one, because the quote that is replaced takes no place.
  const last = { ...place(worst, poor - better), replaces: worst.quoteId };
  expect(await commitTogether(book, [last])).toEqual(["ok"]);
  const maker = worst.actor.userId;
  const [asset, reserved] = side === "Ask" ? ["usdc", 99n] : [book, 200n];
  expect(await balances(maker, asset)).toEqual([500n - reserved, reserved]);

  // Equal prices: the older stays.
  expect(await commitTogether(book, [place(honest, poor - better)])).toEqual(["open_quote_limit"]);
  const honestQuote = place(honest, poor);
  expect(await commitTogether(book, [honestQuote])).toEqual(["ok"]);

  expect(await reasonOf(last)).toEqual({ status: "cancelled", reason: "outbid" });
  const left = side === "Ask" ? 95n : 190n;
  expect(await balances(maker, asset)).toEqual([500n - left, left]);
  // The next one outbids that one, its own maker's other side has places, and then none is worse.
  const others = [
    place(honest, fair + better),
    place(honest, 500_000, side === "Ask" ? "Bid" : "Ask"),
  ];
  expect(await commitTogether(book, others)).toEqual(["ok", "ok"]);
  expect(await reasonOf(honestQuote)).toEqual({ status: "cancelled", reason: "outbid" });
  expect(await commitTogether(book, [place(honest, fair)])).toEqual(["open_quote_limit"]);
});

it("a full side has the place of a quote that was set aside", async () => {
  const { book, honest, place, worst, fair } = await fullSide("Ask");
  const id = await idOf(sql`maker_id <> ${uuid(worst.actor.userId)}
    AND request_id = ${uuid(worst.requestId)}`);
  await setAside(env.DB, { table: "quotes", ids: [id] });
  const outcomes = await commitTogether(book, [place(honest, 1), place(honest, 1)]);
  expect(outcomes).toEqual(["ok", "open_quote_limit"]);
  expect(await reasonOf(worst)).toEqual({ status: "open", reason: null });
  expect(await commitTogether(book, [place(honest, fair)])).toEqual(["ok"]);
});

/** One of the quotes that meet the condition. */
const idOf = async (which: Sql) => {
  const row = await first<{ id: string }>(
    env.DB,
    sql`SELECT hex(quote_id) AS id FROM quotes WHERE ${which} LIMIT 1`,
  );
  return readUuid(row?.id ?? "");
};

const reasonOf = ({ quoteId }: PlaceQuote) =>
  first(
    env.DB,
    sql`SELECT status, close_reason AS reason FROM quotes WHERE quote_id = ${uuid(quoteId)}`,
  );

const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index));

it("returns each quote as it is stored", async () => {
  const { book, requester, maker } = await openMarket();
  const terms = [
    { side: "Bid", amount: 10n },
    { side: "Ask", amount: 7n },
    { side: "Bid", amount: 9n, usdcAmount: 9n },
    { side: "TwoWay", amount: 5n },
  ] as const;
  for (const term of terms) {
    const { request_id } = await openRequest(requester, book, term);
    const sent = command.placeQuote(maker, request_id, 333_333);
    const side = term.side === "TwoWay" ? "Ask" : null;
    const operation = await operationOf({ ...sent, side, label: `to ${term.side}` });
    const done = await commitOperations(env.DB, book, [operation]);
    const result = done.committed ? operation.result(done.effects) : undefined;
    const stored = await first<{ row: string }>(
      env.DB,
      sql`SELECT ${jsonObject(newQuoteColumns("maker"))} AS row FROM quotes q
        WHERE q.quote_id = ${uuid(sent.quoteId)}`,
    );
    expect(result).toEqual({
      ok: true,
      kind: "quote",
      row: JSON.parse(stored?.row ?? "null"),
      replayed: false,
    });
  }
});

it("places one quote for a key that comes twice", async () => {
  const { book, maker, request } = await openMarket();
  const idempotency = { key: "k-1", terms: "1" };
  const placed = [1, 2].map(() => ({
    ...command.placeQuote(maker, request.request_id, 500_000),
    idempotency,
  }));
  expect(await commitTogether(book, placed)).toEqual(["ok", "replay"]);
});

it("shows no record of another user to a key", async () => {
  const { requester, maker, request, book } = await openMarket();
  const foreign = await quotedMarket();
  const [venue_id, asset_id] = book.split(":");
  const repeated = [
    [requester, "/rfq/request", { venue_id, asset_id, side: "Bid", amount: "10" }, "request_id"],
    [maker, "/rfq/quote", { request_id: request.request_id, price: 500_000 }, "quote_id"],
  ] as const;
  for (const [user, path, body, id] of repeated) {
    const post = () => apiOf(user).post(path, { ...body, idempotency_key: "k" });
    const { json } = await post();
    const [table, other] =
      id === "quote_id"
        ? ["quotes", foreign.quote.quote_id]
        : ["requests", foreign.request.request_id];
    const row = (record: unknown) => expr`${raw(id)} = ${uuid(String(record))}`;
    // As if somebody edited the database.
    await edit(env.DB, table, [
      sql`UPDATE ${raw(table)} SET (key_hash, terms_hash) = (
        SELECT key_hash, terms_hash FROM ${raw(table)} WHERE ${row(json[id])}) WHERE ${row(other)}`,
      sql`UPDATE ${raw(table)} SET key_hash = NULL WHERE ${row(json[id])}`,
    ]);
    expect(await post()).toMatchObject({ status: 503, json: { code: "unavailable" } });
  }
});

it("stores no command", async () => {
  const { book, requester, maker, request } = await openMarket();
  const placed = command.placeQuote(maker, request.request_id, 500_000);
  await commitTogether(book, [placed]);
  await commitTogether(book, [command.accept(requester, placed.quoteId)]);
  const row = await first(
    env.DB,
    sql`SELECT (SELECT count(*) FROM matches WHERE quote_id = ${uuid(placed.quoteId)}) AS matches,
      (SELECT count(*) FROM quote_commands) + (SELECT count(*) FROM accept_commands) AS stored`,
  );
  expect(row).toEqual({ matches: 1, stored: 0 });
});
