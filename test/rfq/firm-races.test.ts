/**
 * Firm stays firm: races of accepts with what ends quotes, each also with an eviction of the book
 * in the middle. A command whose book is evicted may report an unknown outcome. Then it is sent
 * again, as a client would.
 */
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { Actor } from "../../src/platform/actor.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { endLostSockets } from "../../src/rfq/cancel-on-disconnect.ts";
import { cancelAfter, closeMissedTimers } from "../../src/rfq/cancel-after.ts";
import type { Command, Result } from "../../src/rfq/command.ts";
import { saveProtection } from "../../src/rfq/protection.ts";
import { accountStream, bookStream } from "../../src/streams/event-log.ts";
import { balances, newAsset } from "../support/ledger.ts";
import { command, openRequest, outcomeOf, placeQuote, submit } from "../support/market.ts";
import { connect, evict } from "../support/sockets.ts";
import { newKey, newUser } from "../support/users.ts";
import { FULL, rounds } from "../support/depth.ts";

/** Four have each of `IN_MS`. */
const ROUNDS = rounds(4, 12);
/** When a timer runs out. The last leaves the accept enough time on a loaded machine. */
const IN_MS = [0, 8, 30, 2_000];
const OFF = { windowSecs: 60, maxMatches: null, maxUsdc: null, cooldownSecs: null };

/** Sends the command until its outcome is certain. Each time the service gives it a new id. */
async function untilCertain(make: () => Command): Promise<Result> {
  for (let tries = 0; tries < 10; tries++) {
    const result = await submit(make()).catch((error: unknown) => error as Error);
    if (!(result instanceof Error) && outcomeOf(result) !== "unavailable") return result;
    await scheduler.wait(20);
  }
  throw new Error(`no certain outcome of ${make().op}`);
}

/** All at once. With `middle`, this happens some milliseconds after the commands were sent. */
async function race(
  commands: readonly (() => Command)[],
  round: number,
  middle?: () => Promise<unknown>,
): Promise<string[]> {
  const results = Promise.all(commands.map(untilCertain));
  if (middle !== undefined) {
    await scheduler.wait(round % 6);
    await middle();
  }
  return (await results).map(outcomeOf);
}

type QuoteState = { readonly status: string; readonly reason: string | null };
const stateOf = async (quoteId: string): Promise<QuoteState> => {
  const [row] = await all<QuoteState>(
    env.DB,
    sql`SELECT status, cancel_reason AS reason FROM quotes WHERE quote_id = ${uuid(quoteId)}`,
  );
  return row ?? expect.fail(`no quote ${quoteId}`);
};
const matchesOf = async (makerId: string): Promise<number> =>
  (await all(env.DB, sql`SELECT 1 FROM matches WHERE maker_id = ${uuid(makerId)}`)).length;

/** A maker whose key has quoted on `count` requests of one book. */
async function quotedBook(count: number) {
  const { key: book } = newAsset();
  const requester = await newUser({ usdc: 100_000n });
  const maker = await newUser({ [book]: 1_000n });
  const bot = await newKey(maker);
  const quotes: { requestId: string; quoteId: string }[] = [];
  for (let n = 0; n < count; n++) {
    const { request_id: requestId } = await openRequest(requester, book, { amount: 10n });
    const { quote_id: quoteId } = await placeQuote(bot, requestId, 500_000, 300);
    quotes.push({ requestId, quoteId });
  }
  return { book, requester, maker, bot, quotes };
}

/** A replace. Its repeats have one idempotency key, as those of the client. */
function replacing(
  party: { actor: Actor },
  { requestId, quoteId }: { requestId: string; quoteId: string },
): () => Command {
  const key = uuidv7();
  return () => ({
    ...command.placeQuote(party, requestId, 400_000, 300),
    replaces: quoteId,
    idempotency: { key, terms: quoteId },
  });
}

/** Ends the book's object at once. Its calls fail, and a batch that it has sent may commit. */
async function kill(book: string): Promise<void> {
  const object = env.RFQ_BOOK.getByName(book);
  await runInDurableObject(object, (_instance, ctx) => ctx.abort("killed by the test")).catch(
    () => {},
  );
}

const STATES = FULL ? (["awake", "evicted", "killed"] as const) : (["awake", "killed"] as const);

