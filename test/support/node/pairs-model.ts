/**
 * A model of pairs, compared with the service on SQLite after each command: splits, redemptions,
 * trades of both tokens with and without the pair, results, and passes that die anywhere.
 */
import assert from "node:assert/strict";
import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { migratedDatabase } from "../../../scripts/migrations/files.ts";
import { credit } from "../../../scripts/stack/credit.ts";
import { testSettings } from "../settings.ts";
import { openRequestTerms, placeQuoteTerms } from "../../../scripts/actors/terms.ts";
import { recordBy } from "../../../src/audit/audit.ts";
import type { Side } from "../../../src/assets/asset-fields.ts";
import type { Actor } from "../../../src/platform/actor.ts";
import { commitOrThrow, newGroup } from "../../../src/platform/commit.ts";
import { config } from "../../../src/platform/config.ts";
import { ask } from "../../../src/platform/preconditions.ts";
import { all, sql, uuid } from "../../../src/platform/sql.ts";
import { uuidv7 } from "../../../src/platform/uuid.ts";
import { reconcile } from "../../../src/reconcile/reconcile.ts";
import { acceptQuote } from "../../../src/rfq/accept-quote.ts";
import { commitOperations } from "../../../src/rfq/book-group.ts";
import type { BookOperation } from "../../../src/rfq/book-operation.ts";
import { resolveMarket } from "../../../src/rfq/markets/resolve-market.ts";
import { setMarkets } from "../../../src/rfq/markets/set-markets.ts";
import { openRequest } from "../../../src/rfq/open-request.ts";
import { payHolders } from "../../../src/rfq/pairs/pay-holders.ts";
import { changePair } from "../../../src/rfq/pairs/redeem.ts";
import { placeQuote } from "../../../src/rfq/place-quote.ts";
import { readTerms } from "../../../src/rfq/request-terms.ts";
import type { QuoteKeyTerms } from "../../../src/rfq/terms-text.ts";

type Query = { readonly text: string; readonly params: readonly SQLInputValue[] };

/** D1 on SQLite. `fails` says before each batch whether it is lost, and after it, its response. */
function bindingOf(sqlite: DatabaseSync, fails: () => "before" | "after" | undefined): D1Database {
  const rows = ({ text, params }: Query) => {
    try {
      return sqlite
        .prepare(text)
        .all(...params)
        .map((row) => ({ ...row }));
    } catch (error) {
      const refused = (Number(Reflect.get(Object(error), "errcode")) & 0xff) === 19;
      throw new Error(`D1_ERROR: ${String(error)}: SQLITE_${refused ? "CONSTRAINT" : "ERROR"}`, {
        cause: error,
      });
    }
  };
  const prepared = (query: Query): object => ({
    query,
    bind: (...params: SQLInputValue[]) => prepared({ ...query, params }),
    all: async () => ({ results: rows(query) }),
    first: async () => rows(query)[0] ?? null,
    raw: async () => rows(query).map((row) => Object.values(row)),
  });
  const batch = async (statements: readonly { readonly query: Query }[]) => {
    const fate = fails();
    if (fate === "before") throw new Error("killed");
    sqlite.exec("BEGIN");
    try {
      const results = statements.map(({ query }) => ({ results: rows(query) }));
      sqlite.exec("COMMIT");
      if (fate === "after") throw new Error("killed");
      return results;
    } catch (error) {
      if (sqlite.isTransaction) sqlite.exec("ROLLBACK");
      throw error;
    }
  };
  // Safe cast: the service uses only these.
  return { prepare: (text: string) => prepared({ text, params: [] }), batch } as never;
}

type User = { readonly userId: string; readonly actor: Actor; readonly has: bigint[] };
type Trade = Pick<QuoteKeyTerms, "price" | "backing"> & {
  readonly asset: string;
  readonly amount: bigint;
  readonly side: Side;
};
const ONE = 1_000_000n;
const FUNDS = 1_000_000_000n;
const ADDRESS = `0x${"c".repeat(40)}`;
const ON_CHAIN = { chain: "local", outcome_tokens: ADDRESS, collateral: ADDRESS };
const FLOAT = "0190a0b0-0000-7000-8000-0000000000f1";
const FEES = { taker_fee_bps: 100, maker_fee_bps: 50 };
const [YES, NO] = ["venue_four:0x1", "venue_four:0x2"] as const;

