/** Proofs that a balance is in what the service says it owes. */
import { verifyReceipt } from "./receipt.ts";
import type { AssetLiability, Liabilities, LiabilityProof, SigningKeys } from "./types.ts";

/** A record of which the proof was verified. */
export type ProvenLiability = { record: Liabilities; asset: AssetLiability; deployment: string };

type Hash = Uint8Array<ArrayBuffer>;

/**
 * Verifies without a call that `proof.amount` of the user is in the tree whose root the service
 * signed. `receipt` is the text of `client.liabilitiesReceipt()`, which is the same for everyone:
 * compare it with others. Then compare `proof.amount` with your ledger up to `record.entry_id`.
 * Throws an `Error` if the proof does not lead to the record.
 *
 * @example
 * ```ts
 * const keys = await client.signingKeys();
 * const proof = await client.custody.liabilityProof();
 * const receipt = await client.liabilitiesReceipt({ day: proof.day });
 * const { record, asset } = await verifyLiability(proof, receipt, keys);
 * console.log(record.at, proof.amount, asset.total);
 * ```
 */
export async function verifyLiability(
  proof: LiabilityProof,
  receipt: string,
  keys: SigningKeys,
): Promise<ProvenLiability> {
  const signed = await verifyReceipt(receipt, keys);
  if (signed.kind !== "liabilities" || signed.record.day !== proof.day)
    throw new Error("The receipt is not the record of the proof's day.");
  const { venue_id: venue, asset_id: token } = proof;
  const asset = signed.record.owed.find(
    (each) => each.venue_id === venue && each.asset_id === token,
  );
  if (asset === undefined) throw new Error("The record does not have the proof's asset.");
  const name = venue === null ? "usdc" : `${venue}:${String(token)}`;
  let sum = proof.amount;
  let hash = await sha256([
    Uint8Array.of(0),
    bytesOf(proof.salt.slice(2), 32),
    bytesOf(proof.user_id.replaceAll("-", ""), 16),
    sumBytes(sum),
    new Uint8Array(new TextEncoder().encode(name)),
  ]);
  for (const { side, sum: other, hash: hex } of proof.path) {
    const nodes = [sumBytes(sum), hash, sumBytes(other), bytesOf(hex.slice(2), 32)];
    // The sums of both sides are hashed, so that no other split of their total has this hash.
    const ordered = side === "left" ? [...nodes.slice(2), ...nodes.slice(0, 2)] : nodes;
    hash = await sha256([Uint8Array.of(1), ...ordered]);
    sum += other;
  }
  if (sum !== asset.total || hexOf(hash) !== asset.root)
    throw new Error("The proof does not lead to the root of the record.");
  return { record: signed.record, asset, deployment: signed.deployment };
}

async function sha256(parts: readonly Hash[]): Promise<Hash> {
  const bytes = Uint8Array.from(parts.flatMap((part) => [...part]));
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

/** A negative sum would hide what others are owed. */
function sumBytes(sum: bigint): Hash {
  if (typeof sum !== "bigint" || sum < 0n || sum >> 127n > 0n)
    throw new Error("A sum of the proof is no sum of balances.");
  return bytesOf(sum.toString(16).padStart(32, "0"), 16);
}

function bytesOf(hex: string, length: number): Hash {
  if (!/^[0-9a-f]*$/.test(hex) || hex.length !== 2 * length)
    throw new Error("A hash of the proof is malformed.");
  return Uint8Array.from({ length }, (_, at) => Number.parseInt(hex.slice(2 * at, 2 * at + 2), 16));
}

function hexOf(bytes: Hash): string {
  return `0x${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
