import { env } from "cloudflare:workers";
import fc from "fast-check";
import { expect, it } from "vitest";
import { reconcile } from "../../src/reconcile/reconcile.ts";
import { Problem } from "../../src/platform/problem.ts";
import { commitOperations } from "../../src/rfq/book-group.ts";
import type { Command } from "../../src/rfq/command.ts";
import { config, venueConfig } from "../../src/platform/config.ts";
import {
  balances,
  endWithdrawal,
  fund,
  newAsset,
  type Queued,
  queueWithdrawal,
} from "../support/ledger.ts";
import { newKey, newUser, type TestKey } from "../support/users.ts";
import { advanceClock, command, commitCommand } from "../support/market.ts";
import { settings } from "../support/http.ts";
import { rounds } from "../support/depth.ts";

const db = env.DB;
const PRICE_SCALE = 1_000_000n;

type Quote = {
  maker: number;
  of: Request;
  price: bigint;
  expiring: boolean;
  open: boolean;
  id: string;
};
type Request = {
  requester: number;
  asset: number;
  side: "Bid" | "Ask";
  amount: bigint;
  open: boolean;
  id: string;
};
type Withdrawal = {
  user: number;
  asset: number;
  amount: bigint;
  open: boolean;
  queued: Queued;
};

/** The expected journal, computed in bigint. Asset 0 is USDC, 1 has no fees, 2 has both. */
class Model {
  readonly held: [bigint, bigint][][] = [0, 1, 2].map(() => [0, 1, 2].map(() => [0n, 0n]));
  readonly issued = [0n, 0n, 0n];
  move(user: number, asset: number, available: bigint, pending: bigint): void {
    const cell = this.cell(user, asset);
    cell[0] += available;
    cell[1] += pending;
    if (cell[0] < 0n || cell[1] < 0n) throw new Error("the model has a negative balance");
  }
  cell(user: number, asset: number): [bigint, bigint] {
    const cell = this.held[user]?.[asset];
    if (cell === undefined) throw new Error("no such cell");
    return cell;
  }
}

const feeBps = (asset: number, who: "taker" | "maker"): bigint =>
  asset === 2 ? BigInt(venueConfig(config(env), "venue_two")[`${who}_fee_bps`]) : 0n;
const cost = (quote: Quote) => (quote.of.amount * quote.price + PRICE_SCALE - 1n) / PRICE_SCALE;
const fee = (quote: Quote, who: "taker" | "maker") =>
  (cost(quote) * feeBps(quote.of.asset, who)) / 10_000n;

/** `[asset, amount]` that the maker, or the requester, reserves. */
const makerGives = (quote: Quote): [number, bigint] =>
  quote.of.side === "Bid"
    ? [quote.of.asset, quote.of.amount]
    : [0, cost(quote) + fee(quote, "maker")];
const requesterGives = (quote: Quote): [number, bigint] =>
  quote.of.side === "Bid"
    ? [0, cost(quote) + fee(quote, "taker")]
    : [quote.of.asset, quote.of.amount];

class World {
  readonly model = new Model();
  readonly requests: Request[] = [];
  readonly quotes: Quote[] = [];
  readonly withdrawals: Withdrawal[] = [];
  readonly keys: TestKey[];
  readonly assets: string[];
  constructor(keys: TestKey[], assets: string[]) {
    this.keys = keys;
    this.assets = assets;
  }
  key(user: number): TestKey {
    const key = this.keys[user];
    if (key === undefined) throw new Error("no such user");
    return key;
  }
  asset(asset: number): string {
    return this.assets[asset] ?? "";
  }
  end(quote: Quote): void {
    if (!quote.open) return;
    quote.open = false;
    const [asset, amount] = makerGives(quote);
    this.model.move(quote.maker, asset, amount, -amount);
  }
  /** Each group first expires the quotes of its book, and those of its user in any book. */
  expire(asset: number, user: number): void {
    for (const quote of this.quotes)
      if (quote.expiring && (quote.of.asset === asset || quote.maker === user)) this.end(quote);
  }
}

