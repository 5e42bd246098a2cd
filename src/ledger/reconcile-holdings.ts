/**
 * S1: what a chain holds at its confirmed block against what the journal has issued there.
 *
 * Credits, settlements and the confirmed block move in one commit group, so one reading of the database gives block B and
 * deposits ≤ B − payments ≤ B together: the external account, less what the vault is known to have paid and the journal
 * has not settled yet.
 */
import type { AssetKey } from "../assets/asset.ts";
import { USDC } from "../assets/asset.ts";
import { NOW } from "../platform/commit.ts";
import { errorFields, log } from "../platform/log.ts";
import { all, first, prepare, sql } from "../platform/sql.ts";
import { externalOwner } from "./post.ts";
import type { Difference } from "./difference.ts";

/** What vault and deposit addresses hold together at exactly this block, by asset. Throws when the chain cannot say. */
export type HoldingsAt = (query: {
  readonly chain: string;
  readonly block: number;
  /** `0x` hash of the block, so that a node on another branch is not believed. */
  readonly blockHash: string;
  readonly assets: readonly AssetKey[];
}) => Promise<ReadonlyMap<AssetKey, bigint>>;

/** Assets asked for in one run, beside USDC and those that were short: anyone can deposit junk positions without end. */
const ASSETS_PER_RUN = 100;

export type HoldingsChecked = {
  readonly at: number | null;
  readonly differences: readonly Difference[];
  readonly cleared: readonly string[];
};

/** The chain goes on while it is asked; a verdict that missed its block is worth another reading. */
const ATTEMPTS = 3;

export async function checkHoldings(
  db: D1Database,
  chain: string,
  holdingsAt: HoldingsAt,
  attempts = ATTEMPTS,
): Promise<HoldingsChecked> {
  const issue = await readIssue(db, chain);
  if (issue === undefined) return { at: null, differences: [], cleared: [] };
  let holdings: ReadonlyMap<AssetKey, bigint>;
  try {
    holdings = await holdingsAt({
      chain,
      block: issue.block,
      blockHash: issue.blockHash,
      assets: issue.assets.map((asset) => asset.key),
    });
  } catch (error) {
    if (attempts > 1 && (await confirmedBlock(db, chain)) !== issue.block)
      return checkHoldings(db, chain, holdingsAt, attempts - 1);
    // The turn of these assets is not over: the next run asks for them again.
    log("warn", "ledger.holdings_unknown", { chain, block: issue.block, ...errorFields(error) });
    return { at: null, differences: [], cleared: [] };
  }
  await endTurn(db, issue);
  const differences: Difference[] = [];
  const cleared: string[] = [];
  for (const { key, issued } of issue.assets) {
    const account = `external:${chain}/external/${key}`;
    const held = holdings.get(key);
    if (held !== undefined && held >= issued) {
      if (await forgetShortfall(db, chain, key)) cleared.push(account);
      continue;
    }
    const missing = issued - (held ?? 0n);
    await noteShortfall(db, { chain, asset: key, block: issue.block, missing });
    differences.push({
      check: "S1",
      account,
      amount: (-missing).toString(),
      detail: `block ${issue.block} holds ${held ?? "nothing known"}; ${issued} are issued`,
    });
  }
  return { at: issue.block, differences, cleared };
}

type Issue = {
  readonly block: number;
  readonly blockHash: string;
  readonly assets: readonly { key: AssetKey; issued: bigint }[];
  readonly turn: { readonly walk: string; readonly from: string; readonly to: string };
};
type AssetRow = { readonly asset: AssetKey; readonly issued: string; readonly paid: string };

