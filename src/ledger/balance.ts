import { type AssetKey, USDC } from "../assets/asset.ts";
import { externalOwner, FEES_OWNER, usable } from "./post.ts";
import { all, expr, first, scalar, type Sql, sql, uuid } from "../platform/sql.ts";

/**
 * Native units. `available` can be used. `pending` is set aside: for withdrawals in flight, and
 * `promised` of it for open quotes, although the journal still has a promise as available.
 */
export type Balance = {
  readonly available: bigint;
  readonly pending: bigint;
  readonly promised: bigint;
};
export type BalanceTexts = Readonly<Record<keyof Balance, string>>;

export async function readBalance(
  db: D1Database,
  userId: string,
  asset: AssetKey,
): Promise<Balance> {
  const row = await first<BalanceTexts>(
    db,
    sql`SELECT ${BALANCE} FROM accounts
      WHERE owner = ${uuid(userId)} AND asset = ${asset} GROUP BY asset`,
  );
  return readBalanceTexts(row ?? { available: "0", pending: "0", promised: "0" });
}

/** What the service owes its users on a chain: what was deposited there and not withdrawn. */
export async function readIssued(db: D1Database, chain: string, asset: AssetKey): Promise<bigint> {
  const issued = expr`SELECT CAST(-balance AS TEXT) FROM accounts
    WHERE owner = ${externalOwner(chain)} AND asset = ${asset} AND kind = 'external'`;
  return BigInt((await scalar<string | null>(db, issued)) ?? 0);
}

/** The fees that the service holds, in USDC units. */
export async function readBalanceOfFees(db: D1Database): Promise<bigint> {
  const held = expr`SELECT CAST(balance AS TEXT) FROM accounts
    WHERE owner = ${FEES_OWNER} AND asset = ${USDC} AND kind = 'fees'`;
  return BigInt((await scalar<string | null>(db, held)) ?? 0);
}

/** The user's assets with a balance, in the order of their keys, from the one after `after`. */
export async function readBalances(
  db: D1Database,
  userId: string,
  page: { after: AssetKey; limit: number },
): Promise<(Balance & { asset: AssetKey })[]> {
  const rows = await all<BalanceTexts & { asset: AssetKey }>(db, balancesQuery(userId, page));
  return rows.map((row) => ({ asset: row.asset, ...readBalanceTexts(row) }));
}

export function readBalanceTexts({ available, pending, promised }: BalanceTexts): Balance {
  return { available: BigInt(available), pending: BigInt(pending), promised: BigInt(promised) };
}

export function balancesQuery(userId: string, page: { after: AssetKey; limit: number }): Sql {
  return sql`SELECT asset, ${BALANCE}
    FROM accounts INDEXED BY accounts_owner WHERE owner = ${uuid(userId)} AND asset > ${page.after}
    GROUP BY asset HAVING max(balance) > 0 ORDER BY asset LIMIT ${page.limit}`;
}

/** The columns of `BalanceTexts`, over the two accounts of an asset. */
const BALANCE = sql`CAST(sum(iif(kind = 'available', ${usable()}, 0)) AS TEXT) AS available,
  CAST(sum(iif(kind = 'pending', balance, promised)) AS TEXT) AS pending,
  CAST(sum(promised) AS TEXT) AS promised`;
