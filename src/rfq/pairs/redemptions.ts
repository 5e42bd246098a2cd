/** What a pair issues for USDC or takes back for it. The table is in migrations/0017_pairs.sql. */
import { toHex } from "../../assets/amount.ts";
import { IN_USDC, type Posting, postTogether } from "../../ledger/post.ts";
import { announce } from "../../platform/announce.ts";
import type { Group } from "../../platform/commit.ts";
import { storedAsset, storedEvent } from "../../platform/event-forms.ts";
import {
  atom,
  type Expr,
  expr,
  literal,
  readUuid,
  type RowOf,
  type Sql,
  sql,
  typed,
} from "../../platform/sql.ts";
import { toWireTime } from "../../platform/time.ts";
import { TOKEN_REDEEMED } from "../rfq-event-forms.ts";
import { assetView } from "../rfq-records.ts";

/** Of `redemptions r`. */
export const REDEMPTION = {
  redemption_id: typed<string>("hex(r.redemption_id)"),
  asset: typed<string>("r.asset"),
  amount: typed<string>("CAST(r.amount AS TEXT)"),
  usdc_amount: typed<string>("CAST(r.usdc_amount AS TEXT)"),
  at: typed<number>("r.at"),
};
export type RedemptionRow = RowOf<typeof REDEMPTION>;

export function redemptionView(row: RedemptionRow) {
  return {
    redemption_id: readUuid(row.redemption_id),
    ...assetView(row.asset),
    amount: toHex(BigInt(row.amount)),
    usdc_amount: toHex(BigInt(row.usdc_amount)),
    created_at: toWireTime(row.at),
  };
}

/** Scalar: the USDC of so many tokens at a price, rounded down. In parts, so it never overflows. */
export function usdcAt(amount: Expr, price: Expr): Expr {
  const scale = literal(1_000_000);
  return expr`${amount} / ${scale} * ${price} + ${amount} % ${scale} * ${price} / ${scale}`;
}

/** `rows` selects the columns, from the id to the group, and those of the idempotency key. */
export function insertRedemptions(rows: Sql): Sql {
  return sql`INSERT INTO redemptions (redemption_id, user_id, asset, pair, kind, amount,
    usdc_amount, at, made_group, key_hash, terms_hash) ${rows}`;
}

/** The transfers and events of the redemptions that the group has made. */
export function effectsOfRedemptions(group: Group): Sql[] {
  const made = sql`FROM redemptions r WHERE r.made_group = ${group.seq}`;
  const given = sql`iif(r.kind = 'split', ${IN_USDC}, r.asset) AS asset,
    iif(r.kind = 'split', r.usdc_amount, r.amount) AS amount`;
  const taken = sql`iif(r.kind = 'split', r.asset, ${IN_USDC}) AS asset,
    iif(r.kind = 'split', r.amount, r.usdc_amount) AS amount`;
  const move = (from: "user_id" | "pair", to: "user_id" | "pair", what: Sql): Sql =>
    sql`SELECT r.${atom(from)} AS from_owner, r.${atom(to)} AS to_owner, ${what},
      r.redemption_id AS ref, 0 AS line ${made}`;
  const postings: readonly Posting[] = [
    {
      reason: "reserve_trade",
      step: "reserve",
      from: "available",
      to: "pending",
      source: move("user_id", "user_id", given),
      toExists: true,
    },
    {
      reason: "trade",
      step: "end",
      from: "pending",
      to: "external",
      source: move("user_id", "pair", given),
    },
    {
      reason: "trade",
      step: "credit",
      from: "external",
      to: "available",
      source: move("pair", "user_id", taken),
    },
  ];
  const event = storedEvent(TOKEN_REDEEMED, "token.redeemed", {
    ...REDEMPTION,
    ...storedAsset("r.asset"),
    cause: atom("r.kind"),
  });
  return [
    ...postTogether(group, postings),
    ...announce(
      group,
      sql`SELECT r.user_id AS stream, ${event}, r.redemption_id AS ord ${made}
        AND r.kind <> 'split'`,
    ),
  ];
}

/** Scalar: what is free of the owner's asset. */
export function freeOf(owner: Expr, asset: Expr): Expr {
  return expr`coalesce((SELECT balance - promised FROM accounts
    WHERE owner = ${owner} AND asset = ${asset} AND kind = 'available'), 0)`;
}

/** Scalar: a balance of the house account of a pair. Of its tokens: less what it has issued. */
export function pairBalance(pair: Expr, asset: Expr): Expr {
  return expr`coalesce((SELECT balance FROM accounts
    WHERE owner = ${pair} AND asset = ${asset} AND kind = 'external'), 0)`;
}

/** Scalar over a market `m`: when its result became final. NULL: not yet. */
export const FINAL_AT = atom("iif(m.condition IS NULL, m.settles_at, m.read_at)");

/**
 * Condition over the market `m` with a result and its complement `c`: the pair's USDC pays all that
 * it has issued. A pair that is short pays nobody, because each payment would be another's.
 */
export function isCovered(pair: Expr): Expr {
  const scale = literal(1_000_000);
  const first = expr`-${pairBalance(pair, atom("m.asset"))}`;
  const second = expr`-${pairBalance(pair, atom("c.asset"))}`;
  return expr`m.result + c.result <= ${scale} AND ${pairBalance(pair, IN_USDC)} >=
    ${first} / ${scale} * m.result + ${second} / ${scale} * c.result
    + (${first} % ${scale} * m.result + ${second} % ${scale} * c.result + ${literal(999_999)})
      / ${scale}`;
}