/** One batch, one status: the confirmed block, and what is issued of the next assets in turn. */
async function readIssue(db: D1Database, chain: string): Promise<Issue | undefined> {
  const walk = `assets:${chain}`;
  const mark =
    (
      await first<{ mark: string }>(
        db,
        sql`SELECT mark FROM ledger_checkpoints WHERE walk = ${walk}`,
      )
    )?.mark ?? "";
  const cursor = sql`SELECT confirmed_number AS block, lower(hex(confirmed_hash)) AS hash FROM chain_cursors WHERE chain = ${chain}`;
  const assets = sql`SELECT a.asset, CAST(-a.balance AS TEXT) AS issued, CAST(coalesce((SELECT sum(w.amount) FROM withdrawals w INDEXED BY withdrawals_open
      WHERE w.chain = ${chain} AND w.status IN ('queued', 'submitted') AND w.asset = a.asset
        AND EXISTS (SELECT 1 FROM vault_events v WHERE v.payment_id = w.payment_id AND v.chain = w.chain AND v.kind = 'Paid')), 0) AS TEXT) AS paid
    FROM accounts a WHERE a.owner = ${externalOwner(chain)} AND a.kind = 'external' AND a.asset IN (
      SELECT ${USDC} UNION SELECT asset FROM shortfalls WHERE chain = ${chain}
      UNION SELECT asset FROM (SELECT asset FROM accounts WHERE owner = ${externalOwner(chain)} AND asset > ${mark} ORDER BY asset LIMIT ${ASSETS_PER_RUN}))`;
  const next = sql`SELECT coalesce(max(asset), '') AS mark FROM (SELECT asset FROM accounts WHERE owner = ${externalOwner(chain)} AND asset > ${mark} ORDER BY asset LIMIT ${ASSETS_PER_RUN})`;
  const [found, rows, marks] = await db.batch<Record<string, string | number>>(
    [cursor, assets, next].map((statement) => prepare(db, statement)),
  );
  const [at] = readRows<{ block: number; hash: string }>(found);
  if (at === undefined) return undefined;
  const issued = readRows<AssetRow>(rows).map((row) => ({
    key: row.asset,
    issued: BigInt(row.issued) - BigInt(row.paid),
  }));
  return {
    block: at.block,
    blockHash: `0x${at.hash}`,
    assets: issued,
    turn: { walk, from: mark, to: readRows<{ mark: string }>(marks)[0]?.mark ?? "" },
  };
}

async function confirmedBlock(db: D1Database, chain: string): Promise<number | undefined> {
  return (
    await first<{ block: number }>(
      db,
      sql`SELECT confirmed_number AS block FROM chain_cursors WHERE chain = ${chain}`,
    )
  )?.block;
}

/** The next run goes on with the assets after these; past the last one it begins again. */
async function endTurn(db: D1Database, { turn }: Issue): Promise<void> {
  await all(
    db,
    sql`INSERT INTO ledger_checkpoints (walk, position, mark) SELECT ${turn.walk}, 0, ${turn.to}
      WHERE 1 ON CONFLICT (walk) DO UPDATE SET mark = excluded.mark WHERE mark = ${turn.from}`,
  );
}

/** The rows of a statement above, whose columns it names itself. */
function readRows<Row>(result: D1Result | undefined): readonly Row[] {
  return (result?.results ?? []) as readonly Row[];
}

/** The first block that shows a shortfall is noted; a later one that shows it too pauses withdrawals. */
async function noteShortfall(
  db: D1Database,
  {
    chain,
    asset,
    block,
    missing,
  }: { chain: string; asset: AssetKey; block: number; missing: bigint },
): Promise<void> {
  const pause = sql`INSERT INTO kill_switches (name, reason, since)
    SELECT 'withdrawals_paused', ${`shortfall of ${missing} of ${asset} on ${chain} at block ${block}`}, ${NOW}
    WHERE EXISTS (SELECT 1 FROM shortfalls WHERE chain = ${chain} AND asset = ${asset} AND block < ${block})
      AND NOT EXISTS (SELECT 1 FROM kill_switches WHERE name = 'withdrawals_paused') RETURNING name`;
  const note = sql`INSERT INTO shortfalls (chain, asset, block, missing) SELECT ${chain}, ${asset}, ${block}, ${missing.toString()}
    WHERE 1 ON CONFLICT (chain, asset) DO UPDATE SET missing = excluded.missing`;
  const [paused] = await db.batch([prepare(db, pause), prepare(db, note)]);
  if (paused?.results.length === 1)
    log("error", "ledger.withdrawals_paused", { chain, asset, block, missing: missing.toString() });
}

async function forgetShortfall(db: D1Database, chain: string, asset: AssetKey): Promise<boolean> {
  return (
    (
      await all(
        db,
        sql`DELETE FROM shortfalls WHERE chain = ${chain} AND asset = ${asset} RETURNING block`,
      )
    ).length > 0
  );
}
