import { type AssetKey, USDC } from "../assets/asset.ts";
import { externalOwner, FEES_OWNER } from "./post.ts";
import { all, first, type Sql, sql, uuid } from "../platform/sql.ts";

/** Native units. `pending` is reserved for open quotes and withdrawals in flight. */
export type Balance = { readonly available: bigint; readonly pending: bigint };

export async function readBalance(
  db: D1Database,
  userId: string,
  asset: AssetKey,
): Promise<Balance> {
  const row = await first<{ available: string; pending: string }>(db, balanceQuery(userId, asset));
  return { available: BigInt(row?.available ?? "0"), pending: BigInt(row?.pending ?? "0") };
}

/** What the service owes its users on a chain: what was deposited there and not withdrawn. */
export async function readIssued(db: D1Database, chain: string, asset: AssetKey): Promise<bigint> {
  const row = await first<{ issued: string }>(
    db,
    sql`SELECT CAST(-balance AS TEXT) AS issued FROM accounts
      WHERE owner = ${externalOwner(chain)} AND asset = ${asset} AND kind = 'external'`,
  );
  return BigInt(row?.issued ?? "0");
}

/** The fees that the service holds, in USDC units. */
export async function readBalanceOfFees(db: D1Database): Promise<bigint> {
  const row = await first<{ held: string }>(
    db,
    sql`SELECT CAST(balance AS TEXT) AS held FROM accounts
      WHERE owner = ${FEES_OWNER} AND asset = ${USDC} AND kind = 'fees'`,
  );
  return BigInt(row?.held ?? "0");
}

/** The user's assets with a balance, in the order of their keys, from the one after `after`. */
export async function listBalances(
  db: D1Database,
  userId: string,
  page: { after: AssetKey; limit: number },
): Promise<(Balance & { asset: AssetKey })[]> {
  const rows = await all<{ asset: AssetKey; available: string; pending: string }>(
    db,
    balancesQuery(userId, page),
  );
  return rows.map((row) => ({
    asset: row.asset,
    available: BigInt(row.available),
    pending: BigInt(row.pending),
  }));
}

export function balanceQuery(userId: string, asset: AssetKey): Sql {
  return sql`SELECT ${balanceText(userId, asset, "available")} AS available,
    ${balanceText(userId, asset, "pending")} AS pending`;
}

export function balancesQuery(userId: string, page: { after: AssetKey; limit: number }): Sql {
  return sql`SELECT asset, CAST(sum(iif(kind = 'available', balance, 0)) AS TEXT) AS available,
      CAST(sum(iif(kind = 'pending', balance, 0)) AS TEXT) AS pending
    FROM accounts INDEXED BY accounts_owner WHERE owner = ${uuid(userId)} AND asset > ${page.after}
    GROUP BY asset HAVING max(balance) > 0 ORDER BY asset LIMIT ${page.limit}`;
}

function balanceText(userId: string, asset: AssetKey, kind: "available" | "pending"): Sql {
  return sql`coalesce((SELECT CAST(balance AS TEXT) FROM accounts
    WHERE owner = ${uuid(userId)} AND asset = ${asset} AND kind = ${kind}), '0')`;
}
