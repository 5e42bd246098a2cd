/**
 * Steps 5 and 6: two makers quote a two-way request, one of them replaces a quote, and the taker
 * accepts the best offer.
 */
import type { Match, Quote, QuoteRequest } from "../../packages/client/src/index.ts";
import { MAKER_TOKENS, MAKER_USDC, TAKER_USDC } from "./deposits.ts";
import { Unmet, duration, expectEqual, short, units } from "./narrator.ts";
import { Listener, type Person, WAIT_MS, type World } from "./world.ts";

const AMOUNT = 1_000_000_000n;
const FIRST_PRICE = 620_000;
const WORSE_PRICE = 610_000;
const BETTER_PRICE = 600_000;
const BUYING_PRICE = 550_000;

export type Quoted = { request: QuoteRequest; worse: Quote; better: Quote };

export async function quoteTwice(world: World): Promise<Quoted> {
  const { tell, taker, makers, asset, market } = world;
  const [first, second] = makers;
  const books: [Listener, Listener] = [
    new Listener(first.client.bookStream(asset)),
    new Listener(second.client.bookStream(asset)),
  ];
  world.streams.push(...books.map(({ stream }) => stream));
  await tell.call(
    "POST /auth/ws-ticket/signed, GET /rfq/stream?ticket=… (both makers)",
    () => Promise.all(books.map(({ stream }) => stream.ready())),
    () => `101 ${books[0].messages[0]?.message.stream ?? "hello"}`,
  );
  const sentAt = performance.now();
  const request = await tell.call(
    `POST /rfq/request TwoWay ${units(AMOUNT)} of "${market.title}" ${market.outcome} (taker)`,
    () => taker.client.rfq.request({ ...asset, amount: AMOUNT, side: "TwoWay" }),
    (it) => `201 request ${short(it.request_id)}, open for 5 minutes`,
  );
  const received = await tell.wait("both makers receive it", { timeoutMs: WAIT_MS }, async () => {
    const found = await Promise.all(
      books.map((book) =>
        book.find("request.opened", ({ request_id }) => request_id === request.request_id),
      ),
    );
    return found.every((it) => it !== null) ? found : null;
  });
  for (const { data } of received)
    if (data.user_id !== null) throw new Unmet("the request to be anonymous", data);
  const slowest = Math.max(...received.map(({ atMs }) => atMs));
  tell.event(
    `${received[0]?.stream}: request.opened, user_id null, ${duration(slowest - sentAt)} after it was sent`,
  );

  const quotes = await exchangeQuotes(world, books[0], request);
  for (const maker of makers) {
    const tokens = await maker.client.custody.balance(asset);
    expectEqual(`what ${maker.name} has set aside`, tokens.pending_balance, AMOUNT);
  }
  tell.note(`the quotes are firm: ${units(AMOUNT)} tokens of each maker are set aside`);
  tell.fact(`both makers received it after ${duration(slowest - sentAt)}`);
  return { request, ...quotes };
}

/** The first maker sells and improves its price. The second sells for less, and also buys. */
async function exchangeQuotes(
  { tell, makers }: World,
  book: Listener,
  { request_id }: QuoteRequest,
): Promise<Omit<Quoted, "request">> {
  const [first, second] = makers;
  // A machine that has just started the stack may be slow.
  const patient = { maxAgeMs: 30_000 };
  const terms = { request_id, expires_in_secs: 120 };
  const replaced = await tell.call(
    `socket {op: "quote", side: "Bid", price: ${FIRST_PRICE}} (${first.name})`,
    () => book.stream.quote({ ...terms, side: "Bid", price: FIRST_PRICE }, patient),
    describeQuote,
  );
  const better = await tell.call(
    `POST /rfq/quote {side: "Bid", price: ${BETTER_PRICE}}, signed (${second.name})`,
    () => second.client.rfq.quote({ ...terms, side: "Bid", price: BETTER_PRICE }, patient),
    describeQuote,
  );
  await tell.call(
    `POST /rfq/quote {side: "Ask", price: ${BUYING_PRICE}}, signed (${second.name})`,
    () => second.client.rfq.quote({ ...terms, side: "Ask", price: BUYING_PRICE }, patient),
    describeQuote,
  );
  const { quote_id: replaces } = replaced;
  const worse = await tell.call(
    `socket {op: "quote", price: ${WORSE_PRICE}, replaces: ${short(replaces)}} (${first.name})`,
    () => book.stream.quote({ ...terms, side: "Bid", price: WORSE_PRICE, replaces }, patient),
    describeQuote,
  );
  const [newest, old] = (await first.client.rfq.myQuotes({ limit: 2 }).page()).items;
  expectEqual("the new quote", newest?.quote_id, worse.quote_id);
  expectEqual("why the old quote ended", old?.close_reason, "replaced");
  return { worse, better };
}