type Step = {
  readonly op: string;
  readonly a: number;
  readonly b: number;
  readonly c: number;
  readonly amount: bigint;
  readonly flag: boolean;
};

/** Commits a command. Returns whether its guard applied. */
async function applies(world: World, asset: number, sent: Command): Promise<boolean> {
  const result = await commitCommand(world.asset(asset), sent);
  return result.ok && !result.replayed;
}

function unlessRejected(error: unknown): undefined {
  if (!(error instanceof Problem)) throw error;
}

const pick = <T>(list: readonly T[], index: number): T | undefined =>
  list[index % Math.max(1, list.length)];

/** Applies a step to the service and to the model, which must agree on whether it is possible. */
async function step(world: World, { op, a, b, c, amount, flag }: Step): Promise<void> {
  const user = a % 3;
  const { model } = world;
  if (op === "deposit") {
    await fund(world.key(user).actor.userId, world.asset(b % 3), amount);
    model.move(user, b % 3, amount, 0n);
    model.issued[b % 3] = (model.issued[b % 3] ?? 0n) + amount;
  } else if (op === "request") {
    const asset = 1 + (b % 2);
    const side = flag ? "Bid" : "Ask";
    const sent = command.openRequest(world.key(user), world.asset(asset), { amount, side });
    await applies(world, asset, sent);
    world.expire(asset, user);
    const id = sent.requestId;
    world.requests.push({ requester: user, asset, side, amount, open: true, id });
  } else if (op === "quote")
    await placeQuote(world, user, {
      of: pick(world.requests, b),
      price: BigInt(1 + (c % 1_000_000)),
      expiring: flag,
    });
  else if (op === "cancel") await cancelQuote(world, user, pick(world.quotes, b));
  else if (op === "accept") await acceptQuote(world, user, pick(world.quotes, b));
  else if (op === "tick") {
    await commitOperations(db, world.asset(1 + (b % 2)), []);
    world.expire(1 + (b % 2), -1);
  } else if (op === "withdraw") {
    const asset = b % 3;
    const queued = await queueWithdrawal(world.key(user), world.asset(asset), amount).catch(
      unlessRejected,
    );
    const possible = model.cell(user, asset)[0] >= amount;
    expect(queued !== undefined, "withdraw").toBe(possible);
    if (queued === undefined) return;
    model.move(user, asset, -amount, amount);
    world.withdrawals.push({ user, asset, amount, open: true, queued });
  } else {
    const withdrawal = pick(world.withdrawals, b);
    if (withdrawal === undefined) return;
    await endWithdrawal(withdrawal.queued, flag ? "Paid" : "Failed");
    if (!withdrawal.open) return;
    withdrawal.open = false;
    model.move(
      withdrawal.user,
      withdrawal.asset,
      flag ? 0n : withdrawal.amount,
      -withdrawal.amount,
    );
  }
}

async function placeQuote(
  world: World,
  maker: number,
  terms: { of: Request | undefined; price: bigint; expiring: boolean },
): Promise<void> {
  if (terms.of === undefined) return;
  const quote: Quote = {
    maker,
    of: terms.of,
    price: terms.price,
    expiring: terms.expiring,
    open: true,
    id: "",
  };
  const sent = command.placeQuote(
    world.key(maker),
    terms.of.id,
    Number(terms.price),
    terms.expiring ? 1 : 3_600,
  );
  const placed = await applies(world, terms.of.asset, sent);
  world.expire(terms.of.asset, maker);
  const [asset, amount] = makerGives(quote);
  const possible =
    terms.of.open && terms.of.requester !== maker && world.model.cell(maker, asset)[0] >= amount;
  expect(placed, "quote").toBe(possible);
  if (!placed) return;
  world.model.move(maker, asset, -amount, amount);
  world.quotes.push({ ...quote, id: sent.quoteId });
  if (terms.expiring) await advanceClock(1_000);
}

