import { env } from "cloudflare:workers";
import fc from "fast-check";
import { expect, it } from "vitest";
import type { Side } from "../../src/assets/asset-fields.ts";
import { all, readUuid, sql, uuid } from "../../src/platform/sql.ts";
import { accountStream, bookStream } from "../../src/streams/event-log.ts";
import { balances, newAsset } from "../support/ledger.ts";
import { advanceClock, command, openRequest, outcomeOf, submit } from "../support/market.ts";
import { evict, replay } from "../support/sockets.ts";
import { newUser, type TestUser } from "../support/users.ts";
import { rounds } from "../support/depth.ts";

/** A model of a book in bigint. The database must agree with it after every step. */
type ModelQuote = {
  id: string;
  maker: number;
  request: number;
  price: number;
  status: string;
  expiresAt: number;
  reserve: bigint;
  asset: "usdc" | "token";
};
type ModelRequest = {
  id: string;
  side: Side;
  amount: bigint;
  status: string;
  expiresAt: number;
  /** Of its standing accept. */
  limit: number | null;
};
type Funds = { usdc: bigint; token: bigint };

const QUOTE_LIFE = 30;
const REQUEST_LIFE = 100;
const REQUESTER = 0;
const ceilUsdc = (amount: bigint, price: number) =>
  (amount * BigInt(price) + 999_999n) / 1_000_000n;

class Model {
  clock = 0;
  readonly requests: ModelRequest[] = [];
  readonly quotes: ModelQuote[] = [];
  readonly available: Funds[];
  readonly pending: Funds[];
  constructor(available: Funds[]) {
    this.available = available;
    this.pending = available.map(() => ({ usdc: 0n, token: 0n }));
  }

  jump(secs: number): void {
    this.clock += secs;
    for (const item of this.quotes)
      if (item.status === "open" && item.expiresAt <= this.clock) this.end(item, "expired");
    for (const item of this.requests)
      if (item.status === "open" && item.expiresAt <= this.clock) item.status = "expired";
  }

  end(item: ModelQuote, status: string): void {
    item.status = status;
    this.pending[item.maker]![item.asset] -= item.reserve;
    this.available[item.maker]![item.asset] += item.reserve;
  }

  /** `taken` is the quote that the database chose, which decides between equal prices. */
  place(quote: Pick<ModelQuote, "id" | "maker" | "request" | "price">, taken: string | null) {
    const { id, maker, request, price } = quote;
    const target = this.requests[request]!;
    if (target.status === "expired") return "request_expired";
    if (target.status !== "open") return "request_not_open";
    const asset = target.side === "Bid" ? "token" : "usdc";
    const reserve = target.side === "Bid" ? target.amount : ceilUsdc(target.amount, price);
    if (this.available[maker]![asset] < reserve) return "insufficient_funds";
    this.available[maker]![asset] -= reserve;
    this.pending[maker]![asset] += reserve;
    this.quotes.push({
      id,
      maker,
      request,
      price,
      status: "open",
      expiresAt: Math.min(this.clock + QUOTE_LIFE, target.expiresAt),
      reserve,
      asset,
    });
    if (target.limit !== null && isWithin(target, price, target.limit))
      this.acceptPrice(request, target.limit, taken);
    return "ok";
  }

  setLimit(index: number, limit: number | null, taken: string | null): string {
    const request = this.requests[index]!;
    if (request.status === "expired") return "request_expired";
    if (request.status !== "open") return "request_not_open";
    request.limit = limit;
    if (limit !== null) this.acceptPrice(index, limit, taken);
    return "ok";
  }

  acceptPrice(index: number, limit: number, taken: string | null): string {
    const request = this.requests[index]!;
    const ofRequest = [...this.quotes.entries()].filter(([, quote]) => quote.request === index);
    if (request.status === "matched") {
      const won = ofRequest.find(([, { status }]) => status === "accepted")?.[1];
      return isWithin(request, won!.price, limit) ? "ok" : "request_not_open";
    }
    if (request.status === "cancelled") return "request_not_open";
    if (request.status === "expired") return "request_expired";
    const open = ofRequest.filter(([, { status }]) => status === "open");
    const prices = open.map(([, { price }]) => price);
    const best = request.side === "Bid" ? Math.min(...prices) : Math.max(...prices);
    if (open.length === 0 || !isWithin(request, best, limit)) return "no_quote_within";
    const equal = open.filter(([, { price }]) => price === best);
    const [choice] = equal.find(([, { id }]) => id === taken) ?? equal[0]!;
    return this.accept(choice);
  }

