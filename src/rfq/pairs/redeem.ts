/**
 * POST /custody/split: USDC into both tokens of a pair. POST /custody/redeem: both back into USDC,
 * or a token at its settled result. One operation inserts a row for each token and its transfers.
 *
 * Only what is free moves (`balance - promised`). The triggers repeat that, and that a pair pays no
 * more than it holds.
 */
import { toHex } from "../../assets/amount.ts";
import { type AssetKey, readAssetKey } from "../../assets/asset.ts";
import { type ActorFacts, actorFacts, actorPrecondition } from "../../auth/may-write.ts";
import { canReceive, canTrade, IN_USDC, pairOwner } from "../../ledger/post.ts";
import type { Actor } from "../../platform/actor.ts";
import { type Group, NOW } from "../../platform/commit.ts";
import { type Config, venueConfig } from "../../platform/config.ts";
import { beforeDeadline, type InstantFact } from "../../platform/deadline.ts";
import { runOperation } from "../../platform/operation.ts";
import { guardOf, type Precondition, questionOf, required } from "../../platform/preconditions.ts";
import { Problem, problem, type ProblemData } from "../../platform/problem.ts";
import {
  atom,
  blob,
  type Expr,
  expr,
  FALSE,
  jsonObject,
  literal,
  MAX_NATIVE_UNITS,
  select,
  type Sql,
  sql,
  TRUE,
  uuid,
} from "../../platform/sql.ts";
import { idsFrom, uuidv7 } from "../../platform/uuid.ts";
import { KEY_LIFE_MS } from "../../platform/windows.ts";
import { eventsToPush, type StreamEvent } from "../../streams/event-log.ts";
import type { Idempotency, Result } from "../command.ts";
import { hashOfTerms, keyHash } from "../idempotency.ts";
import { lastPrice } from "../last-price.ts";
import { findMarket } from "../markets/market-list.ts";
import { marketOpen, storageLeft } from "../rejections.ts";
import { limitFacts, type LimitFacts, traderOf, withinLimits } from "../trade-limits.ts";
import { ISSUED, ON_CHAIN } from "./chain-stock.ts";
import {
  effectsOfRedemptions,
  FINAL_AT,
  freeOf,
  insertRedemptions,
  isCovered,
  pairBalance,
  REDEMPTION,
  type RedemptionRow,
  usdcAt,
} from "./redemptions.ts";

type Verb = "split" | "redeem";

export type PairCommand = {
  readonly actor: Actor;
  readonly asset: AssetKey;
  /** Amount of each token. Undefined: all that is free, to redeem. */
  readonly amount: bigint | undefined;
  readonly notAfter: number | undefined;
  readonly idempotency: Idempotency | undefined;
};

/** One row for each token. Events are for `notifyStreams`. */
export type Redeemed = {
  readonly rows: readonly RedemptionRow[];
  readonly replayed: boolean;
  readonly events: readonly StreamEvent[];
};

/** The command with its pair, which never changes, so it may be read before the guard. */
type Order = PairCommand & {
  readonly verb: Verb;
  readonly complement: AssetKey;
  readonly venue: string;
  readonly chain: string | undefined;
  /** The smallest trade that sets a price. */
  readonly priced: number;
};

