/** Sockets whose end, or whose silence, cancels the open quotes of their key. */
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { revokeApiKey } from "../../src/auth/revoke-key.ts";
import type { Actor } from "../../src/platform/actor.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { now } from "../../src/platform/time.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { endLostSockets } from "../../src/rfq/cancel-on-disconnect.ts";
import { accountStream, bookStream } from "../../src/streams/event-log.ts";
import { closeSockets } from "../../src/streams/notify.ts";
import { readState, writeState } from "../../src/streams/socket.ts";
import { RfqBook } from "../../src/rfq/rfq-book.ts";
import { withBatch } from "../support/slow-database.ts";
import { balances, newAsset } from "../support/ledger.ts";
import { apiOf } from "../support/http.ts";
import {
  command,
  commitCommand,
  openRequest,
  outcomeOf,
  placeQuote,
  submit,
} from "../support/market.ts";
import { awakeAndEvicted, connect, evict, type Subscriber } from "../support/sockets.ts";
import { newKey, newUser } from "../support/users.ts";
import { rounds } from "../support/depth.ts";

/** A maker with a key that has quoted, and an armed socket of that key. */
async function armedMaker() {
  const { key: book } = newAsset();
  const requester = await newUser({ usdc: 10_000n });
  const maker = await newUser({ [book]: 1_000n });
  const bot = await newKey(maker);
  const { request_id: requestId } = await openRequest(requester, book, { amount: 10n });
  const quote = async (party: { actor: Actor } = bot) =>
    (await placeQuote(party, requestId, 500_000, 300)).quote_id;
  const stream = accountStream(maker.userId);
  const arm = (at = stream, key = bot) => connect(key, at, undefined, { armed: true });
  return { book, requester, maker, bot, requestId, quote, stream, arm };
}

async function closedAs(quoteId: string): Promise<string | null | undefined> {
  const [row] = await all<{ reason: string | null; status: string }>(
    env.DB,
    sql`SELECT status, cancel_reason AS reason FROM quotes WHERE quote_id = ${uuid(quoteId)}`,
  );
  return row?.reason ?? row?.status;
}

/** Waits at most a second, as long as the service may take. */
async function untilClosed(quoteId: string): Promise<void> {
  for (let waited = 0; waited < 1_000; waited += 20) {
    if ((await closedAs(quoteId)) !== "open") break;
    await scheduler.wait(20);
  }
  expect(await closedAs(quoteId)).toBe("disconnect");
}

const close = (subscriber: Subscriber) => subscriber.socket.close(1000, "bye");
const liveRows = async (userId: string) =>
  (await all(env.DB, sql`SELECT 1 FROM armed_sockets WHERE user_id = ${uuid(userId)}`)).length;

/** Waits until the ends of `count` sockets were noticed, and newer ones have taken over. */
async function untilTakenOver(userId: string, count: number): Promise<void> {
  const takenOver = async () =>
    await all(
      env.DB,
      sql`SELECT 1 FROM armed_sockets
        WHERE user_id = ${uuid(userId)} AND taken_over_at IS NOT NULL`,
    );
  for (let waited = 0; waited < 1_000 && (await takenOver()).length < count; waited += 20)
    await scheduler.wait(20);
  expect(await takenOver()).toHaveLength(count);
}

/** Lets the sockets of an object appear to have been silent for `ms`. */
async function silence(stream: string, ms: number): Promise<void> {
  await runInDurableObject(env.FEED.getByName(stream), async (_instance, ctx) => {
    for (const socket of ctx.getWebSockets())
      writeState(socket, { ...readState(socket), heardAt: now() - ms });
  });
}