  accept(index: number): string {
    const item = this.quotes[index]!;
    const request = this.requests[item.request]!;
    if (item.status === "accepted") return "ok";
    if (item.status === "cancelled" || item.status === "rejected") return "quote_not_open";
    if (request.status === "cancelled" || request.status === "matched") return "request_not_open";
    if (item.status === "expired") return "quote_expired";
    const usdc = ceilUsdc(request.amount, item.price);
    const [gives, amount] =
      request.side === "Bid" ? (["usdc", usdc] as const) : (["token", request.amount] as const);
    const [gets, incoming] =
      request.side === "Bid" ? (["token", request.amount] as const) : (["usdc", usdc] as const);
    if (this.available[REQUESTER]![gives] < amount) return "insufficient_funds";
    this.available[REQUESTER]![gives] -= amount;
    this.available[REQUESTER]![gets] += incoming;
    this.pending[item.maker]![item.asset] -= item.reserve;
    this.available[item.maker]![gives] += amount;
    item.status = "accepted";
    request.status = "matched";
    for (const other of this.quotes)
      if (other.request === item.request && other.status === "open") this.end(other, "rejected");
    return "ok";
  }

  cancelQuote(index: number): string {
    const item = this.quotes[index]!;
    if (item.status === "open") this.end(item, "cancelled");
    return item.status === "cancelled" ? "ok" : "quote_not_open";
  }

  cancelRequest(index: number): string {
    const request = this.requests[index]!;
    if (request.status === "open") {
      request.status = "cancelled";
      for (const item of this.quotes)
        if (item.request === index && item.status === "open") this.end(item, "rejected");
    }
    return request.status === "cancelled"
      ? "ok"
      : request.status === "expired"
        ? "request_expired"
        : "request_not_open";
  }
}

function isWithin({ side }: ModelRequest, price: number, limit: number): boolean {
  return side === "Bid" ? price <= limit : price >= limit;
}

type Step =
  | { kind: "open"; side: Side; amount: bigint; limit: number | null }
  | { kind: "accept_price"; pick: number; limit: number }
  | { kind: "set_limit"; pick: number; limit: number | null }
  | { kind: "quote"; maker: number; request: number; price: number }
  | { kind: "accept" | "cancel_quote" | "cancel_request"; pick: number }
  | { kind: "jump" }
  | { kind: "evict" };

const anyPrice = fc.constantFrom(1, 333_333, 500_000, 1_000_000);
const anyLimit = fc.option(anyPrice, { freq: 2 });

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("open" as const),
      side: fc.constantFrom<Side>("Bid", "Ask"),
      amount: fc.bigInt(1n, 60n),
      limit: anyLimit,
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("quote" as const),
      maker: fc.integer({ min: 1, max: 3 }),
      request: fc.nat(),
      price: anyPrice,
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("accept" as const), pick: fc.nat() }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("accept_price" as const),
      pick: fc.nat(),
      limit: anyPrice,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("set_limit" as const),
      pick: fc.nat(),
      limit: anyLimit,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("cancel_quote" as const), pick: fc.nat() }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("cancel_request" as const), pick: fc.nat() }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "jump" as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: "evict" as const }) },
);

it("a book and the replay of its streams agree with a model after every step", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { minLength: 10, maxLength: 30 }), async (steps) => {
      const { key: book } = newAsset();
      const funds: Funds[] = [
        { usdc: 100n, token: 50n },
        { usdc: 80n, token: 80n },
        { usdc: 0n, token: 120n },
        { usdc: 120n, token: 0n },
      ];
      const users = await Promise.all(
        funds.map(({ usdc, token }) => newUser({ usdc, [book]: token })),
      );
      const model = new Model(funds);
      for (const step of steps) {
        const outcome = await applyStep(step, book, users, model);
        if (outcome !== undefined)
          expect(
            outcome.real,
            JSON.stringify(step, (_, value: unknown) =>
              typeof value === "bigint" ? String(value) : value,
            ),
          ).toBe(outcome.model);
        await agree(book, users, model);
      }
      await streamsAgree(book, users, model);
    }),
    { numRuns: rounds(4, 12) },
  );
}, 60_000);