describe.each(STATES)("a book that is %s meanwhile", (state) => {
  const evicted = state === "evicted";
  const inTheMiddle = (book: string) =>
    evicted ? () => evict(bookStream(book)) : state === "killed" ? () => kill(book) : undefined;

  it("two accepts that trip a protection make one match and leave no quote", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const { book, requester, maker, quotes } = await quotedBook(4);
      await saveProtection(env, maker.actor, { ...OFF, maxMatches: 1 });
      const [first, second, third, fourth] = quotes.map(({ quoteId }) => quoteId);
      // The book is busy with another command, so both accepts wait for one batch.
      const outcomes = await race(
        [
          () => command.cancelQuote(maker, third ?? ""),
          () => command.accept(requester, first ?? ""),
          () => command.accept(requester, second ?? ""),
        ],
        round,
        inTheMiddle(book),
      );
      expect(outcomes.slice(1).toSorted(), `round ${round}`).toEqual(["ok", "quote_not_open"]);
      expect(await stateOf(fourth ?? "")).toEqual({ status: "cancelled", reason: "protection" });
      expect(await matchesOf(maker.userId)).toBe(1);
      expect(await balances(maker.userId, book)).toEqual([990n, 0n]);
    }
  }, 60_000);

  it("a replace and an accept end the quote once, and nothing stays reserved", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const { book, requester, maker, bot, quotes } = await quotedBook(1);
      const [quote] = quotes;
      if (quote === undefined) throw new Error("no quote");
      const commands = [replacing(bot, quote), () => command.accept(requester, quote.quoteId)];
      if (round % 2 === 1) commands.reverse();
      const outcomes = await race(commands, round, inTheMiddle(book));
      const [replaced, accepted] = round % 2 === 1 ? outcomes.toReversed() : outcomes;
      const wasAccepted = accepted === "ok";
      expect(["ok", "quote_not_open"]).toContain(accepted);
      expect(replaced === "ok", `round ${round}: ${outcomes.join(" ")}`).toBe(!wasAccepted);
      expect(await stateOf(quote.quoteId)).toEqual(
        wasAccepted
          ? { status: "accepted", reason: null }
          : { status: "cancelled", reason: "replaced" },
      );
      expect(await balances(maker.userId, book)).toEqual(wasAccepted ? [990n, 0n] : [990n, 10n]);
    }
  }, 60_000);

  it("a timer and an accept end the quote once, and no match is later than the timer", async () => {
    const ends = new Set<string>();
    for (let round = 0; round < ROUNDS; round++) {
      const { book, requester, maker, bot, quotes } = await quotedBook(1);
      const { quoteId } = quotes[0] ?? expect.fail("no quote");
      await cancelAfter(env, bot.actor, 5);
      // The timer runs out while the accept is on its way.
      await all(
        env.DB,
        sql`UPDATE cancel_timers SET cancel_at = ${Date.now() + (IN_MS[round % 4] ?? 0)}
          WHERE user_id = ${uuid(maker.userId)}`,
      );
      const account = accountStream(maker.userId);
      const [outcome] = await race([() => command.accept(requester, quoteId)], round, async () => {
        await inTheMiddle(book)?.();
        if (evicted) await evict(account);
        await runDurableObjectAlarm(env.FEED.getByName(account));
      });
      await all(
        env.DB,
        sql`UPDATE cancel_timers SET cancel_at = cancel_at - 10000
        WHERE user_id = ${uuid(maker.userId)} AND closed = 0`,
      );
      await closeMissedTimers(env);
      const accepted = outcome === "ok";
      if (!accepted) expect(outcome).toBe("quote_not_open");
      expect(await stateOf(quoteId)).toEqual(
        accepted
          ? { status: "accepted", reason: null }
          : { status: "cancelled", reason: "timeout" },
      );
      expect((await balances(maker.userId, book))[1]).toBe(0n);
      ends.add(accepted ? "accepted" : "timeout");
    }
    expect([...ends].toSorted()).toEqual(["accepted", "timeout"]);
  }, 60_000);

  it("a disconnect and a reconnect leave quotes open only while a socket is armed", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const { requester, maker, bot, book, quotes } = await quotedBook(1);
      const { quoteId } = quotes[0] ?? expect.fail("no quote");
      const account = accountStream(maker.userId);
      const arm = () => connect(bot, account, undefined, { armed: true });
      const older = await arm();
      // Either the client leaves, or the object dies with the socket.
      const dies = round % 2 === 1;
      const reconnecting = scheduler.wait(round % 5).then(arm);
      if (evicted && !dies) await evict(account);
      if (dies) await evict(account, "close");
      else older.socket.close(1000, "bye");
      // The socket may have been opened on the object that died.
      let newer = await reconnecting.catch(() => undefined);
      await scheduler.wait(30);
      if (newer === undefined || newer.closed !== undefined) newer = await arm();
      await endLostSockets(env);
      expect(["open", "cancelled"]).toContain((await stateOf(quoteId)).status);
      const { request_id: requestId } = await openRequest(requester, book, { amount: 10n });
      const { quote_id: later } = await placeQuote(bot, requestId, 500_000, 300);
      newer.socket.close(1000, "bye");
      for (let waits = 0; waits < 50 && (await stateOf(later)).status === "open"; waits++)
        await scheduler.wait(20);
      expect(await stateOf(later), `round ${round}`).toEqual({
        status: "cancelled",
        reason: "disconnect",
      });
      expect(await stateOf(quoteId)).toEqual({ status: "cancelled", reason: "disconnect" });
      expect((await balances(maker.userId, book))[1]).toBe(0n);
    }
  }, 60_000);
});
