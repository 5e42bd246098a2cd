/**
 * Builds one slice of a day's trees: the accounts of a range of ids, with the balances that the cut
 * left them. Its bytes follow from the cut alone, so it may be built twice.
 */
import type { AssetKey } from "../../assets/asset.ts";
import type { MacKeys } from "../../audit/event-mac.ts";
import { all, batch, expr, literal, readUuid, sql } from "../../platform/sql.ts";
import * as proof from "./proof-run.ts";
import { climb, leafOf, type SumNode } from "./sum-tree.ts";

export type Leaf = SumNode & { readonly place: bigint };

type AccountRow = {
  readonly owner: string;
  readonly asset: AssetKey;
  readonly available: number;
  readonly pending: number | null;
  readonly balance: string;
};
type Move = { readonly from: number; readonly to: number; readonly amount: string };

/** Does nothing if the cut cannot go on. Then another one is taken. */
export async function buildSlice(
  db: D1Database,
  settings: MacKeys,
  { bucket, run }: { bucket: proof.ProofBucket; run: proof.ProofRun },
): Promise<void> {
  const leaves = await readLeaves(db, settings, run);
  if (leaves === undefined) return;
  const blocks: proof.LeafBlock[] = [];
  const parts: Buffer[] = [];
  for (const [asset, unordered] of Map.groupBy(leaves, (leaf) => leaf.asset)) {
    // Places are random, so the order says nothing of the users.
    const block = unordered.toSorted((one, other) => (one.place < other.place ? -1 : 1));
    const { root } = climb(block);
    blocks.push({
      asset,
      slice: run.slices,
      offset: parts.length,
      leaves: block.length,
      root: root.hash.toString("hex"),
      sum: root.sum.toString(),
    });
    parts.push(...block.map(leafBytes));
  }
  await bucket.put(proof.objectKey(run, `${run.slices}`), Buffer.concat(parts));
  await bucket.put(proof.objectKey(run, `${run.slices}.json`), JSON.stringify(blocks));
  await all(
    db,
    sql`UPDATE liability_proofs SET slices = slices + 1
      WHERE day = ${run.day} AND up_to_transfer = ${run.up_to_transfer}
        AND slices = ${run.slices} AND published_at IS NULL`,
  );
}

/** Undefined: the cut cannot go on. */
async function readLeaves(
  db: D1Database,
  settings: MacKeys,
  run: proof.ProofRun,
): Promise<(Leaf & { readonly asset: AssetKey })[] | undefined> {
  const [cut, after] = [literal(run.up_to_transfer), run.slices * run.slice_accounts];
  // Safe cast: the columns of the statements. A balance is what is available, promised or not, and
  // what is pending. An account without a balance now may have had one.
  const [[head], moves, accounts] = (await batch<unknown>(db, [
    sql`SELECT ${proof.isFresh(expr`${cut}`)} AS fresh`,
    sql`SELECT from_account AS "from", to_account AS "to", CAST(amount AS TEXT) AS amount
      FROM transfers WHERE transfer_id > ${cut}`,
    sql`SELECT hex(a.owner) AS owner, a.asset, a.account_id AS available,
        p.account_id AS pending, CAST(a.balance + coalesce(p.balance, 0) AS TEXT) AS balance
      FROM accounts a LEFT JOIN accounts p
        ON p.owner = a.owner AND p.asset = a.asset AND p.kind = 'pending'
      WHERE a.account_id > ${literal(after)} AND a.kind = 'available'
        AND a.account_id <= ${literal(Math.min(after + run.slice_accounts, run.accounts))}`,
  ])) as [{ fresh: number }[], Move[], AccountRow[]];
  if (head?.fresh !== 1) return undefined;
  const moved = new Map<number | null, bigint>();
  const add = (account: number, amount: bigint) =>
    moved.set(account, (moved.get(account) ?? 0n) + amount);
  for (const { from, to, amount } of moves) {
    add(from, -BigInt(amount));
    add(to, BigInt(amount));
  }
  const placeOf = proof.placesOf(settings, run);
  return accounts.flatMap(({ owner, asset, available, pending, balance }) => {
    const since = (moved.get(available) ?? 0n) + (moved.get(pending) ?? 0n);
    const amount = BigInt(balance) - since;
    if (amount === 0n) return [];
    const userId = readUuid(owner);
    const { salt, place } = placeOf(userId, asset);
    return [{ ...leafOf({ salt, userId, asset, amount }), asset, place }];
  });
}

const HASH_BYTES = 32;
/** Its place, hash and amount. */
export const LEAF_BYTES = 8 + HASH_BYTES + 8;

function leafBytes({ place, hash, sum }: Leaf): Buffer {
  const bytes = Buffer.alloc(LEAF_BYTES);
  bytes.writeBigUInt64BE(place);
  hash.copy(bytes, 8);
  bytes.writeBigUInt64BE(sum, 8 + HASH_BYTES);
  return bytes;
}

export function readLeaf(bytes: Buffer): Leaf {
  return {
    place: bytes.readBigUInt64BE(),
    hash: bytes.subarray(8, 8 + HASH_BYTES),
    sum: bytes.readBigUInt64BE(8 + HASH_BYTES),
  };
}
