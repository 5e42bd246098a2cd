/**
 * Calls between Workers and objects. For some minutes after a deployment, new Workers call objects
 * of the last release, and the other way round. So for one release a shape only gets optional
 * fields, whose receiver may ignore them, and anything else is a new command or method.
 *
 * RELEASED is what the last release sent. Each release brings it up to date
 * (docs/handbook.md).
 */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import forMakers from "../../docs/for-makers.md?raw";
import handbook from "../../docs/handbook.md?raw";
import wrangler from "../../wrangler.toml?raw";
import { History } from "../../src/archive/history-object.ts";
import { Sealer } from "../../src/reconcile/scanning-sealer.ts";
import { Payer } from "../../src/custody/payer/payer.ts";
import { ChainWatcher } from "../../src/custody/watcher/chain-watcher.ts";
import { Feed } from "../../src/feeds/feed.ts";
import type { Actor } from "../../src/platform/actor.ts";
import type { ProblemData } from "../../src/platform/problem.ts";
import type { Command } from "../../src/rfq/command.ts";
import type { MatchRow, QuoteRow, RequestRow } from "../../src/rfq/rfq-records.ts";
import { RfqBook } from "../../src/rfq/rfq-book.ts";
import type { StreamEvent } from "../../src/streams/event-log.ts";
import { measure, readLevels } from "../../src/operator/measure.ts";
import { resultBody } from "../../src/rfq/result.ts";
import { bookObject } from "../../src/streams/notify.ts";
import { command, openMarket, submit } from "../support/market.ts";

/** Methods, and how many parameters they need. */
const RELEASED = {
  RfqBook: { submit: 1, submitQuotes: 1, expireDue: 0 },
  Feed: { closeQuotesAt: 1, takePlace: 2, leavePlace: 1 },
  StreamObject: { push: 1, catchUp: 0, closeSockets: 1, placesOf: 1, armedSockets: 0 },
  ChainWatcher: { wake: 1, saveAddressRecord: 1, restore: 1 },
  Payer: { wake: 1, restore: 2 },
  Sealer: { wake: 0, highestTransfer: 0, lost: 0, reopen: 0 },
  History: { follow: 2, query: 3 },
} as const;

const SENT = ["op", "actor", "receivedAt"] as const;
const FIELDS = {
  open_request: [
    ...SENT,
    "requestId",
    "asset",
    "amount",
    "usdcAmount",
    "side",
    "disclosed",
    "expiresInSecs",
  ],
  place_quote: [...SENT, "quoteId", "requestId", "price", "side", "replaces", "expiresInSecs"],
  cancel_quote: [...SENT, "operationId", "quoteId"],
  cancel_request: [...SENT, "operationId", "requestId"],
  accept: [...SENT, "matchId", "quoteId"],
  set_accept_price: [...SENT, "operationId", "requestId", "price", "side"],
  accept_price: [...SENT, "matchId", "requestId", "price", "side"],
  actor: ["userId", "scopes", "credential"],
  problem: ["code", "detail"],
  event: ["stream", "seq", "at", "ids", "body"],
  request: [
    "request_id",
    "user_id",
    "owned",
    "asset",
    "amount",
    "usdc_amount",
    "side",
    "disclosed",
    "status",
    "opened_at",
    "expires_at",
    "best_bid",
    "best_ask",
    "quote_count",
  ],
  quote: [
    "quote_id",
    "request_id",
    "asset",
    "amount",
    "side",
    "price",
    "usdc_amount",
    "fee",
    "status",
    "opened_at",
    "expires_at",
    "reserve",
    "close_reason",
    "replaced_by",
  ],
  match: [
    "match_id",
    "request_id",
    "quote_id",
    "asset",
    "side",
    "amount",
    "price",
    "usdc_amount",
    "fee",
    "role",
    "label",
    "at",
  ],
} as const;
type ReleasedFields = { [Name in keyof typeof FIELDS]: (typeof FIELDS)[Name][number] };
type Present = { [Op in Command["op"]]: Extract<Command, { op: Op }> } & {
  actor: Actor;
  problem: ProblemData;
  event: StreamEvent;
  request: RequestRow;
  quote: QuoteRow;
  match: MatchRow;
};

type RequiredFields<Shape> = {
  [Name in keyof Shape]-?: object extends Pick<Shape, Name> ? never : Name;
}[keyof Shape];
type Same<One, Two> = [One, Two] extends [Two, One] ? true : never;
type Compatible = {
  [Name in keyof ReleasedFields]: Same<RequiredFields<Present[Name]>, ReleasedFields[Name]>;
};

it("shapes require what the last release sent, and no more", () => {
  // The compiler checks it: a field that differs makes the value `never`.
  const compatible: Compatible = {
    open_request: true,
    place_quote: true,
    cancel_quote: true,
    cancel_request: true,
    accept: true,
    accept_price: true,
    set_accept_price: true,
    actor: true,
    problem: true,
    event: true,
    request: true,
    quote: true,
    match: true,
  };
  expect(Object.values(compatible)).not.toContain(false);
});