awakeAndEvicted("an armed socket", (maybeEvict) => {
  it("cancels the quotes of its key when it closes, and no others", async () => {
    const { book, maker, bot, quote, stream, arm } = await armedMaker();
    const other = await newKey(maker);
    const [mine, others, sessions] = [await quote(), await quote(other), await quote(maker)];
    const reader = await connect(bot, stream);
    const armed = await arm();
    expect((await armed.until("hello")).data.cancel_on_disconnect).toBe(true);
    expect((await reader.until("hello")).data.cancel_on_disconnect).toBe(false);
    await maybeEvict(stream);
    close(armed);
    await untilClosed(mine);
    const closed = await reader.until(({ data }) => data.quote_id === mine);
    expect(closed.data.reason).toBe("disconnect");
    expect(await closedAs(others)).toBe("open");
    expect(await closedAs(sessions)).toBe("open");
    expect(await balances(maker.userId, book)).toEqual([980n, 20n]);
    expect(await liveRows(maker.userId)).toBe(0);
    const plain = await quote();
    close(reader);
    await scheduler.wait(200);
    expect(await closedAs(plain)).toBe("open");
  });

  it.each(["book", "account"])("is known on a %s stream", async (kind) => {
    const { book, quote, stream, arm } = await armedMaker();
    const mine = await quote();
    const at = kind === "book" ? bookStream(book) : stream;
    const armed = await arm(at);
    await maybeEvict(at);
    close(armed);
    await untilClosed(mine);
  });

  it("ends by malformed frames", async () => {
    const { quote, stream, arm } = await armedMaker();
    const mine = await quote();
    const armed = await arm();
    await maybeEvict(stream);
    for (let frame = 0; frame < 10; frame++) armed.send("{");
    expect(await armed.untilClosed()).toBe(1008);
    await untilClosed(mine);
  });

  it("ends when its key is revoked", async () => {
    const { maker, bot, quote, stream, arm } = await armedMaker();
    const mine = await quote();
    const armed = await arm();
    await maybeEvict(stream);
    await revokeApiKey(env.DB, { apiKeyId: bot.apiKeyId, operator: "test" });
    await closeSockets(env, stream, { apiKeyId: bot.apiKeyId });
    expect(await armed.untilClosed()).toBe(4401);
    await untilClosed(mine);
    expect(await liveRows(maker.userId)).toBe(0);
  });

  it("ends when it was silent for 30 s", async () => {
    const { quote, stream, arm } = await armedMaker();
    const mine = await quote();
    const armed = await arm();
    await silence(stream, 29_000);
    await maybeEvict(stream);
    await runDurableObjectAlarm(env.FEED.getByName(stream));
    expect(await closedAs(mine)).toBe("open");
    await silence(stream, 31_000);
    await maybeEvict(stream);
    await runDurableObjectAlarm(env.FEED.getByName(stream));
    expect(await armed.untilClosed()).toBe(4408);
    await untilClosed(mine);
  });

  it.each(["ping", "a command"])("is kept by %s", async (frame) => {
    const { quote, stream, arm } = await armedMaker();
    const mine = await quote();
    const armed = await arm();
    await silence(stream, 31_000);
    await maybeEvict(stream);
    armed.send(frame === "ping" ? "ping" : { id: "c", op: "cancel_quote", quote_id: uuidv7() });
    await armed.until(({ type }) => type === "pong" || type === "error");
    await runDurableObjectAlarm(env.FEED.getByName(stream));
    expect(await closedAs(mine)).toBe("open");
    expect(armed.closed).toBeUndefined();
  });

  it("is found by cron when its object died", async () => {
    const { maker, quote, stream, arm } = await armedMaker();
    const [lost, kept] = [await quote(), await armedMaker()];
    const other = await kept.quote();
    await kept.arm();
    await arm();
    await maybeEvict(kept.stream);
    await evict(stream, "close");
    await endLostSockets(env);
    expect(await closedAs(lost)).toBe("disconnect");
    expect(await closedAs(other)).toBe("open");
    expect(await liveRows(maker.userId)).toBe(0);
  });
});

describe("a newer armed socket of the key on the stream", () => {
  it("takes over, so that nothing is cancelled until it ends", async () => {
    const { maker, quote, arm } = await armedMaker();
    const mine = await quote();
    const older = await arm();
    const newer = await arm();
    close(older);
    await scheduler.wait(300);
    expect(await closedAs(mine)).toBe("open");
    close(newer);
    await untilClosed(mine);
    expect(await liveRows(maker.userId)).toBe(0);
  });

  it("does not take over for a newer one that has ended", async () => {
    const { quote, arm } = await armedMaker();
    const [older, newer] = [await arm(), await arm()];
    const first = await quote();
    close(newer);
    await untilClosed(first);
    const second = await quote();
    close(older);
    await untilClosed(second);
  });

  it("does not take over on another stream, or with another key", async () => {
    const { book, maker, quote, stream, arm } = await armedMaker();
    const mine = await quote();
    const armed = await arm();
    await arm(bookStream(book));
    await arm(stream, await newKey(maker));
    close(armed);
    await untilClosed(mine);
  });

  it("races with the end of the older one", async () => {
    for (let round = 0; round < rounds(4, 10); round++) {
      const { maker, quote, stream, arm } = await armedMaker();
      const mine = await quote();
      const older = await arm();
      if (round % 2 === 0) await evict(stream);
      close(older);
      const newer = await arm();
      await scheduler.wait(100);
      // Either the end was noticed first, or the newer one took over. It is armed in both cases.
      expect(["open", "disconnect"]).toContain(await closedAs(mine));
      const next = await quote();
      close(newer);
      await untilClosed(next);
      const [pending] = await all<{ open: number }>(
        env.DB,
        sql`SELECT count(*) AS open FROM quotes
          WHERE maker_id = ${uuid(maker.userId)} AND status = 'open'`,
      );
      expect(pending?.open).toBe(0);
    }
  }, 30_000);
});