/** Throws the contract's problems. A rejected call does not use up its idempotency key. */
export async function changePair(
  db: D1Database,
  settings: Config,
  verb: Verb,
  command: PairCommand,
): Promise<Redeemed> {
  const { actor, asset } = command;
  const market = await findMarket(db, asset);
  if (market === undefined) throw problem("market_unknown", `${asset} is not listed.`);
  const { complement } = market;
  if (complement === null) throw problem("not_paired", `${asset} has no complement.`);
  const venue = readAssetKey(asset)?.venue ?? "";
  const { min_priced_trade: priced, chain } = venueConfig(settings, venue);
  const order = { ...command, verb, complement, venue, chain, priced };
  return runOperation(db, {
    statements: (group) =>
      // More than a balance can hold is never free, and an INTEGER column cannot hold it.
      isTooLarge(order) ? [] : [insertRows(order, group), ...effectsOfRedemptions(group)],
    report: (group) => [
      sql`SELECT ${select(REDEMPTION)} FROM redemptions r WHERE r.made_group = ${group.seq}
        ORDER BY r.asset`,
      eventsToPush(group),
    ],
    result: ([rows = [], events = []]) =>
      // Safe casts: the report selects these columns.
      rows.length === 0
        ? undefined
        : { rows: rows as RedemptionRow[], replayed: false, events: events as StreamEvent[] },
    rejection: () =>
      questionOf<Facts, "instant" | "free" | "held" | keyof LimitFacts, Redeemed>({
        preconditions: preconditionsOf(order),
        facts: {
          instant: O.at,
          free: expr`CAST(${O.free} AS TEXT)`,
          held: expr`CAST(${pairBalance(O.pair, IN_USDC)} AS TEXT)`,
          ...limitFacts(traderOf(actor), O.venue),
        },
        apart: { ...actorFacts(actor), earlier: earlierOf(order) },
        from: sql`FROM ${orderAt(order, NOW)}`,
      }),
  });
}

function isTooLarge({ amount = 0n }: Order): boolean {
  return amount > MAX_NATIVE_UNITS;
}

/** Columns of the derived table `o`, so that a statement has each parameter once. */
const O = {
  at: atom("o.at"),
  user: atom("o.user_id"),
  /** The token that the caller named, and the other one. */
  asset: atom("o.asset"),
  complement: atom("o.complement"),
  pair: atom("o.pair"),
  venue: atom("o.venue"),
  /** The result of the pair is final. */
  settled: atom("o.settled"),
  /** USDC to split. To redeem: of both tokens, or of the named one once they have settled. */
  free: atom("o.free"),
  amount: atom("o.amount"),
};

/** Table of one row. */
function orderAt(order: Order, at: Expr): Sql {
  const { actor, asset, complement, venue, verb, amount } = order;
  const of = (token: string) => freeOf(atom("n.user_id"), atom(token));
  const free =
    verb === "split"
      ? freeOf(atom("n.user_id"), IN_USDC)
      : expr`iif(n.settled, ${of("n.asset")}, min(${of("n.asset")}, ${of("n.complement")}))`;
  // A pair with a chain has issued only some of what is held. One unit: to be told that none is.
  const most = expr`iif(f.settled OR ${verb === "split" ? TRUE : FALSE}, f.free,
    min(f.free, max(1, ${pairBalance(atom("f.pair"), IN_USDC)})))`;
  const given = amount === undefined || isTooLarge(order) ? atom("NULL") : expr`${amount}`;
  return sql`(SELECT f.*, coalesce(${given}, ${most}) AS amount FROM (
    SELECT n.*, ${pairOwner(atom("n.asset"), atom("n.complement"))} AS pair, ${free} AS free FROM (
      SELECT g.*, EXISTS (SELECT 1 FROM markets m
        WHERE m.asset = g.asset AND ${FINAL_AT} <= g.at) AS settled
      FROM (SELECT ${at} AS at, ${uuid(actor.userId)} AS user_id, ${asset} AS asset,
        ${complement} AS complement, ${venue} AS venue) g) n) f) o`;
}

type Facts = ActorFacts &
  InstantFact &
  LimitFacts & {
    readonly earlier: string | null;
    readonly free: string;
    /** USDC of the pair. */
    readonly held: string;
  };
type Preconditions = readonly Precondition<Facts, Redeemed>[];

