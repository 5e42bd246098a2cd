/** What the service owes and earns. */
import { readAssetKey, USDC, venueOf } from "../assets/asset.ts";
import { readBalanceOfFees } from "../ledger/balance.ts";
import { NOW } from "../platform/commit.ts";
import { all, literal, sql } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import { limitOption, optionalInteger, type OperatorContext } from "./context.ts";

type AccountRow = { readonly owner: string; readonly asset: string; readonly balance: string };

/**
 * What the service owes its users, by asset: what was deposited and not withdrawn, without the fees
 * that it earned, and with the losses that it bears. Read from the house accounts, so that it does
 * not read every user.
 */
export async function liabilities(context: OperatorContext): Promise<unknown> {
  const chains = context.settings.CHAINS.map(({ chain }) => chain);
  const owners = JSON.stringify([...chains.map((chain) => `external:${chain}`), "fees", "losses"]);
  const rows = await all<AccountRow>(
    context.env.DB,
    sql`SELECT o.value AS owner, a.asset, CAST(a.balance AS TEXT) AS balance
      FROM json_each(${owners}) o CROSS JOIN accounts a ON a.owner = CAST(o.value AS BLOB)
      WHERE a.balance <> 0`,
  );
  const byAsset = Map.groupBy(rows, ({ asset }) => asset);
  // USDC has no venue, and its key sorts before those of tokens only by chance.
  const assets = [...byAsset.keys()].toSorted((one, other) =>
    one === USDC ? -1 : other === USDC ? 1 : one < other ? -1 : 1,
  );
  return assets.slice(0, limitOption(context)).map((asset) => {
    const accounts = byAsset.get(asset) ?? [];
    const sum = (fits: (owner: string) => boolean) =>
      accounts.reduce((total, row) => total + (fits(row.owner) ? BigInt(row.balance) : 0n), 0n);
    const issued = -sum((owner) => owner.startsWith("external:"));
    const earned = sum((owner) => owner === "fees");
    const losses = -sum((owner) => owner === "losses");
    const { venue, assetId } = readAssetKey(asset) ?? { venue: null, assetId: null };
    return {
      venue_id: venue,
      asset_id: assetId,
      owed_to_users: hex(issued + losses - earned),
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
  });
}

const MAX_DAYS = 31;
/** Not a parameter: D1 binds numbers as REAL, and a day is a whole number. */
const DAY_MS = literal(86_400_000);

type FeeRow = {
  readonly venue_id: string;
  readonly trades: number;
  readonly usdc_amount: string;
  readonly taker_fee: string;
  readonly maker_fee: string;
  readonly since: number;
};

/**
 * Trades, volume and fees of each venue today and in the UTC days before, and what is held. Matches
 * that were deleted are summed by day.
 */
export async function fees(context: OperatorContext): Promise<unknown> {
  const days = optionalInteger(context, "days", { min: 1, max: MAX_DAYS }) ?? 1;
  const firstDay = sql`(${NOW} / ${DAY_MS} - ${literal(days - 1)})`;
  // The index on the instant is read, and each sum is far below 2^62.
  const rows = await all<FeeRow>(
    context.env.DB,
    sql`SELECT venue AS venue_id, sum(trades) AS trades,
        CAST(sum(usdc_amount) AS TEXT) AS usdc_amount, CAST(sum(taker_fee) AS TEXT) AS taker_fee,
        CAST(sum(maker_fee) AS TEXT) AS maker_fee, ${firstDay} * ${DAY_MS} AS since
      FROM (SELECT venue, trades, usdc_amount, taker_fee, maker_fee FROM venue_days
          WHERE day >= ${firstDay}
        UNION ALL
        SELECT ${venueOf("m.asset")}, 1, m.usdc_amount, m.taker_fee,
          m.maker_fee
        FROM matches m INDEXED BY matches_at WHERE m.at >= ${firstDay} * ${DAY_MS})
      GROUP BY 1 ORDER BY 1`,
  );
  return {
    days,
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
