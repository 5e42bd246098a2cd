/**
 * Check `holdings_short`: compares what a chain holds at its confirmed block with what the journal
 * has issued there.
 *
 * Credits, settlements and the confirmed block change in one commit group. So one read of the
 * database gives the block together with the deposits and payments up to it: the balance of the
 * external account, less what the vault has paid but the journal has not settled yet.
 */
import { IN_FLIGHT } from "../assets/withdrawal-status.ts";
import { type AssetKey, USDC } from "../assets/asset.ts";
import { readCursor } from "../chain/chain-cursor.ts";
import { NOW } from "../platform/commit.ts";
import { errorFields, log } from "../platform/log.ts";
import { all, batch, expr, listed, scalar, type Sql, sql } from "../platform/sql.ts";
import { mapAlone } from "./check-alone.ts";
import type { Difference } from "./difference.ts";
import { externalOwner } from "../ledger/post.ts";

/** What vault and deposit addresses hold at exactly this block. Throws if it cannot be read. */
export type HoldingsAt = (query: {
  readonly chain: string;
  readonly block: number;
  /** `0x` hash of the block, so that a node on another branch cannot answer. */
  readonly blockHash: `0x${string}`;
  readonly assets: readonly AssetKey[];
}) => Promise<ReadonlyMap<AssetKey, bigint>>;

/** Besides USDC and those already short. Anyone can deposit any number of worthless tokens. */
const ASSETS_PER_CHUNK = 100;

/** Attempts to read a chain. An attempt fails if the chain confirms another block meanwhile. */
const ATTEMPTS = 3;

export type HoldingsChecked = {
  /** The block that was compared, or null if the chain could not be read. */
  readonly block: number | null;
  readonly differences: readonly Difference[];
  /** Accounts that were short before and are not any more. */
  readonly cleared: readonly string[];
  /** What the chain holds above what is issued: a deposit that was missed, or a gift. */
  readonly surplus: readonly Surplus[];
};

export type Surplus = { readonly account: string; readonly amount: string };

const NOT_CHECKED: HoldingsChecked = { block: null, differences: [], cleared: [], surplus: [] };

export async function checkHoldings(
  db: D1Database,
  chain: string,
  holdingsAt: HoldingsAt,
  attempts = ATTEMPTS,
): Promise<HoldingsChecked> {
  const issued = await readIssued(db, chain);
  if (issued === undefined) return NOT_CHECKED;
  const { block, blockHash, assets, failed, chunk } = issued;
  let holdings: ReadonlyMap<AssetKey, bigint>;
  try {
    holdings = await holdingsAt({ chain, block, blockHash, assets: assets.map(({ key }) => key) });
  } catch (error) {
    if (attempts > 1 && (await readCursor(db, chain))?.confirmed.number !== block)
      return checkHoldings(db, chain, holdingsAt, attempts - 1);
    // The scan does not advance, so the next reconciliation compares the same assets.
    log("warn", "ledger.holdings_unknown", { chain, block, ...errorFields(error) });
    return NOT_CHECKED;
  }
  await advanceAssetScan(db, chunk);
  const differences: Difference[] = [...failed];
  const sound: AssetKey[] = [];
  const short: Shortfall[] = [];
  const surplus: Surplus[] = [];
  for (const { key, amount } of assets) {
    const account = accountOf(chain, key);
    const held = holdings.get(key);
    if (held !== undefined && held >= amount) {
      sound.push(key);
      if (held > amount) surplus.push({ account, amount: (held - amount).toString() });
      continue;
    }
    const missing = amount - (held ?? 0n);
    short.push({ asset: key, missing: missing.toString() });
    differences.push({
      check: "holdings_short",
      account,
      amount: (-missing).toString(),
      detail: `block ${block} holds ${held ?? "an unknown amount"}; ${amount} is issued`,
    });
  }
  await recordShortfalls(db, chain, block, short);
  const cleared = await deleteShortfalls(db, chain, sound);
  return { block, differences, cleared, surplus };
}

function accountOf(chain: string, asset: AssetKey): string {
  return `external:${chain}/external/${asset}`;
}

type AssetChunk = { readonly scan: string; readonly after: string; readonly upTo: string };
type AssetRow = { readonly asset: AssetKey; readonly issued: string; readonly paid: string };

