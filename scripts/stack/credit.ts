/** Credits an amount that no chain has seen, for tests and for `wrangler dev`. */
import type { AssetKey } from "../../src/assets/asset.ts";
import { announceDeposits } from "../../src/custody/custody-events.ts";
import { externalOwner, post } from "../../src/ledger/post.ts";
import { commit, newGroup } from "../../src/platform/commit.ts";
import { blob, type Sql, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";

type Credit = {
  readonly userId: string;
  readonly asset: AssetKey;
  readonly amount: bigint;
  readonly chain: string;
  readonly address: string;
};

/** Credits it as the watcher does: a deposit and its transfer, in one batch. */
export async function credit(
  db: D1Database,
  { userId, asset, amount, chain, address }: Credit,
): Promise<{ readonly depositId: string; readonly transactionHash: string }> {
  const depositId = uuidv7();
  const transactionHash = randomHex(32);
  const group = newGroup();
  const source: Sql = sql`SELECT ${externalOwner(chain)} AS from_owner, d.user_id AS to_owner,
      d.asset, CAST(d.amount AS INTEGER) AS amount, d.deposit_id AS ref, 0 AS line
    FROM deposits d WHERE d.deposit_id = ${uuid(depositId)}`;
  const outcome = await commit(db, group, [
    sql`INSERT INTO deposits (deposit_id, chain, transaction_hash, token, ordinal, position,
        block_number, block_hash, address, user_id, asset, amount, required_confirmations, status,
        seen_group, detected_at, detected_group, credited_at, ended_group)
      VALUES (${uuid(depositId)}, ${chain}, ${blob(transactionHash)}, ${blob(randomHex(20))}, 0, 0,
        1, ${blob(randomHex(32))}, ${blob(address)}, ${uuid(userId)}, ${asset},
        ${amount.toString()}, 2, 'credited', ${group.seq}, ${group.at}, ${group.seq}, ${group.at},
        ${group.seq})`,
    ...post(group, {
      reason: "deposit",
      step: "credit",
      from: "external",
      to: "available",
      source,
    }),
    ...announceDeposits(group),
  ]);
  if (!outcome.committed)
    throw new Error("the deposit was not committed", { cause: outcome.cause });
  return { depositId, transactionHash };
}

/** By the global `crypto`, which the simulator replaces. */
function randomHex(bytes: number): string {
  return `0x${Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString("hex")}`;
}
