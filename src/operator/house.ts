/** What the service owes, holds and earns. */
import * as z from "zod";
import { type AssetKey, USDC } from "../assets/asset.ts";
import { venueOf } from "../platform/venues.ts";
import { readCursor } from "../chain/chain-cursor.ts";
import { assetViewOrUsdc } from "../custody/payment-records.ts";
import { readBalanceOfFees } from "../ledger/balance.ts";
import { NOW } from "../platform/commit.ts";
import { all, literal, type Sql, sql } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import { trackedHoldings } from "../reconcile/tracked-holdings.ts";
import {
  badOption,
  limitOption,
  optional,
  optionalField,
  optionalInteger,
  type OperatorContext,
} from "./context.ts";
import { type Listed, listedPage } from "./listed.ts";

/** A balance is `low + high * 2^32`, because sums of months may not fit 64 bits. */
type AccountRow = Readonly<Record<"owner" | "asset" | "low" | "high", string>>;

/**
 * What the service owes its users, by asset: what was deposited and not withdrawn, without the fees
 * that it earned, and with the losses that it bears. Read from the house accounts, so that it does
 * not read every user. The USDC of pairs is apart, because their tokens are owed for it. `--at`
 * takes back what a UTC day and those after it have moved, and leaves that USDC in what is owed.
 */
export async function liabilities(context: OperatorContext): Promise<Listed> {
  const chains = context.settings.CHAINS.map(({ chain }) => chain);
  const owners = JSON.stringify([
    ...chains.map((chain) => `external:${chain}`),
    "fees",
    "losses",
    "pairs",
  ]);
  const day = optionalField(context, "at", dayField);
  const rows = await all<AccountRow>(
    context.env.DB,
    sql`SELECT o.value AS owner, b.asset, CAST(sum(b.amount & 4294967295) AS TEXT) AS low,
        CAST(sum(b.amount >> 32) AS TEXT) AS high
      FROM json_each(${owners}) o CROSS JOIN (
        SELECT CAST(owner AS TEXT) AS owner, asset, balance AS amount FROM accounts
        WHERE owner IN (SELECT CAST(value AS BLOB) FROM json_each(${owners})) AND balance <> 0
        ${day === undefined ? OF_PAIRS : movedSince(day)}) b ON b.owner = o.value
      GROUP BY 1, 2`,
  );
  const byAsset = Map.groupBy(rows, ({ asset }) => asset);
  // USDC has no venue, and its key sorts before those of tokens only by chance.
  const assets = [...byAsset.keys()].toSorted((one, other) =>
    one === USDC ? -1 : other === USDC ? 1 : one < other ? -1 : 1,
  );
  const cursor = optional(context, "cursor");
  const after = cursor === undefined ? 0 : assets.findIndex((asset) => asset === cursor) + 1;
  const page = assets.slice(after, after + limitOption(context));
  return listedPage(
    context,
    page,
    (asset) => asset,
    (asset) => {
      const accounts = byAsset.get(asset) ?? [];
      const sum = (fits: (owner: string) => boolean) =>
        accounts.reduce((total, row) => total + (fits(row.owner) ? unitsOf(row) : 0n), 0n);
      const issued = -sum((owner) => owner.startsWith("external:"));
      const earned = sum((owner) => owner === "fees");
      const losses = -sum((owner) => owner === "losses");
      const pairs = sum((owner) => owner === "pairs");
      return {
        ...assetViewOrUsdc(asset),
        owed_to_users: hex(issued + losses - earned - pairs),
        pairs: hex(pairs),
        fees: hex(earned),
        losses: hex(losses),
        issued: hex(issued),
        ...Object.fromEntries(
          chains.map((chain) => [
            `issued_${chain}`,
            hex(-sum((owner) => owner === `external:${chain}`)),
          ]),
        ),
      };
    },
  );
}

const OF_PAIRS = sql`UNION ALL SELECT 'pairs', asset, balance FROM accounts
  WHERE owner >= CAST('pair:' AS BLOB) AND owner < CAST('pair;' AS BLOB) AND asset = ${USDC}`;

function unitsOf({ low, high }: AccountRow): bigint {
  return BigInt(low) + (BigInt(high) << 32n);
}

/** Not a parameter: D1 binds numbers as REAL, and a day is a whole number. */
const DAY_MS = literal(86_400_000);
const dayOf = (at: number) => Math.floor(at / 86_400_000);

/** A UTC day, as days since 1970. */
const dayField = z.iso
  .date("must be a day, such as 2026-01-31")
  .transform((day) => dayOf(Date.parse(day)));
const monthField = z
  .string()
  .regex(/^\d{4}-(0[1-9]|1[0-2])$/, "must be a month, such as 2026-01")
  .transform((month) => {
    const [year = 0, number = 0] = month.split("-").map(Number);
    return { first: dayOf(Date.UTC(year, number - 1)), end: dayOf(Date.UTC(year, number)) };
  });

/**
 * What takes the house accounts back to the beginning of a day: the records of all they moved. With
 * the accounts these are five terms, and D1 unites no more.
 */
