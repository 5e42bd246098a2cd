import { env } from "cloudflare:workers";
import fc from "fast-check";
import { expect, it } from "vitest";
import type { Side } from "../../src/assets/asset-fields.ts";
import { all, readUuid, sql } from "../../src/platform/sql.ts";
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
type ModelRequest = { id: string; side: Side; amount: bigint; status: string; expiresAt: number };
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

  place(id: string, maker: number, request: number, price: number): string {
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
    return "ok";
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

type Step =
  | { kind: "open"; side: Side; amount: bigint }
  | { kind: "quote"; maker: number; request: number; price: number }
  | { kind: "accept" | "cancel_quote" | "cancel_request"; pick: number }
  | { kind: "jump" }
  | { kind: "evict" };

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("open" as const),
      side: fc.constantFrom<Side>("Bid", "Ask"),
      amount: fc.bigInt(1n, 60n),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("quote" as const),
      maker: fc.integer({ min: 1, max: 3 }),
      request: fc.nat(),
      price: fc.constantFrom(1, 333_333, 500_000, 1_000_000),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("accept" as const), pick: fc.nat() }) },
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
      });
      model.requests.push({
        id: request.request_id,
        side: step.side,
        amount: step.amount,
        status: "open",
        expiresAt: model.clock + REQUEST_LIFE,
      });
      return undefined;
    }
    case "quote": {
      if (model.requests.length === 0) return undefined;
      const index = step.request % model.requests.length;
      const maker = users[step.maker]!;
      const sent = command.placeQuote(maker, model.requests[index]!.id, step.price, QUOTE_LIFE);
      const real = outcomeOf(await submit(sent));
      return { real, model: model.place(sent.quoteId, step.maker, index, step.price) };
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