/** Over `o`. */
function preconditionsOf(order: Order): Preconditions {
  const { actor, venue, notAfter, verb } = order;
  const isSplit = verb === "split";
  return [
    actorPrecondition(actor, O.at),
    ...keyIsUnused(order),
    ...beforeDeadline(O.at, notAfter, (passed): never => {
      throw passed;
    }),
    // A redemption is an exit: it works in closed markets and while the database is nearly full.
    ...(isSplit ? [thrown(marketOpen(O.asset, O.at)), thrown(storageLeft)] : []),
    required(expr`NOT EXISTS (SELECT 1 FROM paused_venues p WHERE p.venue = ${O.venue})`, () => ({
      code: "venue_paused",
      detail: `${venue} is paused.`,
    })),
    thrown(withinLimits<Facts>(actor, O.venue, O.at)),
    isFree(order),
    ...(isSplit ? [] : order.chain === undefined ? [PAIR_PAYS] : [PAIR_PAYS, chainPays(order)]),
    required(isSplit ? SPLIT_FITS : REDEMPTION_FITS, () => ({
      code: "balance_limit",
      detail: "A balance, or the sums of your trades of a token, would exceed 2^62.",
    })),
  ];
}

function isFree(order: Order): Precondition<Facts, Redeemed> {
  const { amount } = order;
  return {
    expr: isTooLarge(order) ? FALSE : expr`${O.amount} BETWEEN 1 AND ${O.free}`,
    reject: ({ free }) => {
      // Nothing in particular was asked for.
      if (amount === undefined) return { rows: [], replayed: false, events: [] };
      throw problem("insufficient_funds", "Less than the amount is free.", {
        available: toHex(BigInt(free)),
        required: toHex(amount),
      });
    },
  };
}

/** An earlier payment of a pair that is short would be at the cost of a later one. */
const PAIR_PAYS = required<Facts>(
  expr`iif(${O.settled}, EXISTS (SELECT 1 FROM markets m JOIN markets c ON c.asset = m.complement
      WHERE m.asset = ${O.asset} AND ${isCovered(O.pair)}),
    ${pairBalance(O.pair, IN_USDC)} >= ${O.amount} OR EXISTS (SELECT 1 FROM markets m
      WHERE m.asset = ${O.asset} AND m.condition IS NOT NULL))`,
  (): ProblemData => ({
    code: "unavailable",
    detail: "The pair does not hold what it owes. The operator has to review it.",
    extensions: { outcome: "none" },
  }),
);

/** A settled pair with a chain first has what all holders are to get, as cron pays them. */
function chainPays({ chain }: Order): Precondition<Facts, Redeemed> {
  const users = expr`${ON_CHAIN} + ${ISSUED}`;
  const owed = expr`SELECT sum(${usdcAt(users, atom("m.result"))}) FROM markets m
    CROSS JOIN (SELECT ${chain ?? null} AS chain) v WHERE m.asset IN (${O.asset}, ${O.complement})`;
  return required<Facts>(
    expr`iif(${O.settled}, ${pairBalance(O.pair, IN_USDC)} >= coalesce((${owed}), 0),
      ${pairBalance(O.pair, IN_USDC)} >= ${O.amount})`,
    ({ held }): ProblemData => ({
      code: "chain_liquidity",
      detail:
        `The pair has ${held} units of USDC now. More follows from the chain: withdraw the tokens, ` +
        "or wait. Holders of a settled token are paid automatically.",
      extensions: { available: toHex(BigInt(held)) },
    }),
  );
}

const trades = (kind: "available" | "pending", asset: Expr) =>
  canTrade(O.user, atom(`'${kind}'`), { asset, amount: O.amount, usdc: O.amount });
const SPLIT_FITS = expr`${canReceive(O.user, O.asset, O.amount)}
  AND ${canReceive(O.user, O.complement, O.amount)} AND ${canReceive(O.pair, IN_USDC, O.amount)}
  AND ${trades("available", O.asset)} AND ${trades("available", O.complement)}`;
const REDEMPTION_FITS = expr`${canReceive(O.user, IN_USDC, O.amount)}
  AND ${trades("pending", O.asset)} AND ${trades("pending", O.complement)}`;