/** The same numbers for the same seed. */
function diceOf(seed: number) {
  let state = seed * 2_654_435_761 + 1;
  return (below: number): number => {
    state = (Math.imul(state ^ (state >>> 15), 2_246_822_519) + 3_266_489_917) >>> 0;
    return state % below;
  };
}

/**
 * Returns how many commands took effect. Throws where model and service differ. `onChain`: the
 * tokens also come by deposit, a float account buys them once they settled, and the chain says the
 * result.
 */
export async function runPairs(seed: number, commands: number, onChain = false): Promise<number> {
  const roll = diceOf(seed);
  const given = testSettings();
  // Safe cast: the settings of tests have venues.
  const venues = (JSON.parse(String(given.VENUES)) as { venue_id: string }[]).map((venue) =>
    venue.venue_id === "venue_four"
      ? { ...venue, ...FEES, ...(onChain ? { ...ON_CHAIN, float_account: FLOAT } : {}) }
      : venue,
  );
  const vars = { ...given, VENUES: JSON.stringify(venues), SETTLE_DELAY_SECS: "0" };
  const settings = config(vars);
  let killing = false;
  const db = bindingOf(migratedDatabase(), () =>
    killing ? ([undefined, "before", "after"] as const)[roll(3)] : undefined,
  );
  // Safe cast: the verbs use the database only, because no stream has a subscriber.
  const env = { ...vars, DB: db } as never;
  const market = { venue_id: "venue_four", title: "Rain", test: false };
  for (const [asset_id, outcome, complement] of [
    ["0x1", "Yes", null],
    ["0x2", "No", "0x1"],
  ] as const) {
    const condition = onChain && complement !== null ? `0x${"1".repeat(64)}` : null;
    const slot = condition === null ? null : 1;
    const terms = { ...market, asset_id, outcome, complement, condition, slot };
    const set = await setMarkets(env, [terms], {
      reopen: false,
      corrects: false,
      record: recordBy("operator:test", "market_set", { subjectId: asset_id }),
    });
    assert.equal(set, 0);
  }
  const users: User[] = [];
  for (let index = 0; index < 4; index++) {
    const userId = uuidv7();
    await all(
      db,
      sql`INSERT INTO users (user_id, email, password_hash, session_epoch, created_at)
        VALUES (${uuid(userId)}, ${`u${index}@example.com`}, '', 0, 1)`,
    );
    const amount = FUNDS + BigInt(roll(1_000));
    await credit(db, { userId, asset: "usdc", amount, chain: "local", address: "0x01" });
    const credential = {
      kind: "session",
      epoch: 0,
      issuedAtMs: Date.now(),
      expiresAtMs: Date.now() + 3_600_000,
    } as const;
    users.push({
      userId,
      actor: { userId, scopes: ["read", "trade"], credential },
      has: [amount, 0n, 0n],
    });
  }
  if (onChain)
    await all(
      db,
      sql`INSERT INTO users (user_id, email, password_hash, session_epoch, created_at)
        VALUES (${uuid(FLOAT)}, 'float@example.com', '', 0, 1)`,
    );
  /** Of both tokens, by deposit. */
  const deposited = [0n, 0n, 0n];
  let done = 0;
  const change = async (user: User, verb: "split" | "redeem", asset: string, amount?: bigint) => {
    const { rows } = await changePair(db, settings, verb, {
      actor: user.actor,
      asset,
      amount,
      notAfter: undefined,
      idempotency: undefined,
    });
    done++;
    return rows;
  };
  const commitOne = async (asset: string, operation: BookOperation) => {
    const group = await commitOperations(db, asset, [operation]);
    assert(group.committed);
    const result = operation.result(group.effects);
    assert(result?.ok === true);
  };
  const sent = ({ actor }: User) => ({ actor, receivedAt: Date.now() });
  /** The requester's trade, with whatever backs the maker's quote. False: it was rejected. */
  const trade = async (requester: User, maker: User, terms: Trade): Promise<boolean> => {
    const { asset, amount, ...quoted } = terms;
    const [requestId, quoteId, matchId] = [uuidv7(), uuidv7(), uuidv7()];
    const request = openRequestTerms({ asset, amount: String(amount), side: quoted.side });
    await commitOne(
      asset,
      openRequest({ op: "open_request", requestId, ...sent(requester), ...request }, settings),
    );
    const [known] = await readTerms(db, [requestId]);
    assert(known);
    const quote = placeQuote(
      { op: "place_quote", quoteId, ...sent(maker), ...placeQuoteTerms({ requestId, ...quoted }) },
      known,
      settings,
    );
    const group = await commitOperations(db, asset, [quote]);
    assert(group.committed);
    if (quote.result(group.effects) === undefined) {
      const [why] = await ask(db, [quote.rejection()]);
      assert(why?.ok === false && why.problem.code === "insufficient_funds", JSON.stringify(why));
      return false;
    }
    const accept = { op: "accept", matchId, quoteId, ...sent(requester) } as const;
    await commitOne(asset, acceptQuote(accept, settings));
    done++;
    return true;
  };
  const compare = async () => {
    const rows = await all<{ owner: string; asset: string; balance: string }>(
      db,
      sql`SELECT lower(hex(owner)) AS owner, asset, CAST(balance AS TEXT) AS balance FROM accounts
        WHERE kind IN ('available', 'external')`,
    );
    const of = (owner: string, asset: string) =>
      BigInt(rows.find((row) => row.owner === owner && row.asset === asset)?.balance ?? "0");
    for (const { userId, has } of users)
      assert.deepEqual(
        ["usdc", YES, NO].map((asset) => of(userId.replaceAll("-", ""), asset)),
        has,
      );
    const pair = Buffer.from(`pair:${YES}`).toString("hex");
    const sum = (index: number) => users.reduce((total, { has }) => total + (has[index] ?? 0n), 0n);
    assert.deepEqual(
      [of(pair, YES), of(pair, NO)],
      [deposited[1]! - sum(1), deposited[2]! - sum(2)],
    );
    assert(of(pair, "usdc") >= 0n);
    return of(pair, "usdc");
  };
  const result = [0, 1_000_000, 500_000, 333_333][roll(4)]!;
  // A chain's fraction is rounded down, both.
  const rest = ONE - BigInt(result) - (onChain && result === 333_333 ? 1n : 0n);
  /** Everybody is paid as the float account comes back with more, and it loses next to nothing. */
  async function settleWithFloat(): Promise<void> {
    const value = ([, yes, no]: readonly bigint[]) =>
      (yes! * BigInt(result)) / ONE + (no! * rest) / ONE;
    const before = users.map(({ has }) => ({ usdc: has[0]!, worth: value(has) }));
    const held = async (userId: string) => {
      const rows = await all<{ asset: string; balance: string }>(
        db,
        sql`SELECT asset, CAST(balance AS TEXT) AS balance FROM accounts
          WHERE owner = ${uuid(userId)} AND kind = 'available'`,
      );
      return ["usdc", YES, NO].map((asset) =>
        BigInt(rows.find((row) => row.asset === asset)?.balance ?? "0"),
      );
    };
    let lent = 0n;
    let passes = 0;
    for (; passes < 60; passes++) {
      killing = passes % 2 === 1;
      for (let part = 0; part < 6; part++) await payHolders(env, 1 + roll(3)).catch(() => {});
      killing = false;
      const floats = await held(FLOAT);
      assert(floats[0]! + value(floats) + 2n * BigInt(passes + 1) >= lent);
      const waits = await all(db, sql`SELECT 1 FROM markets WHERE paid_at IS NULL`);
      if (waits.length === 0) break;
      const amount = 1_000_000n;
      await credit(db, { userId: FLOAT, asset: "usdc", amount, chain: "local", address: "0x02" });
      lent += amount;
      await all(db, sql`UPDATE ledger_checkpoints SET mark = '0' WHERE scan = 'payouts'`);
    }
    assert(passes < 60);
    for (const [index, { userId }] of users.entries()) {
      const [usdc, yes, no] = await held(userId);
      const { usdc: had, worth } = before[index]!;
      assert.deepEqual([yes, no], [0n, 0n]);
      // Each part may cost a unit, of each token.
      assert(usdc! <= had + worth && usdc! + 2n * BigInt(passes + 1) >= had + worth);
    }
    const { differences } = await reconcile(db, { macKeys: settings, chains: [], full: true });
    assert.deepEqual(differences, []);
  }
  for (let count = 0; count < commands; count++) {
    const user = users[roll(4)]!;
    const other = users[(users.indexOf(user) + 1 + roll(3)) % 4]!;
    const index = 1 + roll(2);
    const asset = index === 1 ? YES : NO;
    const { has } = user;
    const least = has[1]! < has[2]! ? has[1]! : has[2]!;
    const kind = roll(onChain ? 5 : 4);
    const issued = users.reduce((total, one) => total + one.has[1]!, 0n) - deposited[1]!;
    if (kind === 4) {
      const amount = BigInt(1 + roll(5_000_000));
      await credit(db, { userId: user.userId, asset, amount, chain: "local", address: "0x01" });
      has[index]! += amount;
      deposited[index]! += amount;
    } else if (kind === 0) {
      const amount = BigInt(1 + roll(5_000_000));
      const possible = has[0]! >= amount;
      await change(user, "split", asset, amount).catch((error: unknown) => {
        assert(!possible && String(error).includes("insufficient_funds"), String(error));
      });
      if (possible) for (const [i, sign] of [-1n, 1n, 1n].entries()) has[i]! += sign * amount;
    } else if (kind === 1) {
      const amount = roll(3) === 0 ? undefined : BigInt(1 + roll(5_000_000));
      const moved = amount ?? (issued > 0n && issued < least ? issued : least);
      const possible = least >= moved && issued >= moved;
      const code = least >= moved ? "chain_liquidity" : "insufficient_funds";
      await change(user, "redeem", asset, amount).catch((error: unknown) => {
        assert(!possible && String(error).includes(code), String(error));
      });
      if (possible) for (const [i, sign] of [1n, -1n, -1n].entries()) has[i]! += sign * moved;
    } else {
      const side = (["Bid", "Ask"] as const)[roll(2)]!;
      const backs = side === "Bid" ? "usdc" : onChain ? undefined : "complement";
      const backing = roll(2) === 0 ? undefined : backs;
      const price = [1, 333_333, 999_999, 1_000_000][roll(4)]!;
      const amount = 1n + BigInt(roll([5, 5_000_000][roll(2)]!));
      const cost = (amount * BigInt(price) + ONE - 1n) / ONE;
      const takerFee = (cost * BigInt(FEES.taker_fee_bps)) / 10_000n;
      const makerFee = (cost * BigInt(FEES.maker_fee_bps)) / 10_000n;
      const sign = side === "Bid" ? 1n : -1n;
      const moves = (usdc: bigint, token: number, tokens: bigint) =>
        [usdc, 0n, 0n].map((own, i) => (i === token ? tokens : own));
      const taken = moves(-sign * cost - takerFee, index, sign * amount);
      const made =
        backing === undefined
          ? moves(sign * cost - makerFee, index, -sign * amount)
          : moves(-sign * (amount - cost) - makerFee, 3 - index, sign * amount);
      const holds = (one: User, changes: readonly bigint[]) =>
        one.has.every((own, i) => own + changes[i]! >= 0n);
      if (!holds(user, taken)) continue;
      const fee = side === "Ask" && makerFee > 1n ? makerFee : 1n;
      const possible = holds(other, made) && (backing === undefined || amount - cost >= fee);
      assert.equal(await trade(user, other, { asset, amount, price, side, backing }), possible);
      if (possible)
        for (const i of [0, 1, 2]) {
          user.has[i]! += taken[i]!;
          other.has[i]! += made[i]!;
        }
    }
    const usdc = await compare();
    assert.equal(usdc, users.reduce((total, one) => total + one.has[1]!, 0n) - deposited[1]!);
  }
  await resolveMarket(env, YES, {
    result,
    rest: Number(rest),
    isRead: true,
    settleDelayMs: 0,
    record: async (effects) => {
      const group = newGroup();
      await commitOrThrow(db, group, effects(group));
    },
  });
  if (onChain) {
    await all(db, sql`UPDATE markets SET read_at = settles_at`);
    await settleWithFloat();
    return done;
  }
  killing = true;
  for (let pass = 0; pass < 12; pass++) await payHolders(env, 1).catch(() => {});
  killing = false;
  while (await payHolders(env));
  let left = users.reduce((total, { has }) => total + has[1]!, 0n);
  for (const { has } of users) {
    const paid = (has[1]! * BigInt(result)) / ONE + (has[2]! * (ONE - BigInt(result))) / ONE;
    has.splice(0, 3, has[0]! + paid, 0n, 0n);
    left -= paid;
  }
  assert.equal(await compare(), left);
  // What rounding down leaves is less than a unit for each token of each user.
  assert(left >= 0n && left <= 2n * BigInt(users.length));
  const { differences } = await reconcile(db, { macKeys: settings, chains: [], full: true });
  assert.deepEqual(differences, []);
  return done;
}