function movedSince(day: number): Sql {
  const at = sql`>= ${literal(day)} * ${DAY_MS}`;
  return sql`UNION ALL SELECT 'external:' || chain, asset, CAST(amount AS INTEGER) FROM deposits
      WHERE status = 'credited' AND credited_at ${at}
    UNION ALL SELECT 'external:' || chain, asset, -amount FROM withdrawals
      WHERE status = 'settled' AND updated_at ${at}
    UNION ALL SELECT iif(l.value, 'losses', 'external:' || p.chain), p.asset,
        iif(l.value, p.amount, -p.amount)
      FROM accepted_payments p CROSS JOIN json_each('[0, 1]') l
      WHERE p.at ${at} AND p.kind IN (iif(l.value, 'loss', 'withdrawal'), 'loss')
    UNION ALL SELECT 'fees', ${USDC}, -taker_fee - maker_fee FROM (
      SELECT taker_fee, maker_fee FROM matches WHERE at ${at}
      UNION ALL SELECT taker_fee, maker_fee FROM venue_days WHERE day >= ${literal(day)})`;
}

const MAX_DAYS = 31;

type FeeRow = {
  readonly venue_id: string;
  readonly trades: number;
  readonly usdc_amount: string;
  readonly taker_fee: string;
  readonly maker_fee: string;
  readonly since: number;
};

/**
 * Trades, volume and fees of each venue today and in the UTC days before, or in a month, and what
 * is held now. Matches that were deleted are summed by day.
 */
export async function fees(context: OperatorContext): Promise<unknown> {
  const days = optionalInteger(context, "days", { min: 1, max: MAX_DAYS }) ?? 1;
  const month = optionalField(context, "month", monthField);
  if (month !== undefined && context.options["days"] !== undefined)
    throw badOption("days", "is not allowed with --month");
  const firstDay = month ? literal(month.first) : sql`(${NOW} / ${DAY_MS} - ${literal(days - 1)})`;
  const endDay = month ? literal(month.end) : sql`(${NOW} / ${DAY_MS} + 1)`;
  // The index on the instant is read, and each sum is far below 2^62.
  const rows = await all<FeeRow>(
    context.env.DB,
    sql`SELECT venue AS venue_id, sum(trades) AS trades,
        CAST(sum(usdc_amount) AS TEXT) AS usdc_amount, CAST(sum(taker_fee) AS TEXT) AS taker_fee,
        CAST(sum(maker_fee) AS TEXT) AS maker_fee, ${firstDay} * ${DAY_MS} AS since
      FROM (SELECT venue, trades, usdc_amount, taker_fee, maker_fee FROM venue_days
          WHERE day >= ${firstDay} AND day < ${endDay}
        UNION ALL
        SELECT ${venueOf("m.asset")}, 1, m.usdc_amount, m.taker_fee,
          m.maker_fee
        FROM matches m INDEXED BY matches_at 
        WHERE m.at >= ${firstDay} * ${DAY_MS} AND m.at < ${endDay} * ${DAY_MS})
      GROUP BY 1 ORDER BY 1`,
  );
  return {
    days: month ? month.end - month.first : days,
    held: hex(await readBalanceOfFees(context.env.DB)),
    venues: rows.map(({ since, ...row }) => ({
      ...row,
      usdc_amount: hex(BigInt(row.usdc_amount)),
      taker_fee: hex(BigInt(row.taker_fee)),
      maker_fee: hex(BigInt(row.maker_fee)),
      since: toWireTime(since),
    })),
  };
}

function hex(amount: bigint): string {
  return amount < 0n ? `-0x${(-amount).toString(16)}` : `0x${amount.toString(16)}`;
}

/**
 * What each chain holds for the service at its confirmed block, in vaults and deposit addresses,
 * and what it has issued there. Null: the chain could not be read. Surplus: nobody was credited it.
 */
export async function holdings(context: OperatorContext): Promise<Listed> {
  const { env, settings } = context;
  const rows = await all<{ chain: string; asset: AssetKey; issued: string }>(
    env.DB,
    sql`SELECT c.value AS chain, a.asset, CAST(-a.balance AS TEXT) AS issued
      FROM json_each(${JSON.stringify(settings.CHAINS.map(({ chain }) => chain))}) c
        CROSS JOIN accounts a ON a.owner = CAST('external:' || c.value AS BLOB)
      WHERE c.value || '/' || a.asset > ${optional(context, "cursor") ?? ""}
      ORDER BY c.value || '/' || a.asset LIMIT ${limitOption(context)}`,
  );
  const byChain = Map.groupBy(rows, ({ chain }) => chain);
  const read = await Promise.all(
    [...byChain].map(async ([chain, assets]) => {
      const confirmed = (await readCursor(env.DB, chain))?.confirmed;
      const held =
        confirmed &&
        (await trackedHoldings(
          env.DB,
          settings,
        )({
          chain,
          block: confirmed.number,
          blockHash: confirmed.hash,
          assets: assets.map(({ asset }) => asset),
        }).catch(() => undefined));
      return [chain, { block: confirmed?.number ?? null, held }] as const;
    }),
  );
  const chains = new Map(read);
  return listedPage(
    context,
    rows,
    ({ chain, asset }) => `${chain}/${asset}`,
    (row) => {
      const held = chains.get(row.chain)?.held?.get(row.asset);
      const issued = BigInt(row.issued);
      return {
        chain: row.chain,
        ...assetViewOrUsdc(row.asset),
        holdings: held === undefined ? null : hex(held),
        issued: hex(issued),
        surplus: held === undefined ? null : hex(held - issued),
        block: chains.get(row.chain)?.block ?? null,
      };
    },
  );
}
