/** Both clients verify proofs by the same table; tests/test_receipts.py has the other half. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import {
  type LiabilityProof,
  type SigningKeys,
  verifyLiability,
} from "../../packages/client/src/index.ts";
import { decode } from "../../packages/client/src/wire.ts";
import { climb, innerOf, leafOf } from "../../src/reconcile/liabilities/sum-tree.ts";

type Case = { name: string; proof: LiabilityProof; error?: string };

// Safe cast: the file of the cases.
const { keys, receipt, cases } = decode(
  readFileSync("test/client/liability-cases.json", "utf8"),
) as { keys: SigningKeys; receipt: string; cases: Case[] };

it.each(cases)("verifies or rejects $name", async ({ proof, error }) => {
  const verified = verifyLiability(proof, receipt, keys);
  if (error === undefined)
    expect(await verified).toMatchObject({ deployment: "test", record: { day: proof.day } });
  else await expect(verified).rejects.toThrow(error);
});

const users = [1, 2, 3, 4, 5].map((digit) => `0190a0b0-0000-7000-8000-00000000000${digit}`);
const leaves = users.map((userId, place) =>
  leafOf({
    salt: Buffer.alloc(32, place),
    userId,
    asset: "usdc",
    amount: [5n, 0x400_0000_0000n, 2n ** 62n, 2n ** 62n, 1n][place]!,
  }),
);

it("are the paths of the service's own tree", () => {
  expect(cases.slice(0, 5).map(({ proof }) => proof.path)).toEqual(
    leaves.map((_, place) =>
      climb(leaves, place).path.map((step) => ({
        ...step,
        hash: `0x${step.hash.toString("hex")}`,
      })),
    ),
  );
});

it("binds both sums of a node, not only their total", () => {
  const [left, right] = [leaves[0]!, leaves[1]!];
  const node = innerOf(left, right);
  const other = innerOf({ ...left, sum: left.sum + 1n }, { ...right, sum: right.sum - 1n });
  expect(other.sum).toBe(node.sum);
  expect(other.hash.equals(node.hash)).toBe(false);
  expect(() => innerOf({ ...left, sum: -1n }, right)).toThrow(RangeError);
  expect(() => leafOf({ salt: left.hash, userId: users[0]!, asset: "usdc", amount: -1n })).toThrow(
    RangeError,
  );
});