/** Reads the confirmed block and the issued amounts of the next chunk of assets in one batch. */
async function readIssued(db: D1Database, chain: string) {
  const scan = `assets:${chain}`;
  const mark = expr`SELECT mark FROM ledger_checkpoints WHERE scan = ${scan}`;
  const after = (await scalar<string | null>(db, mark)) ?? "";
  // An empty mark after the last asset, so that the scan starts again.
  const cursor = sql`SELECT confirmed_number AS block, '0x' || lower(hex(confirmed_hash)) AS hash,
      (SELECT coalesce(max(asset), '') FROM (${nextAssets(chain, after)})) AS up_to
    FROM chain_cursors WHERE chain = ${chain}`;
  const [found, assets] = await batch(db, [cursor, issuedAssets(chain, after)]);
  // Safe casts: the columns of the two statements.
  const [at] = found as { block: number; hash: `0x${string}`; up_to: string }[];
  if (at === undefined) return undefined;
  // `failed`: assets whose issued amount cannot be read.
  const { results, failed } = mapAlone(`holdings of ${chain}`, assets as AssetRow[], {
    of: (row) => ({ key: row.asset, amount: BigInt(row.issued) - BigInt(row.paid) }),
    nameOf: ({ asset }) => asset,
  });
  const chunk: AssetChunk = { scan, after, upTo: at.up_to };
  return { block: at.block, blockHash: at.hash, assets: results, failed, chunk };
}

/** USDC, the assets that are short, and the next chunk of the others. */
function issuedAssets(chain: string, after: string): Sql {
  return issuedOf(
    chain,
    sql`SELECT ${USDC}
      UNION SELECT asset FROM shortfalls WHERE chain = ${chain}
      UNION SELECT asset FROM (${nextAssets(chain, after)})`,
  );
}

/** Selects what a chain has issued of the assets, and what it has paid that has not settled. */
export function issuedOf(chain: string, assets: Sql): Sql {
  const paid = sql`SELECT sum(w.amount) FROM withdrawals w INDEXED BY withdrawals_open
    WHERE w.chain = ${chain} AND w.status ${IN_FLIGHT} AND w.asset = a.asset
      AND EXISTS (SELECT 1 FROM vault_events v
        WHERE v.payment_id = w.payment_id AND v.chain = w.chain AND v.kind = 'Paid'
          AND v.asset = w.asset)`;
  return sql`SELECT a.asset, CAST(-a.balance AS TEXT) AS issued,
      CAST(coalesce((${paid}), 0) AS TEXT) AS paid
    FROM accounts a WHERE a.owner = ${externalOwner(chain)} AND a.kind = 'external' AND a.asset IN (
      ${assets})`;
}

function nextAssets(chain: string, after: string): Sql {
  return sql`SELECT asset FROM accounts WHERE owner = ${externalOwner(chain)} AND asset > ${after}
    ORDER BY asset LIMIT ${ASSETS_PER_CHUNK}`;
}

async function advanceAssetScan(db: D1Database, { scan, after, upTo }: AssetChunk): Promise<void> {
  await all(
    db,
    sql`INSERT INTO ledger_checkpoints (scan, position, mark) SELECT ${scan}, 0, ${upTo} WHERE 1
      ON CONFLICT (scan) DO UPDATE SET mark = excluded.mark WHERE mark = ${after}`,
  );
}

type Shortfall = { readonly asset: AssetKey; readonly missing: string };

/** Records the first block that shows a shortfall. A later one that shows it pauses withdrawals. */
async function recordShortfalls(
  db: D1Database,
  chain: string,
  block: number,
  short: readonly Shortfall[],
): Promise<void> {
  if (short.length === 0) return;
  const found = sql`FROM (SELECT value ->> 'asset' AS asset, value ->> 'missing' AS missing
    FROM json_each(${JSON.stringify(short)})) f`;
  const pause = sql`INSERT INTO kill_switches (name, reason, since)
    SELECT 'withdrawals_paused', 'shortfall of ' || f.missing || ' of ' || f.asset || ' on '
      || s.chain || ' at block ' || CAST(${block} AS INTEGER), ${NOW}
    ${found} CROSS JOIN shortfalls s
      ON s.chain = ${chain} AND s.asset = f.asset AND s.block < ${block}
    WHERE NOT EXISTS (SELECT 1 FROM kill_switches WHERE name = 'withdrawals_paused')
    LIMIT 1 RETURNING reason`;
  const record = sql`INSERT INTO shortfalls (chain, asset, block, missing)
    SELECT ${chain}, f.asset, ${block}, f.missing ${found} WHERE 1
    ON CONFLICT (chain, asset) DO UPDATE SET missing = excluded.missing`;
  const [paused = []] = await batch<{ reason: string }>(db, [pause, record]);
  for (const { reason } of paused) log("error", "ledger.withdrawals_paused", { chain, reason });
}

/** Returns the accounts of those that had a shortfall. */
async function deleteShortfalls(
  db: D1Database,
  chain: string,
  sound: readonly AssetKey[],
): Promise<readonly string[]> {
  if (sound.length === 0) return [];
  const deleted = await all<{ asset: AssetKey }>(
    db,
    sql`DELETE FROM shortfalls WHERE chain = ${chain}
      AND asset IN (${listed(sound)}) RETURNING asset`,
  );
  return deleted.map(({ asset }) => accountOf(chain, asset));
}