async function applyStep(
  step: Step,
  book: string,
  users: TestUser[],
  model: Model,
): Promise<{ real: string; model: string } | undefined> {
  switch (step.kind) {
    case "open": {
      const request = await openRequest(users[REQUESTER]!, book, {
        amount: step.amount,
        side: step.side,
        expiresInSecs: REQUEST_LIFE,
        ...(step.limit === null ? {} : { accept: { price: step.limit, side: step.side } }),
      });
      model.requests.push({
        id: request.request_id,
        side: step.side,
        amount: step.amount,
        status: "open",
        expiresAt: model.clock + REQUEST_LIFE,
        limit: step.limit,
      });
      return undefined;
    }
    case "quote": {
      if (model.requests.length === 0) return undefined;
      const { maker, price } = step;
      const request = step.request % model.requests.length;
      const { id } = model.requests[request]!;
      const sent = command.placeQuote(users[maker]!, id, price, QUOTE_LIFE);
      const real = outcomeOf(await submit(sent));
      const placed = { id: sent.quoteId, maker, request, price };
      return { real, model: model.place(placed, await takenOn(id)) };
    }
    case "accept_price":
    case "set_limit": {
      if (model.requests.length === 0) return undefined;
      const index = step.pick % model.requests.length;
      const { id } = model.requests[index]!;
      if (step.kind === "accept_price") {
        const sent = command.acceptPrice(users[REQUESTER]!, id, step.limit);
        const real = outcomeOf(await submit(sent));
        return { real, model: model.acceptPrice(index, step.limit, await takenOn(id)) };
      }
      const sent = command.setAcceptPrice(users[REQUESTER]!, id, step.limit);
      const real = outcomeOf(await submit(sent));
      return { real, model: model.setLimit(index, step.limit, await takenOn(id)) };
    }
    case "accept":
    case "cancel_quote": {
      if (model.quotes.length === 0) return undefined;
      const index = step.pick % model.quotes.length;
      const item = model.quotes[index]!;
      if (step.kind === "accept") {
        const sent = command.accept(users[REQUESTER]!, item.id);
        return { real: outcomeOf(await submit(sent)), model: model.accept(index) };
      }
      const sent = command.cancelQuote(users[item.maker]!, item.id);
      return { real: outcomeOf(await submit(sent)), model: model.cancelQuote(index) };
    }
    case "cancel_request": {
      if (model.requests.length === 0) return undefined;
      const index = step.pick % model.requests.length;
      const sent = command.cancelRequest(users[REQUESTER]!, model.requests[index]!.id);
      return { real: outcomeOf(await submit(sent)), model: model.cancelRequest(index) };
    }
    case "jump":
      await advanceClock(20_000);
      model.jump(20);
      return undefined;
    case "evict":
      // Only a running object can be evicted.
      await env.RFQ_BOOK.getByName(book).expireDue();
      await evict(bookStream(book));
      return undefined;
  }
}

/** The quote of the request's match. */
async function takenOn(requestId: string): Promise<string | null> {
  const [match] = await all<{ id: string }>(
    env.DB,
    sql`SELECT hex(quote_id) AS id FROM matches WHERE request_id = ${uuid(requestId)}`,
  );
  return match === undefined ? null : readUuid(match.id);
}

async function agree(book: string, users: TestUser[], model: Model): Promise<void> {
  await env.RFQ_BOOK.getByName(book).expireDue();
  const held = await Promise.all(
    users.map(async ({ userId }) => {
      const [usdc, token] = [await balances(userId, "usdc"), await balances(userId, book)];
      return {
        available: { usdc: usdc[0], token: token[0] },
        pending: { usdc: usdc[1], token: token[1] },
      };
    }),
  );
  expect(held).toEqual(
    model.available.map((available, index) => ({ available, pending: model.pending[index] })),
  );
  const quotes = await all<{ id: string; status: string }>(
    env.DB,
    sql`SELECT hex(quote_id) AS id, status FROM quotes WHERE asset = ${book}`,
  );
  expect(new Map(quotes.map((row) => [readUuid(row.id), row.status]))).toEqual(
    new Map(model.quotes.map((item) => [item.id, item.status])),
  );
  const requests = await all<{ id: string; status: string }>(
    env.DB,
    sql`SELECT hex(request_id) AS id, status FROM requests WHERE asset = ${book}`,
  );
  expect(new Map(requests.map((row) => [readUuid(row.id), row.status]))).toEqual(
    new Map(model.requests.map((item) => [item.id, item.status])),
  );
}

async function streamsAgree(book: string, users: TestUser[], model: Model): Promise<void> {
  const seen = await replay(bookStream(book));
  expect(seen.requests).toEqual(new Map(model.requests.map((item) => [item.id, item.status])));
  for (const [index, user] of users.entries()) {
    const own = await replay(accountStream(user.userId));
    const mine = model.quotes.filter((item) => index === REQUESTER || item.maker === index);
    expect(own.quotes).toEqual(new Map(mine.map((item) => [item.id, item.status])));
  }
}
