/** Trades of a soak: single quotes, and several at once with replaces. */
import type { Client, Match, Quote } from "../../packages/client/src/index.ts";
import { TOKENS, USDC } from "./assets.ts";
import type { Dice } from "../actors/dice.ts";
import { note, noteCode, type Person, type World } from "./world.ts";

/** The machine is under load, and the endpoints are slow at times. */
export const QUOTE_MAX_AGE_MS = 10_000;

/** Sends a request and one to three quotes, then an accept, a cancel, both at once, or nothing. */
export async function trade({ people, tally }: World, dice: Dice): Promise<void> {
  const taker = dice.pick(people);
  const asset = dice.pick(TOKENS);
  const side = dice.pick(["Bid", "Ask"] as const);
  const held = await taker.client.custody.balance(asset);
  const amount =
    side === "Ask" && held.balance > 0n
      ? dice.part(held.balance)
      : BigInt(dice.between(1, 200_000_000));
  const request = await taker.client.rfq.request({ ...asset, amount, side, expires_in_secs: 20 });
  tally.count("operation", "request");
  const makers = people.filter((person) => person !== taker);
  const quotes: Quote[] = [];
  for (let n = dice.between(1, 3); n > 0; n--) {
    const maker = dice.pick(makers);
    const terms = {
      request_id: request.request_id,
      price: dice.between(1, 1_000_000),
      expires_in_secs: dice.between(1, 20),
    };
    await maker.client.rfq
      .quote(terms, { maxAgeMs: QUOTE_MAX_AGE_MS })
      .then((quote) => {
        quotes.push(quote);
        tally.count("operation", "quote");
      })
      .catch((error: unknown) => note(tally, "quote", error));
  }
  const [quote] = quotes;
  if (quote === undefined) return;
  const ending = dice.weighted({ accept: 6, cancel: 1, both: 2, nothing: 1 });
  const moves: Promise<unknown>[] = [];
  if (ending === "accept" || ending === "both") {
    const accepted = taker.client.rfq.accept({ quote_id: quote.quote_id }).then((match) => {
      tally.count("operation", "match");
      tally.moved("traded", USDC, match.usdc_amount);
    });
    moves.push(accepted);
  }
  if (ending === "cancel" || ending === "both")
    moves.push(taker.client.rfq.cancelRequest({ request_id: request.request_id }));
  for (const move of await Promise.allSettled(moves))
    if (move.status === "rejected") note(tally, ending, move.reason);
}

/** The prices of a ladder are within these, so that most accepts can be paid. */
const PRICES = [100_000, 900_000] as const;
const LABELS = ["soak-a", "soak-b", null];

/**
 * Requests in several books, of one side or two, in tokens or in USDC. One maker quotes all of them
 * at once and replaces some. The requester accepts, sometimes at the same time.
 */
export async function ladder({ people, tally }: World, dice: Dice): Promise<void> {
  const taker = dice.pick(people);
  const maker = dice.pick(people.filter((person) => person !== taker));
  const quotes = await quoteSeveral({ taker, maker, tally }, dice, dice.between(1, 4));
  const replaces = quotes.filter(() => dice.chance(0.4));
  const accepts = quotes.filter(() => dice.chance(0.5));
  await Promise.all([
    ...replaces.map((quote) => replace(maker.client, quote, dice, tally)),
    ...accepts.map((quote) => accept(taker.client, quote, tally)),
  ]);
  if (dice.chance(0.5))
    await maker.client.rfq
      .cancelQuotes({ label: dice.pick(["soak-a", "soak-b"]) })
      .then(() => tally.count("operation", "cancel by label"));
}

type Parties = { readonly taker: Person; readonly maker: Person; readonly tally: World["tally"] };

/**
 * Opens `count` requests and quotes all of them in one call. Returns the quotes that were placed.
 */
export async function quoteSeveral(
  { taker, maker, tally }: Parties,
  dice: Dice,
  count: number,
): Promise<Quote[]> {
  const items = [];
  for (let n = 0; n < count; n++) {
    const side = dice.pick(["Bid", "Ask", "TwoWay"] as const);
    const units = BigInt(dice.between(1_000, 20_000_000));
    const request = await taker.client.rfq.request({
      ...dice.pick(TOKENS),
      ...(dice.chance(0.5) ? { amount: units } : { usdc_amount: units }),
      side,
      label: dice.pick(LABELS),
      disclose_identity: dice.chance(0.3),
      expires_in_secs: 60,
      not_after: new Date(Date.now() + QUOTE_MAX_AGE_MS),
    });
    tally.count("operation", `request ${side}`);
    for (const quoted of side === "TwoWay" ? (["Bid", "Ask"] as const) : [side])
      items.push({
        request_id: request.request_id,
        side: quoted,
        price: dice.between(...PRICES),
        label: dice.pick(LABELS),
        expires_in_secs: 50,
      });
  }
  const { results } = await maker.client.rfq.quoteMany(
    { quotes: items },
    { maxAgeMs: QUOTE_MAX_AGE_MS },
  );
  tally.count("operation", "several quotes");
  return results.flatMap(({ quote, problem }) => {
    if (problem !== null) {
      const { code = "no code", detail = code } = problem;
      noteCode(tally, "quotes", { code, message: `${code}: ${detail}` });
    }
    return quote === null ? [] : [quote];
  });
}

async function replace(
  client: Client,
  { quote_id, request_id, side }: Quote,
  dice: Dice,
  tally: World["tally"],
): Promise<void> {
  try {
    const quote = await client.rfq.quote(
      { request_id, side, replaces: quote_id, price: dice.between(...PRICES) },
      { maxAgeMs: QUOTE_MAX_AGE_MS },
    );
    tally.count("operation", "replace");
    const old = await client.rfq.getQuote({ quote_id });
    if (old.close_reason !== "replaced" || old.replaced_by !== quote.quote_id)
      tally.odd.push(`quote ${quote_id} was replaced, and shows ${JSON.stringify(old)}`);
  } catch (error) {
    note(tally, "replace", error);
  }
}

/** Returns the match, or undefined after a rejection or without a response. */
export async function accept(
  client: Pick<Client, "rfq">,
  { quote_id }: Pick<Quote, "quote_id">,
  tally: World["tally"],
): Promise<Match | undefined> {
  try {
    const match = await client.rfq.accept({
      quote_id,
      not_after: new Date(Date.now() + QUOTE_MAX_AGE_MS),
    });
    tally.count("operation", "match");
    tally.moved("traded", USDC, match.usdc_amount);
    return match;
  } catch (error) {
    note(tally, "accept", error);
    return undefined;
  }
}