describe("a quote received on an armed socket", () => {
  const onSocket = async (socketId: string, market: Awaited<ReturnType<typeof armedMaker>>) =>
    commitCommand(market.book, {
      ...command.placeQuote(market.bot, market.requestId, 400_000),
      socketId,
    });
  const idOf = async (userId: string) => {
    const [row] = await all<{ id: string }>(
      env.DB,
      sql`SELECT hex(socket_id) AS id FROM armed_sockets WHERE user_id = ${uuid(userId)}
        ORDER BY armed_id LIMIT 1`,
    );
    return row?.id ?? "";
  };
  /** A market in which a newer socket has taken over from the one with `id`. */
  const takenOver = async () => {
    const market = await armedMaker();
    const older = await market.arm();
    const id = await idOf(market.maker.userId);
    await market.arm();
    close(older);
    await untilTakenOver(market.maker.userId, 1);
    return { ...market, id };
  };

  it("is placed while the socket lives", async () => {
    const { requestId, arm } = await armedMaker();
    const armed = await arm();
    armed.send({ id: "q", op: "quote", request_id: requestId, price: 400_000 });
    expect((await armed.until("result")).data.status).toBe("open");
  });

  it("is not placed after the socket has ended", async () => {
    const market = await armedMaker();
    const armed = await market.arm();
    const id = await idOf(market.maker.userId);
    const mine = await market.quote();
    close(armed);
    await untilClosed(mine);
    const late = await onSocket(id, market);
    expect(late).toMatchObject({
      ok: false,
      problem: { code: "unavailable", extensions: { outcome: "none" } },
    });
    // By another way the key can still quote.
    expect(outcomeOf(await submit(command.placeQuote(market.bot, market.requestId, 1)))).toBe("ok");
  });

  it("is placed if a newer socket has taken over", async () => {
    const { id, ...market } = await takenOver();
    expect(outcomeOf(await onSocket(id, market))).toBe("ok");
  });

  it("is placed as long as a chain of takeovers lasts, and not after its end", async () => {
    const market = await armedMaker();
    const { userId } = market.maker;
    const first = await market.arm();
    const id = await idOf(userId);
    const second = await market.arm();
    close(first);
    await untilTakenOver(userId, 1);
    const third = await market.arm();
    close(second);
    await untilTakenOver(userId, 2);
    expect(outcomeOf(await onSocket(id, market))).toBe("ok");
    const mine = await market.quote();
    close(third);
    await untilClosed(mine);
    expect(outcomeOf(await onSocket(id, market))).toBe("unavailable");
    expect(await liveRows(userId)).toBe(0);
    // Nor when the key comes back.
    await market.arm();
    expect(outcomeOf(await onSocket(id, market))).toBe("unavailable");
  });

  it("is placed on an older socket that lives, after a newer one has ended", async () => {
    const market = await armedMaker();
    await market.arm();
    const id = await idOf(market.maker.userId);
    const newer = await market.arm();
    const mine = await market.quote();
    close(newer);
    await untilClosed(mine);
    expect(outcomeOf(await onSocket(id, market))).toBe("ok");
  });

  it("is placed when a socket of the key on another stream has ended", async () => {
    const { id, ...market } = await takenOver();
    const elsewhere = await market.arm(bookStream(market.book));
    const mine = await market.quote();
    close(elsewhere);
    await untilClosed(mine);
    expect(outcomeOf(await onSocket(id, market))).toBe("ok");
  });
});

