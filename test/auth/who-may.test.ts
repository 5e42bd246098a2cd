/**
 * Who may do what to whose record. Every verb runs straight against its guard, without the checks
 * of the edge and of the credential cache before it. Every caller has funds, so that no rejection
 * is for the lack of them.
 */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { issueTicket } from "../../src/auth/ws-ticket.ts";
import { withdraw } from "../../src/custody/withdraw.ts";
import type { Actor } from "../../src/platform/actor.ts";
import { config } from "../../src/platform/config.ts";
import { Problem } from "../../src/platform/problem.ts";
import { all, first, raw, type Sql, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { cancelAfter } from "../../src/rfq/cancel-after.ts";
import { cancelQuotes } from "../../src/rfq/cancel-quotes.ts";
import type { Command } from "../../src/rfq/command.ts";
import { changePair } from "../../src/rfq/pairs/redeem.ts";
import { resetProtection, saveProtection } from "../../src/rfq/protection.ts";
import { newAddress, newAsset } from "../support/ledger.ts";
import {
  command,
  commitCommand,
  openRequest,
  outcomeOf,
  placeQuote,
  quotedMarket,
} from "../support/market.ts";
import { newPair } from "../support/pairs.ts";
import { newKey, newUser, newUserWithPassword } from "../support/users.ts";
import { ACCOUNT_VERBS } from "../support/account-verbs.ts";
import { everythingOf } from "../support/everything-of.ts";
import { FULL } from "../support/depth.ts";
import { describedRoutes } from "../support/http.ts";
import { INVALID, INVALID_SESSIONS } from "../support/invalid-credentials.ts";

const db = env.DB;

type Market = Awaited<ReturnType<typeof quotedMarket>>;
type Party = "requester" | "maker";

/** One verb: who may call it, and how often it has taken effect for a market. */
type Verb = {
  readonly by: Party;
  readonly call: (actor: Actor, market: Market) => Promise<string>;
  /** Rows that the verb leaves behind, as a query of `n`. */
  readonly effects: (actor: Actor, market: Market) => Sql;
};

const ofBook = async (market: Market, sent: Command) =>
  outcomeOf(await commitCommand(market.book, sent));
const ended = (table: "quotes" | "requests", id: string) =>
  sql`SELECT count(*) AS n FROM ${raw(table)}
    WHERE ${{ text: table === "quotes" ? "quote_id" : "request_id", params: [] }} = ${uuid(id)}
      AND status <> 'open'`;

/** The code of the problem that a call throws, or `ok`. */
async function codeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return "ok";
  } catch (error) {
    if (error instanceof Problem) return error.data.code;
    throw error;
  }
}

const LIMITS = {
  ...config(env),
  WITHDRAWAL_MIN_UNITS: 1n,
  WITHDRAWAL_MAX_UNITS: 2n ** 62n,
  WITHDRAWAL_DAILY_COUNT: 100_000,
};

const PROTECTION = { windowSecs: 60, maxMatches: 1, maxUsdc: null, cooldownSecs: null };

/** Splits or redeems one token of a pair: a new one, or the one with this key. Returns its key. */
async function ofPair(verb: "split" | "redeem", actor: Actor, key?: string): Promise<string> {
  const asset = key ?? (await newPair()).yes.key;
  const order = { actor, asset, amount: 1n, notAfter: undefined, idempotency: undefined };
  await changePair(db, config(env), verb, order);
  return asset;
}

const redemptionsOf = ({ userId }: Actor, kind: "split" | "merge") =>
  sql`SELECT count(DISTINCT made_group) AS n FROM redemptions
    WHERE user_id = ${uuid(userId)} AND kind = ${kind}`;

