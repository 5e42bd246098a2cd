/**
 * Check `pair_mismatch`: what the house account of a pair has issued, and its USDC for that. One
 * statement reads both, so they are of one instant.
 */
import { all, type RowOf, select, sql, typed } from "../platform/sql.ts";
import type { Chunk } from "./check-alone.ts";
import { MAX_PER_CHUNK, within } from "./check-journal.ts";
import { accountName, type Difference } from "./difference.ts";

/** Of the account `a` of a token, with its market `m` and the complement's `c`. */
const PAIR = {
  owner: typed<string>("hex(a.owner)"),
  asset: typed<string>("a.asset"),
  first: typed<string>("CAST(-a.balance AS TEXT)"),
  second: typed<string>("CAST(-coalesce(b.balance, 0) AS TEXT)"),
  usdc: typed<string>("CAST(coalesce(u.balance, 0) AS TEXT)"),
  is_pair: typed<number>(`m.complement = c.asset AND c.complement = m.asset
    AND a.owner = CAST('pair:' || min(m.asset, c.asset) AS BLOB)`),
  first_result: typed<number | null>("m.result"),
  second_result: typed<number | null>("c.result"),
  settled: typed<number>(`coalesce(iif(m.condition IS NULL, m.settles_at, m.read_at),
      iif(c.condition IS NULL, c.settles_at, c.read_at))
    <= (SELECT at FROM commit_groups ORDER BY seq DESC LIMIT 1)`),
  // A chain’s fractions are rounded down, both.
  lost: typed<number>("iif(m.condition IS NULL, 0, 1)"),
};

const ONE = 1_000_000n;

/**
 * Until the result is paid a pair has the same of both tokens and of USDC. Then its USDC pays what
 * is left of both, to the unit. Products exceed 64 bits, so they are computed here.
 */
export async function checkPairs(db: D1Database, chunk: Chunk): Promise<Difference[]> {
  const rows = await all<RowOf<typeof PAIR>>(
    db,
    sql`SELECT ${select(PAIR)} FROM accounts a
      LEFT JOIN markets m ON m.asset = a.asset LEFT JOIN markets c ON c.asset = m.complement
      LEFT JOIN accounts b ON b.owner = a.owner AND b.asset = c.asset AND b.kind = 'external'
      LEFT JOIN accounts u ON u.owner = a.owner AND u.asset = 'usdc' AND u.kind = 'external'
      WHERE ${within("a.account_id", chunk)} AND a.kind = 'external' AND a.asset <> 'usdc'
        AND a.owner >= CAST('pair:' AS BLOB) AND a.owner < CAST('pair;' AS BLOB)`,
  );
  const wrong = rows.flatMap(({ owner, asset, ...row }): Difference[] => {
    const [first, second, usdc] = [BigInt(row.first), BigInt(row.second), BigInt(row.usdc)];
    const [one, other] = [BigInt(row.first_result ?? 0), BigInt(row.second_result ?? 0)];
    const owed = row.settled === 1 ? first * one + second * other : first * ONE;
    const isWhole =
      row.settled === 1
        ? usdc >= 0n && one + other <= ONE && one + other >= ONE - BigInt(row.lost)
        : first === usdc && second === usdc;
    if (row.is_pair === 1 && isWhole && usdc * ONE >= owed) return [];
    return [
      {
        check: "pair_mismatch",
        account: accountName({ owner, kind: "external", asset }),
        amount: (usdc - (owed + ONE - 1n) / ONE).toString(),
        detail:
          `issued ${first} and ${second} of its complement, for ${usdc} USDC; ` +
          `results ${row.first_result ?? "none"} and ${row.second_result ?? "none"}` +
          (row.is_pair === 1 ? "" : "; its markets are not this pair"),
      },
    ];
  });
  return wrong.slice(0, MAX_PER_CHUNK);
}