async function cancelQuote(world: World, user: number, quote: Quote | undefined): Promise<void> {
  if (quote === undefined) return;
  await applies(world, quote.of.asset, command.cancelQuote(world.key(user), quote.id));
  world.expire(quote.of.asset, user);
  if (quote.maker === user) world.end(quote);
}

async function acceptQuote(world: World, user: number, quote: Quote | undefined): Promise<void> {
  if (quote === undefined) return;
  const { of } = quote;
  const matched = await applies(world, of.asset, command.accept(world.key(user), quote.id));
  world.expire(of.asset, user);
  const [asset, amount] = requesterGives(quote);
  const possible =
    quote.open && of.open && of.requester === user && world.model.cell(user, asset)[0] >= amount;
  expect(matched, "accept").toBe(possible);
  if (!matched) return;
  const { model } = world;
  const [makerAsset, makerAmount] = makerGives(quote);
  model.move(user, asset, -amount, 0n);
  model.move(quote.maker, makerAsset, 0n, -makerAmount);
  const buyer = of.side === "Bid" ? user : quote.maker;
  const seller = of.side === "Bid" ? quote.maker : user;
  model.move(buyer, of.asset, of.amount, 0n);
  model.move(seller, 0, cost(quote) - fee(quote, of.side === "Bid" ? "maker" : "taker"), 0n);
  quote.open = false;
  of.open = false;
  for (const other of world.quotes) if (other.of === of) world.end(other);
}

const steps = fc.array(
  fc.record({
    op: fc.constantFrom(
      "deposit",
      "deposit",
      "request",
      "quote",
      "quote",
      "quote",
      "accept",
      "accept",
      "cancel",
      "tick",
      "withdraw",
      "outcome",
      "outcome",
    ),
    a: fc.nat(2),
    b: fc.nat(50),
    c: fc.nat(999_999),
    amount: fc.oneof(
      fc.bigInt({ min: 1n, max: 1_000n }),
      fc.bigInt({ min: 2n ** 53n, max: 2n ** 54n }),
    ),
    flag: fc.boolean(),
  }),
  { minLength: 10, maxLength: 40 },
);

/** Steps between two reconciliations. */
const RECONCILE_EVERY = rounds(5, 1);

it("random histories agree with the model after every step, and reconcile", async () => {
  await reconcile(db, { macKeys: settings(), chains: [] });
  await fc.assert(
    fc.asyncProperty(steps, async (history) => {
      const users = await Promise.all([newUser(), newUser(), newUser()]);
      const keys = await Promise.all(users.map((user) => newKey(user)));
      const world = new World(keys, ["usdc", newAsset("venue_one").key, newAsset("venue_two").key]);
      for (let user = 0; user < 3; user++) {
        for (let asset = 0; asset < 3; asset++)
          await step(world, { op: "deposit", a: user, b: asset, c: 0, amount: 2_000n, flag: true });
      }
      const names = [...users.map((user) => user.userId), ...world.assets.slice(1)];
      for (const [index, one] of history.entries()) {
        await step(world, one);
        for (let user = 0; user < 3; user++) {
          for (let asset = 0; asset < 3; asset++) {
            expect([one.op, await balances(users[user]?.userId ?? "", world.asset(asset))]).toEqual(
              [one.op, world.model.cell(user, asset)],
            );
          }
        }
        if ((index + 1) % RECONCILE_EVERY !== 0) continue;
        const { differences } = await reconcile(db, { macKeys: settings(), chains: [] });
        expect(
          differences.filter((difference) =>
            names.some((name) => difference.account.includes(name)),
          ),
        ).toEqual([]);
      }
    }),
    { numRuns: rounds(3, 12) },
  );
}, 120_000);
