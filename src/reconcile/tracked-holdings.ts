/** Reads the service's holdings on a chain for the reconciliation: vault and unswept addresses. */
import { checksumAddress } from "../assets/address.ts";
import type { AssetKey } from "../assets/asset.ts";
import { readCursor } from "../chain/chain-cursor.ts";
import { readHoldings } from "../chain/holdings.ts";
import { tokenOf } from "../chain/token.ts";
import { askAgreed } from "../chain/witnesses.ts";
import type { HoldingsAt, Surplus } from "./check-holdings.ts";
import { type Config, vaultsOf, witnessesOf } from "../platform/config.ts";
import { all, listed, sql } from "../platform/sql.ts";

type Holder = { readonly asset: AssetKey; readonly address: `0x${string}` };

export function trackedHoldings(db: D1Database, settings: Config): HoldingsAt {
  return async ({ chain: name, block, blockHash, assets }) => {
    const chain = settings.CHAINS.find((candidate) => candidate.chain === name);
    if (chain === undefined) throw new Error(`the settings have no chain ${name}`);
    const unswept = await readUnswept(db, name, assets);
    const cursor = await readCursor(db, name);
    // The watcher deletes rows when it confirms their sweep, so the rows must belong to this block.
    if (cursor?.confirmed.number !== block)
      throw new Error(`the confirmed block of ${name} is no longer ${block}`);
    // What reaches an earlier vault can only move on to the present one.
    const vaults = vaultsOf(chain).map(checksumAddress);
    const inVaults = assets.flatMap((asset) => vaults.map((address) => ({ asset, address })));
    const holders: readonly Holder[] = [...unswept, ...inVaults];
    const wanted = holders.map(({ asset, address }) => ({
      token: tokenOf(settings, chain, asset),
      holder: address,
    }));
    const { value: balances } = await askAgreed(chain, (endpoint) =>
      readHoldings(endpoint, wanted, blockHash),
    );
    const empty = unswept.filter((_, index) => balances[index] === 0n);
    // One endpoint may have answered from another fork, which lacks a deposit.
    if (empty.length > 0 && witnessesOf(chain) === 2) await deleteEmpty(db, name, block, empty);
    const sums = new Map(assets.map((asset) => [asset, 0n]));
    for (const [index, { asset }] of holders.entries())
      sums.set(asset, (sums.get(asset) ?? 0n) + (balances[index] ?? 0n));
    return sums;
  };
}

async function readUnswept(
  db: D1Database,
  chain: string,
  assets: readonly AssetKey[],
): Promise<Holder[]> {
  const rows = await all<{ asset: AssetKey; address: string }>(
    db,
    sql`SELECT u.asset, hex(u.address) AS address FROM sweepable u
      WHERE u.chain = ${chain} AND u.asset IN (${listed(assets)})`,
  );
  return rows.map(({ asset, address }) => ({ asset, address: checksumAddress(address) }));
}

/**
 * Deletes rows whose address holds nothing after a confirmed block, so that nobody reads them
 * again. Sweeps leave such rows if they are in the block of the last deposit, or if a deposit is
 * credited only after its sweep. A deposit in a later block inserts its row again.
 */
async function deleteEmpty(
  db: D1Database,
  chain: string,
  block: number,
  empty: readonly Holder[],
): Promise<void> {
  const rows = JSON.stringify(
    empty.map(({ asset, address }) => ({ asset, address: address.slice(2) })),
  );
  await all(
    db,
    sql`DELETE FROM sweepable WHERE chain = ${chain} AND block_number <= ${block}
      AND (asset, address) IN (SELECT j.value ->> 'asset', unhex(j.value ->> 'address')
        FROM json_each(${rows}) j)`,
  );
}

/** Adds the deposits below the minimum, which are held but not issued. It reads all of them. */
export async function withSmallDeposits(
  db: D1Database,
  surplus: readonly Surplus[],
): Promise<readonly (Surplus & { readonly below_minimum: string })[]> {
  const accounts = listed(surplus.map(({ account }) => account));
  const rows = await all<{ account: string; sum: string }>(
    db,
    sql`SELECT account, CAST(sum(CAST(amount AS INTEGER)) AS TEXT) AS sum
      FROM (SELECT 'external:' || chain || '/external/' || asset AS account, amount
        FROM small_deposit_records)
      WHERE account IN (${accounts}) GROUP BY account`,
  );
  const sums = new Map(rows.map(({ account, sum }) => [account, sum]));
  return surplus.map((one) => ({ ...one, below_minimum: sums.get(one.account) ?? "0" }));
}
