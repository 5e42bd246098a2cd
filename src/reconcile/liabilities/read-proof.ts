/** Reads a user's path in the trees of a day, by ranges of three objects. */
import type * as z from "zod";
import { toHex } from "../../assets/amount.ts";
import type { AssetKey } from "../../assets/asset.ts";
import type { MacKeys } from "../../audit/event-mac.ts";
import { assetViewOrUsdc } from "../../custody/payment-records.ts";
import { problem } from "../../platform/problem.ts";
import { batch, sql, uuid } from "../../platform/sql.ts";
import { LEAF_BYTES, type Leaf, readLeaf } from "./build-slice.ts";
import type { LiabilityProof } from "./liability-schemas.ts";
import * as proof from "./proof-run.ts";
import { nodeOf } from "./publish-proof.ts";
import { climb } from "./sum-tree.ts";

type Bucket = Pick<R2Bucket, "get">;

/** `day`: days since 1970, or null for the newest. Throws `liability_unknown`. */
export async function readProof(
  db: D1Database,
  settings: MacKeys,
  bucket: Bucket,
  { userId, asset, day }: { userId: string; asset: AssetKey; day: number | null },
): Promise<z.input<typeof LiabilityProof>> {
  // Safe cast: the columns of the statements.
  const [[run], [account]] = (await batch<unknown>(db, [
    sql`SELECT ${proof.RUN_COLUMNS} FROM liability_proofs
      WHERE published_at IS NOT NULL AND day = coalesce(${day}, day) ORDER BY day DESC LIMIT 1`,
    sql`SELECT account_id AS id FROM accounts
      WHERE owner = ${uuid(userId)} AND asset = ${asset} AND kind = 'available'`,
  ])) as [proof.ProofRun[], { id: number }[]];
  if (run === undefined) throw problem("liability_unknown", "There is no such proof.");
  const slice = account && Math.ceil(account.id / run.slice_accounts) - 1;
  const blocks = await readBlocks(bucket, run, asset);
  const at = blocks.findIndex((each) => each.slice === slice);
  const leaves = await readLeaves(bucket, run, blocks[at]);
  const { salt, place } = proof.placesOf(settings, run)(userId, asset);
  const own = leaves.findIndex((leaf) => leaf.place === place);
  const leaf = leaves[own];
  if (leaf === undefined)
    throw problem("liability_unknown", "You had nothing of the asset at the time of the proof.");
  const path = [...climb(leaves, own).path, ...climb(blocks.map(nodeOf), at).path];
  return {
    day: proof.dayText(run.day),
    ...assetViewOrUsdc(asset),
    user_id: userId,
    amount: toHex(leaf.sum),
    salt: `0x${salt.toString("hex")}`,
    path: path.map(({ side, sum, hash }) => ({
      side,
      sum: toHex(sum),
      hash: `0x${hash.toString("hex")}`,
    })),
  };
}

async function readBlocks(
  bucket: Bucket,
  run: proof.ProofRun,
  asset: AssetKey,
): Promise<readonly proof.LeafBlock[]> {
  const index = await proof.readObject(bucket, proof.objectKey(run, "blocks.json"));
  const range = (await index.json<proof.BlockIndex>())[asset];
  if (range === undefined) return [];
  return (await proof.readObject(bucket, proof.objectKey(run, "blocks"), range)).json();
}

async function readLeaves(
  bucket: Bucket,
  run: proof.ProofRun,
  block: proof.LeafBlock | undefined,
): Promise<Leaf[]> {
  if (block === undefined) return [];
  const object = await proof.readObject(bucket, proof.objectKey(run, String(block.slice)), {
    offset: block.offset * LEAF_BYTES,
    length: block.leaves * LEAF_BYTES,
  });
  const bytes = Buffer.from(await object.arrayBuffer());
  return Array.from({ length: block.leaves }, (_, index) =>
    readLeaf(bytes.subarray(index * LEAF_BYTES, (index + 1) * LEAF_BYTES)),
  );
}
