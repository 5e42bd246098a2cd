/** Reads the service's holdings on a chain for the reconciliation: vault and unswept addresses. */
import { checksumAddress } from "../assets/address.ts";
import { readCursor } from "../chain/cursor.ts";
import { type Holders, sumHoldings } from "../chain/holdings.ts";
import { tokenOf } from "../chain/token.ts";
import type { HoldingsAt, Surplus } from "../ledger/reconcile-holdings.ts";
import { type Config, vaultsOf } from "../platform/config.ts";
import { all, sql } from "../platform/sql.ts";

export function trackedHoldings(db: D1Database, settings: Config): HoldingsAt {
  return async ({ chain: name, block, blockHash, assets }) => {
    const chain = settings.CHAINS.find((candidate) => candidate.chain === name);
    if (chain === undefined) throw new Error(`the settings have no chain ${name}`);
    const sweepable = await all<{ asset: string; address: string }>(
      db,
      sql`SELECT u.asset, hex(u.address) AS address FROM sweepable u
        WHERE u.chain = ${name}
          AND u.asset IN (SELECT value FROM json_each(${JSON.stringify(assets)}))`,
    );
    const cursor = await readCursor(db, name);
    // The watcher deletes rows when it confirms their sweep, so the rows must belong to this block.
    if (cursor?.confirmed.number !== block)
      throw new Error(`the confirmed block of ${name} is no longer ${block}`);
    const wanted: Holders[] = assets.map((asset) => ({
      token: tokenOf(settings, chain, asset),
      holders: [
        // What reaches an earlier vault can only move on to the present one.
        ...vaultsOf(chain).map(checksumAddress),
        ...sweepable
          .filter((row) => row.asset === asset)
          .map((row) => checksumAddress(row.address)),
      ],
    }));
    const sums = await sumHoldings(chain, { number: block, hash: hexOf(blockHash) }, wanted);
    return new Map(assets.map((asset, index) => [asset, sums[index] ?? 0n]));
  };
}

/**
 * Adds to each surplus the sum of the deposits below the minimum, which are held but not issued.
 * It reads all of them, so only for an operator.
 */
export async function withSmallDeposits(
  db: D1Database,
  surplus: readonly Surplus[],
): Promise<readonly (Surplus & { readonly below_minimum: string })[]> {
  const accounts = JSON.stringify(surplus.map(({ account }) => account));
  const rows = await all<{ account: string; sum: string }>(
    db,
    sql`SELECT account, CAST(sum(CAST(amount AS INTEGER)) AS TEXT) AS sum
      FROM (SELECT 'external:' || chain || '/external/' || asset AS account, amount
        FROM small_deposit_records)
      WHERE account IN (SELECT value FROM json_each(${accounts})) GROUP BY account`,
  );
  const sums = new Map(rows.map(({ account, sum }) => [account, sum]));
  return surplus.map((one) => ({ ...one, below_minimum: sums.get(one.account) ?? "0" }));
}

function hexOf(hash: string): `0x${string}` {
  return `0x${hash.replace(/^0x/, "")}`;
}