/** By the operation id of their route. */
const VERBS: Readonly<Record<string, Verb>> = {
  createRequest: {
    by: "requester",
    call: (actor, market) =>
      ofBook(market, command.openRequest({ actor }, market.book, { amount: 1n })),
    effects: (actor) => sql`SELECT count(*) AS n FROM requests
      WHERE requester_id = ${uuid(actor.userId)} AND amount = '1'`,
  },
  createQuote: {
    by: "maker",
    call: (actor, market) =>
      ofBook(market, command.placeQuote({ actor }, market.request.request_id, 1)),
    effects: (actor) => sql`SELECT count(*) AS n FROM quotes
      WHERE maker_id = ${uuid(actor.userId)} AND price = 1`,
  },
  cancelQuote: {
    by: "maker",
    call: (actor, market) => ofBook(market, command.cancelQuote({ actor }, market.quote.quote_id)),
    effects: (_, market) => ended("quotes", market.quote.quote_id),
  },
  cancelQuotes: {
    by: "maker",
    call: (actor) => codeOf(cancelQuotes(env, actor, {})),
    effects: (_, market) => ended("quotes", market.quote.quote_id),
  },
  setCancelAfter: {
    by: "maker",
    call: (actor) => codeOf(cancelAfter(env, actor, 60)),
    effects: (actor) =>
      sql`SELECT count(*) AS n FROM cancel_timers WHERE user_id = ${uuid(actor.userId)}`,
  },
  setProtection: {
    by: "maker",
    call: (actor) => codeOf(saveProtection(env, actor, PROTECTION)),
    effects: (actor) =>
      sql`SELECT count(*) AS n FROM protections WHERE user_id = ${uuid(actor.userId)}`,
  },
  cancelRequest: {
    by: "requester",
    call: (actor, market) =>
      ofBook(market, command.cancelRequest({ actor }, market.request.request_id)),
    effects: (_, market) => ended("requests", market.request.request_id),
  },
  acceptQuote: {
    by: "requester",
    call: (actor, market) => ofBook(market, command.accept({ actor }, market.quote.quote_id)),
    effects: (_, market) => ended("quotes", market.quote.quote_id),
  },
  setAcceptPrice: {
    by: "requester",
    call: (actor, market) =>
      ofBook(market, command.setAcceptPrice({ actor }, market.request.request_id, 1)),
    effects: (_, market) =>
      sql`SELECT count(*) AS n FROM standing_accepts
        WHERE request_id = ${uuid(market.request.request_id)}`,
  },
  split: {
    by: "requester",
    call: (actor) => codeOf(ofPair("split", actor)),
    effects: (actor) => redemptionsOf(actor, "split"),
  },
  redeem: {
    by: "requester",
    call: async (actor) => {
      const key = await ofPair("split", actor).catch(() => undefined);
      return codeOf(ofPair("redeem", actor, key));
    },
    effects: (actor) => redemptionsOf(actor, "merge"),
  },
  withdraw: {
    by: "requester",
    call: (actor) =>
      codeOf(
        withdraw(db, LIMITS, {
          actor,
          ip: undefined,
          terms: {
            clientWithdrawalId: uuidv7(),
            amount: 1n,
            toAddress: newAddress(),
            chain: "local",
            asset: "usdc",
          },
        }),
      ),
    effects: (actor) =>
      sql`SELECT count(*) AS n FROM withdrawals WHERE user_id = ${uuid(actor.userId)}`,
  },
  createTicket: {
    by: "requester",
    call: (actor) => codeOf(issueTicket(db, config(env), { actor, scopes: ["read"] })),
    effects: (actor) =>
      sql`SELECT count(*) AS n FROM ws_tickets WHERE user_id = ${uuid(actor.userId)}`,
  },
};

async function count(statement: Sql): Promise<number> {
  return (await first<{ n: number }>(db, statement))?.n ?? -1;
}

/** Routes without a row of their own. */
const COVERED: Readonly<Record<string, string>> = {
  createQuotes: "each quote has the guard of createQuote",
  createSignedTicket: "the verb of createTicket",
  testWebhook: "changes nothing",
  resetProtection: "below",
};

it("has a row for every route that changes something", async () => {
  const changing = (await describedRoutes()).filter(
    ({ method, credential }) => method !== "GET" && credential !== "public",
  );
  const rows = [VERBS, ACCOUNT_VERBS, COVERED].flatMap((table) => Object.keys(table));
  expect(rows.toSorted()).toEqual(
    changing.map(({ operation }) => operation.operationId).toSorted(),
  );
});

