/** One user's flood is refused and does not change what other users receive. */
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import type { Actor } from "../../src/platform/actor.ts";
import { config } from "../../src/platform/config.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import type { Command, Result } from "../../src/rfq/command.ts";
import { GroupCommitter } from "../../src/rfq/group-committer.ts";
import { MAX_FRAMES, SocketCommands } from "../../src/rfq/socket-commands.ts";
import { findTogether, submitCommand } from "../../src/rfq/submit.ts";
import {
  command,
  matchOf,
  openMarket,
  operationOf,
  outcomeOf,
  quotedMarket,
  submit,
} from "../support/market.ts";
import { countingCalls } from "../support/counting-database.ts";
import { awakeAndEvicted, connect } from "../support/sockets.ts";
import { newUser } from "../support/users.ts";

const { RFQ_COMMANDS_IN_FLIGHT_PER_SOCKET: PER_SOCKET, RFQ_COMMANDS_IN_FLIGHT_PER_USER: PER_USER } =
  config(env);

/** How many results have each outcome. */
function countOutcomes(outcomes: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const outcome of outcomes) counts[outcome] = (counts[outcome] ?? 0) + 1;
  return counts;
}

/** The service with a limit of refused commands, counted exactly. */
function limitedTo(refusals: number): Env {
  const counts = new Map<string, number>();
  const limit = async ({ key }: { key: string }) => {
    counts.set(key, (counts.get(key) ?? 0) + 1);
    return { success: (counts.get(key) ?? 0) <= refusals };
  };
  return Object.assign(Object.create(null), env, { RATE_LIMITS: "on", RATE_REFUSED: { limit } });
}

/** A socket without a peer, and the outcomes of what it was sent: a problem's code or the type. */
function fakeSocket(actor: Actor) {
  const answered: string[] = [];
  const socket = {
    readyState: WebSocket.READY_STATE_OPEN,
    deserializeAttachment: () => ({ actor, malformedSince: 0, malformedFrames: 0 }),
    serializeAttachment: () => {},
    close: (code: number) => {
      socket.readyState = WebSocket.READY_STATE_CLOSING;
      answered.push(String(code));
    },
    send: (text: string) => {
      const { type, data } = JSON.parse(text) as { type: string; data: { code?: string } };
      answered.push(data.code ?? type);
    },
  };
  // Safe cast: these are the members that SocketCommands uses.
  return { socket: socket as unknown as WebSocket, answered };
}

describe("the rejections of a group", () => {
  it("are read in one round trip", async () => {
    const { book, requester, maker, request, quote } = await quotedMarket();
    const { quote: matched, requester: buyer, ...other } = await quotedMarket();
    const match = matchOf(await submit(command.accept(buyer, matched.quote_id)));
    const poor = await newUser();
    const { db, count } = countingCalls();
    const committer = new GroupCommitter(db, {
      asset: book,
      waitMs: 10,
      maxWaitMs: 60_000,
      maxOperations: 256,
      macKeys: config(env),
      onCommitted: () => Promise.resolve(),
      onFailed: () => {},
      onClockAhead: () => {},
      push: () => Promise.resolve(),
    });
    const ended = await newUser();
    await all(
      env.DB,
      sql`UPDATE users SET session_epoch = 9 WHERE user_id = ${uuid(ended.userId)}`,
    );
    const sent: [Command, string][] = [
      [command.placeQuote(requester, request.request_id, 1), "own_request"],
      ...Array.from({ length: 10 }, (): [Command, string] => [
        command.placeQuote(poor, request.request_id, 1),
        "insufficient_funds",
      ]),
      [command.placeQuote(ended, request.request_id, 1), "session_invalid"],
      [command.placeQuote(maker, other.request.request_id, 1), "request_not_open"],
      [command.openRequest(ended, book, { amount: 1n }), "session_invalid"],
      [command.openRequest(ended, book, { amount: 2n }), "session_invalid"],
      [command.cancelQuote(requester, quote.quote_id), "not_quote_owner"],
      [command.cancelQuote(maker, uuidv7()), "quote_unknown"],
      [command.cancelRequest(maker, request.request_id), "not_request_owner"],
      [command.cancelRequest(maker, uuidv7()), "request_unknown"],
      [command.accept(maker, quote.quote_id), "not_request_owner"],
      [command.accept(maker, uuidv7()), "quote_unknown"],
    ];
    const operations = await Promise.all(sent.map(([one]) => operationOf(one)));
    const repeated = await operationOf(command.accept(buyer, matched.quote_id));

    const results = await Promise.all([
      ...operations.map((operation) => committer.submit(operation)),
      committer.submit(repeated),
    ]);

    expect(matchOf(results.pop() as Result)).toEqual(match);
    expect(results.map(outcomeOf)).toEqual(sent.map(([, outcome]) => outcome));
    // The standing accepts of both requests, one group, and one read of the reasons.
    expect(count()).toBe(3);
  });
});

