/**
 * Publishes a day's proof: joins the blocks of all slices to one tree for each asset, compares each
 * total with the journal, and stores the signed record once. R2 keeps the first record of a day, so
 * none of another cut is ever published.
 */
import { toHex } from "../../assets/amount.ts";
import type { AssetKey } from "../../assets/asset.ts";
import { receiptRecord, signReceipt } from "../../audit/receipt.ts";
import { inChunks } from "../../platform/chunks.ts";
import { NOW } from "../../platform/commit.ts";
import type { Config } from "../../platform/config.ts";
import { PLATFORM } from "../../platform/platform-limits.ts";
import { putOnce } from "../../platform/put-once.ts";
import { all, sql } from "../../platform/sql.ts";
import * as proof from "./proof-run.ts";
import { climb, type SumNode } from "./sum-tree.ts";
import type { Cut, LiabilitiesRecord } from "./take-cut.ts";

/** A total is not what the journal owes the users, so nothing is published. */
export class TotalWrong extends Error {}

export async function publishProof(
  db: D1Database,
  settings: Config,
  { bucket, run }: { bucket: proof.ProofBucket; run: proof.ProofRun },
): Promise<void> {
  const read = async <Of>(name: string) =>
    (await proof.readObject(bucket, proof.objectKey(run, name))).json<Of>();
  const cut = await read<Cut>("cut");
  const blocks: proof.LeafBlock[] = [];
  const slices = Array.from({ length: run.slices }, (_, slice) => `${slice}.json`);
  for (const names of inChunks(slices, PLATFORM.connections))
    blocks.push(...(await Promise.all(names.map((name) => read<proof.LeafBlock[]>(name)))).flat());
  // The order of their roots says nothing of the users.
  blocks.sort((one, other) => (one.root < other.root ? -1 : 1));
  const byAsset = Map.groupBy(blocks, ({ asset }) => asset);
  const record = { ...cut, owed: withTrees(cut, byAsset) };
  await storeBlocks(bucket, run, byAsset);
  const key = proof.recordKey(cut.day);
  await putOnce(bucket, key, await signReceipt(settings, "liabilities", record), {});
  const stored = await proof.readObject(bucket, key);
  // Safe cast: nothing else is stored there.
  const { entry_id: entryId } = receiptRecord(await stored.text()) as LiabilitiesRecord;
  if (entryId !== cut.entry_id) throw new Error(`the archive has a record up to entry ${entryId}`);
  await all(
    db,
    sql`UPDATE liability_proofs SET published_at = ${NOW}
      WHERE day = ${run.day} AND up_to_transfer = ${run.up_to_transfer}`,
  );
}

/** Throws `TotalWrong`. */
function withTrees(
  { owed: known }: Cut,
  byAsset: ReadonlyMap<AssetKey, readonly proof.LeafBlock[]>,
): LiabilitiesRecord["owed"] {
  const keys = new Set([...Object.keys(known), ...byAsset.keys()]);
  return [...keys].toSorted().flatMap((asset) => {
    const [owed, blocks = []] = [known[asset], byAsset.get(asset)];
    const total = toHex(blocks.reduce((sum, block) => sum + BigInt(block.sum), 0n));
    if (total !== (owed?.total ?? "0x0"))
      throw new TotalWrong(`${asset}: balances sum to ${total}, owed is ${owed?.total}`);
    if (owed === undefined || blocks.length === 0) return [];
    const root = `0x${climb(blocks.map(nodeOf)).root.hash.toString("hex")}`;
    return [{ ...owed, root, leaves: blocks.reduce((sum, { leaves }) => sum + leaves, 0) }];
  });
}

export function nodeOf({ root, sum }: proof.LeafBlock): SumNode {
  return { hash: Buffer.from(root, "hex"), sum: BigInt(sum) };
}

/** Stores the blocks so that a path reads only those of its asset. */
async function storeBlocks(
  bucket: proof.ProofBucket,
  run: proof.ProofRun,
  byAsset: ReadonlyMap<AssetKey, readonly proof.LeafBlock[]>,
): Promise<void> {
  const index: Record<AssetKey, { offset: number; length: number }> = {};
  let offset = 0;
  const parts = [...byAsset].map(([asset, blocks]) => {
    const part = Buffer.from(JSON.stringify(blocks));
    index[asset] = { offset, length: part.length };
    offset += part.length;
    return part;
  });
  await bucket.put(proof.objectKey(run, "blocks"), Buffer.concat(parts));
  await bucket.put(proof.objectKey(run, "blocks.json"), JSON.stringify(index));
}