/** Verbs that meet every invalid credential in each run. The release run has all for each verb. */
const WITH_EACH = ["acceptQuote", "createQuote", "withdraw", "createWithdrawalAddress"];
const FEW = ["a frozen user's session", "a revoked key"];
const invalidFor = (verb: string, each = Object.entries(INVALID)) =>
  FULL || WITH_EACH.includes(verb) ? each : each.filter(([name]) => FEW.includes(name));

describe.each(Object.entries(ACCOUNT_VERBS))("%s", (name, verb) => {
  const changes = async (userId: string) =>
    (
      await first<{ n: number }>(
        db,
        sql`SELECT count(*) AS n FROM audit_events
          WHERE user_id = ${uuid(userId)} AND kind = ${verb.kind}`,
      )
    )?.n;

  it.each(verb.by)("takes effect once with a %s", async (kind) => {
    const user = await newUserWithPassword({ usdc: 100n });
    const key = kind === "session" ? undefined : await newKey(user);
    const prepared = await verb.prepare?.(user, key);
    const before = (await changes(user.userId)) ?? 0;
    await verb.call(key?.actor ?? user.actor, prepared);
    expect(await changes(user.userId)).toBe(before + 1);
  });

  it.each(invalidFor(name, verb.by.includes("key") ? Object.entries(INVALID) : INVALID_SESSIONS))(
    "has no effect with %s",
    async (__, invalidate) => {
      const user = await newUserWithPassword({ usdc: 100n });
      const prepared = await verb.prepare?.(user, undefined);
      const [actor, code] = await invalidate(user);
      const before = await everythingOf(user.userId);
      expect(await codeOf(verb.call(actor, prepared))).toBe(code);
      expect(await everythingOf(user.userId)).toEqual(before);
    },
  );
});

it.each([
  ["approveWithdrawal", "withdrawal_unknown"],
  ["cancelWithdrawal", "withdrawal_unknown"],
  ["removeWithdrawalAddress", "withdrawal_address_unknown"],
  ["removeWebhook", "webhook_unknown"],
  ["rotateWebhookSecret", "webhook_unknown"],
  ["revokeApiKey", "api_key_unknown_id"],
] as const)("%s of somebody else is %s", async (name, code) => {
  const verb = ACCOUNT_VERBS[name];
  const owner = await newUserWithPassword({ usdc: 100n });
  const stranger = await newUserWithPassword({ usdc: 100n });
  const prepared = await verb?.prepare?.(owner, undefined);
  expect(await codeOf(verb?.call(stranger.actor, prepared) ?? Promise.resolve())).toBe(code);
});

it.each(INVALID_SESSIONS)(
  "removeWithdrawalAddress removes nothing with %s, which it says before an id is unknown",
  async (_, invalidate) => {
    const owner = await newUserWithPassword();
    const verb = ACCOUNT_VERBS["removeWithdrawalAddress"];
    const addressId = await verb?.prepare?.(owner, undefined);
    const [actor, code] = await invalidate(owner);
    for (const id of [addressId, uuidv7()])
      expect(await codeOf(verb?.call(actor, id) ?? Promise.resolve())).toBe(code);
    const listed = sql`SELECT count(*) AS n FROM withdrawal_addresses
      WHERE user_id = ${uuid(owner.userId)}`;
    expect(await count(listed)).toBe(1);
  },
);

describe.each(Object.entries(VERBS))("%s", (name, verb) => {
  it("takes effect once for the party with a session, and with a key", async () => {
    for (const credential of ["session", "key"] as const) {
      const market = await quotedMarket();
      const party = market[verb.by];
      const { actor } = credential === "session" ? party : await newKey(party);
      expect(await count(verb.effects(actor, market))).toBe(0);
      expect(await verb.call(actor, market)).toBe("ok");
      expect(await count(verb.effects(actor, market))).toBe(1);
    }
  });

  it.each(invalidFor(name))("has no effect with %s", async (__, invalidate) => {
    const market = await quotedMarket();
    const [actor, code] = await invalidate(market[verb.by]);
    expect(await verb.call(actor, market)).toBe(code);
    expect(await count(verb.effects(actor, market))).toBe(0);
  });
});

