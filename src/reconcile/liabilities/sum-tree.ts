/**
 * Merkle-sum trees (Maxwell's proof of liabilities). A leaf is the salted hash of a user, an asset
 * and an amount. An inner node hashes both sums and both hashes below it. Where it hashes only
 * their total, a prover shows each user another split (Hu, Zhang, Guo: ePrint 2018/1139). A node
 * without a neighbour moves up as it is. Both clients repeat this (liability.ts, liabilities.py).
 */
import { createHash } from "node:crypto";

export type SumNode = { readonly hash: Buffer; readonly sum: bigint };
export type PathStep = SumNode & { readonly side: "left" | "right" };

/** The first byte, so that no inner node can be shown as a leaf. */
const LEAF = Buffer.from([0]);
const INNER = Buffer.from([1]);

export function leafOf(of: {
  readonly salt: Buffer;
  readonly userId: string;
  readonly asset: string;
  readonly amount: bigint;
}): SumNode {
  const user = Buffer.from(of.userId.replaceAll("-", ""), "hex");
  return {
    hash: sha256([LEAF, of.salt, user, sumBytes(of.amount), Buffer.from(of.asset)]),
    sum: of.amount,
  };
}

export function innerOf(left: SumNode, right: SumNode): SumNode {
  const below = [sumBytes(left.sum), left.hash, sumBytes(right.sum), right.hash];
  return { hash: sha256([INNER, ...below]), sum: left.sum + right.sum };
}

/** The root over the nodes, of which there is at least one, and the steps to it from one of them. */
export function climb(
  nodes: readonly SumNode[],
  index = 0,
): { readonly root: SumNode; readonly path: readonly PathStep[] } {
  const path: PathStep[] = [];
  let level = nodes;
  for (let place = index; level.length > 1; place >>= 1) {
    const neighbour = level[place ^ 1];
    if (neighbour !== undefined)
      path.push({ ...neighbour, side: place % 2 === 0 ? "right" : "left" });
    level = pairsOf(level);
  }
  const [root] = level;
  if (root === undefined) throw new RangeError("a tree has at least one leaf");
  return { root, path };
}

function pairsOf(level: readonly SumNode[]): SumNode[] {
  return level.flatMap((left, index) => {
    const right = level[index + 1];
    return index % 2 === 1 ? [] : right === undefined ? [left] : [innerOf(left, right)];
  });
}

/** 16 bytes. Throws for what no sum of balances can be, such as a negative one. */
function sumBytes(sum: bigint): Buffer {
  if (sum < 0n || sum >> 127n > 0n) throw new RangeError(`${sum} is no sum of balances`);
  return Buffer.from(sum.toString(16).padStart(32, "0"), "hex");
}

function sha256(parts: readonly Buffer[]): Buffer {
  return createHash("sha256").update(Buffer.concat(parts)).digest();
}
