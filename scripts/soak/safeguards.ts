/**
 * A maker's safeguards: protection that trips, cancel-after timers that run out, and sockets whose
 * end cancels. Each checks what the maker may rely on, also when faults happen meanwhile.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Client, Quote, Stream } from "../../packages/client/src/index.ts";
import { TOKENS } from "./assets.ts";
import type { Dice } from "../actors/dice.ts";
import { accept, QUOTE_MAX_AGE_MS, quoteSeveral } from "./trades.ts";
import { note, type Person, withSession, type World } from "./world.ts";

const TIMER_SECS = 5;
/** Cron closes within 60 s what an alarm has missed, and it may be late on a loaded machine. */
const CLOSE_MS = 150_000;
const LOOK_EVERY_MS = 1_000;
const READY_MS = 30_000;

/** The match that trips the maker's protection leaves no quote of theirs open. */
export async function protect({ people, tally }: World, dice: Dice): Promise<void> {
  const taker = dice.pick(people);
  const maker = dice.pick(people.filter((person) => person !== taker));
  if (maker.busy.has("protection")) return;
  maker.busy.add("protection");
  const { rfq } = maker.client;
  try {
    const terms = { window_secs: 600, max_matches: dice.between(1, 2), cooldown_secs: null };
    await rfq.saveProtection(terms);
    const quotes = await quoteSeveral({ taker, maker, tally }, dice, 4);
    // Several at once, so that two accepts of one commit may trip it.
    await Promise.all(quotes.map((quote) => accept(taker.client, quote, tally)));
    if ((await rfq.protection()).tripped_at === null) return;
    tally.count("operation", "protection tripped");
    const open = await rfq.myQuotes({ status: "open" }).all();
    // Read after the quotes, because another hand may have reset it.
    if (open.length > 0 && (await rfq.protection()).tripped_at !== null)
      tally.odd.push(`${maker.email}: ${open.length} quotes are open after the protection tripped`);
  } finally {
    await endProtection(maker, tally);
    maker.busy.delete("protection");
  }
}

async function endProtection({ client }: Person, tally: World["tally"]): Promise<void> {
  try {
    await client.rfq.saveProtection({ window_secs: 1, max_matches: null, cooldown_secs: null });
    await client.rfq.resetProtection();
  } catch (error) {
    note(tally, "protection", error);
  }
}

/** No match is made from a timer's instant on, and its quotes close. The timer is of a key. */
export async function timer(world: World, dice: Dice): Promise<void> {
  const { people, tally } = world;
  const taker = dice.pick(people);
  const maker = dice.pick(people.filter((one) => one !== taker && one.codes === undefined));
  const key = await withSession(maker, ({ auth }) =>
    auth.createApiKey({ label: "timer", scopes: ["read", "trade"] }),
  );
  const bot = maker.client.withApiKey({ apiKeyId: key.api_key_id, secret: key.secret });
  try {
    const quote = await quoteOne(taker.client, bot, dice);
    const { cancel_at: cancelAt } = await bot.rfq.cancelAfter({ timeout_secs: TIMER_SECS });
    tally.count("operation", "timer set");
    if (cancelAt === null) return void tally.odd.push("a timer was set to null");
    // Around the instant, before or after it.
    await sleep(TIMER_SECS * 1_000 - dice.between(0, 400));
    for (let tries = 0; tries < 4; tries++) {
      const match = await accept(taker.client, quote, tally);
      if (match === undefined) await sleep(200);
      else if (match.created_at >= cancelAt)
        tally.odd.push(`match ${match.match_id} is later than the timer of ${cancelAt}`);
      if (match !== undefined) break;
    }
    const reason = await untilClosed(world, bot, quote);
    tally.count("operation", `timer: ${reason}`);
    await withSession(maker, ({ auth }) => auth.revokeApiKey(key));
  } finally {
    await bot.rfq.cancelAfter({ timeout_secs: 0 }).catch(() => {});
  }
}

/** The end of an armed socket cancels its key's quotes, unless a newer one has taken over. */
export async function disconnect(world: World, dice: Dice): Promise<void> {
  const { people, tally, verbs } = world;
  const taker = dice.pick(people);
  const maker = dice.pick(people.filter((person) => person !== taker));
  if (maker.busy.has("armed")) return;
  maker.busy.add("armed");
  const arm = () => maker.client.accountStream({ cancel_on_disconnect: true });
  const book = dice.pick(TOKENS);
  const streams = [arm(), taker.client.bookStream(book)];
  const [armed, other] = streams as [Stream, Stream];
  try {
    await ready(armed);
    await ready(other);
    verbs.use("GET /account/stream");
    verbs.use("GET /rfq/stream");
    const [one, two] = [
      await openRequest(taker.client, dice),
      await openRequest(taker.client, dice),
    ];
    const terms = { request_id: one, price: dice.between(1, 900_000), expires_in_secs: 300 };
    const quote = await armed.quote(terms, { maxAgeMs: QUOTE_MAX_AGE_MS });
    verbs.use("socket quote");
    const items = [1, 2].map((n) => ({ ...terms, request_id: two, price: n * 100_000 }));
    const { results } = await armed.quoteMany({ quotes: items }, { maxAgeMs: QUOTE_MAX_AGE_MS });
    verbs.use("socket quotes");
    const [first, second] = results.flatMap((result) => result.quote ?? []);
    if (first !== undefined) {
      await armed.cancelQuote(first);
      verbs.use("socket cancel_quote");
    }
    if (second !== undefined) {
      await other.accept(second);
      verbs.use("socket accept");
    }
    if (dice.chance(0.5)) {
      const newer = arm();
      streams.push(newer);
      await ready(newer);
    }
    for (const stream of streams) stream.close();
    tally.count("operation", `disconnect: ${await untilClosed(world, maker.client, quote)}`);
  } finally {
    for (const stream of streams) stream.close();
    maker.busy.delete("armed");
  }
}

async function ready(stream: Stream): Promise<void> {
  await Promise.race([stream.ready(), sleep(READY_MS)]);
}

async function openRequest(client: Client, dice: Dice): Promise<string> {
  const { request_id } = await client.rfq.request({
    ...dice.pick(TOKENS),
    amount: BigInt(dice.between(1, 10_000_000)),
    side: "Ask",
    expires_in_secs: 300,
  });
  return request_id;
}

/** The maker of an Ask pays with USDC, of which everyone has enough. */
async function quoteOne(taker: Client, maker: Client, dice: Dice): Promise<Quote> {
  const request_id = await openRequest(taker, dice);
  const terms = { request_id, price: dice.between(1, 900_000), expires_in_secs: 300 };
  return maker.rfq.quote(terms, { maxAgeMs: QUOTE_MAX_AGE_MS });
}

/** Why the quote closed. One that stays open too long is a finding. */
async function untilClosed(world: World, { rfq }: Client, { quote_id }: Quote): Promise<string> {
  const { tally } = world;
  const deadline = Date.now() + CLOSE_MS;
  while (!world.ended()) {
    const reason = await rfq.getQuote({ quote_id }).then(
      (quote) => quote.close_reason,
      (error: unknown) => {
        note(tally, "get-quote", error);
        return null;
      },
    );
    if (typeof reason === "string") return reason;
    if (Date.now() > deadline) {
      tally.odd.push(`quote ${quote_id} is open ${CLOSE_MS / 1_000} s after it should have closed`);
      return "open";
    }
    await sleep(LOOK_EVERY_MS);
  }
  return "not awaited";
}