describe.each(["a stranger with funds", "the other party"] as const)("%s", (who) => {
  const funds = { usdc: 10_000n };
  const callerOf = async (market: Market, owner: Party) =>
    who === "the other party"
      ? market[owner === "maker" ? "requester" : "maker"]
      : newUser({ ...funds, [market.book]: 10_000n });

  it.each([
    ["acceptQuote", "not_request_owner"],
    ["cancelRequest", "not_request_owner"],
    ["setAcceptPrice", "not_request_owner"],
    ["cancelQuote", "not_quote_owner"],
    // It cancels the caller's own quotes, of which there are none.
    ["cancelQuotes", "ok"],
  ] as const)("may not %s of somebody else", async (name, code) => {
    const market = await quotedMarket();
    const verb = VERBS[name];
    if (verb === undefined) throw new Error(`no verb ${name}`);
    const { actor } = await callerOf(market, verb.by);
    expect(await verb.call(actor, market)).toBe(code);
    expect(await count(verb.effects(actor, market))).toBe(0);
  });
});

describe("removing a cancel-after timer", () => {
  it.each(invalidFor("setCancelAfter"))("has no effect with %s", async (_, invalidate) => {
    const { maker } = await quotedMarket();
    await cancelAfter(env, maker.actor, 60);
    const [actor, code] = await invalidate(maker);
    expect(await codeOf(cancelAfter(env, actor, 0))).toBe(code);
    const timers = sql`SELECT count(*) AS n FROM cancel_timers
      WHERE credential = ${uuid(maker.userId)}`;
    expect(await count(timers)).toBe(1);
  });
});

describe("resetting a protection", () => {
  it.each(invalidFor("resetProtection"))("has no effect with %s", async (_, invalidate) => {
    const { book, requester, maker, quote } = await quotedMarket();
    await saveProtection(env, maker.actor, PROTECTION);
    await commitCommand(book, command.accept(requester, quote.quote_id));
    const [actor, code] = await invalidate(maker);
    expect(await codeOf(resetProtection(env, actor))).toBe(code);
    const tripped = sql`SELECT count(*) AS n FROM protections
      WHERE user_id = ${uuid(maker.userId)} AND tripped_at IS NOT NULL`;
    expect(await count(tripped)).toBe(1);
  });
});

it("a requester may not quote their own request", async () => {
  const { book, requester, request } = await quotedMarket();
  const result = await commitCommand(book, command.placeQuote(requester, request.request_id, 1));
  expect(outcomeOf(result)).toBe("own_request");
});

describe("a paused venue", () => {
  const paused = async (venue: string, test: () => Promise<void>) => {
    await all(db, sql`INSERT INTO paused_venues (venue, since) VALUES (${venue}, 1)`);
    try {
      await test();
    } finally {
      await all(db, sql`DELETE FROM paused_venues WHERE venue = ${venue}`);
    }
  };

  it("has no new requests, quotes or matches, and its records can be cancelled", async () => {
    const venue = "venue_three";
    const { key: book } = newAsset(venue);
    const requester = await newUser({ usdc: 10_000n });
    const maker = await newUser({ [book]: 10_000n });
    const { request_id } = await openRequest(requester, book, { amount: 10n });
    const { quote_id } = await placeQuote(maker, request_id, 500_000);
    await paused(venue, async () => {
      for (const sent of [
        command.openRequest(requester, book, { amount: 1n }),
        command.placeQuote(maker, request_id, 1),
        command.accept(requester, quote_id),
      ])
        expect(outcomeOf(await commitCommand(book, sent))).toBe("venue_paused");
      for (const sent of [
        command.cancelQuote(maker, quote_id),
        command.cancelRequest(requester, request_id),
      ])
        expect(outcomeOf(await commitCommand(book, sent))).toBe("ok");
    });
  });
});