awakeAndEvicted("a flood of commands", (maybeEvict) => {
  it("is refused beyond the user's commands in flight in a book", async () => {
    const { stream, maker, request } = await openMarket();
    const attacker = await newUser();
    await maybeEvict(stream);

    const flood = Array.from({ length: 200 }, () =>
      submit(command.placeQuote(attacker, request.request_id, 1)),
    );
    const bystander = await submit(command.placeQuote(maker, request.request_id, 1));

    expect(outcomeOf(bystander)).toBe("ok");
    expect(countOutcomes((await Promise.all(flood)).map(outcomeOf))).toEqual({
      insufficient_funds: PER_USER,
      rate_limited: 200 - PER_USER,
    });
    // What was refused is not in flight any more.
    expect(outcomeOf(await submit(command.placeQuote(attacker, request.request_id, 1)))).toBe(
      "insufficient_funds",
    );
  });

  it("on one socket is refused beyond its commands in flight", async () => {
    const { stream, maker, request } = await openMarket();
    const attacker = await connect(await newUser(), stream);
    const bystander = await connect(maker, stream);
    await maybeEvict(stream);

    const quote = { op: "quote", request_id: request.request_id, price: 1 };
    for (let n = 0; n < 100; n++) attacker.send({ id: String(n), ...quote });
    bystander.send({ id: "b", ...quote });

    expect((await bystander.until(({ id }) => id === "b")).type).toBe("result");
    await expect
      .poll(() => attacker.messages.filter(({ type }) => type === "error").length)
      .toBe(100);
    const codes = attacker.messages.flatMap(({ data }) => (data?.code as string) ?? []);
    const { insufficient_funds: carriedOut = 0, rate_limited: refused = 0 } = countOutcomes(codes);
    expect(carriedOut + refused).toBe(100);
    // The first commands may be answered before the last frames arrive.
    expect(carriedOut).toBeGreaterThanOrEqual(PER_SOCKET);
    expect(refused).toBeGreaterThan(0);
    expect(attacker.closed).toBeUndefined();
  });
});

describe("a socket's commands", () => {
  it("are in flight for all sockets of their user on the stream together", async () => {
    const { book, request } = await openMarket();
    const attacker = await newUser();
    const answer = Promise.withResolvers<Result>();
    const taken: Command[] = [];
    const commands = new SocketCommands(env, {
      asset: book,
      submit: (one) => {
        taken.push(one);
        return answer.promise;
      },
      submitQuotes: () => expect.fail("no several quotes"),
    });
    const sockets = Array.from({ length: 10 }, () => fakeSocket(attacker.actor));
    const quote = { op: "quote", request_id: request.request_id, price: 1 };
    const sent = sockets.flatMap(({ socket }) =>
      Array.from({ length: PER_SOCKET + 1 }, (_, n) =>
        commands.receive(socket, JSON.stringify({ id: `${n}`, ...quote })),
      ),
    );
    const answers = () => sockets.flatMap(({ answered }) => answered);
    await expect.poll(() => taken.length).toBe(PER_USER);
    expect(answers()).toHaveLength(sent.length - PER_USER);
    expect(new Set(answers())).toEqual(new Set(["rate_limited"]));
    answer.resolve({ ok: true, kind: "cancelled", id: uuidv7(), replayed: false });
    await Promise.all(sent);
    expect(answers().filter((outcome) => outcome === "result")).toHaveLength(PER_USER);
  });

  it("are refused from memory once the class of refused commands is used up", async () => {
    const { request } = await openMarket();
    const attacker = await newUser();
    const limited = limitedTo(0);
    const commands = new SocketCommands(limited);
    const { socket, answered } = fakeSocket(attacker.actor);
    const send = (frame: object) => commands.receive(socket, JSON.stringify({ id: "1", ...frame }));
    const quote = { op: "quote", request_id: request.request_id, price: 1 };
    await send(quote);
    expect(answered).toEqual(["insufficient_funds"]);
    const unreachable = { DB: undefined, RFQ_BOOK: undefined, RATE_TRADE_CREDENTIAL: undefined };
    Object.assign(limited, unreachable);
    await send(quote);
    await send({ op: "cancel_quote", quote_id: "not an id" });
    expect(answered).toEqual(["insufficient_funds", "rate_limited", "internal"]);
  });
});

it("closes a socket at its tenth malformed frame in a burst", async () => {
  const { socket, answered } = fakeSocket((await newUser()).actor);
  const commands = new SocketCommands(limitedTo(0));
  const frames = Array.from({ length: 30 }, (_, n) => ({
    id: `${n}`,
    op: n % 2 ? "buy" : "accept",
  }));
  await Promise.all(
    frames.map((frame) => commands.receive(socket, JSON.stringify({ ...frame, extra: 1 }))),
  );
  expect(answered).toEqual([...Array.from({ length: 10 }, () => "invalid_request"), "1008"]);
});