it("methods of the last release are there and need no more parameters", () => {
  const classes = { RfqBook, Feed, StreamObject: Feed, ChainWatcher, Payer, Sealer, History };
  for (const [name, methods] of Object.entries(RELEASED)) {
    const { prototype } = classes[name as keyof typeof classes];
    for (const [method, parameters] of Object.entries(methods))
      expect(Reflect.get(prototype, method), `${name}.${method}`).toHaveLength(parameters);
  }
});

it.each(["RFQ_BOOK", "FEED", "CHAIN_WATCHER", "PAYER", "SEALER", "HISTORY"] as const)(
  "an object of %s refuses a method that it does not know",
  async (binding) => {
    const stub: unknown = env[binding].getByName(crypto.randomUUID());
    const call = async () => {
      await (stub as { later: (argument: object) => Promise<void> }).later({});
    };
    await expect(call()).rejects.toThrow('does not implement "later"');
  },
);

it("a book answers a command that it does not know with unavailable", async () => {
  const { book, requester, maker, request } = await openMarket();
  const object = bookObject(env, book);
  const later = { ...command.cancelRequest(requester, request.request_id), op: "later" };
  expect(await object.submit(later as never)).toMatchObject({
    ok: false,
    problem: { code: "unavailable", extensions: { outcome: "none" } },
  });
  const quote = { ...command.placeQuote(maker, request.request_id, 1), later: true };
  expect(await object.submit(quote)).toMatchObject({ ok: true });
  // A choice of sockets that it does not know closes none.
  await object.closeSockets({ later: true } as never);
});

/** What the last release knows of a command, a result or an event. */
function released<Shape extends object>(kind: keyof typeof FIELDS, value: Shape): Shape {
  const known = Object.entries(value).filter(([name]) =>
    FIELDS[kind].some((field) => field === name),
  );
  // Safe cast: the compiler has compared the fields above.
  return Object.fromEntries(known) as Shape;
}

it("a book carries out each command of an old Worker", async () => {
  const { book, requester, maker, request } = await openMarket();
  const object = bookObject(env, book);
  const send = async (sent: Command) => {
    const result = await object.submit(released(sent.op, sent));
    expect(result).toMatchObject({ ok: true });
    return sent;
  };
  const quoteOf = () => command.placeQuote(maker, request.request_id, 500_000);
  const first = await send(quoteOf());
  if (first.op === "place_quote") await send(command.cancelQuote(maker, first.quoteId));
  const second = await send(quoteOf());
  if (second.op === "place_quote") await send(command.accept(requester, second.quoteId));
  const opened = await send(command.openRequest(requester, book, { amount: 10n }));
  if (opened.op === "open_request") await send(command.cancelRequest(requester, opened.requestId));
});

it("a Worker shows each result of an old object", async () => {
  const { book, requester, maker } = await openMarket();
  const opening = command.openRequest(requester, book, { amount: 10n });
  const quoting = command.placeQuote(maker, opening.requestId, 500_000);
  for (const sent of [opening, quoting, command.accept(requester, quoting.quoteId)]) {
    const result = await submit(sent);
    if (!result.ok || result.kind === "cancelled") throw new Error(JSON.stringify(result));
    const old = { ...result, row: released(result.kind, result.row) } as typeof result;
    const shown = Object.entries(resultBody(old) as object);
    expect(shown.length).toBeGreaterThan(8);
    // A field that is neither known nor optional would be missing, or not a number.
    expect(shown.filter(([, value]) => Number.isNaN(value))).toEqual([]);
  }
});

it("cron measures beside objects that do not know `levels` yet", async () => {
  const refuse = () => Promise.reject(new TypeError('does not implement "levels"'));
  const old = { getByName: () => ({ levels: refuse }) };
  const mixed = { ...env, DB: env.LEVELS_DB, CHAIN_WATCHER: old, PAYER: old };
  await applyD1Migrations(env.LEVELS_DB, env.TEST_MIGRATIONS);
  await measure(mixed as unknown as Env, new Map());
  const levels = await readLevels(env.LEVELS_DB);
  expect(levels?.levels).toHaveProperty("rfq_database_bytes");
  expect(Object.keys(levels?.levels ?? {}).join()).not.toContain("nonce_gap");
});

it("old code lives as long after a deployment as the documents say", () => {
  const [, mode, delay] =
    /code_update_strategy\]\nmode = "(\w+)"\nmax_delay = (\d+)$/m.exec(wrangler) ?? [];
  expect(mode).toBe("deferred");
  for (const page of [handbook, forMakers])
    expect(page.replaceAll(/\s+/g, " ")).toContain(`within ${delay} seconds of a deployment`);
});