it("a book with an armed socket commits only when something is due", async () => {
  const { book, bot, requestId, arm } = await armedMaker();
  await arm(bookStream(book));
  const { quote_id: quoteId } = await placeQuote(bot, requestId, 500_000, 1);
  await runInDurableObject(env.RFQ_BOOK.getByName(book), async (_instance, ctx) => {
    let groups = 0;
    const db = withBatch(env.DB, (statements) => {
      // The registration of a stream is a smaller batch.
      if (statements.length > 5) groups += 1;
      return env.DB.batch(statements);
    });
    await new RfqBook(ctx, { ...env, DB: db }).alarm();
    expect(groups).toBe(0);
    expect(await ctx.storage.getAlarm()).not.toBeNull();
  });
  for (let waited = 0; waited < 3_000 && (await closedAs(quoteId)) === "open"; waited += 50)
    await scheduler.wait(50);
  expect(await closedAs(quoteId)).toBe("expired");
});

describe("cron", () => {
  type Armed = { stream: string; armedAt: number; takenOver?: boolean };

  const open = new Map<string, string[]>();

  /** Writes rows of armed sockets, and returns an environment whose objects have them open. */
  async function armed(sockets: readonly Armed[], asked: string[]): Promise<Env> {
    const rows = sockets.map((socket) => ({ ...socket, id: uuidv7() }));
    await all(
      env.DB,
      sql`INSERT INTO armed_sockets (socket_id, user_id, api_key_id, stream, asked_at, taken_over_at)
        SELECT unhex(value ->> 'id', '-'), randomblob(16), randomblob(16), value ->> 'stream',
          value ->> 'armedAt', iif(value ->> 'takenOver', value ->> 'armedAt', NULL)
        FROM json_each(${JSON.stringify(rows)})`,
    );
    for (const { stream, id } of rows) open.set(stream, [...(open.get(stream) ?? []), id]);
    const getByName = (stream: string) => ({
      armedSockets: async () => {
        asked.push(stream);
        return open.get(stream) ?? [];
      },
    });
    // Safe cast: cron calls nothing else of the namespace.
    return { ...env, FEED: { getByName } as unknown as Env["FEED"] };
  }
  const forget = () => all(env.DB, sql`DELETE FROM armed_sockets`);
  const streamsOf = (count: number, more: Omit<Armed, "stream">): Armed[] =>
    Array.from({ length: count }, () => ({ stream: `account:${uuidv7()}`, ...more }));

  it("asks 500 streams in each run, those not asked for longest first", async () => {
    await forget();
    const asked: string[] = [];
    const hourAgo = now() - 3_600_000;
    const older = streamsOf(900, { armedAt: hourAgo });
    await endLostSockets(await armed(older, asked));
    expect(new Set(asked).size).toBe(500);
    // Neither newer streams nor a newer socket on an older stream delay the others.
    const last = older.filter(({ stream }) => !asked.includes(stream));
    const newer = [...streamsOf(600, { armedAt: now() }), ...last.map(alsoNow)];
    const second: string[] = [];
    await endLostSockets(await armed(newer, second));
    expect(second).toHaveLength(500);
    expect(last.filter(({ stream }) => !second.includes(stream))).toEqual([]);
    await forget();
  });

  it("asks the streams of live sockets first", async () => {
    await forget();
    const asked: string[] = [];
    const takenOver = streamsOf(1_200, { armedAt: now() - 60_000, takenOver: true });
    const [live] = streamsOf(1, { armedAt: now() });
    await endLostSockets(await armed([...takenOver, live!], asked));
    expect(asked).toEqual([live?.stream]);
    await forget();
  });

  it("writes nothing while one run asks all streams", async () => {
    await forget();
    const armedAt = now() - 60_000;
    await endLostSockets(await armed(streamsOf(20, { armedAt }), []));
    const written = sql`SELECT 1 FROM armed_sockets WHERE asked_at <> ${armedAt}`;
    expect(await all(env.DB, written)).toEqual([]);
    await forget();
  });

  function alsoNow({ stream }: Armed): Armed {
    return { stream, armedAt: now() };
  }
});

describe("over HTTP", () => {
  it("needs a ticket with the scope trade", async () => {
    const user = await newUser();
    const ticket = (await apiOf(user).post("/auth/ws-ticket")).json["ticket"];
    const path = `/account/stream?ticket=${String(ticket)}&cancel_on_disconnect=true`;
    const { status, json } = await apiOf(user).get(path, { upgrade: "websocket" });
    expect(status).toBe(403);
    expect(json).toMatchObject({ code: "scope_missing", required_scope: "trade" });
    expect(await liveRows(user.userId)).toBe(0);
  });
});