it("closes the socket of a flood that the scope refuses", async () => {
  const { actor } = await newUser();
  const { socket, answered } = fakeSocket({ ...actor, scopes: ["read"] });
  const commands = new SocketCommands(env);
  const frame = JSON.stringify({ id: "x", op: "accept", quote_id: uuidv7() });
  // All frames are of one second, however slow the machine is.
  vi.useFakeTimers({ now: Date.now(), toFake: ["Date"] });
  const received = Array.from({ length: MAX_FRAMES + 1 }, () => commands.receive(socket, frame));
  await Promise.all(received).finally(() => vi.useRealTimers());
  expect(countOutcomes(answered)).toEqual({
    rate_limited: MAX_FRAMES - PER_SOCKET,
    scope_missing: PER_SOCKET,
    "1008": 1,
  });
});

describe("refused commands", () => {
  it("have a limit per user, beyond which D1 is not read", async () => {
    const { maker, request } = await openMarket();
    const attacker = await newUser();
    const limited = limitedTo(5);
    const quote = (party: { readonly actor: Actor }, service: Env) =>
      submitCommand(service, command.placeQuote(party, request.request_id, 1));

    for (let n = 0; n < 6; n++)
      expect(outcomeOf(await quote(attacker, limited))).toBe("insufficient_funds");
    const unreachable: Env = Object.assign(limited, { DB: undefined, RFQ_BOOK: undefined });
    expect(await quote(attacker, unreachable)).toMatchObject({
      problem: { code: "rate_limited", retryAfterSecs: 10 },
    });
    expect(outcomeOf(await quote(maker, limitedTo(5)))).toBe("ok");
  });

  it("leave the user able to cancel", async () => {
    const { maker, quote, request } = await quotedMarket({ maker: { token: 10n } });
    const limited = limitedTo(0);
    const again = () => submitCommand(limited, command.placeQuote(maker, request.request_id, 1));
    expect(outcomeOf(await again())).toBe("insufficient_funds");
    expect(outcomeOf(await again())).toBe("rate_limited");
    const cancel = command.cancelQuote(maker, quote.quote_id);
    expect(outcomeOf(await submitCommand(limited, cancel))).toBe("ok");
  });

  it("do not include a cancel that came too late", async () => {
    const { maker, requester, quote, request } = await quotedMarket({ maker: { token: 20n } });
    await submit(command.accept(requester, quote.quote_id));
    const limited = limitedTo(0);
    for (let n = 0; n < 3; n++) {
      const [late, lateToo] = [
        command.cancelQuote(maker, quote.quote_id),
        command.cancelRequest(requester, request.request_id),
      ];
      expect(outcomeOf(await submitCommand(limited, late))).toBe("quote_not_open");
      expect(outcomeOf(await submitCommand(limited, lateToo))).toBe("request_not_open");
    }
    const foreign = command.cancelQuote(requester, quote.quote_id);
    expect(outcomeOf(await submitCommand(limited, foreign))).toBe("not_quote_owner");
    expect(outcomeOf(await submitCommand(limited, foreign))).toBe("rate_limited");
  });

  it("that name one unknown id read D1 once a second", async () => {
    const attacker = await newUser();
    const { db, count } = countingCalls();
    const counted: Env = Object.assign(Object.create(null), env, { DB: db });
    const [quoteId, requestId] = [uuidv7(), uuidv7()];
    for (let n = 0; n < 5; n++) {
      const cancel = command.cancelQuote(attacker, quoteId);
      expect(outcomeOf(await submitCommand(counted, cancel))).toBe("quote_unknown");
      const quote = command.placeQuote(attacker, requestId, 1);
      expect(outcomeOf(await submitCommand(counted, quote))).toBe("request_unknown");
    }
    expect(count()).toBe(2);
  });

  it("that name many unknown ids in a burst of frames share reads of D1", async () => {
    const { db, count } = countingCalls();
    const commands = new SocketCommands(Object.assign(Object.create(null), env, { DB: db }));
    const { socket, answered } = fakeSocket((await newUser()).actor);
    const burst = Array.from({ length: PER_SOCKET }, (_, n) =>
      commands.receive(
        socket,
        JSON.stringify({ id: `${n}`, op: "quote", request_id: uuidv7(), price: 1 }),
      ),
    );
    await Promise.all(burst);
    expect(countOutcomes(answered)).toEqual({ request_unknown: PER_SOCKET });
    expect(count()).toBeLessThanOrEqual(2);
  });

  it("are answered while an earlier read of D1 hangs", async () => {
    let reads = 0;
    const hangs = { bind: () => ({ all: () => new Promise(() => {}) }) };
    const db = Object.assign(Object.create(null), {
      prepare: (text: string) => (++reads === 1 ? hangs : env.DB.prepare(text)),
    }) as D1Database;
    const find = findTogether(db);
    void find({ kind: "quote", id: uuidv7() });
    await vi.waitFor(() => expect(reads).toBe(1));
    const later = [uuidv7(), uuidv7()].map((id) => find({ kind: "quote", id }));
    expect(await Promise.all(later)).toEqual([undefined, undefined]);
    expect(reads).toBe(2);
  });
});