/** Makes a rejection of the books an error of this verb. */
function thrown<Needed>(one: Precondition<Needed, Result>): Precondition<Needed, never> {
  return {
    expr: one.expr,
    reject: (facts) => {
      const result = one.reject(facts);
      if (result !== undefined && !result.ok) throw new Problem(result.problem);
      return undefined;
    },
  };
}

function keyIsUnused(order: Order): Preconditions {
  const { idempotency } = order;
  if (idempotency === undefined) return [];
  return [
    {
      expr: expr`NOT EXISTS (SELECT 1 ${ofKey(order, O.at)})`,
      reject: ({ earlier }) => {
        // Safe cast: `earlierOf` selects both.
        const [terms, rows] = JSON.parse(earlier ?? '["",[]]') as [string, RedemptionRow[]];
        if (rows.length === 0) return undefined;
        if (terms === hashOfTerms(idempotency)) return { rows, replayed: true, events: [] };
        throw problem("idempotency_key_reused", "This idempotency key was used with another body.");
      },
    },
  ];
}

function hashOf({ actor, verb, idempotency }: Order): Expr {
  return blob(keyHash(actor.userId, `POST /custody/${verb}`, idempotency?.key ?? ""));
}

/** `FROM … WHERE …`: what this key has made. */
function ofKey(order: Order, at: Expr): Sql {
  return sql`FROM redemptions r INDEXED BY redemptions_key WHERE r.key_hash = ${hashOf(order)}
    AND r.redemption_id > ${idsFrom(expr`${at} - ${literal(KEY_LIFE_MS)}`)}`;
}

/** JSON text: the hash of the key's terms, and its rows. Null without a key. */
function earlierOf(order: Order): Expr {
  if (order.idempotency === undefined) return atom("NULL");
  return expr`SELECT json_array(hex(min(terms_hash)), json_group_array(json(entry))) || ''
    FROM (SELECT r.terms_hash, ${jsonObject(REDEMPTION)} AS entry
      ${ofKey(order, NOW)} AND r.user_id = ${uuid(order.actor.userId)} ORDER BY r.asset)`;
}

/** A row for each token. Of a split and a merge, both together are the USDC that moves. */
function insertRows(order: Order, group: Group): Sql {
  const { verb, asset, complement, idempotency, priced } = order;
  const tokens = [asset, complement].toSorted();
  const rows = JSON.stringify(tokens.map((token) => [uuidv7(), token]));
  const [key, terms] =
    idempotency === undefined
      ? [atom("NULL"), atom("NULL")]
      : [hashOf(order), blob(hashOfTerms(idempotency))];
  const [first, second] = [atom("min(o.asset, o.complement)"), atom("max(o.asset, o.complement)")];
  // What the first token counts for in the sums of positions.
  const price = expr`coalesce(${lastPrice(first, literal(priced))},
    ${literal(1_000_000)} - ${lastPrice(second, literal(priced))}, ${literal(500_000)})`;
  return insertRedemptions(sql`SELECT unhex(j.value ->> 0, '-'), o.user_id, j.value ->> 1, o.pair,
      ${verb === "split" ? atom("'split'") : expr`iif(o.settled, 'result', 'merge')`}, o.amount,
      CASE WHEN ${verb === "split" ? FALSE : O.settled} THEN ${usdcAt(
        O.amount,
        expr`SELECT result
          FROM markets WHERE asset = o.asset`,
      )}
        WHEN j.key = 0 THEN ${usdcAt(O.amount, price)}
        ELSE o.amount - ${usdcAt(O.amount, price)} END,
      o.at, ${group.seq}, ${key}, ${terms}
    FROM ${orderAt(order, group.at)} CROSS JOIN json_each(${rows}) j
    WHERE (${verb === "split" ? TRUE : expr`NOT ${O.settled}`} OR j.value ->> 1 = o.asset)
      AND ${guardOf(preconditionsOf(order))}`);
}