export async function acceptBetter(world: World, quoted: Quoted): Promise<Match> {
  const { tell, taker, makers } = world;
  const quotes = await tell.call(
    `GET /rfq/quote?request_id=${short(quoted.request.request_id)}&side=Bid&status=open`,
    () =>
      taker.client.rfq
        .quotes({ request_id: quoted.request.request_id, side: "Bid", status: "open" })
        .all(),
    (list) =>
      `200 ${list.length} quotes, best first: ${list.map(({ price }) => price / 1e6).join(", ")}`,
  );
  expectEqual("the number of quotes", quotes.length, 2);
  expectEqual("the best quote", quotes[0]?.quote_id, quoted.better.quote_id);
  const match = await tell.call(
    `POST /rfq/accept {quote_id: ${short(quoted.better.quote_id)}}`,
    () => taker.client.rfq.accept({ quote_id: quoted.better.quote_id }),
    (it) =>
      `200 match ${short(it.match_id)}: ${units(it.amount)} tokens for ${units(it.usdc_amount)} USDC`,
  );
  await checkBalances(world, match);
  await checkLedger(world, match);
  const notices = await tell.wait("both parties are notified", { timeoutMs: WAIT_MS }, async () => {
    const found = await Promise.all(
      [taker, makers[1]].map(({ account }) =>
        account.find("match.created", ({ match_id }) => match_id === match.match_id),
      ),
    );
    return found.every((it) => it !== null) ? found : null;
  });
  tell.event(`match.created: ${notices.map(({ data }) => data.role).join(" and ")}`);
  expectEqual("the roles", notices.map(({ data }) => data.role).join(), "requester,maker");
  await checkLoser(world, quoted.worse);
  tell.fact(
    `${units(match.amount)} tokens for ${units(match.usdc_amount)} USDC at ${match.price / 1e6}`,
  );
  return match;
}

async function checkBalances({ tell, taker, makers, asset }: World, match: Match): Promise<void> {
  const holdings = async ({ client }: Person) => {
    const [usdc, tokens] = await Promise.all([
      client.custody.usdcBalance(),
      client.custody.balance(asset),
    ]);
    return {
      usdc: usdc.balance,
      usdcPending: usdc.pending_balance,
      tokens: tokens.balance,
      tokensPending: tokens.pending_balance,
    };
  };
  const expected: [Person, bigint, bigint][] = [
    [taker, TAKER_USDC - match.usdc_amount, match.amount],
    [makers[1], MAKER_USDC + match.usdc_amount, MAKER_TOKENS - match.amount],
    [makers[0], MAKER_USDC, MAKER_TOKENS],
  ];
  for (const [person, usdc, tokens] of expected) {
    const found = await holdings(person);
    tell.note(
      `${person.name.padEnd(7)} ${units(found.usdc).padStart(6)} USDC, ${units(found.tokens).padStart(6)} tokens, pending ${units(found.usdcPending)} and ${units(found.tokensPending)}`,
    );
    expectEqual(`${person.name}'s USDC`, found.usdc, usdc);
    expectEqual(`${person.name}'s tokens`, found.tokens, tokens);
    expectEqual(`${person.name}'s pending USDC`, found.usdcPending, 0n);
    expectEqual(`${person.name}'s pending tokens`, found.tokensPending, 0n);
  }
}

async function checkLedger({ tell, taker, makers }: World, match: Match): Promise<void> {
  const entries = await tell.call(
    `GET /custody/get-ledger?ref_id=${short(match.match_id)} (taker)`,
    () => taker.client.custody.ledger({ ref_id: match.match_id }).all(),
    (list) => `200 ${list.length} entries`,
  );
  for (const entry of [...entries].toReversed()) {
    tell.note(
      `${entry.reason.padEnd(13)} ${entry.account.padEnd(9)} ${units(entry.delta).padStart(7)} ${entry.asset_id === null ? "USDC" : "tokens"}, then ${units(entry.balance_after)}`,
    );
  }
  const found = entries
    .map(({ reason, account, delta }) => `${reason} ${account} ${delta}`)
    .toSorted();
  const cost = match.usdc_amount;
  const expected = [
    `reserve_trade available ${-cost}`,
    `reserve_trade pending ${cost}`,
    `trade available ${match.amount}`,
    `trade pending ${-cost}`,
  ].toSorted();
  expectEqual("the taker's entries of the match", found.join("; "), expected.join("; "));
  const makersEntries = await makers[1].client.custody.ledger({ ref_id: match.match_id }).all();
  const makersFound = makersEntries.map(({ account, delta }) => `${account} ${delta}`).toSorted();
  expectEqual(
    "the maker's entries of the match",
    makersFound.join("; "),
    [`available ${cost}`, `pending ${-match.amount}`].toSorted().join("; "),
  );
}

async function checkLoser({ tell, makers }: World, worse: Quote): Promise<void> {
  const loser = makers[0];
  const entries = await loser.client.custody.ledger({ ref_id: worse.quote_id }).all();
  expectEqual("the entries of a quote that nobody accepted", entries.length, 0);
  const tokens = await loser.client.custody.balance(worse);
  expectEqual("what the loser still promises", tokens.promised, 0n);
  const [quote] = (await loser.client.rfq.myQuotes({ limit: 1 }).page()).items;
  expectEqual("the losing quote's status", quote?.status, "rejected");
  tell.note(
    `${loser.name}'s quote is rejected, its ${units(worse.amount)} tokens are usable again`,
  );
}

function describeQuote(quote: Quote): string {
  return `quote ${short(quote.quote_id)}: ${units(quote.usdc_amount)} USDC for ${units(quote.amount)} tokens`;
}
